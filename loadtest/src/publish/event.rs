//! An event's attributes and payload, as each intake wants them.

use std::io::Write as _;
use std::sync::Arc;

use streaming_hub::types::ids::uuid_v7;
use uuid::Uuid;

use crate::feed::Ticket;
use crate::message::Message;
use crate::plan::{RESOURCE, event_name};

/// The slug of every source, and the `<source>` of the topic.
pub const SOURCE: &str = "load";

const SPEC_VERSION: &str = "1.0";
const SCHEMA_VERSION: &str = "1.0.0";
const CONTENT_TYPE: &str = "application/json";

/// Makes the events of one phase.
#[derive(Clone, Debug)]
pub struct EventMaker {
    run: u64,
    phase: u16,
    payload_bytes: usize,
    /// `ce-eventtype` of each route.
    names: Arc<Vec<String>>,
}

impl EventMaker {
    /// Events of `routes` routes.
    #[must_use]
    pub fn new(run: u64, phase: u16, payload_bytes: usize, routes: u32) -> Self {
        Self { run, phase, payload_bytes, names: Arc::new((0..routes).map(event_name).collect()) }
    }

    /// Appends the payload.
    pub fn write_payload(&self, out: &mut Vec<u8>, ticket: &Ticket) {
        let Ticket { route, sequence, intended } = *ticket;
        Message { run: self.run, phase: self.phase, route, sequence, intended }.write(out, self.payload_bytes);
    }

    /// `ce-id`: the same for the same ticket, another for any other.
    #[must_use]
    pub fn id(&self, ticket: &Ticket) -> Uuid {
        let place = u128::from(ticket.route) << 64 | u128::from(ticket.sequence);
        let phase = u128::from(self.run) << 16 | u128::from(self.phase);
        uuid_v7(ticket.intended, scrambled(phase ^ scrambled(place)))
    }

    /// Names and values of the `ce-` attributes, without the prefix, and the content type.
    #[must_use]
    pub fn attributes(&self, ticket: &Ticket) -> [(&'static str, String); 8] {
        let name = &self.names[ticket.route as usize];
        [
            ("specversion", SPEC_VERSION.to_owned()),
            ("id", self.id(ticket).to_string()),
            ("source", SOURCE.to_owned()),
            ("type", format!("studio.lerian.{SOURCE}.{RESOURCE}.{name}")),
            ("time", ticket.intended.to_rfc3339()),
            ("schemaversion", SCHEMA_VERSION.to_owned()),
            ("resourcetype", RESOURCE.to_owned()),
            ("eventtype", name.clone()),
        ]
    }

    /// Appends a request that publishes one event in binary mode.
    pub fn write_request(&self, out: &mut Vec<u8>, path: &str, ticket: &Ticket) {
        write(out, format_args!("POST {path} HTTP/1.1\r\nhost: hub\r\ncontent-type: {CONTENT_TYPE}\r\n"));
        for (name, value) in self.attributes(ticket) {
            write(out, format_args!("ce-{name}: {value}\r\n"));
        }
        write(out, format_args!("content-length: {}\r\n\r\n", self.payload_size()));
        self.write_payload(out, ticket);
    }

    /// Appends a request that publishes several events of one tenant as a batch.
    pub fn write_batch(&self, out: &mut Vec<u8>, path: &str, tickets: &[Ticket]) {
        let mut body = Vec::with_capacity(tickets.len() * (self.payload_size() + 400) + 2);
        for (index, ticket) in tickets.iter().enumerate() {
            body.push(if index == 0 { b'[' } else { b',' });
            body.push(b'{');
            for (name, value) in self.attributes(ticket) {
                write(&mut body, format_args!("\"{name}\":\"{value}\","));
            }
            write(&mut body, format_args!("\"datacontenttype\":\"{CONTENT_TYPE}\",\"data\":"));
            self.write_payload(&mut body, ticket);
            body.push(b'}');
        }
        body.push(b']');
        let length = body.len();
        write(
            out,
            format_args!(
                "POST {path} HTTP/1.1\r\nhost: hub\r\ncontent-type: application/cloudevents-batch+json\r\n\
                 content-length: {length}\r\n\r\n"
            ),
        );
        out.extend_from_slice(&body);
    }

    fn payload_size(&self) -> usize {
        self.payload_bytes.max(crate::message::MESSAGE_MIN_BYTES)
    }
}

fn write(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory can't fail");
}

/// A bijection without visible pattern (the finaliser of MurmurHash3 on either half, mixed).
const fn scrambled(value: u128) -> u128 {
    const fn half(mut value: u64) -> u64 {
        value ^= value >> 33;
        value = value.wrapping_mul(0xff51_afd7_ed55_8ccd);
        value ^= value >> 33;
        value = value.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        value ^ (value >> 33)
    }
    let (high, low) = ((value >> 64) as u64, value as u64);
    let low = low ^ half(high);
    let high = high ^ half(low);
    (high as u128) << 64 | low as u128
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use streaming_hub::types::Time;
    use streaming_hub::types::ids::uuid_v7_time;

    use super::*;

    const NOW: Time = Time::from_millis(1_700_000_000_000);

    fn ticket(route: u32, sequence: u64) -> Ticket {
        Ticket { route, sequence, intended: NOW }
    }

    #[test]
    fn ids_are_distinct_and_repeatable() {
        let maker = EventMaker::new(9, 1, 1_024, 40);
        let ids: BTreeSet<Uuid> =
            (0..40).flat_map(|route| (0..500).map(move |n| (route, n))).map(|(r, n)| maker.id(&ticket(r, n))).collect();
        assert_eq!(ids.len(), 20_000);
        assert_eq!(maker.id(&ticket(1, 2)), maker.id(&ticket(1, 2)));
        assert_ne!(maker.id(&ticket(1, 2)), EventMaker::new(9, 2, 1_024, 40).id(&ticket(1, 2)));
        assert_eq!(uuid_v7_time(maker.id(&ticket(3, 3))), NOW);
    }

    #[test]
    fn a_request_has_its_length() {
        let mut request = Vec::new();
        EventMaker::new(9, 1, 300, 1).write_request(&mut request, "/v1/ingest/src_1", &ticket(0, 5));
        let head = request.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let text = std::str::from_utf8(&request[..head]).unwrap();
        assert!(text.contains("content-length: 300") && text.contains("ce-eventtype: kind-0"), "{text}");
        assert_eq!(request.len(), head + 4 + 300);
        assert_eq!(Message::read(&request[head + 4..]).unwrap().sequence, 5);
    }

    #[test]
    fn a_batch_is_a_json_array_of_events() {
        let mut request = Vec::new();
        EventMaker::new(9, 1, 300, 1).write_batch(&mut request, "/v1/ingest/src_1", &[ticket(0, 5), ticket(0, 6)]);
        let head = request.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let events: serde_json::Value = serde_json::from_slice(&request[head + 4..]).unwrap();
        assert_eq!(events.as_array().unwrap().len(), 2);
        assert_eq!(events[1]["data"]["sequence"], "0000000000000006");
        assert_eq!(events[0]["type"], "studio.lerian.load.load.kind-0");
    }
}
