//! What a batch of the engine becomes: phases of writes, in an order in which every prefix is harmless.
//!
//! The engine writes a batch whole or not at all. A CQL server writes only the rows of one partition so. A batch is
//! therefore cut into phases: the writes of one are on their way together, and the next begins when all of them are
//! acknowledged. After a crash any prefix of the phases may stand, with any part of the phase that was under way.
//! That is harmless, because a batch of unknown fate is tried for ever with the same rows, or the slot's next owner
//! reads what stands and goes on from there. Pair by pair:
//!
//! - *Pieces of a payload before the event that names them.* An event without its payload reads as one whose payload
//!   has expired, and its jobs would end so. Pieces without their event are found by nobody and expire.
//! - *`log_chunks` before the chunk's first event, `due_minutes` before the minute's first due row.* Readers look
//!   only where a chunk or minute is listed. A listed one that is empty costs one request.
//! - *A dead letter before the row that ends its job.* The end of a job whose copy is missing would lose the dead
//!   letter for good. A copy whose job is still open is written again when the job ends; whoever lists dead letters
//!   leaves it out until then.
//! - *A quarantined record before its lane's position*: the position says that the record is kept.
//! - *Due rows before the log, both before cursors and records.* A due row whose job has moved on is ignored. An
//!   attempt without its due row is in the tail, behind a cursor or has an earlier due row, as before: what gives
//!   up that older cover is a cursor or a record, and those come later.
//! - *The log's rows together.* Those of one event are one write. Between events nothing is promised: what was not
//!   acknowledged is not answered, and no attempt of it has begun; a taker lets what it finds beyond a lane's position
//!   wait until the lane brings it again, in order. A claim that stands without the end before it is a reclaim that
//!   never started.
//! - *Claims listed beside the log.* An attempt begins when both are acknowledged. A place whose attempt has ended may
//!   be another's before the outcome stands: then a taker does not look for an attempt that is over.
//! - *Packs of ids and the tenants' index beside the log, before the record.* Both are of events of earlier batches,
//!   which are durable; `flushed` in the record says that they are complete.
//! - *What is remembered of a destination, anywhere*: nothing relies on it but the next owner's first guess.
//! - *Cursors after log and due rows.* One that moves forward or is removed gives up the jobs before it: their ends
//!   and due rows must stand. *Cursors before the record.* A new one covers jobs that low-water then passes; until
//!   then the tail does.
//! - *The slot's record and lanes' positions last*: low-water, the due bound and `flushed` give up what came before.
//!
//! Of two writes of one row in one batch the later alone is sent: both would have the same timestamp.
//!
//! Rows of tables that expire are written at the clock's time, since time windows are compacted by it, and never
//! change: where two owners may say different things, the epoch is part of the key, and readers prefer the higher.
//! Rows that do change have the timestamps of [`super::epoch`].

use std::collections::BTreeMap;

use bytes::Bytes;

use super::epoch::{Epoch, Stamps};
use super::phase::{Gather, Phase, Stage};
use super::rows::{Lifetimes, Places, Writing};
use super::statement::Partition;
use crate::engine::Row;
use crate::engine::rows::{LoggedEvent, NewJob, SlotRecord, Wanted};
use crate::store::codec::event;
use crate::types::{Event, RunId, Sequence, Slot, SubscriptionId, TenantId, Time, limits};

/// The owner has written so much that its timestamps are used up: the slot must be taken anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the timestamps of epoch {} are used up: the slot must be taken again", .0.0)]
pub struct EpochUsedUp(pub Epoch);

/// A batch as phases, with what the planner learns once all are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In order.
    pub phases: Vec<Phase>,
    /// To be given back to [`SlotPlanner::acknowledged`].
    pub learned: Learned,
}

/// What holds once a plan is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    epoch: Option<Epoch>,
    flushed: Option<Sequence>,
    chunks: Vec<u64>,
    minutes: Vec<u64>,
    at: Time,
}

/// What the tenants' index says of an event.
#[derive(Clone, Debug)]
struct Entry {
    tenant: TenantId,
    subscriptions: Box<[SubscriptionId]>,
    /// The event's row without payload and claims.
    head: Bytes,
}

/// Plans the batches of one slot for one owner.
#[derive(Debug)]
pub struct SlotPlanner {
    slot: Slot,
    stamps: Stamps,
    /// The index is complete below this.
    flushed: Sequence,
    /// Entries of the index from `flushed` on, not written yet.
    pending: BTreeMap<Sequence, Entry>,
    chunks: Listed,
    minutes: Listed,
    places: Places,
}

/// Chunks or minutes that are listed, each with the time of its entry.
#[derive(Debug, Default)]
struct Listed(BTreeMap<u64, Time>);

impl Listed {
    fn is_fresh(&self, number: u64, now: Time) -> bool {
        self.0.get(&number).is_some_and(|at| now.since(*at) < limits::CQL_LIST_AGAIN)
    }

    fn learn(&mut self, numbers: &[u64], at: Time) {
        self.0.extend(numbers.iter().map(|number| (*number, at)));
        while self.0.len() > limits::CQL_LISTED_MAX {
            self.0.pop_first();
        }
    }
}

impl SlotPlanner {
    /// For the owner that took `slot` as `epoch` and found `record`.
    #[must_use]
    pub fn new(slot: Slot, epoch: Epoch, record: Option<SlotRecord>) -> Self {
        Self {
            slot,
            stamps: Stamps::new(epoch),
            flushed: record.unwrap_or_default().flushed,
            pending: BTreeMap::new(),
            chunks: Listed::default(),
            minutes: Listed::default(),
            places: Places::default(),
        }
    }

    /// The owner's epoch.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.stamps.epoch()
    }

    /// The index is complete below this.
    #[must_use]
    pub const fn flushed(&self) -> Sequence {
        self.flushed
    }

    /// Cuts the rows of a batch into phases.
    ///
    /// # Errors
    /// [`EpochUsedUp`] when the slot must be taken anew first.
    pub fn plan(&mut self, rows: &[Row], kept: &Lifetimes, now: Time) -> Result<Plan, EpochUsedUp> {
        let stamp = self.stamps.stamp().ok_or(EpochUsedUp(self.epoch()))?;
        let mut gather = Gather::default();
        let mut places = std::mem::take(&mut self.places);
        let mut writing = Writing::new(self.slot, (self.epoch(), stamp), now, kept, &mut places);
        for row in rows {
            if let Row::Event { event, jobs } = row {
                self.pending.insert(event.sequence, Entry::of(event, jobs));
            }
            writing.put(row, &mut gather);
        }
        let wrote = writing.finish(&mut gather);
        let chunks: Vec<u64> =
            wrote.chunks.iter().copied().filter(|chunk| !self.chunks.is_fresh(*chunk, now)).collect();
        let minutes: Vec<u64> =
            wrote.minutes.iter().copied().filter(|minute| !self.minutes.is_fresh(*minute, now)).collect();
        chunks.iter().for_each(|chunk| writing.list_chunk(*chunk, &mut gather));
        minutes.iter().for_each(|minute| writing.list_minute(*minute, &mut gather));
        let flushed = wrote.record.map(|record| record.flushed);
        for (sequence, entry) in self.pending.range(..flushed.unwrap_or_default()) {
            let chunk = index_chunk(*sequence);
            let row = writing.index_row(chunk, &entry.tenant, *sequence, &entry.head);
            gather.put(Stage::Log, Partition::Index(self.slot, chunk), row);
        }
        self.places = places;
        let learned = Learned { epoch: Some(self.epoch()), flushed, chunks, minutes, at: now };
        Ok(Plan { phases: gather.finish(), learned })
    }

    /// A plan of this planner is durable. One of another epoch is none of its own.
    pub fn acknowledged(&mut self, learned: &Learned) {
        if learned.epoch != Some(self.epoch()) {
            return;
        }
        self.chunks.learn(&learned.chunks, learned.at);
        self.minutes.learn(&learned.minutes, learned.at);
        if let Some(flushed) = learned.flushed.filter(|flushed| *flushed > self.flushed) {
            self.flushed = flushed;
            self.pending = self.pending.split_off(&flushed);
        }
    }

    /// An event that the log holds: one that a former owner wrote has no entry in the index above `flushed`.
    pub fn met(&mut self, logged: &LoggedEvent) {
        let sequence = logged.event.sequence;
        if sequence < self.flushed || self.pending.contains_key(&sequence) {
            return;
        }
        let matched = logged.jobs.iter().filter(|job| job.run == RunId::MATCH);
        let jobs: Vec<NewJob> = matched
            .map(|job| NewJob { subscription: job.subscription, destination: job.destination, claim: None })
            .collect();
        self.pending.insert(sequence, Entry::of(&logged.event, &jobs));
    }

    /// The events of `tenant` in `from ..= to` that the index does not have yet and that are `wanted`, in order.
    #[must_use]
    pub fn pending(&self, tenant: &TenantId, from: Sequence, to: Sequence, wanted: &Wanted) -> Vec<Sequence> {
        if from > to {
            return Vec::new();
        }
        let is_wanted = |sequence: &Sequence, entry: &Entry| {
            entry.tenant == *tenant && entry.subscriptions.iter().any(|id| wanted.is_met(*sequence, *id))
        };
        let found = self.pending.range(from..=to).filter(|(sequence, entry)| is_wanted(sequence, entry));
        found.map(|(sequence, _)| *sequence).collect()
    }
}

impl Entry {
    fn of(event: &Event, jobs: &[NewJob]) -> Self {
        let unclaimed: Vec<NewJob> = jobs.iter().map(|job| NewJob { claim: None, ..*job }).collect();
        let mut head = Vec::with_capacity(event.weight() - event.payload.len() + jobs.len() * 40);
        event::encode_without_payload(event, &unclaimed, event.payload.len() as u64, &mut head);
        Self {
            tenant: event.tenant.clone(),
            subscriptions: jobs.iter().map(|job| job.subscription).collect(),
            head: head.into(),
        }
    }
}

/// Plans a batch of lanes: quarantined records first, then positions.
#[must_use]
pub fn plan_lanes(rows: &[Row], kept: &Lifetimes, now: Time) -> Plan {
    let mut gather = Gather::default();
    for row in rows {
        super::rows::put_lane_row(row, kept, &mut gather);
    }
    Plan { phases: gather.finish(), learned: Learned { at: now, ..Learned::default() } }
}

/// The chunk of the log that holds an event.
#[must_use]
pub const fn log_chunk(sequence: Sequence) -> u64 {
    sequence.0 / limits::CQL_LOG_CHUNK_EVENTS
}

/// The chunk of the tenants' index that holds an event.
#[must_use]
pub const fn index_chunk(sequence: Sequence) -> u64 {
    sequence.0 / limits::CQL_INDEX_CHUNK_EVENTS
}

#[cfg(test)]
mod tests;
