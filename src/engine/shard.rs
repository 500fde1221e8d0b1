//! The shard: its state, its inputs and outputs, its clockwork. What each input means stands in the files
//! beside this one, a concept each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use ahash::RandomState;

use super::arena::{Arena, Handle};
use super::bucket::BucketTurn;
use super::command::Errand;
use super::decide::DecisionLine;
use super::dedup::Dedup;
use super::foreign::Look;
use super::intake::Intake;
use super::job::{Class, HeldEvent, Job};
use super::rows::{Read, ReadId, Unit};
use super::settings::{ShardSettings, Tenure};
use super::slot::SlotState;
use super::subscriber::Subscriber;
use super::target::Target;
use super::tenant::Tenant;
use super::wheel::Wheel;
use super::window::Window;
use super::{CommandId, Input, Output};
use crate::types::counters::Counters;
use crate::types::{Destination, DestinationId, JobKey, Slot, SubscriptionId, TenantId, Time, limits};

/// Why the engine wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReason {
    /// A job's time comes.
    Job,
    /// A destination's circuit, hold or rate lets something out again.
    Destination,
    /// Filters are decided on, slice by slice.
    Decision,
    /// A refused batch is tried again, or one that has lingered is sent.
    Store,
    /// What is derived is to be written behind.
    WriteBehind,
}

/// What a read was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Slot(Slot),
    Log(Slot),
    Queue(Slot, Handle<Tenant>, Rc<[Handle<Subscriber>]>),
    Cancel(Slot, SubscriptionId),
    Due(Slot),
    Search(Slot),
    Overdue(Slot, Handle<Subscriber>),
    Ids(Slot, u64),
    Command(Slot, CommandId),
    Claim(JobKey, Look, Time),
}

/// One shard's brain. See the module's documentation for the contract.
pub struct Shard {
    pub(super) settings: ShardSettings,
    pub(super) rng: fastrand::Rng,
    pub(super) counters: Counters,
    pub(super) draining: bool,
    /// Until then events may be taken in and attempts begun.
    pub(super) lease_until: Time,

    pub(super) tenants: Arena<Tenant>,
    pub(super) targets: Arena<Target>,
    pub(super) subscribers: Arena<Subscriber>,
    pub(super) tenant_of: BTreeMap<TenantId, Handle<Tenant>>,
    pub(super) target_of: BTreeMap<DestinationId, Handle<Target>>,
    pub(super) subscriber_of: BTreeMap<SubscriptionId, Handle<Subscriber>>,

    pub(super) slots: BTreeMap<Slot, SlotState>,
    pub(super) dedup: Dedup,
    /// How often the dedup window had been used, minute by minute.
    pub(super) dedup_marks: VecDeque<(Time, u64)>,
    pub(super) intake: Intake,
    /// What is parked, in events and in bytes.
    pub(super) parked_events: usize,
    pub(super) parked_bytes: usize,
    /// Tenants whose first arrival waits for a bucket of ids.
    pub(super) bucket_waiters: BTreeMap<(Slot, u64), Vec<Handle<Tenant>>>,
    pub(super) bucket_reads: usize,
    pub(super) line: DecisionLine,
    /// Pages of buckets to be read once fewer reads are under way.
    pub(super) buckets_waiting: VecDeque<BucketTurn>,

    pub(super) jobs: Arena<Job>,
    pub(super) held: Arena<HeldEvent>,
    pub(super) held_bytes: usize,
    pub(super) job_of: std::collections::HashMap<JobKey, Handle<Job>, RandomState>,

    pub(super) wheel: Wheel<Handle<Job>>,
    pub(super) wakes: BTreeSet<(Time, Handle<Target>)>,
    /// Units whose next batch waits for its time.
    pub(super) waiting_units: BTreeSet<(Time, Unit)>,
    /// Units with rows that linger, and some that had.
    pub(super) lingering: BTreeSet<Unit>,
    pub(super) tick_at: Time,
    /// Where the sweep over jobs goes on, and those over tenants and subscriptions.
    pub(super) sweep_from: u32,
    pub(super) tenant_sweep_from: u32,
    pub(super) subscriber_sweep_from: u32,

    /// Tenants with something ready, by class.
    pub(super) ring: [VecDeque<Handle<Tenant>>; 2],
    pub(super) turn: Class,
    pub(super) in_flight: u32,
    pub(super) retries_in_flight: u32,
    pub(super) slow_in_flight: u32,
    pub(super) slow_waiting: VecDeque<Handle<Target>>,
    /// Attempts in order of start, to notice those that take long.
    pub(super) started: VecDeque<(Time, Handle<Job>)>,
    pub(super) suspects: VecDeque<Handle<Job>>,
    /// A suspect runs alone since then.
    pub(super) alone: bool,
    /// Since when the others have been held back for a suspect.
    pub(super) held_back_since: Option<Time>,
    /// The next suspect waits until then, so that the others get their share.
    pub(super) next_suspect_at: Time,

    /// Jobs with an attempt of a former owner, but those that are being read.
    pub(super) foreign: VecDeque<JobKey>,

    /// Reads under way: what for, and the read itself, should it have to be asked again.
    pub(super) asked: BTreeMap<ReadId, (Asked, Read)>,
    /// Reads that failed, to be asked again at the next tick.
    pub(super) failed_reads: Vec<(Asked, Read)>,
    pub(super) next_read: u64,
    /// The read whose answer is being dealt with.
    pub(super) answering: ReadId,
    pub(super) queue_reads: usize,
    pub(super) refill_waiting: VecDeque<Handle<Tenant>>,
    /// Retries whose event is being read.
    pub(super) commands: BTreeMap<CommandId, Errand>,
    /// Retries that wait for another one on the same event.
    pub(super) commands_waiting: VecDeque<Errand>,

    /// Whose batches may be on their way.
    pub(super) window: Window,
    /// Units with something to send.
    pub(super) dirty_units: BTreeSet<Unit>,
    pub(super) outputs: VecDeque<Output>,
}

impl Shard {
    /// A shard for the slots `s` with `s mod shards = shard`. As their sole owner it begins to load them all at once;
    /// on a lease it begins with none.
    ///
    /// # Panics
    /// When the settings contradict each other (`shard ≥ shards`, no slots, no attempts).
    #[must_use]
    pub fn new(settings: ShardSettings, now: Time) -> Self {
        assert!(settings.shard.0 < settings.shards, "a shard is one of the process's shards");
        assert!(settings.slots > 0 && settings.attempts_max > 0, "a shard has slots and attempts");
        let mut rng = fastrand::Rng::with_seed(settings.seed);
        let hash = RandomState::with_seeds(rng.u64(..), rng.u64(..), rng.u64(..), rng.u64(..));
        let dedup = Dedup::new(settings.bounds.dedup_bytes, rng.u64(..));
        let mut shard = Self {
            rng,
            counters: Counters::default(),
            draining: false,
            lease_until: if settings.tenure == Tenure::Sole { Time::MAX } else { Time::ZERO },
            tenants: Arena::default(),
            targets: Arena::default(),
            subscribers: Arena::default(),
            tenant_of: BTreeMap::new(),
            target_of: BTreeMap::new(),
            subscriber_of: BTreeMap::new(),
            slots: BTreeMap::new(),
            dedup,
            dedup_marks: VecDeque::new(),
            intake: Intake::new(),
            parked_events: 0,
            parked_bytes: 0,
            bucket_waiters: BTreeMap::new(),
            bucket_reads: 0,
            line: DecisionLine::default(),
            buckets_waiting: VecDeque::new(),
            jobs: Arena::default(),
            held: Arena::default(),
            held_bytes: 0,
            job_of: std::collections::HashMap::with_hasher(hash),
            wheel: Wheel::new(now),
            wakes: BTreeSet::new(),
            waiting_units: BTreeSet::new(),
            lingering: BTreeSet::new(),
            tick_at: now + limits::WRITE_BEHIND,
            sweep_from: 0,
            tenant_sweep_from: 0,
            subscriber_sweep_from: 0,
            ring: Default::default(),
            turn: Class::First,
            in_flight: 0,
            retries_in_flight: 0,
            slow_in_flight: 0,
            slow_waiting: VecDeque::new(),
            started: VecDeque::new(),
            suspects: VecDeque::new(),
            alone: false,
            held_back_since: None,
            next_suspect_at: now,
            foreign: VecDeque::new(),
            asked: BTreeMap::new(),
            failed_reads: Vec::new(),
            next_read: 0,
            answering: ReadId(0),
            queue_reads: 0,
            refill_waiting: VecDeque::new(),
            commands: BTreeMap::new(),
            commands_waiting: VecDeque::new(),
            window: Window::unbounded(),
            dirty_units: BTreeSet::new(),
            outputs: VecDeque::new(),
            settings,
        };
        if shard.settings.tenure == Tenure::Sole {
            shard.load_own_slots();
        }
        shard
    }

    /// Takes in what happened. `now` is never before an earlier `now`.
    pub fn handle(&mut self, input: Input, now: Time) {
        match input {
            Input::Config(_) | Input::Loaded(..) | Input::SlotAssigned { .. } if self.is_retired() => {}
            Input::Config(change) => self.configure(change, now),
            Input::LaneAssigned { lane, name, position } => self.intake.take_lane(lane, name, position, None),
            Input::SlotAssigned { slot, lane, name, position } => self.slot_assigned(slot, lane, name, position),
            Input::Lease(until) => self.lease(until, now),
            Input::LaneRevoked(lane) => self.lane_revoked(lane),
            Input::Record { lane, offset, record } => self.lane_record(lane, offset, record, now),
            Input::Arrival(arrival) => self.arrive(arrival, now),
            Input::Settled(ticket) => self.lane_settled(ticket),
            Input::Committed(unit, number) => self.committed(unit, number, now),
            Input::Refused(unit, number, refusal) => self.refused(unit, number, refusal, now),
            Input::Loaded(read, answer) => self.loaded(read, answer, now),
            Input::AttemptEnded { token, outcome } => self.attempt_ended(token, outcome, now),
            Input::Command(id, command) => self.command(id, command, now),
            Input::Drain => self.drain(now),
        }
        self.settle_down(now);
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.wake_units(now);
        if !self.is_retired() {
            self.wake_all(now);
        }
        self.settle_down(now);
    }

    fn wake_units(&mut self, now: Time) {
        while let Some((at, unit)) = self.waiting_units.first().copied()
            && at <= now
        {
            self.waiting_units.pop_first();
            self.dirty_units.insert(unit);
        }
    }

    fn wake_all(&mut self, now: Time) {
        while let Some(job) = self.wheel.pop_expired(now) {
            self.wake_job(job, now);
        }
        while let Some((at, target)) = self.wakes.first().copied()
            && at <= now
        {
            self.wakes.pop_first();
            self.wake_target(target, now);
        }
        self.decide_slice(now);
        if self.tick_at <= now {
            self.tick_at = now + limits::WRITE_BEHIND;
            self.write_behind(now);
            self.sweep(now);
        }
    }

    /// What is to be done next; `None` when all is said.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Shard::handle_timeout`] is to be called at the latest, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Time, TimeoutReason)> {
        let batch = self.waiting_units.first().map(|(at, _)| *at);
        let unit = batch.into_iter().chain(self.window.opens_at()).min().map(|at| (at, TimeoutReason::Store));
        if self.is_retired() {
            return unit;
        }
        let job = self.wheel.next_deadline().map(|at| (at, TimeoutReason::Job));
        let wake = self.wakes.first().map(|(at, _)| (*at, TimeoutReason::Destination));
        let slice = self.line.next_at().map(|at| (at, TimeoutReason::Decision));
        let tick = Some((self.tick_at, TimeoutReason::WriteBehind));
        [job, wake, unit, slice, tick].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Whether nothing is in flight, on its way or waiting to be written: after [`Input::Drain`], the moment to stop.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let quiet = self.slots.values().all(|slot| slot.pipeline.is_idle());
        self.in_flight == 0 && quiet && self.intake.is_idle() && self.outputs.is_empty()
    }

    /// Whether events may be taken in and attempts begun.
    pub(super) fn holds_lease(&self, now: Time) -> bool {
        now < self.lease_until && !self.is_retired()
    }

    /// Whether others may own its slots one day, and others did before.
    pub(super) fn is_on_lease(&self) -> bool {
        self.settings.tenure != Tenure::Sole
    }

    /// Whether its slots are others' by now. It decides nothing any more, and only writes down what becomes of the
    /// attempts that it has begun.
    pub(super) fn is_retired(&self) -> bool {
        self.draining && self.is_on_lease()
    }

    /// The lease holds longer.
    fn lease(&mut self, until: Time, now: Time) {
        self.lease_until = self.lease_until.max(until);
        for slot in self.own_slots() {
            self.unpark(slot, now);
        }
    }

    /// Asks the store.
    pub(super) fn ask(&mut self, asked: Asked, read: Read) {
        self.next_read += 1;
        let id = ReadId(self.next_read);
        if let Some(slot) = asked.returns_jobs_of() {
            self.slot(slot).departed.reading(id);
        }
        self.asked.insert(id, (asked, read.clone()));
        self.outputs.push_back(Output::Read(id, read));
    }

    /// Marks a slot's pipeline as having something to send.
    pub(super) fn touch(&mut self, slot: Slot) {
        self.dirty_units.insert(Unit::Slot(slot));
    }

    /// The slot's state; jobs and tenants only exist for slots of this shard.
    pub(super) fn slot(&mut self, slot: Slot) -> &mut SlotState {
        self.slots.get_mut(&slot).expect("a tenant's slot is one of this shard's")
    }

    /// The destination of a subscriber.
    pub(super) fn destination_of(&self, subscriber: Handle<Subscriber>) -> std::rc::Rc<Destination> {
        std::rc::Rc::clone(&self.targets[self.subscribers[subscriber].target].destination)
    }

    /// Starts what may start and sends what is ready, until neither leads to more.
    fn settle_down(&mut self, now: Time) {
        loop {
            self.pump(now);
            if !self.flush(now) {
                return;
            }
        }
    }

    fn drain(&mut self, now: Time) {
        self.draining = true;
        self.refuse_parked_requests();
        self.withdraw_suspects();
        if !self.is_retired() {
            self.write_behind(now);
        }
    }
}
