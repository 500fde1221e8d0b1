//! How a slot comes to life: its record, then the tail of its log, job by job.
//!
//! The tail begins at the lower of low-water (earlier jobs have rows of their own) and `flushed` (earlier ids
//! are written). A claim found open was cut by a crash: it is a reclaim, written down. On a lease its attempt may
//! still be under way until the claim runs out ([`super::foreign`]).

use std::rc::Rc;

use super::arena::Handle;
use super::dedup::{bucket_minute, dedup_key};
use super::job::{Class, Cover, HeldEvent, Job};
use super::rows::{DestinationRecord, LoggedEvent, Read, ReadAnswer, ReadId, Row, SlotRecord};
use super::shard::{Asked, Shard};
use super::slot::{SlotPhase, SlotState, Tail};
use super::subscriber::Subscriber;
use super::{LaneNumber, Notice, Output};
use crate::types::{
    AttemptOutcome, AttemptRecord, ClaimRecord, DestinationId, Duration, End, EndReason, ErrorKind, Event, JobKey,
    JobRecord, LaneName, Sequence, Slot, SubscriptionId, TenantId, Time,
};

/// A job whose subscription is not known, nor known to be deleted, is looked at again after this.
const ORPHAN_PAUSE: Duration = Duration::from_secs(60);

/// An event of the log while its jobs are placed: it is held in memory once one of them needs it.
pub(super) struct Logged {
    event: Rc<Event>,
    payload_expired: bool,
    held: Option<Handle<HeldEvent>>,
}

impl Logged {
    /// Takes an event apart from its jobs.
    pub(super) fn open(logged: LoggedEvent) -> (Self, Vec<JobRecord>) {
        let event = Rc::new(logged.event);
        (Self { event, payload_expired: logged.payload_expired, held: None }, logged.jobs)
    }
}

impl Shard {
    /// Reads the records of all slots of this shard.
    pub(super) fn load_own_slots(&mut self) {
        let (shards, own) = (self.settings.shards, self.settings.shard);
        for slot in (0..self.settings.slots).map(Slot).filter(|slot| slot.shard(shards) == own) {
            self.load_slot(slot, None);
        }
    }

    /// A slot comes with its lane.
    pub(super) fn slot_assigned(&mut self, slot: Slot, lane: LaneNumber, name: LaneName, position: u64) {
        if self.slots.contains_key(&slot) {
            return;
        }
        self.intake.take_lane(lane, name, position, Some(slot));
        self.load_slot(slot, Some(lane));
        self.window.resize(self.slots.len());
    }

    fn load_slot(&mut self, slot: Slot, lane: Option<LaneNumber>) {
        self.slots.insert(slot, SlotState::new(slot, lane));
        self.ask(Asked::Slot(slot), Read::Slot(slot));
    }

    /// An answer of the store. One that failed is asked for again at the next tick.
    pub(super) fn loaded(&mut self, id: ReadId, answer: ReadAnswer, now: Time) {
        let Some((asked, read)) = self.asked.remove(&id) else { return };
        self.answering = id;
        match (asked, answer) {
            (asked, ReadAnswer::Failed) => {
                self.bucket_reads -= usize::from(matches!(asked, Asked::Ids(..)));
                self.read_done(&asked, id);
                self.failed_reads.push((asked, read));
            }
            (Asked::Slot(slot), ReadAnswer::Slot { record, overflow, destinations, first_due, claimed }) => {
                self.slot_record(slot, record, first_due);
                self.restore_destinations(destinations);
                self.restore_cursors(slot, overflow);
                self.look_for_flights(slot, claimed, now);
            }
            (Asked::Log(slot), ReadAnswer::Log { events, next }) => self.log_page(slot, events, next, now),
            (Asked::Queue(slot, tenant, riders), ReadAnswer::Queue { events, scanned_to }) => {
                self.refilled(tenant, &riders, events, scanned_to, now);
                self.read_done(&Asked::Queue(slot, tenant, riders), id);
            }
            (Asked::Cancel(slot, subscription), ReadAnswer::Queue { events, scanned_to }) => {
                self.cancel_page(slot, subscription, events, scanned_to, now);
                self.read_done(&Asked::Cancel(slot, subscription), id);
            }
            (Asked::Due(slot), ReadAnswer::Due { rows, more, first_after }) => {
                self.due_page(slot, rows, more, first_after, now);
                self.read_done(&Asked::Due(slot), id);
            }
            (Asked::Overdue(slot, subscriber), ReadAnswer::Queue { events, scanned_to }) => {
                self.overdue_page(slot, subscriber, events, scanned_to, now);
                self.read_done(&Asked::Overdue(slot, subscriber), id);
            }
            (Asked::Search(slot), ReadAnswer::Due { rows, more, .. }) => {
                self.searched(slot, rows, more, now);
                self.read_done(&Asked::Search(slot), id);
            }
            (Asked::Ids(slot, minute), ReadAnswer::Ids { entries, next }) => {
                self.bucket_page(slot, minute, &entries, next, now);
            }
            (Asked::Command(slot, command), ReadAnswer::Event(event)) => {
                self.command_read(command, event, now);
                self.read_done(&Asked::Command(slot, command), id);
            }
            (Asked::Claim(key, look, asked_at), ReadAnswer::Event(event)) => {
                self.claim_read(key, (look, asked_at), event, now);
                self.read_done(&Asked::Claim(key, look, asked_at), id);
            }
            (asked, _) => unreachable!("the store answers {asked:?} in kind"),
        }
    }

    /// Whether what the answer at hand says of a job may be outdated: the job has left memory meanwhile.
    pub(super) fn is_outdated(&mut self, key: &JobKey) -> bool {
        let read = self.answering;
        self.slot(key.slot).departed.is_outdated(key, read)
    }

    /// Forgets that a read which returns jobs is under way.
    fn read_done(&mut self, asked: &Asked, id: ReadId) {
        if let Some(slot) = asked.returns_jobs_of() {
            self.slot(slot).departed.read(id);
        }
    }

    fn slot_record(&mut self, slot: Slot, record: Option<SlotRecord>, first_due: Option<Time>) {
        let record =
            record.unwrap_or(SlotRecord { low_water: Sequence(1), flushed: Sequence(1), due_bound: Time::ZERO });
        let state = self.slot(slot);
        state.written = record;
        state.next = record.low_water;
        state.durable = Sequence(record.low_water.0.saturating_sub(1));
        state.taken = true;
        if let Some(lane) = state.lane {
            let settled = self.intake.position(lane).max(record.flushed.0.saturating_sub(1));
            let state = self.slot(slot);
            state.durable = state.durable.max(Sequence(settled));
            state.settled_before = state.durable;
            state.next = state.durable.next();
        }
        let state = self.slot(slot);
        state.tail = Tail::new(record.low_water);
        state.flushed = record.flushed;
        state.due.horizon = record.due_bound;
        state.due.first = first_due;
        let from = record.low_water.min(record.flushed);
        self.touch(slot);
        self.ask(Asked::Log(slot), Read::Log { slot, from, after: None });
    }

    fn restore_destinations(&mut self, stored: Vec<(TenantId, DestinationId, DestinationRecord)>) {
        for (tenant, id, record) in stored {
            let slot = Slot::of(&tenant, self.settings.slots);
            self.write_as_own(slot, Row::Destination { tenant, destination: id, record: Some(record) });
            let Some(handle) = self.target_of.get(&id).copied() else { continue };
            let target = &mut self.targets[handle];
            target.restore(&record);
            if let Some(at) = target.circuit.next_probe_at() {
                self.wake_target_at(handle, at);
            }
        }
    }

    fn restore_cursors(&mut self, slot: Slot, stored: Vec<(TenantId, SubscriptionId, Sequence)>) {
        for (tenant, subscription, cursor) in stored {
            self.write_as_own(slot, Row::Overflow { tenant: tenant.clone(), subscription, cursor: Some(cursor) });
            let tenant = self.tenant(&tenant);
            if let Some(handle) = self.subscriber_of.get(&subscription).copied() {
                self.begin_overflow(handle, cursor);
                self.subscribers[handle].cursor_written = Some(cursor);
            } else if self.tenants[tenant].deleted.contains(&subscription) {
                self.cancel_from(slot, tenant, subscription, cursor, None);
            } else {
                self.counters.jobs_orphaned += 1;
            }
        }
    }

    /// What a former owner wrote and this one goes on from: a late row of the former must not take its place.
    fn write_as_own(&mut self, slot: Slot, row: Row) {
        if self.is_on_lease() {
            self.slot(slot).pipeline.push(row);
            self.touch(slot);
        }
    }

    fn log_page(&mut self, slot: Slot, events: Vec<LoggedEvent>, next: Option<(TenantId, Sequence)>, now: Time) {
        for logged in events {
            self.replay(slot, logged, now);
        }
        match next {
            Some(after) => {
                let from = self.slot(slot).written.low_water.min(self.slot(slot).written.flushed);
                self.ask(Asked::Log(slot), Read::Log { slot, from, after: Some(after) });
            }
            None => {
                self.slot(slot).tail_read = true;
                self.loaded_so_far(slot, now);
            }
        }
    }

    /// The slot is loaded once its tail is read and all attempts that may be under way are known.
    pub(super) fn loaded_so_far(&mut self, slot: Slot, now: Time) {
        let state = self.slot(slot);
        if state.phase == SlotPhase::Loading && state.tail_read && state.claims_unread == 0 {
            self.slot_is_loaded(slot, now);
        }
    }

    /// Takes one event of the tail in: its id, its number, its open jobs.
    fn replay(&mut self, slot: Slot, logged: LoggedEvent, now: Time) {
        let sequence = logged.event.sequence;
        let tenant = self.tenant(&logged.event.tenant.clone());
        let minute = bucket_minute(logged.event.id);
        let key = dedup_key(self.tenants[tenant].mask, logged.event.id);
        let (flushed, low_water) = (self.slot(slot).written.flushed, self.slot(slot).written.low_water);
        if sequence >= flushed {
            self.dedup.insert(slot, minute, key, sequence);
        }
        let state = self.slot(slot);
        state.next = state.next.max(sequence.next());
        if state.lane.is_none() {
            state.durable = state.durable.max(sequence);
        } else if sequence > state.settled_before {
            state.ahead.insert(sequence, logged.jobs);
            return;
        }
        if sequence >= low_water {
            let (mut event, jobs) = Logged::open(logged);
            self.place_all(&mut event, &jobs, now);
        }
    }

    fn place_all(&mut self, event: &mut Logged, jobs: &[JobRecord], now: Time) {
        for record in jobs {
            self.place(event, record, Cover::Tail, now);
        }
    }

    /// The lane brings an event again that was found in the log: its jobs take their places.
    pub(super) fn read_again(&mut self, event: Event, jobs: &[JobRecord], now: Time) {
        let slot = Slot::of(&event.tenant, self.settings.slots);
        self.place_all(&mut Logged { event: Rc::new(event), payload_expired: false, held: None }, jobs, now);
        if self.slot(slot).ahead.is_empty() {
            self.list_slot(slot);
        }
    }

    fn slot_is_loaded(&mut self, slot: Slot, now: Time) {
        let state = self.slot(slot);
        state.phase = SlotPhase::Active;
        let last = Sequence(state.next.0 - 1);
        let overflown: Vec<Handle<Subscriber>> = self
            .subscribers
            .iter()
            .filter(|(_, subscriber)| subscriber.overflow.is_some() && self.tenants[subscriber.tenant].slot == slot)
            .map(|(handle, _)| handle)
            .collect();
        for handle in overflown {
            if let Some(overflow) = &mut self.subscribers[handle].overflow {
                overflow.last_spilled = overflow.last_spilled.max(last);
            }
            self.refill_if_low(handle);
        }
        self.list_slot(slot);
        self.cancel_next(slot);
        self.read_ahead(slot, now);
        self.outputs.push_back(Output::Notice(Notice::SlotLoaded(slot)));
        self.unpark(slot, now);
    }

    /// Puts an open job of the log where it belongs. One that is in memory already, or has just left it, is
    /// known better there; one whose subscription was deleted ends.
    pub(super) fn place(&mut self, event: &mut Logged, record: &JobRecord, cover: Cover, now: Time) {
        let key = record.key;
        if record.end.is_some() {
            self.note_flight_of_ended(event, record);
            return;
        }
        if self.job_of.contains_key(&key) || self.is_outdated(&key) {
            return;
        }
        let tenant = self.tenant(&event.event.tenant.clone());
        let Some(subscriber) = self.subscriber_of.get(&record.subscription).copied() else {
            if self.tenants[tenant].deleted.contains(&record.subscription) {
                self.write_end(&event.event.tenant, key, End::Cancelled, now);
            } else {
                self.leave_orphan(&event.event.tenant, key, now);
            }
            return;
        };
        if event.payload_expired {
            self.write_end(&event.event.tenant, key, End::DeadLettered(EndReason::Expired), now);
            return;
        }
        let class = self.class_of(record, subscriber);
        let under_way = record.open_claim.filter(|_| self.is_on_lease());
        if class == Class::First && cover == Cover::Tail && self.spills(subscriber, key.sequence) {
            if let Some(claim) = under_way {
                self.note_flight(key, &event.event, subscriber, claim);
            }
            self.spill(subscriber, key.sequence);
            return;
        }
        if matches!(cover, Cover::Due(_)) && class == Class::Retry && self.is_crowded(tenant) {
            if let Some(claim) = under_way {
                self.note_flight(key, &event.event, subscriber, claim);
            }
            self.defer_again(&event.event.tenant, key, now);
            return;
        }
        let held = match event.held {
            Some(held) if self.held.get(held).is_some() => held,
            Some(_) | None => self.hold(Rc::clone(&event.event), tenant),
        };
        event.held = Some(held);
        let job = self.logged_job(record, subscriber, held, now);
        let job = Job { class, cover, ..job };
        let handle = self.add_job(job);
        match (under_way, record.open_claim) {
            (Some(claim), _) => self.await_outcome(handle, claim, now),
            (None, Some(claim)) => {
                if self.reclaim(handle, claim, now) {
                    self.let_wait(handle, now);
                }
            }
            (None, None) => {
                self.end_flight(key, now);
                self.let_wait(handle, now);
            }
        }
    }

    /// A late outcome of a former owner may have ended a job of which the next one's attempt is under way.
    fn note_flight_of_ended(&mut self, event: &Logged, record: &JobRecord) {
        let claim = record.open_claim.filter(|_| self.is_on_lease());
        let subscriber = self.subscriber_of.get(&record.subscription).copied();
        if let (Some(claim), Some(subscriber)) = (claim, subscriber) {
            self.note_flight(record.key, &event.event, subscriber, claim);
        }
    }

    /// Its tenant has no room for a job whose time has come: it comes again within minutes.
    fn defer_again(&mut self, tenant: &TenantId, key: JobKey, now: Time) {
        self.counters.jobs_spilled += 1;
        let pause = Duration(self.rng.u64(ORPHAN_PAUSE.0..=ORPHAN_PAUSE.0 * 10));
        self.write_due_row(tenant, key, now + pause);
        self.depart(key);
    }

    /// Lets a job that came from the log wait: for its turn, or for its time. One past its time ends at once.
    pub(super) fn let_wait(&mut self, handle: Handle<Job>, now: Time) {
        if let Some(reason) = self.past_its_time(handle, now) {
            self.end_job(handle, End::DeadLettered(reason), now);
            return;
        }
        let (at, class) = (self.jobs[handle].next_at, self.jobs[handle].class);
        if class == Class::First || at <= now {
            self.enqueue(handle);
        } else {
            self.sleep_or_leave(handle, at, now);
        }
    }

    /// A claim without an outcome: the process died during the attempt, or just before it. Says whether the job goes on.
    pub(super) fn reclaim(&mut self, handle: Handle<Job>, claim: ClaimRecord, now: Time) -> bool {
        let threshold = self.settings.poison_threshold;
        let destination = self.destination_of(self.jobs[handle].subscriber);
        let job = &mut self.jobs[handle];
        job.attempts += 1;
        job.reclaims += 1;
        job.next_at = now;
        job.last_error_kind = Some(ErrorKind::Interrupted);
        let poison = job.reclaims > threshold && claim.alone;
        let end = poison.then_some(End::DeadLettered(EndReason::Poison));
        let record = AttemptRecord {
            number: job.attempts,
            claim,
            destination: destination.id,
            url: destination.url.as_str().into(),
            outcome: AttemptOutcome {
                ended_at: now,
                error_kind: Some(ErrorKind::Interrupted),
                error: Some("the hub stopped before an outcome was known".into()),
                ..AttemptOutcome::default()
            },
            counted: false,
            reclaim: true,
            next_at: if poison { None } else { Some(now) },
        };
        let (key, tenant) = (job.key, job.tenant);
        let tenant = self.tenants[tenant].id.clone();
        self.counters.reclaims += 1;
        self.slot(key.slot).pipeline.push(Row::Attempt { tenant, key, record: Box::new(record), end });
        self.touch(key.slot);
        if let Some(end) = end {
            self.finish(handle, end, now);
        }
        end.is_none()
    }

    /// Ends a job that is not in memory.
    pub(super) fn write_end(&mut self, tenant: &TenantId, key: JobKey, end: End, now: Time) {
        self.count_end(end);
        self.slot(key.slot).pipeline.push(Row::End { tenant: tenant.clone(), key, end, at: now });
        self.depart(key);
        self.touch(key.slot);
    }

    /// Looks at a job again later: neither its subscription nor a deletion of it is known.
    fn leave_orphan(&mut self, tenant: &TenantId, key: JobKey, now: Time) {
        self.counters.jobs_orphaned += 1;
        self.write_due_row(tenant, key, now + ORPHAN_PAUSE);
        self.depart(key);
        self.touch(key.slot);
    }
}

impl Asked {
    /// The slot whose jobs the answer will hold, if it will hold any that may be in memory too.
    pub(super) const fn returns_jobs_of(&self) -> Option<Slot> {
        match self {
            Self::Queue(slot, ..)
            | Self::Cancel(slot, _)
            | Self::Due(slot)
            | Self::Search(slot)
            | Self::Overdue(slot, _)
            | Self::Command(slot, _)
            | Self::Claim(JobKey { slot, .. }, ..) => Some(*slot),
            Self::Slot(_) | Self::Log(_) | Self::Ids(..) => None,
        }
    }
}
