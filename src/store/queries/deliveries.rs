//! Which deliveries a list shows, and a page of them as it fills.

use std::collections::BTreeSet;

use super::page_size;
use crate::store::codec::fold::FoldedEvent;
use crate::store::{Cursor, CursorError, Page};
use crate::types::{DestinationId, End, Event, JobRecord, Sequence, SubscriptionId, TenantId, Time};

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

/// A page of deliveries as it fills, event by event: newest first, and of one event the latest run first.
pub(in crate::store) struct Filling<'a> {
    query: &'a DeliveriesQuery,
    /// The job that the last page ended with.
    place: Option<(u64, u16)>,
    items: Vec<Delivery>,
}

impl Delivery {
    pub(in crate::store) fn of(event: &FoldedEvent, job: &JobRecord) -> Self {
        let event = &event.logged.event;
        let (event_id, event_type) = (event.public_id(), event.key.clone());
        Self { event_id, event_type, received_at: event.received_at, job: job.clone() }
    }
}

impl<'a> Filling<'a> {
    /// Begins a page.
    ///
    /// # Errors
    /// [`CursorError`] for a cursor of another list.
    pub(in crate::store) fn new(query: &'a DeliveriesQuery) -> Result<Self, CursorError> {
        Ok(Self { query, place: query.cursor.as_ref().map(place_of).transpose()?, items: Vec::new() })
    }

    /// Events from this number on have been shown.
    pub(in crate::store) fn high(&self) -> u64 {
        self.place.map_or(u64::MAX, |(sequence, _)| sequence.saturating_add(1))
    }

    /// Adds the jobs of the next event; the page, when it is full with them.
    pub(in crate::store) fn add(&mut self, event: &FoldedEvent) -> Option<Page<Delivery>> {
        for job in event.logged.jobs.iter().rev() {
            let (sequence, ordinal) = (job.key.sequence, job.key.ordinal);
            let seen = self.place.is_some_and(|place| (sequence.0, ordinal) >= place);
            if seen || !self.query.wants(&event.logged.event, job) {
                continue;
            }
            self.items.push(Delivery::of(event, job));
            if self.items.len() >= page_size(self.query.limit) {
                return Some(Page { items: std::mem::take(&mut self.items), next: Some(cursor_at(sequence, ordinal)) });
            }
        }
        None
    }

    /// The page as it is, with another that begins below the event numbered `sequence`.
    pub(in crate::store) fn paused(self, sequence: Sequence) -> Page<Delivery> {
        Page { items: self.items, next: Some(cursor_at(sequence, 0)) }
    }

    /// The last page.
    pub(in crate::store) fn end(self) -> Page<Delivery> {
        Page { items: self.items, next: None }
    }
}

/// The page ended with this job; the next begins below it.
fn cursor_at(sequence: Sequence, ordinal: u16) -> Cursor {
    let mut bytes = sequence.0.to_be_bytes().to_vec();
    bytes.extend_from_slice(&ordinal.to_be_bytes());
    Cursor::new(bytes)
}

fn place_of(cursor: &Cursor) -> Result<(u64, u16), CursorError> {
    let bytes = cursor.exactly::<10>()?;
    let (sequence, ordinal) = bytes.split_at(8);
    let sequence = u64::from_be_bytes(sequence.try_into().expect("8 of 10 bytes"));
    Ok((sequence, u16::from_be_bytes(ordinal.try_into().expect("2 of 10 bytes"))))
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

    /// Whether a job of `event` may be one that the list shows: none is older than its event.
    pub(in crate::store) fn may_want(&self, event: &Event) -> bool {
        self.to.is_none_or(|to| event.received_at < to)
            && self.event_type.as_deref().is_none_or(|key| *event.key == *key)
    }

    fn wants(&self, event: &Event, job: &JobRecord) -> bool {
        self.from.is_none_or(|from| job.created_at >= from)
            && self.to.is_none_or(|to| job.created_at < to)
            && self.status.is_none_or(|status| self.status_of(job) == status)
            && self.subscription.is_none_or(|id| job.subscription == id)
            && self.destination.is_none_or(|id| job.destination == id)
            && self.event_type.as_deref().is_none_or(|key| *event.key == *key)
    }
}
