//! The record of a cluster's deployment: written once, by the first `migrate`.

use uuid::Uuid;

use super::CodecError;
use super::wire::{Reader, put_blob, put_uuid, put_varint};

const KIND: &str = "deployment";
const VERSION: u8 = 1;

/// What all nodes of a cluster share, fixed for the keyspace's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// Random: tells two clusters apart.
    pub id: Uuid,
    /// Random: what dedup keys are hashed with, so that nobody can forge collisions.
    pub dedup_salt: [u8; 16],
    /// The number of slots, which is the number of the slot topic's partitions.
    pub slots: u16,
}

/// The record's bytes. `key_check` is sealed with the key-encryption key.
#[must_use]
pub fn encode(deployment: &Deployment, key_check: &[u8]) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_uuid(&mut out, deployment.id);
    out.extend_from_slice(&deployment.dedup_salt);
    put_varint(&mut out, u64::from(deployment.slots));
    put_blob(&mut out, key_check);
    out
}

/// Reads the record, and what is sealed with the key-encryption key.
///
/// # Errors
/// [`CodecError`] when the bytes are none.
pub fn decode(bytes: &[u8]) -> Result<(Deployment, Vec<u8>), CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    let deployment = Deployment { id: reader.uuid()?, dedup_salt: reader.array()?, slots: reader.number("slots")? };
    if deployment.slots == 0 {
        return Err(reader.fault("slots"));
    }
    let key_check = reader.blob()?.to_vec();
    reader.finish()?;
    Ok((deployment, key_check))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_record_round_trips_and_has_slots() {
        let deployment = Deployment { id: Uuid::from_u128(5), dedup_salt: [7; 16], slots: 256 };
        assert_eq!(decode(&encode(&deployment, b"sealed")), Ok((deployment, b"sealed".to_vec())));
        let none = encode(&Deployment { slots: 0, ..deployment }, b"sealed");
        assert_eq!(decode(&none), Err(CodecError::Value { kind: KIND, field: "slots" }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 1..60)) {
            bytes[0] = VERSION;
            let _ = decode(&bytes);
        }
    }
}
