//! Ids of accepted events, packed: (dedup key, sequence) in the order given. Sequences are stored as the
//! difference to the smallest, which stands in the key as the pack's first sequence.

use super::CodecError;
use super::wire::{Reader, put_varint};
use crate::types::Sequence;

const KIND: &str = "ids";
const VERSION: u8 = 1;

/// The smallest sequence of `entries`: the pack's part of its key.
#[must_use]
pub fn first_sequence(entries: &[(u128, Sequence)]) -> Sequence {
    entries.iter().map(|(_, sequence)| *sequence).min().unwrap_or_default()
}

/// Appends a pack.
pub fn encode(entries: &[(u128, Sequence)], out: &mut Vec<u8>) {
    let first = first_sequence(entries);
    out.push(VERSION);
    for (key, sequence) in entries {
        out.extend_from_slice(&key.to_le_bytes());
        put_varint(out, sequence.0 - first.0);
    }
}

/// Reads a pack whose key names `first`, and appends it to `entries`.
///
/// # Errors
/// [`CodecError`] when the bytes are no pack; `entries` may then hold a part of it.
pub fn decode(first: Sequence, bytes: &[u8], entries: &mut Vec<(u128, Sequence)>) -> Result<(), CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    while !reader.is_empty() {
        let key = u128::from_le_bytes(reader.array()?);
        let sequence = first.0.checked_add(reader.varint()?).ok_or_else(|| reader.fault("sequence"))?;
        entries.push((key, Sequence(sequence)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packs_round_trip(entries in proptest::collection::vec((any::<u128>(), any::<u64>().prop_map(Sequence)), 0..40)) {
            let mut out = Vec::new();
            encode(&entries, &mut out);
            let mut read = Vec::new();
            prop_assert_eq!(decode(first_sequence(&entries), &out, &mut read), Ok(()));
            prop_assert_eq!(read, entries);
        }

        #[test]
        fn any_bytes_are_a_pack_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..100), first in any::<u64>()) {
            let _ = decode(Sequence(first), &bytes, &mut Vec::new());
        }
    }
}
