//! Deliveries: the jobs of a tenant's events, newest event first, and one job with its attempts.

use std::collections::BTreeSet;

use super::super::read::folded_event;
use super::super::tables::Tables;
use super::super::walk::{Direction, Walk};
use super::events::bounds;
use super::{Queries, page_size};
use crate::store::codec::batch::Table;
use crate::store::codec::fold::FoldedEvent;
use crate::store::codec::job::{AttemptRow, decode_attempt};
use crate::store::codec::key::{self, LogKey, LogPart};
use crate::store::{Cursor, Page, StoreError};
use crate::types::{
    AttemptRecord, DestinationId, End, JobKey, JobRecord, Sequence, Slot, SubscriptionId, TenantId, Time, limits,
};

/// Which deliveries of a tenant.
#[derive(Clone, Debug)]
pub struct DeliveriesQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Where the last page ended.
    pub cursor: Option<Cursor>,
    /// At most so many, 1 to 100.
    pub limit: usize,
    /// Made at or after.
    pub from: Option<Time>,
    /// Made before.
    pub to: Option<Time>,
    /// How they stand.
    pub status: Option<JobStatus>,
    /// For which subscription.
    pub subscription: Option<SubscriptionId>,
    /// To which destination.
    pub destination: Option<DestinationId>,
    /// Of which event.
    pub event: Option<Sequence>,
    /// The event key.
    pub event_type: Option<String>,
    /// Subscriptions that were deleted: their waiting jobs count as cancelled.
    pub deleted: BTreeSet<SubscriptionId>,
}

/// How a job stands, as far as the store knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// Waiting.
    Pending,
    /// Claimed: an attempt is on its way.
    Delivering,
    /// Ended with success.
    Delivered,
    /// Ended without success.
    DeadLettered,
    /// Ended by a deletion.
    Cancelled,
}

impl JobStatus {
    /// How `job` stands.
    #[must_use]
    pub const fn of(job: &JobRecord) -> Self {
        match (&job.end, &job.open_claim) {
            (Some((End::Delivered, _)), _) => Self::Delivered,
            (Some((End::Cancelled, _)), _) => Self::Cancelled,
            (Some((End::DeadLettered(_), _)), _) => Self::DeadLettered,
            (None, Some(_)) => Self::Delivering,
            (None, None) => Self::Pending,
        }
    }
}

/// One job and the event it carries, without the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The event's id as the API shows it.
    pub event_id: String,
    /// The event key.
    pub event_type: Box<str>,
    /// When the event came in.
    pub received_at: Time,
    /// The job.
    pub job: JobRecord,
}

impl Delivery {
    fn of(event: &FoldedEvent, job: &JobRecord) -> Self {
        let event = &event.logged.event;
        let (event_id, event_type) = (event.public_id(), event.key.clone());
        Self { event_id, event_type, received_at: event.received_at, job: job.clone() }
    }
}

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
    let place = query.cursor.as_ref().map(place_of).transpose()?;
    let (low, high) = match query.event {
        Some(event) => (event.0, event.0.saturating_add(1)),
        // A run is made after its event: only the upper bound holds for events too.
        None => (0, bounds(tables, slot, None, query.to)?.1),
    };
    let high = high.min(place.map_or(u64::MAX, |(sequence, _)| sequence.saturating_add(1)));
    let mut walk = Walk::over_tenant(tables, slot, &query.tenant, (Sequence(low), Sequence(high)), Direction::Backward);
    let mut items = Vec::new();
    for _ in 0..limits::SCAN_MAX_EVENTS {
        let Some(met) = walk.next_event()? else { return Ok(Page { items, next: None }) };
        for job in met.event.iter().flat_map(|event| event.logged.jobs.iter().rev()) {
            let seen = place.is_some_and(|place| (job.key.sequence.0, job.key.ordinal) >= place);
            let Some(event) = met.event.as_ref().filter(|event| !seen && query.wants(event, job)) else { continue };
            items.push(Delivery::of(event, job));
            if items.len() >= page_size(query.limit) {
                return Ok(Page { items, next: Some(cursor_at(met.sequence, job.key.ordinal)) });
            }
        }
        if walk.byte_count >= limits::SCAN_MAX_BYTES {
            return Ok(Page { items, next: Some(cursor_at(met.sequence, 0)) });
        }
    }
    let next = walk.next_event()?.map(|met| cursor_at(Sequence(met.sequence.0.saturating_add(1)), 0));
    Ok(Page { items, next })
}

/// The page ended with this job; the next begins below it.
fn cursor_at(sequence: Sequence, ordinal: u16) -> Cursor {
    let mut bytes = sequence.0.to_be_bytes().to_vec();
    bytes.extend_from_slice(&ordinal.to_be_bytes());
    Cursor::new(bytes)
}

fn place_of(cursor: &Cursor) -> Result<(u64, u16), StoreError> {
    let bytes = cursor.exactly::<10>()?;
    let (sequence, ordinal) = bytes.split_at(8);
    let sequence = u64::from_be_bytes(sequence.try_into().expect("8 of 10 bytes"));
    Ok((sequence, u16::from_be_bytes(ordinal.try_into().expect("2 of 10 bytes"))))
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

impl DeliveriesQuery {
    fn status_of(&self, job: &JobRecord) -> JobStatus {
        match JobStatus::of(job) {
            JobStatus::Pending if self.deleted.contains(&job.subscription) => JobStatus::Cancelled,
            status @ (JobStatus::Pending
            | JobStatus::Delivering
            | JobStatus::Delivered
            | JobStatus::DeadLettered
            | JobStatus::Cancelled) => status,
        }
    }

    fn wants(&self, event: &FoldedEvent, job: &JobRecord) -> bool {
        self.from.is_none_or(|from| job.created_at >= from)
            && self.to.is_none_or(|to| job.created_at < to)
            && self.status.is_none_or(|status| self.status_of(job) == status)
            && self.subscription.is_none_or(|id| job.subscription == id)
            && self.destination.is_none_or(|id| job.destination == id)
            && self.event_type.as_deref().is_none_or(|key| *event.logged.event.key == *key)
    }
}
