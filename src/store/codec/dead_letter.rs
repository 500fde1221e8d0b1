//! A dead letter: a copy of a job and its event, payload included, with a retention of its own.

use super::job::{
    put_claim, put_end, put_error_kind, put_trigger, read_claim, read_end, read_error_kind, read_trigger,
};
use super::wire::{Reader, put_blob, put_option, put_time, put_uuid, put_varint};
use super::{CodecError, event};
use crate::types::{DestinationId, Event, JobKey, JobRecord, RunId, SubscriptionId, TenantId};

const KIND: &str = "dead letter";
const VERSION: u8 = 1;

/// A dead letter as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// With its payload.
    pub event: Event,
    /// As it ended.
    pub job: JobRecord,
}

/// Appends a dead letter. Tenant, time and place stand in the key.
pub fn encode(event: &Event, job: &JobRecord, out: &mut Vec<u8>) {
    let mut row = Vec::with_capacity(event.weight());
    event::encode(event, &[], &mut row);
    put(&row, job, out);
}

/// Appends a dead letter whose payload is kept beside it: read, it has none.
pub fn encode_without_payload(event: &Event, job: &JobRecord, out: &mut Vec<u8>) {
    let size = event.payload.len();
    let mut row = Vec::with_capacity(event.weight() - size);
    event::encode_without_payload(event, &[], size as u64, &mut row);
    put(&row, job, out);
}

fn put(row: &[u8], job: &JobRecord, out: &mut Vec<u8>) {
    out.push(VERSION);
    put_blob(out, row);
    put_job(out, job);
}

/// Reads the dead letter of `tenant`'s job `key`.
///
/// # Errors
/// [`CodecError`] when the bytes are no dead letter.
pub fn decode(tenant: &TenantId, key: JobKey, bytes: &[u8]) -> Result<DeadLetter, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    let event = event::decode(tenant, key.sequence, reader.blob()?)?.event;
    let job = read_job(key, &mut reader)?;
    reader.finish()?;
    Ok(DeadLetter { event, job })
}

fn put_job(out: &mut Vec<u8>, job: &JobRecord) {
    put_uuid(out, job.subscription.0);
    put_uuid(out, job.destination.0);
    put_uuid(out, job.run.0);
    put_trigger(out, job.trigger);
    put_time(out, job.created_at);
    put_varint(out, u64::from(job.attempts));
    put_varint(out, u64::from(job.counted));
    put_varint(out, u64::from(job.reclaims));
    put_option(out, job.open_claim.as_ref(), put_claim);
    put_option(out, job.next_at, put_time);
    put_option(out, job.last_status, |out, status| put_varint(out, u64::from(status)));
    put_option(out, job.last_error_kind, put_error_kind);
    put_option(out, job.end, |out, (end, at)| {
        put_end(out, end);
        put_time(out, at);
    });
}

fn read_job(key: JobKey, reader: &mut Reader<'_>) -> Result<JobRecord, CodecError> {
    Ok(JobRecord {
        key,
        subscription: SubscriptionId(reader.uuid()?),
        destination: DestinationId(reader.uuid()?),
        run: RunId(reader.uuid()?),
        trigger: read_trigger(reader)?,
        created_at: reader.time()?,
        attempts: reader.number("attempts")?,
        counted: reader.number("counted")?,
        reclaims: reader.number("reclaims")?,
        open_claim: reader.option(read_claim)?,
        next_at: reader.option(Reader::time)?,
        last_status: reader.option(|r| r.number("last_status"))?,
        last_error_kind: reader.option(read_error_kind)?,
        end: reader.option(|r| Ok((read_end(r)?, r.time()?)))?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    proptest! {
        #[test]
        fn dead_letters_round_trip(event in samples::event(), mut job in samples::job()) {
            job.key.sequence = event.sequence;
            let mut out = Vec::new();
            encode(&event, &job, &mut out);
            let tenant = event.tenant.clone();
            prop_assert_eq!(decode(&tenant, job.key, &out), Ok(DeadLetter { event: event.clone(), job: job.clone() }));
            out.clear();
            encode_without_payload(&event, &job, &mut out);
            let event = Event { payload: bytes::Bytes::new(), ..event };
            prop_assert_eq!(decode(&tenant, job.key, &out), Ok(DeadLetter { event, job }));
        }

        #[test]
        fn any_bytes_are_a_dead_letter_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), key in samples::job_key()) {
            let _ = decode(&TenantId::new("t").expect("a valid tenant"), key, &bytes);
        }
    }
}
