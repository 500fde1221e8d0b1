//! Payloads that outlive their events': a dead letter keeps a copy of its own.

use bytes::Bytes;

use super::tables::Tables;
use crate::engine::rows::LoggedEvent;
use crate::store::StoreError;
use crate::store::codec::batch::Table;
use crate::store::codec::fold::FoldedEvent;
use crate::store::codec::wire::Reader;
use crate::store::codec::{dead_letter, key};
use crate::types::{Sequence, Slot, TenantId};

/// The event with its payload, from a dead letter's copy where its own has expired; and the bytes read for it.
///
/// # Errors
/// [`StoreError`] when the database fails or a row is damaged.
pub fn with_payload(tables: &Tables, slot: Slot, event: FoldedEvent) -> Result<(LoggedEvent, usize), StoreError> {
    let mut logged = event.logged;
    if !logged.payload_expired {
        return Ok((logged, 0));
    }
    let found = payload_copy(tables, slot, &logged.event.tenant, logged.event.sequence, event.payload_size)?;
    let size = found.as_ref().map_or(0, Bytes::len);
    if let Some(payload) = found {
        logged.event.payload = payload;
        logged.payload_expired = false;
    }
    Ok((logged, size))
}

/// As [`with_payload`], for an event with an open job: nobody will send the payload of another.
///
/// # Errors
/// As [`with_payload`].
pub fn with_payload_if_open(
    tables: &Tables,
    slot: Slot,
    event: FoldedEvent,
) -> Result<(LoggedEvent, usize), StoreError> {
    let open = event.logged.jobs.iter().any(|job| job.end.is_none());
    if open { with_payload(tables, slot, event) } else { Ok((event.logged, 0)) }
}

/// The payload of `size` bytes as some dead letter of the event keeps it. A copy of another size was made when the
/// payload had expired already, and is none.
///
/// # Errors
/// As [`with_payload`].
pub fn payload_copy(
    tables: &Tables,
    slot: Slot,
    tenant: &TenantId,
    sequence: Sequence,
    size: u64,
) -> Result<Option<Bytes>, StoreError> {
    let letters = tables.of(Table::DeadLetters);
    for guard in letters.prefix(key::dead_letters_of_event(slot, sequence)) {
        let (place, at) = guard.into_inner()?;
        let job = key::decode_dead_letter_by_id(&place)?;
        let at = Reader::new("dead letter index", &at).time()?;
        let Some(value) = letters.get(key::dead_letter(tenant, at, job))? else { continue };
        let payload = dead_letter::decode(tenant, job, &value)?.event.payload;
        if payload.len() as u64 == size {
            return Ok(Some(payload));
        }
    }
    Ok(None)
}
