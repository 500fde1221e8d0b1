//! What is remembered of a destination: circuit, failure span, hold.

use super::CodecError;
use super::wire::{Reader, put_option, put_time, put_varint};
use crate::engine::rows::{CircuitRecord, DestinationRecord};
use crate::types::Duration;

const KIND: &str = "destination";
const VERSION: u8 = 1;

const CLOSED: u8 = 0;
const OPEN: u8 = 1;

/// Appends the record.
pub fn encode(record: &DestinationRecord, out: &mut Vec<u8>) {
    out.push(VERSION);
    put_circuit(out, record.circuit);
    put_option(out, record.failure_span, |out, (first, last)| {
        put_time(out, first);
        put_time(out, last);
    });
    put_option(out, record.hold_until, put_time);
}

/// Reads the record.
///
/// # Errors
/// [`CodecError`] when the bytes are none.
pub fn decode(bytes: &[u8]) -> Result<DestinationRecord, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    let record = DestinationRecord {
        circuit: read_circuit(&mut reader)?,
        failure_span: reader.option(|r| Ok((r.time()?, r.time()?)))?,
        hold_until: reader.option(Reader::time)?,
    };
    reader.finish()?;
    Ok(record)
}

fn put_circuit(out: &mut Vec<u8>, circuit: CircuitRecord) {
    match circuit {
        CircuitRecord::Closed { failures, since } => {
            out.push(CLOSED);
            put_varint(out, u64::from(failures));
            put_time(out, since);
        }
        CircuitRecord::Open { failures, since, probe_at, cooldown } => {
            out.push(OPEN);
            put_varint(out, u64::from(failures));
            put_time(out, since);
            put_time(out, probe_at);
            put_varint(out, cooldown.0);
        }
    }
}

fn read_circuit(reader: &mut Reader<'_>) -> Result<CircuitRecord, CodecError> {
    let open = reader.flag("circuit")?;
    let failures = reader.number("failures")?;
    let since = reader.time()?;
    if !open {
        return Ok(CircuitRecord::Closed { failures, since });
    }
    Ok(CircuitRecord::Open { failures, since, probe_at: reader.time()?, cooldown: Duration(reader.varint()?) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    proptest! {
        #[test]
        fn destinations_round_trip(record in samples::destination_record()) {
            let mut out = Vec::new();
            encode(&record, &mut out);
            prop_assert_eq!(decode(&out), Ok(record));
        }

        #[test]
        fn any_bytes_are_a_destination_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
        }
    }
}
