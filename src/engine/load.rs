//! How a slot comes to life: its record, then the tail of its log, job by job.
//!
//! The tail begins at the lower of low-water (earlier jobs have rows of their own) and `flushed` (earlier ids
//! are written). Claims found open were cut by a crash, for the store's lock proves their owner dead: each is a
//! reclaim, written down.

use std::rc::Rc;

use super::arena::Handle;
use super::dedup::{bucket_minute, dedup_key};
use super::job::{Class, Cover, HeldEvent, Job};
use super::rows::{DestinationRecord, LoggedEvent, Read, ReadAnswer, ReadId, Row, SlotRecord};
use super::shard::{Asked, Shard};
use super::slot::{SlotPhase, SlotState, Tail};
use super::subscriber::Subscriber;
use super::{Notice, Output};
use crate::types::{
    AttemptOutcome, AttemptRecord, ClaimRecord, DestinationId, Duration, End, EndReason, ErrorKind, Event, JobKey,
    JobRecord, Sequence, Slot, SubscriptionId, TenantId, Time,
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
    pub(super) fn begin_loading(&mut self) {
        let (shards, own) = (self.settings.shards, self.settings.shard);
        for slot in (0..self.settings.slots).map(Slot).filter(|slot| slot.shard(shards) == own) {
            self.slots.insert(slot, SlotState::new(slot));
            self.ask(Asked::Slot(slot), Read::Slot(slot));
        }
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
            (Asked::Slot(slot), ReadAnswer::Slot { record, overflow, destinations, first_due }) => {
                self.slot_record(slot, record, first_due);
                self.restore_destinations(destinations);
                self.restore_cursors(slot, overflow);
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
        state.tail = Tail::new(record.low_water);
        state.flushed = record.flushed;
        state.due.horizon = record.due_bound;
        state.due.first = first_due;
        let from = record.low_water.min(record.flushed);
        self.ask(Asked::Log(slot), Read::Log { slot, from, after: None });
    }

    fn restore_destinations(&mut self, stored: Vec<(TenantId, DestinationId, DestinationRecord)>) {
        for (_, id, record) in stored {
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

    fn log_page(&mut self, slot: Slot, events: Vec<LoggedEvent>, next: Option<(TenantId, Sequence)>, now: Time) {
        for logged in events {
            self.replay(slot, logged, now);
        }
        match next {
            Some(after) => {
                let from = self.slot(slot).written.low_water.min(self.slot(slot).written.flushed);
                self.ask(Asked::Log(slot), Read::Log { slot, from, after: Some(after) });
            }
            None => self.slot_is_loaded(slot, now),
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
        state.durable = state.durable.max(sequence);
        if sequence < low_water {
            return;
        }
        let (mut event, jobs) = Logged::open(logged);
        for record in &jobs {
            self.place(&mut event, record, Cover::Tail, now);
        }
    }

    fn slot_is_loaded(&mut self, slot: Slot, now: Time) {
        let state = self.slot(slot);
        state.phase = SlotPhase::Active;
        let durable = state.durable;
        let overflown: Vec<Handle<Subscriber>> = self
            .subscribers
            .iter()
            .filter(|(_, subscriber)| subscriber.overflow.is_some() && self.tenants[subscriber.tenant].slot == slot)
            .map(|(handle, _)| handle)
            .collect();
        for handle in overflown {
            if let Some(overflow) = &mut self.subscribers[handle].overflow {
                overflow.last_spilled = overflow.last_spilled.max(durable);
            }
            self.refill_if_low(handle);
        }
        self.cancel_next(slot);
        self.read_ahead(slot, now);
        self.outputs.push_back(Output::Notice(Notice::SlotLoaded(slot)));
        self.unpark(slot, now);
    }

    /// Puts an open job of the log where it belongs. One that is in memory already, or has just left it, is
    /// known better there; one whose subscription was deleted ends.
    pub(super) fn place(&mut self, event: &mut Logged, record: &JobRecord, cover: Cover, now: Time) {
        let key = record.key;
        if record.end.is_some() || self.job_of.contains_key(&key) || self.is_outdated(&key) {
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
        if class == Class::First && cover == Cover::Tail && self.spills(subscriber, key.sequence) {
            self.spill(subscriber, key.sequence);
            return;
        }
        if matches!(cover, Cover::Due(_)) && class == Class::Retry && self.is_crowded(tenant) {
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
        match record.open_claim {
            Some(claim) => self.reclaim(handle, claim, now),
            None => self.let_wait(handle, now),
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

    /// A claim without an outcome: the process died during the attempt, or just before it.
    fn reclaim(&mut self, handle: Handle<Job>, claim: ClaimRecord, now: Time) {
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
        match end {
            Some(end) => self.finish(handle, end, now),
            None => self.let_wait(handle, now),
        }
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
            | Self::Command(slot, _) => Some(*slot),
            Self::Slot(_) | Self::Log(_) | Self::Ids(..) => None,
        }
    }
}
