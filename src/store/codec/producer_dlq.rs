//! A record that a producer dead-lettered itself, as versioned JSON in the API's shape. Its id is its key.

use super::CodecError;
use super::wire::Reader;
use crate::types::ProducerDeadLetter;

const KIND: &str = "producer dead letter";
const VERSION: u8 = 1;

/// Appends the record; its time loses what is below a millisecond.
pub fn encode(record: &ProducerDeadLetter, out: &mut Vec<u8>) {
    out.push(VERSION);
    serde_json::to_writer(out, record).expect("plain fields serialise and a Vec takes all bytes");
}

/// Reads the record.
///
/// # Errors
/// [`CodecError`] when the bytes are none.
pub fn decode(bytes: &[u8]) -> Result<ProducerDeadLetter, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    serde_json::from_slice(reader.remainder()).map_err(|_| reader.fault("json"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    proptest! {
        #[test]
        fn records_round_trip(offset in any::<u64>(), error_class in proptest::option::of("[ -~é]{0,12}")) {
            let error_class = error_class.map(String::into_boxed_str);
            let record = ProducerDeadLetter { error_class, ..samples::producer_dead_letter(offset) };
            let mut out = Vec::new();
            encode(&record, &mut out);
            prop_assert_eq!(decode(&out), Ok(record));
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 1..100)) {
            bytes[0] = VERSION;
            let _ = decode(&bytes);
        }
    }
}
