//! What every payload says: which run and phase it is of, its route, its place in the route, and when it was meant
//! to be sent. Pure.
//!
//! The payload is JSON with fields of a fixed width, so that a receiver reads it without a parser.

use streaming_hub::types::Time;

/// The message's own bytes; what is left of the payload's size is padding.
pub const MESSAGE_MIN_BYTES: usize = 160;

const RUN: (&[u8], usize) = (b"{\"run\":\"", 16);
const PHASE: (&[u8], usize) = (b"\",\"phase\":\"", 4);
const ROUTE: (&[u8], usize) = (b"\",\"route\":\"", 8);
const SEQUENCE: (&[u8], usize) = (b"\",\"sequence\":\"", 16);
const INTENDED: (&[u8], usize) = (b"\",\"intended_us\":\"", 16);
const PADDING: &[u8] = b"\",\"padding\":\"";
const END: &[u8] = b"\"}";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// One event's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which run of the load test.
    pub run: u64,
    /// Which phase of the run.
    pub phase: u16,
    /// Which route of the plan.
    pub route: u32,
    /// Its place among the route's events, from 0 on.
    pub sequence: u64,
    /// When it was meant to be sent.
    pub intended: Time,
}

impl Message {
    /// Appends the payload, `size` bytes long; at least [`MESSAGE_MIN_BYTES`].
    pub fn write(&self, out: &mut Vec<u8>, size: usize) {
        let begin = out.len();
        write_field(out, RUN, self.run);
        write_field(out, PHASE, u64::from(self.phase));
        write_field(out, ROUTE, u64::from(self.route));
        write_field(out, SEQUENCE, self.sequence);
        write_field(out, INTENDED, self.intended.0);
        out.extend_from_slice(PADDING);
        let filled = out.len() - begin + END.len();
        out.resize(out.len() + size.max(MESSAGE_MIN_BYTES) - filled, b'x');
        out.extend_from_slice(END);
    }

    /// Reads a payload; `None` when it is not one of a load test.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let mut rest = payload;
        let run = read_field(&mut rest, RUN)?;
        let phase = u16::try_from(read_field(&mut rest, PHASE)?).ok()?;
        let route = u32::try_from(read_field(&mut rest, ROUTE)?).ok()?;
        let sequence = read_field(&mut rest, SEQUENCE)?;
        let intended = Time(read_field(&mut rest, INTENDED)?);
        (rest.starts_with(PADDING) && rest.ends_with(END)).then_some(Self { run, phase, route, sequence, intended })
    }
}

fn write_field(out: &mut Vec<u8>, (label, digits): (&[u8], usize), value: u64) {
    out.extend_from_slice(label);
    out.extend((0..digits).rev().map(|place| HEX[((value >> (4 * place)) & 15) as usize]));
}

fn read_field(rest: &mut &[u8], (label, digits): (&[u8], usize)) -> Option<u64> {
    let (text, after) = rest.strip_prefix(label)?.split_at_checked(digits)?;
    *rest = after;
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: Message =
        Message { run: u64::MAX, phase: 0xabc, route: 77, sequence: 10_000_000, intended: Time(1_700_000_000_000_001) };

    #[test]
    fn a_message_round_trips_at_its_size() {
        for size in [0, MESSAGE_MIN_BYTES, 1_024, 256 * 1_024] {
            let mut payload = Vec::new();
            MESSAGE.write(&mut payload, size);
            assert_eq!(payload.len(), size.max(MESSAGE_MIN_BYTES));
            assert_eq!(Message::read(&payload), Some(MESSAGE));
        }
    }

    #[test]
    fn a_payload_is_json() {
        let mut payload = Vec::new();
        MESSAGE.write(&mut payload, 500);
        let json: serde_json::Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(json["route"], "0000004d");
    }

    #[test]
    fn what_is_cut_or_changed_is_no_message() {
        let mut payload = Vec::new();
        MESSAGE.write(&mut payload, 200);
        assert_eq!(Message::read(&payload[..199]), None);
        assert_eq!(Message::read(&payload[1..]), None);
        assert_eq!(Message::read(b"{}"), None);
        payload[10] = b'z';
        assert_eq!(Message::read(&payload), None);
    }
}
