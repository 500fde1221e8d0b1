//! A slot's own record, and single sequences kept per slot.

use super::CodecError;
use super::wire::{Reader, put_time, put_varint};
use crate::engine::rows::SlotRecord;
use crate::types::Sequence;

const KIND: &str = "slot";
const SEQUENCE_KIND: &str = "sequence";
const VERSION: u8 = 1;

/// Appends a slot's record.
pub fn encode(record: &SlotRecord, out: &mut Vec<u8>) {
    out.push(VERSION);
    put_varint(out, record.low_water.0);
    put_varint(out, record.flushed.0);
    put_time(out, record.due_bound);
}

/// Reads a slot's record.
///
/// # Errors
/// [`CodecError`] when the bytes are no such record.
pub fn decode(bytes: &[u8]) -> Result<SlotRecord, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    let record = SlotRecord {
        low_water: Sequence(reader.varint()?),
        flushed: Sequence(reader.varint()?),
        due_bound: reader.time()?,
    };
    reader.finish()?;
    Ok(record)
}

/// Appends a single sequence.
pub fn encode_sequence(sequence: Sequence, out: &mut Vec<u8>) {
    out.push(VERSION);
    put_varint(out, sequence.0);
}

/// Reads a single sequence.
///
/// # Errors
/// [`CodecError`] when the bytes are none.
pub fn decode_sequence(bytes: &[u8]) -> Result<Sequence, CodecError> {
    let mut reader = Reader::versioned(SEQUENCE_KIND, VERSION, bytes)?;
    let sequence = Sequence(reader.varint()?);
    reader.finish()?;
    Ok(sequence)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::Time;

    proptest! {
        #[test]
        fn slots_round_trip(a in any::<u64>(), b in any::<u64>(), c in any::<u64>()) {
            let record = SlotRecord { low_water: Sequence(a), flushed: Sequence(b), due_bound: Time(c) };
            let mut out = Vec::new();
            encode(&record, &mut out);
            prop_assert_eq!(decode(&out), Ok(record));
            out.clear();
            encode_sequence(Sequence(a), &mut out);
            prop_assert_eq!(decode_sequence(&out), Ok(Sequence(a)));
        }

        #[test]
        fn any_bytes_are_a_slot_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode(&bytes);
            let _ = decode_sequence(&bytes);
        }
    }
}
