//! Dead letters: a tenant's or everybody's, latest first, and one by its place.

use super::super::read::tenant_of;
use super::super::tables::Tables;
use super::Queries;
use crate::store::codec::batch::Table;
use crate::store::codec::dead_letter::{DeadLetter, decode};
use crate::store::codec::key;
use crate::store::codec::wire::Reader;
use crate::store::queries::dead_letters::cursor_at;
use crate::store::queries::{DeadLettersQuery, page_size};
use crate::store::{Page, StoreError};
use crate::types::{JobKey, Sequence, Slot, TenantId, Time, limits};

impl Queries {
    /// A page of dead letters, their payloads left out.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a cursor of another list; [`StoreError::Busy`] when too many wait.
    pub async fn dead_letters(&self, query: DeadLettersQuery) -> Result<Page<DeadLetter>, StoreError> {
        self.store.ask(move |tables| list(tables, &query)).await
    }

    /// One dead letter by its delivery's place, with its payload.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait.
    pub async fn dead_letter(
        &self,
        tenant: TenantId,
        (sequence, ordinal): (Sequence, u16),
    ) -> Result<Option<DeadLetter>, StoreError> {
        let key = JobKey { slot: self.slot_of(&tenant), sequence, ordinal };
        self.store.ask(move |tables| find(tables, &tenant, key)).await
    }
}

fn find(tables: &Tables, tenant: &TenantId, job: JobKey) -> Result<Option<DeadLetter>, StoreError> {
    let Some(at) = tables.of(Table::DeadLetters).get(key::dead_letter_by_id(job))? else { return Ok(None) };
    let at = Reader::new("dead letter index", &at).time()?;
    let value = tables.of(Table::DeadLetters).get(key::dead_letter(tenant, at, job))?;
    Ok(value.map(|bytes| decode(tenant, job, &bytes)).transpose()?)
}

/// The cursor is the last item's time and place; both the tenant's and everybody's keys end with them.
fn list(tables: &Tables, query: &DeadLettersQuery) -> Result<Page<DeadLetter>, StoreError> {
    let low = key_at(query, query.from.unwrap_or(Time::ZERO), FIRST_PLACE);
    let mut high = key_at(query, query.to.unwrap_or(Time::MAX), FIRST_PLACE);
    if let Some((at, place)) = query.place()? {
        high = high.min(key_at(query, at, place));
    }
    let mut items = Vec::new();
    let mut bytes = 0;
    for (guard, looked_at) in tables.of(Table::DeadLetters).range(low.clone()..high.max(low)).rev().zip(1..) {
        let (key, value) = guard.into_inner()?;
        bytes += value.len();
        let (at, place) = key::decode_time_and_place(&key)?;
        let found = match &query.tenant {
            Some(tenant) => Some(decode(tenant, place, &value)?),
            None => find_at(tables, &tenant_of(&value)?, at, place, &mut bytes)?,
        };
        items.extend(found.filter(|letter| query.wants(letter)).map(without_payload));
        let full = items.len() >= page_size(query.limit);
        if full || looked_at >= limits::SCAN_MAX_EVENTS || bytes >= limits::SCAN_MAX_BYTES {
            return Ok(Page { items, next: Some(cursor_at(at, place)) });
        }
    }
    Ok(Page { items, next: None })
}

const FIRST_PLACE: JobKey = JobKey { slot: Slot(0), sequence: Sequence(0), ordinal: 0 };

fn find_at(
    tables: &Tables,
    tenant: &TenantId,
    at: Time,
    job: JobKey,
    bytes: &mut usize,
) -> Result<Option<DeadLetter>, StoreError> {
    let value = tables.of(Table::DeadLetters).get(key::dead_letter(tenant, at, job))?;
    *bytes += value.as_ref().map_or(0, |value| value.len());
    Ok(value.map(|bytes| decode(tenant, job, &bytes)).transpose()?)
}

fn without_payload(mut letter: DeadLetter) -> DeadLetter {
    letter.event.payload = bytes::Bytes::new();
    letter
}

/// Where a time and place stand in the query's list.
fn key_at(query: &DeadLettersQuery, at: Time, place: JobKey) -> Vec<u8> {
    match &query.tenant {
        Some(tenant) => key::dead_letter(tenant, at, place),
        None => key::dead_letter_by_time(at, place),
    }
}
