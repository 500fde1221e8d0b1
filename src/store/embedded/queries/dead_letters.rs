//! Dead letters: a tenant's or everybody's, latest first, and one by its place.

use super::super::read::tenant_of;
use super::super::tables::Tables;
use super::{Queries, page_size};
use crate::store::codec::batch::Table;
use crate::store::codec::dead_letter::{DeadLetter, decode};
use crate::store::codec::key;
use crate::store::codec::wire::Reader;
use crate::store::{Cursor, CursorError, Page, StoreError};
use crate::types::{DestinationId, End, EndReason, JobKey, Sequence, Slot, SubscriptionId, TenantId, Time, limits};

/// Which dead letters.
#[derive(Clone, Debug)]
pub struct DeadLettersQuery {
    /// Whose; everybody's for the operator.
    pub tenant: Option<TenantId>,
    /// Where the last page ended.
    pub cursor: Option<Cursor>,
    /// At most so many, 1 to 100.
    pub limit: usize,
    /// Dead-lettered at or after.
    pub from: Option<Time>,
    /// Dead-lettered before.
    pub to: Option<Time>,
    /// Why.
    pub reason: Option<EndReason>,
    /// For which subscription.
    pub subscription: Option<SubscriptionId>,
    /// To which destination.
    pub destination: Option<DestinationId>,
}

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
    let low = query.key_at(query.from.unwrap_or(Time::ZERO), FIRST_PLACE);
    let mut high = query.key_at(query.to.unwrap_or(Time::MAX), FIRST_PLACE);
    if let Some(cursor) = &query.cursor {
        let (at, place) = key::decode_time_and_place(&cursor.exactly::<20>()?).map_err(|_| CursorError)?;
        high = high.min(query.key_at(at, place));
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
            let tail = key[key.len() - 20..].to_vec();
            return Ok(Page { items, next: Some(Cursor::new(tail)) });
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

impl DeadLettersQuery {
    fn key_at(&self, at: Time, place: JobKey) -> Vec<u8> {
        match &self.tenant {
            Some(tenant) => key::dead_letter(tenant, at, place),
            None => key::dead_letter_by_time(at, place),
        }
    }

    fn wants(&self, letter: &DeadLetter) -> bool {
        let reason_fits = |reason| matches!(letter.job.end, Some((End::DeadLettered(own), _)) if own == reason);
        self.reason.is_none_or(reason_fits)
            && self.subscription.is_none_or(|id| letter.job.subscription == id)
            && self.destination.is_none_or(|id| letter.job.destination == id)
    }
}
