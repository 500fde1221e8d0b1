//! A lane's position. The lane's name is the key.

use super::CodecError;
use super::wire::{Reader, put_varint};

const KIND: &str = "lane";
const VERSION: u8 = 1;

/// Appends the next offset to read.
pub fn encode(position: u64, out: &mut Vec<u8>) {
    out.push(VERSION);
    put_varint(out, position);
}

/// Reads the next offset to read.
///
/// # Errors
/// [`CodecError`] when the bytes are none.
pub fn decode(bytes: &[u8]) -> Result<u64, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    let position = reader.varint()?;
    reader.finish()?;
    Ok(position)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn positions_round_trip(position in any::<u64>(), bytes in proptest::collection::vec(any::<u8>(), 0..16)) {
            let mut out = Vec::new();
            encode(position, &mut out);
            prop_assert_eq!(decode(&out), Ok(position));
            let _ = decode(&bytes);
        }
    }
}
