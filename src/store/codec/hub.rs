//! The record of the data directory itself: written once, when it is made.

use uuid::Uuid;

use super::CodecError;
use super::wire::{Reader, put_uuid, put_varint};

const KIND: &str = "hub";
/// The format of the whole directory; another one is refused.
pub const FORMAT: u8 = 1;

/// What a data directory knows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubRecord {
    /// Random: tells two data directories of one consumer group apart.
    pub directory_id: Uuid,
    /// Random: what dedup keys are hashed with, so that nobody can forge collisions.
    pub dedup_salt: [u8; 16],
    /// The number of slots, fixed for the directory's life.
    pub slots: u16,
}

/// Appends the record.
pub fn encode(record: &HubRecord, out: &mut Vec<u8>) {
    out.push(FORMAT);
    put_uuid(out, record.directory_id);
    out.extend_from_slice(&record.dedup_salt);
    put_varint(out, u64::from(record.slots));
}

/// Reads the record.
///
/// # Errors
/// [`CodecError::Version`] for a directory of another format.
pub fn decode(bytes: &[u8]) -> Result<HubRecord, CodecError> {
    let mut reader = Reader::versioned(KIND, FORMAT, bytes)?;
    let record =
        HubRecord { directory_id: reader.uuid()?, dedup_salt: reader.array()?, slots: reader.number("slots")? };
    reader.finish()?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_round_trips_and_another_format_is_named() {
        let record = HubRecord { directory_id: Uuid::from_u128(5), dedup_salt: [7; 16], slots: 64 };
        let mut out = Vec::new();
        encode(&record, &mut out);
        assert_eq!(decode(&out), Ok(record));
        out[0] = 2;
        assert_eq!(decode(&out), Err(CodecError::Version { kind: "hub", found: 2 }));
    }
}
