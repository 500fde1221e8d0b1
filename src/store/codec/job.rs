//! The rows of a job beside its event's: claims, attempts, ends, and the row of a job that a command made.
//! Ordinal and number stand in the key. An attempt's row takes the place of its claim's.

use bytes::Bytes;

use super::CodecError;
use super::wire::{Reader, put_blob, put_headers, put_option, put_text, put_time, put_uuid, put_varint};
use crate::types::{
    AttemptId, AttemptOutcome, AttemptRecord, ClaimRecord, DestinationId, Duration, End, EndReason, ErrorKind, JobKey,
    RunId, Sequence, Slot, SubscriptionId, Time, Trigger,
};

const KIND: &str = "attempt";
const RUN_KIND: &str = "run";
const END_KIND: &str = "end";
const VERSION: u8 = 1;

const CLAIM: u8 = 1;
const ATTEMPT: u8 = 2;

const COUNTED: u8 = 1;
const RECLAIM: u8 = 2;
const TRUNCATED: u8 = 4;
const STALE_CONNECTION: u8 = 8;
const ALL_FLAGS: u8 = 15;

/// What stands under one attempt's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptRow {
    /// It was claimed, and how it ended is not known.
    Claimed(ClaimRecord),
    /// It ended, and perhaps its job.
    Ended(Box<AttemptRecord>, Option<End>),
}

/// What an attempt's row says of its job: all but the destination and the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptTrace {
    /// It was claimed, and how it ended is not known.
    Claimed(ClaimRecord),
    /// It ended, and perhaps its job.
    Ended(EndedTrace, Option<End>),
}

/// What counts of an attempt that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedTrace {
    /// When.
    pub ended_at: Time,
    /// As [`AttemptRecord::counted`].
    pub counted: bool,
    /// As [`AttemptRecord::reclaim`].
    pub reclaim: bool,
    /// As [`AttemptRecord::next_at`].
    pub next_at: Option<Time>,
    /// As [`AttemptOutcome::status`].
    pub status: Option<u16>,
    /// As [`AttemptOutcome::error_kind`].
    pub error_kind: Option<ErrorKind>,
}

/// A job that a command made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// For which subscription.
    pub subscription: SubscriptionId,
    /// Where it went at first.
    pub destination: DestinationId,
    /// The command's id.
    pub run: RunId,
    /// What the run is called.
    pub trigger: Trigger,
    /// When the command came.
    pub created_at: Time,
}

/// Appends a claim's row.
pub fn encode_claim(claim: &ClaimRecord, out: &mut Vec<u8>) {
    out.extend_from_slice(&[VERSION, CLAIM]);
    put_claim(out, claim);
}

/// Appends an attempt's row.
pub fn encode_attempt(record: &AttemptRecord, end: Option<End>, out: &mut Vec<u8>) {
    out.extend_from_slice(&[VERSION, ATTEMPT]);
    put_claim(out, &record.claim);
    put_uuid(out, record.destination.0);
    put_text(out, &record.url);
    out.push(flags(record));
    put_option(out, record.next_at, put_time);
    put_option(out, end, put_end);
    put_outcome(out, &record.outcome);
}

/// Reads what stands under the key of attempt `number`.
///
/// # Errors
/// [`CodecError`] when the bytes are neither a claim nor an attempt.
pub fn decode_attempt(number: u32, bytes: &[u8]) -> Result<AttemptRow, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    let row = match reader.byte()? {
        CLAIM => AttemptRow::Claimed(read_claim(&mut reader)?),
        ATTEMPT => read_attempt(number, &mut reader)?,
        0 | 3.. => return Err(reader.fault("row")),
    };
    reader.finish()?;
    Ok(row)
}

/// Reads of an attempt's row what counts for its job. The response, up to 24 KiB at the row's end, is neither
/// copied nor looked at.
///
/// # Errors
/// [`CodecError`] when the bytes are neither a claim nor the beginning of an attempt.
pub fn decode_trace(bytes: &[u8]) -> Result<AttemptTrace, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    match reader.byte()? {
        CLAIM => {
            let claim = read_claim(&mut reader)?;
            reader.finish()?;
            Ok(AttemptTrace::Claimed(claim))
        }
        ATTEMPT => read_trace(&mut reader),
        0 | 3.. => Err(reader.fault("row")),
    }
}

/// Appends the row of an end without an attempt.
pub fn encode_end(end: End, at: Time, out: &mut Vec<u8>) {
    out.push(VERSION);
    put_end(out, end);
    put_time(out, at);
}

/// Reads the row of an end.
///
/// # Errors
/// [`CodecError`] when the bytes are no such row.
pub fn decode_end(bytes: &[u8]) -> Result<(End, Time), CodecError> {
    let mut reader = Reader::versioned(END_KIND, VERSION, bytes)?;
    let end = (read_end(&mut reader)?, reader.time()?);
    reader.finish()?;
    Ok(end)
}

/// Appends the row of a job that a command made.
pub fn encode_run(row: &RunRow, out: &mut Vec<u8>) {
    out.push(VERSION);
    put_uuid(out, row.subscription.0);
    put_uuid(out, row.destination.0);
    put_uuid(out, row.run.0);
    put_trigger(out, row.trigger);
    put_time(out, row.created_at);
}

/// Reads the row of a job that a command made.
///
/// # Errors
/// [`CodecError`] when the bytes are no such row.
pub fn decode_run(bytes: &[u8]) -> Result<RunRow, CodecError> {
    let mut reader = Reader::versioned(RUN_KIND, VERSION, bytes)?;
    let row = RunRow {
        subscription: SubscriptionId(reader.uuid()?),
        destination: DestinationId(reader.uuid()?),
        run: RunId(reader.uuid()?),
        trigger: read_trigger(&mut reader)?,
        created_at: reader.time()?,
    };
    reader.finish()?;
    Ok(row)
}

/// Appends where a job stands in the log, as part of another record.
pub fn put_job_key(out: &mut Vec<u8>, key: JobKey) {
    put_varint(out, u64::from(key.slot.0));
    put_varint(out, key.sequence.0);
    put_varint(out, u64::from(key.ordinal));
}

/// Reads what [`put_job_key`] wrote.
///
/// # Errors
/// [`CodecError`] when the bytes are no such place.
pub fn read_job_key(reader: &mut Reader<'_>) -> Result<JobKey, CodecError> {
    Ok(JobKey {
        slot: Slot(reader.number("slot")?),
        sequence: Sequence(reader.varint()?),
        ordinal: reader.number("ordinal")?,
    })
}

/// Appends a claim, as part of another record.
pub fn put_claim(out: &mut Vec<u8>, claim: &ClaimRecord) {
    put_uuid(out, claim.attempt.0);
    put_time(out, claim.claimed_at);
    put_time(out, claim.until);
    out.push(u8::from(claim.alone));
}

/// Reads what [`put_claim`] wrote.
///
/// # Errors
/// [`CodecError`] when the bytes are no claim.
pub fn read_claim(reader: &mut Reader<'_>) -> Result<ClaimRecord, CodecError> {
    Ok(ClaimRecord {
        attempt: AttemptId(reader.uuid()?),
        claimed_at: reader.time()?,
        until: reader.time()?,
        alone: reader.flag("alone")?,
    })
}

/// Appends an end: one byte.
pub fn put_end(out: &mut Vec<u8>, end: End) {
    out.push(match end {
        End::Delivered => 1,
        End::Cancelled => 2,
        End::DeadLettered(EndReason::Exhausted) => 16,
        End::DeadLettered(EndReason::Poison) => 17,
        End::DeadLettered(EndReason::CircuitOpen) => 18,
        End::DeadLettered(EndReason::Gone) => 19,
        End::DeadLettered(EndReason::Expired) => 20,
    });
}

/// Reads what [`put_end`] wrote.
///
/// # Errors
/// [`CodecError`] for a byte that stands for no end.
pub fn read_end(reader: &mut Reader<'_>) -> Result<End, CodecError> {
    Ok(match reader.byte()? {
        1 => End::Delivered,
        2 => End::Cancelled,
        16 => End::DeadLettered(EndReason::Exhausted),
        17 => End::DeadLettered(EndReason::Poison),
        18 => End::DeadLettered(EndReason::CircuitOpen),
        19 => End::DeadLettered(EndReason::Gone),
        20 => End::DeadLettered(EndReason::Expired),
        0 | 3..16 | 21.. => return Err(reader.fault("end")),
    })
}

/// Appends what started a job: one byte.
pub fn put_trigger(out: &mut Vec<u8>, trigger: Trigger) {
    out.push(match trigger {
        Trigger::Match => 0,
        Trigger::Manual => 1,
        Trigger::Replay => 2,
    });
}

/// Reads what [`put_trigger`] wrote.
///
/// # Errors
/// [`CodecError`] for a byte that stands for no trigger.
pub fn read_trigger(reader: &mut Reader<'_>) -> Result<Trigger, CodecError> {
    Ok(match reader.byte()? {
        0 => Trigger::Match,
        1 => Trigger::Manual,
        2 => Trigger::Replay,
        3.. => return Err(reader.fault("trigger")),
    })
}

/// Appends an error kind: one byte.
pub fn put_error_kind(out: &mut Vec<u8>, kind: ErrorKind) {
    out.push(match kind {
        ErrorKind::Dns => 1,
        ErrorKind::Blocked => 2,
        ErrorKind::Connect => 3,
        ErrorKind::Tls => 4,
        ErrorKind::TlsExpired => 5,
        ErrorKind::TlsUntrusted => 6,
        ErrorKind::TlsWrongHost => 7,
        ErrorKind::TlsHandshake => 8,
        ErrorKind::TlsClientCertificate => 9,
        ErrorKind::Timeout => 10,
        ErrorKind::Reset => 11,
        ErrorKind::Protocol => 12,
        ErrorKind::Status => 13,
        ErrorKind::Internal => 14,
        ErrorKind::Interrupted => 15,
    });
}

/// Reads what [`put_error_kind`] wrote.
///
/// # Errors
/// [`CodecError`] for a byte that stands for no kind.
pub fn read_error_kind(reader: &mut Reader<'_>) -> Result<ErrorKind, CodecError> {
    Ok(match reader.byte()? {
        1 => ErrorKind::Dns,
        2 => ErrorKind::Blocked,
        3 => ErrorKind::Connect,
        4 => ErrorKind::Tls,
        5 => ErrorKind::TlsExpired,
        6 => ErrorKind::TlsUntrusted,
        7 => ErrorKind::TlsWrongHost,
        8 => ErrorKind::TlsHandshake,
        9 => ErrorKind::TlsClientCertificate,
        10 => ErrorKind::Timeout,
        11 => ErrorKind::Reset,
        12 => ErrorKind::Protocol,
        13 => ErrorKind::Status,
        14 => ErrorKind::Internal,
        15 => ErrorKind::Interrupted,
        0 | 16.. => return Err(reader.fault("error_kind")),
    })
}

fn flags(record: &AttemptRecord) -> u8 {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    flag(record.counted, COUNTED)
        | flag(record.reclaim, RECLAIM)
        | flag(record.outcome.truncated, TRUNCATED)
        | flag(record.outcome.stale_connection, STALE_CONNECTION)
}

fn read_attempt(number: u32, reader: &mut Reader<'_>) -> Result<AttemptRow, CodecError> {
    let claim = read_claim(reader)?;
    let destination = DestinationId(reader.uuid()?);
    let url = reader.text("url")?.into();
    let flags = read_flags(reader)?;
    let next_at = reader.option(Reader::time)?;
    let end = reader.option(read_end)?;
    let mut outcome = read_outcome(reader)?;
    outcome.truncated = flags & TRUNCATED != 0;
    outcome.stale_connection = flags & STALE_CONNECTION != 0;
    let (counted, reclaim) = (flags & COUNTED != 0, flags & RECLAIM != 0);
    let record = AttemptRecord { number, claim, destination, url, outcome, counted, reclaim, next_at };
    Ok(AttemptRow::Ended(Box::new(record), end))
}

fn read_trace(reader: &mut Reader<'_>) -> Result<AttemptTrace, CodecError> {
    read_claim(reader)?;
    reader.uuid()?;
    reader.text("url")?;
    let flags = read_flags(reader)?;
    let next_at = reader.option(Reader::time)?;
    let end = reader.option(read_end)?;
    let trace = EndedTrace {
        ended_at: reader.time()?,
        counted: flags & COUNTED != 0,
        reclaim: flags & RECLAIM != 0,
        next_at,
        status: reader.option(|r| r.number("status"))?,
        error_kind: reader.option(read_error_kind)?,
    };
    Ok(AttemptTrace::Ended(trace, end))
}

fn read_flags(reader: &mut Reader<'_>) -> Result<u8, CodecError> {
    let flags = reader.byte()?;
    if flags > ALL_FLAGS { Err(reader.fault("flags")) } else { Ok(flags) }
}

fn put_outcome(out: &mut Vec<u8>, outcome: &AttemptOutcome) {
    put_time(out, outcome.ended_at);
    put_option(out, outcome.status, |out, status| put_varint(out, u64::from(status)));
    put_option(out, outcome.error_kind, put_error_kind);
    put_option(out, outcome.error.as_deref(), put_text);
    put_option(out, outcome.retry_after, |out, span| put_varint(out, span.0));
    put_headers(out, &outcome.response_headers);
    put_blob(out, &outcome.response_body);
}

fn read_outcome(reader: &mut Reader<'_>) -> Result<AttemptOutcome, CodecError> {
    Ok(AttemptOutcome {
        ended_at: reader.time()?,
        status: reader.option(|r| r.number("status"))?,
        error_kind: reader.option(read_error_kind)?,
        error: reader.option(|r| r.text("error"))?.map(Into::into),
        retry_after: reader.option(Reader::varint)?.map(Duration),
        response_headers: reader.headers()?,
        response_body: Bytes::copy_from_slice(reader.blob()?),
        truncated: false,
        stale_connection: false,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    proptest! {
        #[test]
        fn attempts_round_trip(record in samples::attempt(), end in proptest::option::of(samples::end())) {
            let mut out = Vec::new();
            encode_attempt(&record, end, &mut out);
            let number = record.number;
            let trace = EndedTrace {
                ended_at: record.outcome.ended_at,
                counted: record.counted,
                reclaim: record.reclaim,
                next_at: record.next_at,
                status: record.outcome.status,
                error_kind: record.outcome.error_kind,
            };
            prop_assert_eq!(decode_trace(&out), Ok(AttemptTrace::Ended(trace, end)));
            prop_assert_eq!(decode_attempt(number, &out), Ok(AttemptRow::Ended(Box::new(record), end)));
        }

        #[test]
        fn claims_and_ends_round_trip(claim in samples::claim(), end in samples::end(), at in any::<u64>()) {
            let mut out = Vec::new();
            encode_claim(&claim, &mut out);
            prop_assert_eq!(decode_attempt(1, &out), Ok(AttemptRow::Claimed(claim)));
            prop_assert_eq!(decode_trace(&out), Ok(AttemptTrace::Claimed(claim)));
            out.clear();
            encode_end(end, Time(at), &mut out);
            prop_assert_eq!(decode_end(&out), Ok((end, Time(at))));
        }

        #[test]
        fn runs_round_trip(row in samples::run()) {
            let mut out = Vec::new();
            encode_run(&row, &mut out);
            prop_assert_eq!(decode_run(&out), Ok(row));
        }

        #[test]
        fn any_bytes_are_a_row_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 2..256)) {
            bytes[0] = VERSION;
            bytes[1] &= 3;
            let _ = decode_attempt(1, &bytes);
            let _ = decode_trace(&bytes);
            let _ = decode_end(&bytes);
            let _ = decode_run(&bytes);
        }
    }

    #[test]
    fn the_numbers_on_disk_stay_as_they_are() {
        let mut out = Vec::new();
        encode_end(End::DeadLettered(EndReason::Exhausted), Time(300), &mut out);
        assert_eq!(out, [1, 16, 0xac, 2]);
        assert_eq!(decode_end(&[2, 16, 0]), Err(CodecError::Version { kind: "end", found: 2 }));
    }
}
