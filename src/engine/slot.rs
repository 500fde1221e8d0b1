//! A slot: its numbers, its pipeline to the store, and what a restart would have to replay.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::LaneNumber;
use super::arena::Handle;
use super::cancel::Cancellations;
use super::foreign::Flight;
use super::overdue::OverdueLine;
use super::pipeline::Pipeline;
use super::report::SlotReport;
use super::rows::{ReadId, SlotRecord, Unit};
use super::search::Search;
use super::subscriber::Subscriber;
use super::target::Target;
use super::tenant::Tenant;
use crate::types::{JobKey, JobRecord, Sequence, Slot, Time};

/// How far a slot is with its loading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SlotPhase {
    /// Its record or its tail is being read.
    Loading,
    /// It takes events.
    Active,
}

/// One slot.
pub(super) struct SlotState {
    pub(super) slot: Slot,
    pub(super) phase: SlotPhase,
    pub(super) pipeline: Pipeline,
    /// The lane whose offsets number the events; absent where the slot does that itself.
    pub(super) lane: Option<LaneNumber>,
    /// Its record has been read, and on a lease the slot is this owner's: rows may be written.
    pub(super) taken: bool,
    /// The tail of its log has been read.
    pub(super) tail_read: bool,
    /// Claims that a former owner left of which the log is still to be asked.
    pub(super) claims_unread: usize,
    /// Attempts of a former owner, of jobs that are not in memory.
    pub(super) flights: BTreeMap<JobKey, Flight>,
    /// A lane's records up to this one were settled before the slot came.
    pub(super) settled_before: Sequence,
    /// Later events that were found in the log when the slot came, with their jobs, until the lane brings them again:
    /// of those before them some may be missing there.
    pub(super) ahead: BTreeMap<Sequence, Vec<JobRecord>>,

    /// Above every number given so far.
    pub(super) next: Sequence,
    /// All events up to this one are durable, or will never be; with a lane, it has settled up to here.
    pub(super) durable: Sequence,
    pub(super) tail: Tail,
    pub(super) due: Due,
    /// The ids of all events before this one are written, or on their way.
    pub(super) flushed: Sequence,
    pub(super) ids_on_their_way: bool,
    /// The slot's record as last written.
    pub(super) written: SlotRecord,

    /// Tenants whose arrivals wait for room in a batch, or for the slot to be loaded.
    pub(super) parked: VecDeque<Handle<Tenant>>,
    pub(super) departed: Departed,
    pub(super) dirty_targets: Vec<Handle<Target>>,
    pub(super) dirty_cursors: Vec<Handle<Subscriber>>,
    /// Events whose commands are under way.
    pub(super) locked: BTreeSet<Sequence>,
    /// Numbers that were given to events which the store then refused.
    pub(super) refused: BTreeSet<Sequence>,
    /// Subscriptions whose next jobs in the log are not durable yet.
    pub(super) refills_waiting: Vec<Handle<Subscriber>>,
    pub(super) cancellations: Cancellations,
    pub(super) search: Search,
    pub(super) overdue: OverdueLine,
}

impl SlotState {
    pub(super) fn new(slot: Slot, lane: Option<LaneNumber>) -> Self {
        Self {
            slot,
            phase: SlotPhase::Loading,
            pipeline: Pipeline::new(Unit::Slot(slot)),
            lane,
            taken: false,
            tail_read: false,
            claims_unread: 0,
            flights: BTreeMap::new(),
            settled_before: Sequence(0),
            ahead: BTreeMap::new(),
            next: Sequence(1),
            durable: Sequence(0),
            tail: Tail::new(Sequence(1)),
            due: Due::default(),
            flushed: Sequence(1),
            ids_on_their_way: false,
            written: SlotRecord::default(),
            parked: VecDeque::new(),
            departed: Departed::default(),
            dirty_targets: Vec::new(),
            dirty_cursors: Vec::new(),
            locked: BTreeSet::new(),
            refused: BTreeSet::new(),
            refills_waiting: Vec::new(),
            cancellations: Cancellations::default(),
            search: Search::default(),
            overdue: OverdueLine::default(),
        }
    }

    pub(super) fn report(&self) -> SlotReport {
        SlotReport {
            slot: self.slot,
            active: self.phase == SlotPhase::Active,
            durable: self.durable,
            low_water: self.written.low_water,
        }
    }
}

/// Counts, per event, the jobs that only the tail of the log would bring back.
#[derive(Debug)]
pub(super) struct Tail {
    base: Sequence,
    open: VecDeque<u32>,
}

impl Tail {
    pub(super) const fn new(base: Sequence) -> Self {
        Self { base, open: VecDeque::new() }
    }

    /// One more job of this event relies on the tail.
    ///
    /// # Panics
    /// When the event lies before low-water: such a job has a row of its own.
    pub(super) fn add(&mut self, sequence: Sequence) {
        assert!(sequence >= self.base, "a job before low-water is covered by a row");
        let place = usize::try_from(sequence.0 - self.base.0).expect("a tail fits in memory");
        if self.open.len() <= place {
            self.open.resize(place + 1, 0);
        }
        self.open[place] += 1;
    }

    /// One job fewer.
    pub(super) fn done(&mut self, sequence: Sequence) {
        let place = sequence.0.checked_sub(self.base.0).and_then(|place| usize::try_from(place).ok());
        let count = place.and_then(|place| self.open.get_mut(place)).expect("a job in the tail is counted there");
        *count = count.checked_sub(1).expect("a job leaves the tail once");
    }

    /// The lowest event with a job that relies on the tail; `end`, before which no event is still to come, when there
    /// is none before that.
    pub(super) fn low_water(&mut self, end: Sequence) -> Sequence {
        while self.base < end && self.open.front() == Some(&0) {
            self.open.pop_front();
            self.base = self.base.next();
        }
        if self.open.is_empty() {
            self.base = self.base.max(end);
        }
        self.base
    }
}

/// Where the reading of due rows stands.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// Rows before this time have been read.
    pub(super) horizon: Time,
    /// A page ended here, and the rest up to the target is still to be read.
    pub(super) after: Option<(Time, JobKey)>,
    /// A read up to this time is under way or half done.
    pub(super) target: Option<Time>,
    pub(super) reading: bool,
    /// The first row that was not read.
    pub(super) first: Option<Time>,
    /// Rows that are not durable yet.
    on_their_way: BTreeMap<Time, u32>,
    /// Jobs in memory by the time of the due row that covers them.
    holding: BTreeMap<Time, u32>,
}

impl Due {
    /// The time a row wanted at `at` gets, so that the reader will still meet it.
    pub(super) fn time_for(&self, at: Time) -> Time {
        at.max(self.target.unwrap_or(self.horizon)).max(self.horizon)
    }

    /// How far rows may be read: all that will be met are durable.
    pub(super) fn readable_to(&self, near: Time) -> Option<Time> {
        let to = self.on_their_way.keys().next().map_or(near, |first| near.min(*first));
        (to > self.horizon).then_some(to)
    }

    /// A row is durable.
    pub(super) fn durable(&mut self, at: Time) {
        if let Some(count) = self.on_their_way.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.on_their_way.remove(&at);
            }
        }
        self.met(at);
    }

    /// A row is on its way that will be met by the reader.
    pub(super) fn wrote(&mut self, at: Time) {
        *self.on_their_way.entry(at).or_insert(0) += 1;
        self.met(at);
    }

    /// There is a row of this time.
    pub(super) fn met(&mut self, at: Time) {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
    }

    /// A job in memory relies on the row of this time.
    pub(super) fn hold(&mut self, at: Time) {
        *self.holding.entry(at).or_insert(0) += 1;
    }

    /// It does so no longer.
    pub(super) fn release(&mut self, at: Time) {
        let count = self.holding.get_mut(&at).expect("a job that relies on a due row is counted there");
        *count -= 1;
        if *count == 0 {
            self.holding.remove(&at);
        }
    }

    /// All rows before this time have been dealt with.
    pub(super) fn bound(&self) -> Time {
        let read = match (self.target, self.after) {
            (Some(_), Some((at, _))) => at,
            (Some(_) | None, _) => self.horizon,
        };
        self.holding.keys().next().map_or(read, |first| read.min(*first))
    }
}

/// Jobs that left memory while a read could still bring them back as they were before.
#[derive(Debug, Default)]
pub(super) struct Departed {
    /// On their way out: the row that says so is not durable yet.
    leaving: BTreeMap<JobKey, u32>,
    /// Out, each with the last read that was asked before the log said so: answers up to that one are outdated.
    outdated: BTreeMap<JobKey, ReadId>,
    /// The same in order of asking, to be forgotten once those reads are in.
    lingering: VecDeque<(ReadId, JobKey)>,
    /// Reads of this slot under way.
    reads: BTreeSet<ReadId>,
}

impl Departed {
    /// Whether what the answer to `read` says of this job may be outdated.
    pub(super) fn is_outdated(&self, key: &JobKey, read: ReadId) -> bool {
        self.leaving.contains_key(key) || self.outdated.get(key).is_some_and(|last| read <= *last)
    }

    /// Whether a job is on its way out, and the log does not say so yet.
    pub(super) fn is_leaving(&self, key: &JobKey) -> bool {
        self.leaving.contains_key(key)
    }

    /// A job leaves memory; [`Departed::durable`] follows when the log says so.
    pub(super) fn leave(&mut self, key: JobKey) {
        *self.leaving.entry(key).or_insert(0) += 1;
    }

    /// The log says so.
    pub(super) fn durable(&mut self, key: JobKey) {
        if let Some(count) = self.leaving.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.leaving.remove(&key);
            }
        }
        if let Some(last) = self.reads.last() {
            self.lingering.push_back((*last, key));
            self.outdated.insert(key, *last);
        }
    }

    /// A read that returns jobs was asked.
    pub(super) fn reading(&mut self, read: ReadId) {
        self.reads.insert(read);
    }

    /// Its answer has been dealt with.
    pub(super) fn read(&mut self, read: ReadId) {
        self.reads.remove(&read);
        let oldest = self.reads.first().copied();
        while let Some((asked, key)) = self.lingering.front().copied() {
            if oldest.is_some_and(|oldest| oldest <= asked) {
                break;
            }
            self.lingering.pop_front();
            if self.outdated.get(&key) == Some(&asked) {
                self.outdated.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_water_is_the_first_event_with_an_open_job() {
        let mut tail = Tail::new(Sequence(5));
        assert_eq!(tail.low_water(Sequence(5)), Sequence(5));
        tail.add(Sequence(6));
        tail.add(Sequence(6));
        tail.add(Sequence(8));
        assert_eq!(tail.low_water(Sequence(9)), Sequence(6));
        tail.done(Sequence(6));
        assert_eq!(tail.low_water(Sequence(9)), Sequence(6));
        tail.done(Sequence(6));
        assert_eq!(tail.low_water(Sequence(9)), Sequence(8));
        tail.done(Sequence(8));
        assert_eq!(tail.low_water(Sequence(9)), Sequence(9));
    }

    #[test]
    fn low_water_waits_for_events_that_are_still_to_come() {
        let mut tail = Tail::new(Sequence(5));
        tail.add(Sequence(8));
        assert_eq!(tail.low_water(Sequence(7)), Sequence(7));
        tail.add(Sequence(7));
        tail.done(Sequence(8));
        assert_eq!(tail.low_water(Sequence(9)), Sequence(7));
        tail.done(Sequence(7));
        assert_eq!(tail.low_water(Sequence(9)), Sequence(9));
    }

    #[test]
    fn the_due_bound_waits_for_jobs_that_rely_on_a_row() {
        let mut due = Due { horizon: Time(100), ..Due::default() };
        due.hold(Time(40));
        due.hold(Time(70));
        assert_eq!(due.bound(), Time(40));
        due.release(Time(40));
        assert_eq!(due.bound(), Time(70));
        due.release(Time(70));
        assert_eq!(due.bound(), Time(100));
        due.target = Some(Time(200));
        assert_eq!(due.time_for(Time(150)), Time(200), "a read under way might have passed it");
        assert_eq!(due.bound(), Time(100));
    }

    #[test]
    fn a_departed_job_is_remembered_until_older_reads_are_in() {
        let key = JobKey { slot: Slot(0), sequence: Sequence(1), ordinal: 0 };
        let mut departed = Departed::default();
        departed.reading(ReadId(1));
        departed.leave(key);
        assert!(departed.is_outdated(&key, ReadId(1)));
        departed.durable(key);
        departed.reading(ReadId(2));
        assert!(departed.is_outdated(&key, ReadId(1)), "it may have been answered before");
        assert!(!departed.is_outdated(&key, ReadId(2)), "it was asked after");
        departed.read(ReadId(1));
        assert!(!departed.is_outdated(&key, ReadId(1)), "nothing is left to be remembered");
        assert!(departed.lingering.is_empty() && departed.outdated.is_empty());
    }
}
