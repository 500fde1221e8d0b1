//! What the engine writes to and reads from the store: rows, batches, reads and their answers, as values.
//!
//! Rows are monotone: attempts are only added, and of two ends the stronger stands
//! ([`crate::types::End::stronger`]), so a batch written twice or late undoes nothing.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::types::{
    AttemptRecord, ClaimRecord, DestinationId, Duration, End, Event, JobKey, JobRecord, LaneName, RunId, Sequence,
    Slot, SubscriptionId, TenantId, Time, Trigger,
};

use super::QuarantineRecord;

/// What a batch belongs to. At most one batch of a unit is on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// A slot's log.
    Slot(Slot),
    /// The shard's lanes: positions and quarantine.
    Lanes,
}

/// Counts the batches of a unit, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchNumber(pub u64);

/// Rows that become durable together or not at all.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Whose batch it is.
    pub unit: Unit,
    /// Its number.
    pub number: BatchNumber,
    /// The rows, in order; shared, for a refused batch is tried again.
    pub rows: Rc<Vec<Row>>,
}

/// One row.
#[derive(Clone, Debug)]
pub enum Row {
    /// A new event with the jobs matching made; `jobs[i]` has ordinal i.
    Event {
        /// Numbered.
        event: Rc<Event>,
        /// In order of subscription id.
        jobs: Vec<NewJob>,
    },
    /// A job made by a command, for an event stored before.
    Run {
        /// Whose.
        tenant: TenantId,
        /// Its own ordinal, above all earlier ones of the event.
        key: JobKey,
        /// For which subscription.
        subscription: SubscriptionId,
        /// Where it went at first.
        destination: DestinationId,
        /// The command's id.
        run: RunId,
        /// What the run is called.
        trigger: Trigger,
        /// When the command came.
        created_at: Time,
    },
    /// An attempt is about to start. Overwritten by its [`Row::Attempt`].
    Claim {
        /// Whose.
        tenant: TenantId,
        /// Which job.
        key: JobKey,
        /// The attempt's number.
        number: u32,
        /// The claim.
        claim: ClaimRecord,
    },
    /// An attempt ended, and perhaps its job.
    Attempt {
        /// Whose.
        tenant: TenantId,
        /// Which job.
        key: JobKey,
        /// The facts.
        record: Box<AttemptRecord>,
        /// The job's end.
        end: Option<End>,
    },
    /// A job ended without an attempt.
    End {
        /// Whose.
        tenant: TenantId,
        /// Which job.
        key: JobKey,
        /// How.
        end: End,
        /// When.
        at: Time,
    },
    /// A copy of a dead-lettered job and its event, with a retention of its own.
    DeadLetter {
        /// With its payload.
        event: Rc<Event>,
        /// As it ended.
        job: Box<JobRecord>,
    },
    /// The job must be looked at again at this time.
    Due {
        /// Whose.
        tenant: TenantId,
        /// Which job.
        key: JobKey,
        /// When, at the earliest.
        at: Time,
    },
    /// From `cursor` on, the jobs of this subscription that have no attempt wait in the log, not in memory.
    /// `None`: nothing waits there.
    Overflow {
        /// Whose.
        tenant: TenantId,
        /// Which subscription.
        subscription: SubscriptionId,
        /// The first event that may hold a waiting job.
        cursor: Option<Sequence>,
    },
    /// What is remembered of a destination; `None` when there is nothing to remember.
    Destination {
        /// Whose.
        tenant: TenantId,
        /// Which.
        destination: DestinationId,
        /// Circuit, failure span, hold.
        record: Option<DestinationRecord>,
    },
    /// Ids of accepted events, packed, of one minute of the ids' own time.
    Ids {
        /// The bucket: minutes since the epoch.
        minute: u64,
        /// (dedup key, sequence).
        entries: Vec<(u128, Sequence)>,
    },
    /// The slot's own record.
    Slot(SlotRecord),
    /// A lane's position: the next offset to read.
    Lane {
        /// Which lane.
        name: LaneName,
        /// All before it is durable, dropped or quarantined.
        position: u64,
    },
    /// A malformed record.
    Quarantine(Box<QuarantineRecord>),
}

impl Row {
    /// The jobs that this row brings in with its event.
    pub fn new_jobs(&mut self) -> Option<&mut Vec<NewJob>> {
        if let Self::Event { jobs, .. } = self { Some(jobs) } else { None }
    }

    /// The event that this row brings in, if it does.
    #[must_use]
    pub const fn new_event(&self) -> Option<&Rc<Event>> {
        if let Self::Event { event, .. } = self { Some(event) } else { None }
    }
}

/// A job that matching made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// For which subscription.
    pub subscription: SubscriptionId,
    /// Where it goes.
    pub destination: DestinationId,
    /// Set when the first attempt is claimed in the same batch.
    pub claim: Option<ClaimRecord>,
}

/// What a slot remembers of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotRecord {
    /// Every job of an earlier event has ended, has a due row, or lies behind an overflow cursor.
    pub low_water: Sequence,
    /// The ids of all earlier events are written.
    pub flushed: Sequence,
    /// Every due row before this time has been dealt with.
    pub due_bound: Time,
}

/// What is remembered of a destination across restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestinationRecord {
    /// The circuit.
    pub circuit: CircuitRecord,
    /// First and last failed attempt since the last success.
    pub failure_span: Option<(Time, Time)>,
    /// `Retry-After` holds the whole destination until then.
    pub hold_until: Option<Time>,
}

/// A circuit at rest; half-open is stored as open, since its probe died with the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitRecord {
    /// Attempts go out.
    Closed {
        /// Consecutive failures so far.
        failures: u32,
        /// When it closed last; zero if it never was open.
        since: Time,
    },
    /// Jobs wait.
    Open {
        /// Consecutive failures so far.
        failures: u32,
        /// Since when.
        since: Time,
        /// When the next probe may go out.
        probe_at: Time,
        /// The cooldown in force, before jitter.
        cooldown: Duration,
    },
}

impl Default for CircuitRecord {
    fn default() -> Self {
        Self::Closed { failures: 0, since: Time::ZERO }
    }
}

/// The engine's number for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u64);

/// The subscriptions whose jobs are wanted, each with its first event of interest. A tenant may have a thousand, and
/// an event a job for each: they are looked up, not looked through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted(BTreeMap<SubscriptionId, Sequence>);

impl Wanted {
    /// Whether an event with such a job is of interest.
    #[must_use]
    pub fn is_met(&self, sequence: Sequence, subscription: SubscriptionId) -> bool {
        self.0.get(&subscription).is_some_and(|from| sequence >= *from)
    }
}

impl<const N: usize> From<[(SubscriptionId, Sequence); N]> for Wanted {
    fn from(pairs: [(SubscriptionId, Sequence); N]) -> Self {
        Self(pairs.into())
    }
}

impl FromIterator<(SubscriptionId, Sequence)> for Wanted {
    fn from_iter<I: IntoIterator<Item = (SubscriptionId, Sequence)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// What the engine wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// A slot's record, overflow cursors and destinations: the first read of a slot.
    Slot(Slot),
    /// Events of a slot with `sequence ≥ from`, of all tenants, with their jobs, in any order across tenants and
    /// in order of sequence within one; a page at a time.
    Log {
        /// Which slot.
        slot: Slot,
        /// The lowest sequence wanted.
        from: Sequence,
        /// Where the last page ended; absent for the first.
        after: Option<(TenantId, Sequence)>,
    },
    /// Events of one tenant with `from ≤ sequence ≤ to`, in order, a page at a time.
    Queue {
        /// Which slot.
        slot: Slot,
        /// Whose.
        tenant: TenantId,
        /// The lowest sequence wanted.
        from: Sequence,
        /// The highest sequence wanted.
        to: Sequence,
        /// Only events with a job for one of these need to be returned.
        wanted: Wanted,
        /// The page ends at the event with which it has so many bytes, or sooner.
        bytes_max: usize,
    },
    /// Due rows with `from ≤ at < to` in order of time, a page at a time, each with its event as it stands.
    Due {
        /// Which slot.
        slot: Slot,
        /// From this time on.
        from: Time,
        /// Only rows after this one: where the last page ended.
        after: Option<(Time, JobKey)>,
        /// Up to, not including, this time.
        to: Time,
    },
    /// Ids of one bucket with `sequence ≥ from`, a page at a time.
    Ids {
        /// Which slot.
        slot: Slot,
        /// Minutes since the epoch.
        minute: u64,
        /// The lowest sequence wanted: where the last page ended, or zero.
        from: Sequence,
    },
    /// One event with its jobs.
    Event {
        /// Which slot.
        slot: Slot,
        /// Whose.
        tenant: TenantId,
        /// Which.
        sequence: Sequence,
    },
}

/// What came back. A page ends when it has [`crate::types::limits::LOG_PAGE_EVENTS`] events or
/// [`crate::types::limits::LOG_PAGE_BYTES`] bytes, or at the end of the range.
#[derive(Debug)]
pub enum ReadAnswer {
    /// To [`Read::Slot`].
    Slot {
        /// Absent in a slot never written.
        record: Option<SlotRecord>,
        /// Subscriptions with jobs that wait in the log.
        overflow: Vec<(TenantId, SubscriptionId, Sequence)>,
        /// Destinations with something to remember.
        destinations: Vec<(TenantId, DestinationId, DestinationRecord)>,
        /// The time of the first due row at or after the due bound.
        first_due: Option<Time>,
        /// Jobs of events before low-water of which the last attempt that was claimed may be under way: what a taker would
        /// meet only when it reads them in. A store whose lock proves every former owner dead has none.
        claimed: Vec<(TenantId, JobKey)>,
    },
    /// To [`Read::Log`].
    Log {
        /// The page.
        events: Vec<LoggedEvent>,
        /// Where to go on; absent when this was the last page.
        next: Option<(TenantId, Sequence)>,
    },
    /// To [`Read::Queue`].
    Queue {
        /// The page.
        events: Vec<LoggedEvent>,
        /// All of the range up to and including this sequence has been looked at.
        scanned_to: Sequence,
    },
    /// To [`Read::Due`].
    Due {
        /// In order of time. The event is absent when it has expired.
        rows: Vec<DueRow>,
        /// The page is full: there may be more before `to`.
        more: bool,
        /// The first row at or after `to`, if any, when the page is not full.
        first_after: Option<Time>,
    },
    /// To [`Read::Ids`]; a page ends after [`crate::types::limits::IDS_PAGE`] ids, or with the row that brings it there.
    Ids {
        /// The page.
        entries: Vec<(u128, Sequence)>,
        /// Where to go on; absent when this was the last page.
        next: Option<Sequence>,
    },
    /// To [`Read::Event`].
    Event(Option<LoggedEvent>),
    /// The store could not answer; ask again later.
    Failed,
}

/// An event as it stands in the log, its rows folded.
#[derive(Clone, Debug)]
pub struct LoggedEvent {
    /// The event; its payload is empty when that has expired.
    pub event: Event,
    /// All its jobs, ended ones too, in order of ordinal; of a [`DueRow`] at least the one that it is about.
    pub jobs: Vec<JobRecord>,
    /// The payload has expired, and no copy of it is left.
    pub payload_expired: bool,
}

/// A due row and the event it is about. Of the event's jobs only the row's own need be there: an event may have
/// a thousand, and a page of rows that named them all would be read a thousand times.
#[derive(Clone, Debug)]
pub struct DueRow {
    /// Its time.
    pub at: Time,
    /// Its job.
    pub key: JobKey,
    /// The event as it stands, with this job.
    pub event: Option<LoggedEvent>,
}
