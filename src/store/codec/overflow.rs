//! A subscription's overflow cursor: the value is the first event that may hold a waiting job.

use super::CodecError;
use super::slot::{decode_sequence, encode_sequence};
use crate::types::Sequence;

/// Appends the cursor.
pub fn encode(cursor: Sequence, out: &mut Vec<u8>) {
    encode_sequence(cursor, out);
}

/// Reads the cursor.
///
/// # Errors
/// [`CodecError`] when the bytes are none.
pub fn decode(bytes: &[u8]) -> Result<Sequence, CodecError> {
    decode_sequence(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_round_trips() {
        let mut out = Vec::new();
        encode(Sequence(77), &mut out);
        assert_eq!(decode(&out), Ok(Sequence(77)));
    }
}
