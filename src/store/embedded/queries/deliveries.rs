//! Deliveries: the jobs of a tenant's events, newest event first, and one job with its attempts.

use super::super::read::folded_event;
use super::super::tables::Tables;
use super::super::walk::{Direction, Walk};
use super::Queries;
use super::events::bounds;
use crate::store::codec::batch::Table;
use crate::store::codec::job::{AttemptRow, decode_attempt};
use crate::store::codec::key::{self, LogKey, LogPart};
use crate::store::queries::deliveries::Filling;
use crate::store::queries::{DeliveriesQuery, Delivery};
use crate::store::{Page, StoreError};
use crate::types::{AttemptRecord, JobKey, Sequence, Slot, TenantId, limits};

impl Queries {
    /// A page of a tenant's deliveries: newest event first, and of one event the latest run first.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a cursor of another list; [`StoreError::Busy`] when too many wait.
    pub async fn deliveries(&self, query: DeliveriesQuery) -> Result<Page<Delivery>, StoreError> {
        let slot = self.slot_of(&query.tenant);
        self.store.ask(move |tables| list(tables, slot, &query)).await
    }

    /// One delivery by its place.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait.
    pub async fn delivery(
        &self,
        tenant: TenantId,
        (sequence, ordinal): (Sequence, u16),
    ) -> Result<Option<Delivery>, StoreError> {
        let slot = self.slot_of(&tenant);
        let query = move |tables: &Tables| {
            let event = folded_event(tables, slot, &tenant, sequence)?;
            Ok(event.and_then(|event| {
                let job = event.logged.jobs.iter().find(|job| job.key.ordinal == ordinal)?;
                Some(Delivery::of(&event, job))
            }))
        };
        self.store.ask(query).await
    }

    /// The attempts of one job that ended, in order, the latest [`limits::ATTEMPTS_SHOWN`].
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait.
    pub async fn attempts(
        &self,
        tenant: TenantId,
        (sequence, ordinal): (Sequence, u16),
    ) -> Result<Vec<AttemptRecord>, StoreError> {
        let key = JobKey { slot: self.slot_of(&tenant), sequence, ordinal };
        self.store.ask(move |tables| attempts(tables, &tenant, key)).await
    }
}

fn list(tables: &Tables, slot: Slot, query: &DeliveriesQuery) -> Result<Page<Delivery>, StoreError> {
    let mut page = Filling::new(query)?;
    let (low, high) = match query.event {
        Some(event) => (event.0, event.0.saturating_add(1)),
        // A run is made after its event: only the upper bound holds for events too.
        None => (0, bounds(tables, slot, None, query.to)?.1),
    };
    let reach = (Sequence(low), Sequence(high.min(page.high())));
    let mut walk = Walk::over_tenant(tables, slot, &query.tenant, reach, Direction::Backward);
    for _ in 0..limits::SCAN_MAX_EVENTS {
        let Some(met) = walk.next_event()? else { return Ok(page.end()) };
        if let Some(full) = met.event.and_then(|event| page.add(&event)) {
            return Ok(full);
        }
        if walk.byte_count >= limits::SCAN_MAX_BYTES {
            return Ok(page.paused(met.sequence));
        }
    }
    Ok(match walk.next_event()? {
        Some(met) => page.paused(Sequence(met.sequence.0.saturating_add(1))),
        None => page.end(),
    })
}

fn attempts(tables: &Tables, tenant: &TenantId, job: JobKey) -> Result<Vec<AttemptRecord>, StoreError> {
    let bound = |number| {
        let mut out = Vec::new();
        let part = LogPart::Attempt { ordinal: job.ordinal, number };
        key::put_log(&mut out, job.slot, tenant, job.sequence, part);
        out
    };
    let mut records = Vec::new();
    let rows = tables.of(Table::Log).range(bound(0)..=bound(u32::MAX)).rev();
    for guard in rows.take(limits::ATTEMPTS_SHOWN) {
        let (bytes, value) = guard.into_inner()?;
        let LogPart::Attempt { number, .. } = LogKey::decode(&bytes)?.part else { continue };
        if let AttemptRow::Ended(record, _) = decode_attempt(number, &value)? {
            records.push(*record);
        }
    }
    records.reverse();
    Ok(records)
}
