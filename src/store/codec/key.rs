//! The keys of the embedded store. They sort as bytes the way their parts sort: numbers are big-endian, and
//! a tenant ends with a zero byte, which no tenant contains.
//!
//! | table | key |
//! |---|---|
//! | log | slot ‖ tenant 0 ‖ sequence ‖ part |
//! | due | slot ‖ time ‖ sequence ‖ ordinal |
//! | ids | slot ‖ minute ‖ first sequence |
//! | state | kind ‖ slot ‖ … |
//! | dead letters | by tenant: 1 ‖ tenant 0 ‖ time ‖ place · by time: 2 ‖ time ‖ place · by id: 3 ‖ place |
//!
//! A place is slot ‖ sequence ‖ ordinal.

use super::CodecError;
use super::wire::Reader;
use crate::types::{DestinationId, JobKey, Sequence, Slot, SubscriptionId, TenantId, Time};

/// Which part of an event a log row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogPart {
    /// The event itself.
    Event,
    /// The row of a job that a command made.
    Run {
        /// The job.
        ordinal: u16,
    },
    /// An attempt's claim, then its outcome.
    Attempt {
        /// The job.
        ordinal: u16,
        /// The attempt's number.
        number: u32,
    },
    /// An end without an attempt; each strength has a row of its own.
    End {
        /// The job.
        ordinal: u16,
        /// How strong it is, weakest first.
        strength: u8,
    },
}

/// A log row's key, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogKey<'a> {
    /// The slot.
    pub slot: Slot,
    /// The tenant's text.
    pub tenant: &'a str,
    /// The event's number.
    pub sequence: Sequence,
    /// Which part of the event.
    pub part: LogPart,
}

impl<'a> LogKey<'a> {
    /// Reads a key.
    ///
    /// # Errors
    /// [`CodecError`] when the bytes are no key of the log.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::new("log key", bytes);
        let slot = Slot(u16::from_be_bytes(reader.array()?));
        let tenant = read_tenant(&mut reader)?;
        let sequence = Sequence(u64::from_be_bytes(reader.array()?));
        let part = read_part(&mut reader)?;
        reader.finish()?;
        Ok(Self { slot, tenant, sequence, part })
    }
}

/// Appends the key of a log row.
pub fn put_log(out: &mut Vec<u8>, slot: Slot, tenant: &TenantId, sequence: Sequence, part: LogPart) {
    put_log_prefix(out, slot, tenant, sequence);
    match part {
        LogPart::Event => out.push(0),
        LogPart::Run { ordinal } => put_job_part(out, ordinal, 0),
        LogPart::Attempt { ordinal, number } => {
            put_job_part(out, ordinal, 1);
            out.extend_from_slice(&number.to_be_bytes());
        }
        LogPart::End { ordinal, strength } => {
            put_job_part(out, ordinal, 2);
            out.push(strength);
        }
    }
}

/// Appends what the keys of all rows of one event begin with.
pub fn put_log_prefix(out: &mut Vec<u8>, slot: Slot, tenant: &TenantId, sequence: Sequence) {
    out.extend_from_slice(&slot.0.to_be_bytes());
    put_tenant(out, tenant);
    out.extend_from_slice(&sequence.0.to_be_bytes());
}

/// The prefix of one event's keys; as a lower bound it includes the event, as an upper one it excludes it.
#[must_use]
pub fn log_prefix(slot: Slot, tenant: &TenantId, sequence: Sequence) -> Vec<u8> {
    let mut out = Vec::with_capacity(tenant.as_str().len() + 11);
    put_log_prefix(&mut out, slot, tenant, sequence);
    out
}

/// What the keys of all rows of one job begin with; the event's own row is not among them.
#[must_use]
pub fn log_job_prefix(tenant: &TenantId, job: JobKey) -> Vec<u8> {
    let mut out = log_prefix(job.slot, tenant, job.sequence);
    out.push(1);
    out.extend_from_slice(&job.ordinal.to_be_bytes());
    out
}

/// The first key after all events of `tenant`.
#[must_use]
pub fn log_after_tenant(slot: Slot, tenant: &TenantId) -> Vec<u8> {
    let mut out = Vec::with_capacity(tenant.as_str().len() + 3);
    out.extend_from_slice(&slot.0.to_be_bytes());
    out.extend_from_slice(tenant.as_str().as_bytes());
    out.push(1);
    out
}

/// The first possible key of `slot`, for every table that begins with it.
#[must_use]
pub fn slot_start(slot: Slot) -> Vec<u8> {
    slot.0.to_be_bytes().to_vec()
}

/// The first possible key after `slot`.
#[must_use]
pub fn slot_end(slot: Slot) -> Vec<u8> {
    match slot.0.checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        None => vec![0xff; 3],
    }
}

/// A due row's key.
#[must_use]
pub fn due(at: Time, key: JobKey) -> Vec<u8> {
    let mut out = Vec::with_capacity(20);
    out.extend_from_slice(&key.slot.0.to_be_bytes());
    out.extend_from_slice(&at.0.to_be_bytes());
    out.extend_from_slice(&key.sequence.0.to_be_bytes());
    out.extend_from_slice(&key.ordinal.to_be_bytes());
    out
}

/// The first possible due key of `slot` at `at`.
#[must_use]
pub fn due_from(slot: Slot, at: Time) -> Vec<u8> {
    due(at, JobKey { slot, sequence: Sequence(0), ordinal: 0 })
}

/// Reads a due row's key.
///
/// # Errors
/// [`CodecError`] when the bytes are no such key.
pub fn decode_due(bytes: &[u8]) -> Result<(Time, JobKey), CodecError> {
    let mut reader = Reader::new("due key", bytes);
    let slot = Slot(u16::from_be_bytes(reader.array()?));
    let at = Time(u64::from_be_bytes(reader.array()?));
    let sequence = Sequence(u64::from_be_bytes(reader.array()?));
    let ordinal = u16::from_be_bytes(reader.array()?);
    reader.finish()?;
    Ok((at, JobKey { slot, sequence, ordinal }))
}

/// The key of one pack of ids.
#[must_use]
pub fn ids(slot: Slot, minute: u64, first: Sequence) -> Vec<u8> {
    let mut out = Vec::with_capacity(18);
    out.extend_from_slice(&slot.0.to_be_bytes());
    out.extend_from_slice(&minute.to_be_bytes());
    out.extend_from_slice(&first.0.to_be_bytes());
    out
}

/// Reads the key of a pack of ids: its slot, minute and first sequence.
///
/// # Errors
/// [`CodecError`] when the bytes are no such key.
pub fn decode_ids(bytes: &[u8]) -> Result<(Slot, u64, Sequence), CodecError> {
    let mut reader = Reader::new("ids key", bytes);
    let slot = Slot(u16::from_be_bytes(reader.array()?));
    let minute = u64::from_be_bytes(reader.array()?);
    let first = Sequence(u64::from_be_bytes(reader.array()?));
    reader.finish()?;
    Ok((slot, minute, first))
}

/// The kinds of small records in the state table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StateKind {
    /// The hub's own record.
    Hub = 1,
    /// A slot's record.
    Slot = 2,
    /// An overflow cursor.
    Overflow = 3,
    /// What is remembered of a destination.
    Destination = 4,
    /// The first sequence of a minute.
    Arrivals = 5,
    /// Up to which sequence payloads have expired.
    Stripped = 6,
}

/// What all state keys of a kind and slot begin with.
#[must_use]
pub fn state(kind: StateKind, slot: Slot) -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    out.push(kind as u8);
    out.extend_from_slice(&slot.0.to_be_bytes());
    out
}

/// The state key of one minute of a slot.
#[must_use]
pub fn arrivals(slot: Slot, minute: u64) -> Vec<u8> {
    let mut out = state(StateKind::Arrivals, slot);
    out.extend_from_slice(&minute.to_be_bytes());
    out
}

/// Reads the minute of an [`arrivals`] key.
///
/// # Errors
/// [`CodecError`] when the bytes are no such key.
pub fn decode_arrivals(bytes: &[u8]) -> Result<u64, CodecError> {
    let mut reader = Reader::new("arrivals key", bytes);
    reader.take(3)?;
    let minute = u64::from_be_bytes(reader.array()?);
    reader.finish()?;
    Ok(minute)
}

/// What the state keys of a kind, slot and tenant begin with.
#[must_use]
pub fn state_of_tenant(kind: StateKind, slot: Slot, tenant: &TenantId) -> Vec<u8> {
    let mut out = state(kind, slot);
    put_tenant(&mut out, tenant);
    out
}

/// The state key of a subscription's overflow cursor.
#[must_use]
pub fn overflow(slot: Slot, tenant: &TenantId, subscription: SubscriptionId) -> Vec<u8> {
    let mut out = state_of_tenant(StateKind::Overflow, slot, tenant);
    out.extend_from_slice(subscription.0.as_bytes());
    out
}

/// The state key of what is remembered of a destination.
#[must_use]
pub fn destination(slot: Slot, tenant: &TenantId, destination: DestinationId) -> Vec<u8> {
    let mut out = state_of_tenant(StateKind::Destination, slot, tenant);
    out.extend_from_slice(destination.0.as_bytes());
    out
}

/// Reads tenant and id of an [`overflow`] or [`destination`] key.
///
/// # Errors
/// [`CodecError`] when the bytes are no such key.
pub fn decode_member(bytes: &[u8]) -> Result<(TenantId, uuid::Uuid), CodecError> {
    let mut reader = Reader::new("state key", bytes);
    reader.take(3)?;
    let tenant = tenant_id(&mut reader)?;
    let id = reader.uuid()?;
    reader.finish()?;
    Ok((tenant, id))
}

/// What a tenant's dead letters begin with.
#[must_use]
pub fn dead_letters_of(tenant: &TenantId) -> Vec<u8> {
    let mut out = vec![1];
    put_tenant(&mut out, tenant);
    out
}

/// The key of a dead letter itself: by tenant and time.
#[must_use]
pub fn dead_letter(tenant: &TenantId, at: Time, key: JobKey) -> Vec<u8> {
    let mut out = dead_letters_of(tenant);
    put_time_and_place(&mut out, at, key);
    out
}

/// The key under which a dead letter's tenant is found by time.
#[must_use]
pub fn dead_letter_by_time(at: Time, key: JobKey) -> Vec<u8> {
    let mut out = vec![2];
    put_time_and_place(&mut out, at, key);
    out
}

/// The key under which a dead letter's time is found by its place.
#[must_use]
pub fn dead_letter_by_id(key: JobKey) -> Vec<u8> {
    let mut out = vec![3];
    put_place(&mut out, key);
    out
}

/// What the [`dead_letter_by_id`] keys of all jobs of one event begin with.
#[must_use]
pub fn dead_letters_of_event(slot: Slot, sequence: Sequence) -> Vec<u8> {
    let mut out = dead_letter_by_id(JobKey { slot, sequence, ordinal: 0 });
    out.truncate(11);
    out
}

/// What both keys of a dead letter that are in order of time end with.
#[must_use]
pub fn time_and_place(at: Time, key: JobKey) -> Vec<u8> {
    let mut out = Vec::with_capacity(20);
    put_time_and_place(&mut out, at, key);
    out
}

/// Reads a [`dead_letter_by_id`] key.
///
/// # Errors
/// [`CodecError`] when the bytes are no such key.
pub fn decode_dead_letter_by_id(bytes: &[u8]) -> Result<JobKey, CodecError> {
    let mut reader = Reader::new("dead letter key", bytes);
    reader.take(1)?;
    let key = read_place(&mut reader)?;
    reader.finish()?;
    Ok(key)
}

/// Reads time and place at the end of a dead letter's key by tenant or by time.
///
/// # Errors
/// [`CodecError`] when the bytes are too short.
pub fn decode_time_and_place(bytes: &[u8]) -> Result<(Time, JobKey), CodecError> {
    let tail = bytes.len().checked_sub(20).ok_or(CodecError::Truncated("dead letter key"))?;
    let mut reader = Reader::new("dead letter key", &bytes[tail..]);
    let at = Time(u64::from_be_bytes(reader.array()?));
    Ok((at, read_place(&mut reader)?))
}

fn read_place(reader: &mut Reader<'_>) -> Result<JobKey, CodecError> {
    let slot = Slot(u16::from_be_bytes(reader.array()?));
    let sequence = Sequence(u64::from_be_bytes(reader.array()?));
    let ordinal = u16::from_be_bytes(reader.array()?);
    Ok(JobKey { slot, sequence, ordinal })
}

fn put_time_and_place(out: &mut Vec<u8>, at: Time, key: JobKey) {
    out.extend_from_slice(&at.0.to_be_bytes());
    put_place(out, key);
}

fn put_place(out: &mut Vec<u8>, key: JobKey) {
    out.extend_from_slice(&key.slot.0.to_be_bytes());
    out.extend_from_slice(&key.sequence.0.to_be_bytes());
    out.extend_from_slice(&key.ordinal.to_be_bytes());
}

/// Appends a tenant and the zero byte that ends it.
pub fn put_tenant(out: &mut Vec<u8>, tenant: &TenantId) {
    out.extend_from_slice(tenant.as_str().as_bytes());
    out.push(0);
}

/// Reads a tenant up to its zero byte.
///
/// # Errors
/// [`CodecError`] when there is none, or it is no tenant id.
pub fn tenant_id(reader: &mut Reader<'_>) -> Result<TenantId, CodecError> {
    let text = read_tenant(reader)?;
    TenantId::new(text).map_err(|_| reader.fault("tenant"))
}

fn read_tenant<'a>(reader: &mut Reader<'a>) -> Result<&'a str, CodecError> {
    let rest = reader.remainder();
    let end = rest.iter().position(|byte| *byte == 0).ok_or_else(|| reader.fault("tenant"))?;
    let text = std::str::from_utf8(&rest[..end]).map_err(|_| reader.fault("tenant"))?;
    reader.restore(&rest[end + 1..]);
    Ok(text)
}

fn put_job_part(out: &mut Vec<u8>, ordinal: u16, part: u8) {
    out.push(1);
    out.extend_from_slice(&ordinal.to_be_bytes());
    out.push(part);
}

fn read_part(reader: &mut Reader<'_>) -> Result<LogPart, CodecError> {
    if !reader.flag("part")? {
        return Ok(LogPart::Event);
    }
    let ordinal = u16::from_be_bytes(reader.array()?);
    Ok(match reader.byte()? {
        0 => LogPart::Run { ordinal },
        1 => LogPart::Attempt { ordinal, number: u32::from_be_bytes(reader.array()?) },
        2 => LogPart::End { ordinal, strength: reader.byte()? },
        3.. => return Err(reader.fault("part")),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    fn part() -> impl Strategy<Value = LogPart> {
        prop_oneof![
            Just(LogPart::Event),
            any::<u16>().prop_map(|ordinal| LogPart::Run { ordinal }),
            any::<(u16, u32)>().prop_map(|(ordinal, number)| LogPart::Attempt { ordinal, number }),
            any::<(u16, u8)>().prop_map(|(ordinal, strength)| LogPart::End { ordinal, strength }),
        ]
    }

    proptest! {
        #[test]
        fn log_keys_round_trip_and_sort(
            a in (any::<u16>(), samples::tenant(), any::<u64>(), part()),
            b in (any::<u16>(), samples::tenant(), any::<u64>(), part()),
        ) {
            let encode = |(slot, tenant, sequence, part): &(u16, TenantId, u64, LogPart)| {
                let mut out = Vec::new();
                put_log(&mut out, Slot(*slot), tenant, Sequence(*sequence), *part);
                out
            };
            let bytes = encode(&a);
            let key = LogKey::decode(&bytes).expect("what was encoded");
            prop_assert_eq!((key.slot.0, key.tenant, key.sequence.0, key.part), (a.0, a.1.as_str(), a.2, a.3));
            if let LogPart::Run { ordinal } | LogPart::Attempt { ordinal, .. } | LogPart::End { ordinal, .. } = a.3 {
                let job = JobKey { slot: Slot(a.0), sequence: Sequence(a.2), ordinal };
                prop_assert!(bytes.starts_with(&log_job_prefix(&a.1, job)));
            }
            let head = |k: &(u16, TenantId, u64, LogPart)| (k.0, k.1.clone(), k.2);
            if head(&a) != head(&b) {
                prop_assert_eq!(bytes.cmp(&encode(&b)), head(&a).cmp(&head(&b)));
            }
            prop_assert!(bytes < log_after_tenant(Slot(a.0), &a.1));
            prop_assert!(bytes >= slot_start(Slot(a.0)) && bytes < slot_end(Slot(a.0)));
        }

        #[test]
        fn due_keys_round_trip_and_sort(at in any::<u64>(), other in any::<u64>(), key in samples::job_key()) {
            let bytes = due(Time(at), key);
            prop_assert_eq!(decode_due(&bytes), Ok((Time(at), key)));
            prop_assert_eq!(bytes.cmp(&due(Time(other), key)), at.cmp(&other));
        }

        #[test]
        fn member_and_dead_letter_keys_round_trip(tenant in samples::tenant(), id in any::<u128>(), key in samples::job_key(), at in any::<u64>()) {
            let id = uuid::Uuid::from_u128(id);
            prop_assert_eq!(decode_member(&overflow(key.slot, &tenant, SubscriptionId(id))), Ok((tenant.clone(), id)));
            prop_assert_eq!(decode_member(&destination(key.slot, &tenant, DestinationId(id))), Ok((tenant.clone(), id)));
            prop_assert_eq!(decode_time_and_place(&dead_letter(&tenant, Time(at), key)), Ok((Time(at), key)));
            prop_assert_eq!(decode_time_and_place(&dead_letter_by_time(Time(at), key)), Ok((Time(at), key)));
            prop_assert_eq!(decode_dead_letter_by_id(&dead_letter_by_id(key)), Ok(key));
            prop_assert!(dead_letter_by_id(key).starts_with(&dead_letters_of_event(key.slot, key.sequence)));
            prop_assert_eq!(decode_ids(&ids(key.slot, at, key.sequence)), Ok((key.slot, at, key.sequence)));
            prop_assert_eq!(decode_arrivals(&arrivals(key.slot, at)), Ok(at));
        }

        #[test]
        fn any_bytes_are_a_key_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = LogKey::decode(&bytes);
            let _ = decode_due(&bytes);
            let _ = decode_ids(&bytes);
            let _ = decode_member(&bytes);
            let _ = decode_time_and_place(&bytes);
            let _ = decode_arrivals(&bytes);
            let _ = decode_dead_letter_by_id(&bytes);
        }
    }
}
