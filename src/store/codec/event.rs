//! The row of an event with the jobs that matching made. Tenant, slot and sequence stand in the key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;

use super::CodecError;
use super::job::{put_claim, read_claim};
use super::wire::{Reader, put_headers, put_option, put_text, put_time, put_uuid, put_varint};
use crate::engine::rows::NewJob;
use crate::types::{
    Attributes, DestinationId, Event, HttpRequest, LaneName, Sequence, SourceId, SubscriptionId, TenantId,
};

const KIND: &str = "event";
const VERSION: u8 = 1;

/// The payload is stored.
const PAYLOAD_KEPT: u8 = 0;
/// The payload has expired; its size is still known.
const PAYLOAD_EXPIRED: u8 = 1;

/// An event's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// The event; its payload is empty when that has expired.
    pub event: Event,
    /// `jobs[i]` has ordinal i.
    pub jobs: Vec<NewJob>,
    /// The payload's size in bytes, kept when the payload has expired.
    pub payload_size: u64,
    /// The payload has expired.
    pub payload_expired: bool,
}

/// Appends the row of `event`.
pub fn encode(event: &Event, jobs: &[NewJob], out: &mut Vec<u8>) {
    put_head(event, jobs, out);
    out.push(PAYLOAD_KEPT);
    put_varint(out, event.payload.len() as u64);
    out.extend_from_slice(&event.payload);
}

/// Appends the row without its payload of `payload_size` bytes: it has expired, or it is kept elsewhere.
pub fn encode_without_payload(event: &Event, jobs: &[NewJob], payload_size: u64, out: &mut Vec<u8>) {
    put_head(event, jobs, out);
    out.push(PAYLOAD_EXPIRED);
    put_varint(out, payload_size);
}

fn put_head(event: &Event, jobs: &[NewJob], out: &mut Vec<u8>) {
    out.push(VERSION);
    put_uuid(out, event.id);
    put_time(out, event.received_at);
    put_text(out, &event.key);
    put_varint(out, u64::from(event.schema_major));
    put_text(out, event.attributes.packed());
    put_option(out, event.traceparent.as_deref(), put_text);
    put_option(out, event.tracestate.as_deref(), put_text);
    put_option(out, event.content_encoding.as_deref(), put_text);
    put_option(out, event.source_id, |out, id| put_uuid(out, id.0));
    put_option(out, event.request.as_deref(), put_request);
    put_text(out, &event.lane.0);
    put_varint(out, jobs.len() as u64);
    for job in jobs {
        put_uuid(out, job.subscription.0);
        put_uuid(out, job.destination.0);
        put_option(out, job.claim.as_ref(), put_claim);
    }
}

/// Reads the row of `tenant`'s event number `sequence`.
///
/// # Errors
/// [`CodecError`] when the bytes are not such a row.
pub fn decode(tenant: &TenantId, sequence: Sequence, bytes: &[u8]) -> Result<EventRow, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    let r = &mut reader;
    let mut event = Event {
        tenant: tenant.clone(),
        sequence,
        id: r.uuid()?,
        received_at: r.time()?,
        key: r.text("key")?.into(),
        schema_major: r.number("schema_major")?,
        attributes: Attributes::from_packed(r.text("attributes")?).ok_or_else(|| r.fault("attributes"))?,
        traceparent: r.option(|r| r.text("traceparent"))?.map(Into::into),
        tracestate: r.option(|r| r.text("tracestate"))?.map(Into::into),
        content_encoding: r.option(|r| r.text("content_encoding"))?.map(Into::into),
        source_id: r.option(Reader::uuid)?.map(SourceId),
        request: r.option(read_request)?.map(Box::new),
        lane: LaneName(r.text("lane")?.into()),
        payload: Bytes::new(),
    };
    let jobs = r.list(read_new_job)?;
    let payload_expired = r.flag("payload")?;
    let payload_size: u64 = r.varint()?;
    let payload = r.remainder();
    if payload.len() as u64 != if payload_expired { 0 } else { payload_size } {
        return Err(CodecError::Truncated(KIND));
    }
    event.payload = Bytes::copy_from_slice(payload);
    Ok(EventRow { event, jobs, payload_size, payload_expired })
}

fn read_new_job(reader: &mut Reader<'_>) -> Result<NewJob, CodecError> {
    Ok(NewJob {
        subscription: SubscriptionId(reader.uuid()?),
        destination: DestinationId(reader.uuid()?),
        claim: reader.option(read_claim)?,
    })
}

fn put_request(out: &mut Vec<u8>, request: &HttpRequest) {
    put_text(out, &request.method);
    put_text(out, &request.path);
    put_option(out, request.query.as_deref(), put_text);
    put_headers(out, &request.headers);
    match request.source_ip {
        IpAddr::V4(address) => {
            out.push(4);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.push(6);
            out.extend_from_slice(&address.octets());
        }
    }
}

fn read_request(reader: &mut Reader<'_>) -> Result<HttpRequest, CodecError> {
    Ok(HttpRequest {
        method: reader.text("method")?.into(),
        path: reader.text("path")?.into(),
        query: reader.option(|r| r.text("query"))?.map(Into::into),
        headers: reader.headers()?,
        source_ip: read_address(reader)?,
    })
}

fn read_address(reader: &mut Reader<'_>) -> Result<IpAddr, CodecError> {
    match reader.byte()? {
        4 => Ok(IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?))),
        6 => Ok(IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?))),
        0..4 | 5 | 7.. => Err(reader.fault("source_ip")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    proptest! {
        #[test]
        fn an_event_round_trips(event in samples::event(), jobs in proptest::collection::vec(samples::new_job(), 0..4)) {
            let mut out = Vec::new();
            encode(&event, &jobs, &mut out);
            let row = decode(&event.tenant, event.sequence, &out).expect("what was encoded");
            prop_assert_eq!(&row.event, &event);
            prop_assert_eq!(&row.jobs, &jobs);
            let mut stripped = Vec::new();
            encode_without_payload(&row.event, &row.jobs, row.payload_size, &mut stripped);
            let again = decode(&event.tenant, event.sequence, &stripped).expect("what was encoded");
            prop_assert!(again.payload_expired && again.event.payload.is_empty());
            prop_assert_eq!(again.payload_size, event.payload.len() as u64);
        }

        #[test]
        fn a_cut_row_is_an_error(event in samples::event(), at in any::<prop::sample::Index>()) {
            let mut out = Vec::new();
            encode(&event, &[], &mut out);
            out.truncate(at.index(out.len()));
            prop_assert!(decode(&event.tenant, event.sequence, &out).is_err());
        }

        #[test]
        fn any_bytes_are_an_event_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let tenant = TenantId::new("t").expect("a valid tenant");
            let _ = decode(&tenant, Sequence(1), &bytes);
            if let Some(first) = bytes.first_mut() { *first = VERSION; }
            let _ = decode(&tenant, Sequence(1), &bytes);
        }
    }
}
