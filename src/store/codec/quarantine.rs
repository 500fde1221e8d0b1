//! A malformed input record, kept for forensics. Its id, a UUIDv7 of its time and place, is its key.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::CodecError;
use super::wire::{Reader, put_blob, put_option, put_text, put_time, put_varint};
use crate::engine::QuarantineRecord;
use crate::types::Time;
use crate::types::ids::uuid_v7;

const KIND: &str = "quarantine";
const VERSION: u8 = 1;

/// The closed set of reasons; a reason's number is its index plus one, so new ones go to the end.
const REASONS: [&str; 17] = [
    "missing_header",
    "duplicate_header",
    "invalid_utf8",
    "control_character",
    "too_long",
    "bad_specversion",
    "bad_id",
    "bad_source",
    "topic_mismatch",
    "bad_type",
    "type_mismatch",
    "bad_time",
    "bad_schema_version",
    "missing_tenant",
    "oversize",
    "structured_mode",
    "unstorable",
];

/// The number of a reason outside the set, which the decoders never give.
const OTHER: u8 = 0;

/// The id of the record at this place: the same whenever it is written again.
#[must_use]
pub fn record_id(received_at: Time, topic: &str, partition: i32, offset: u64) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(topic.as_bytes());
    hash.update([0]);
    hash.update(partition.to_be_bytes());
    hash.update(offset.to_be_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let (head, _) = digest.split_first_chunk::<16>().expect("a digest has 32 bytes");
    uuid_v7(received_at, u128::from_be_bytes(*head))
}

/// Appends the record.
pub fn encode(record: &QuarantineRecord, out: &mut Vec<u8>) {
    out.push(VERSION);
    put_text(out, &record.topic);
    out.extend_from_slice(&record.partition.to_be_bytes());
    put_varint(out, record.offset);
    put_time(out, record.received_at);
    out.push(reason_number(record.reason));
    put_option(out, record.header.as_deref(), put_text);
    put_varint(out, record.headers.len() as u64);
    for (name, value) in &record.headers {
        put_text(out, name);
        put_option(out, value.as_deref(), put_blob);
    }
    put_blob(out, &record.body);
    put_varint(out, record.size);
    out.extend_from_slice(&record.sha256);
}

/// Reads the record.
///
/// # Errors
/// [`CodecError`] when the bytes are none.
pub fn decode(bytes: &[u8]) -> Result<QuarantineRecord, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    let r = &mut reader;
    let record = QuarantineRecord {
        topic: r.text("topic")?.into(),
        partition: i32::from_be_bytes(r.array()?),
        offset: r.varint()?,
        received_at: r.time()?,
        reason: reason(r)?,
        header: r.option(|r| r.text("header"))?.map(Into::into),
        headers: r.list(read_header)?,
        body: Bytes::copy_from_slice(r.blob()?),
        size: r.varint()?,
        sha256: r.array()?,
    };
    reader.finish()?;
    Ok(record)
}

fn reason_number(reason: &str) -> u8 {
    REASONS.iter().zip(1..).find(|(known, _)| **known == reason).map_or(OTHER, |(_, number)| number)
}

fn reason(reader: &mut Reader<'_>) -> Result<&'static str, CodecError> {
    match reader.byte()? {
        OTHER => Ok("other"),
        number => REASONS.get(usize::from(number) - 1).copied().ok_or_else(|| reader.fault("reason")),
    }
}

fn read_header(reader: &mut Reader<'_>) -> Result<(Box<str>, Option<Bytes>), CodecError> {
    let name = reader.text("headers")?.into();
    Ok((name, reader.option(Reader::blob)?.map(Bytes::copy_from_slice)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    proptest! {
        #[test]
        fn records_round_trip(record in samples::quarantine(&REASONS)) {
            let mut out = Vec::new();
            encode(&record, &mut out);
            prop_assert_eq!(decode(&out), Ok(record));
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
            bytes[0] = VERSION;
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn ids_sort_by_time_and_are_stable() {
        let early = record_id(Time::from_millis(5), "a", 1, 2);
        assert_eq!(early, record_id(Time::from_millis(5), "a", 1, 2));
        assert_ne!(early, record_id(Time::from_millis(5), "a", 1, 3));
        assert!(early < record_id(Time::from_millis(6), "a", 0, 0));
    }
}
