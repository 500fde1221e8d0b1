//! A stage for single promises: one engine, a store that answers at once unless told to wait, receivers played by
//! the test, and a clock that the test moves. What the seeds find by chance is shown here on purpose.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use streaming_hub::engine::{
    Arrival, AutoDisable, Batch, Bounds, Command, CommandId, CommandResult, Dispatch, Input, JobQuestion, LaneNumber,
    LaneRecord, Output, Read, ReadId, Row, Settled, Shard, ShardSettings, Standing, Tenure, Ticket,
};
use streaming_hub::store::Memory;
use streaming_hub::store::codec::slot_record::Inbound;
use streaming_hub::store::memory::Pages;
use streaming_hub::types::destination::{
    Auth, CircuitSettings, Destination, Method, On410, Ordering, OrderingKey, Verification,
};
use streaming_hub::types::subscription::{Subscription, VerificationState};
use streaming_hub::types::{
    AttemptOutcome, ConfigChange, DestinationId, Duration, End, ErrorKind, Event, JobRecord, LaneName, RetryPolicy,
    ShardId, Slot, SubscriptionId, TenantId, Time, ids, limits,
};
use uuid::Uuid;

use crate::events::EventPlan;
use crate::scenario::START;

/// Outputs after one input at most: more is a loop.
const OUTPUTS_MAX: usize = 1_000_000;

/// Whether the store answers batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMood {
    Prompt,
    /// Batches lie with it until it is prompt again.
    Silent,
}

/// How the store answers reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMood {
    Prompt,
    /// Each waits until the test has it answered.
    OneByOne,
}

/// The stage.
pub struct Stage {
    pub settings: ShardSettings,
    pub shard: Shard,
    pub store: Memory,
    pub now: Time,
    pub mood: StoreMood,
    pub read_mood: ReadMood,
    /// Attempts, in order of start, those of earlier lives too.
    pub sent: Vec<Dispatch>,
    pub settled: Vec<Settled>,
    pub reads: Vec<Read>,
    reading: VecDeque<(ReadId, Read)>,
    changes: Vec<ConfigChange>,
    waiting: VecDeque<Batch>,
    numbered: u64,
    /// On a lease: what was written to the slot's topic, by offset.
    pub topic: BTreeMap<u64, Inbound>,
    /// Commands that are done.
    pub done: Vec<(CommandId, CommandResult)>,
    /// The number of the lane's assignment, and the position told last.
    lane: (u32, u64),
    /// The owner's epoch.
    epoch: u64,
}

/// A name for a tenant.
pub fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a plain name")
}

/// A destination with the defaults.
pub fn destination(owner: &str, number: u128) -> Destination {
    Destination {
        id: DestinationId(Uuid::from_u128(number)),
        tenant: tenant(owner),
        name: None,
        description: None,
        url: "http://receiver.test/".parse().expect("a plain URL"),
        method: Method::Post,
        headers: Vec::new(),
        on_410: On410::Disable,
        auth: Auth::None,
        secrets: Vec::new(),
        timeout_ms: 15_000,
        max_in_flight: 16,
        rate_limit: None,
        retry: RetryPolicy::default(),
        ordering: Ordering::Fifo,
        ordering_key: OrderingKey::Subscription,
        circuit: CircuitSettings::default(),
        verification: Verification::None,
        created_at: START,
        updated_at: START,
        version: 1,
    }
}

/// A live subscription of everything.
pub fn subscription(owner: &str, number: u128, to: u128) -> Subscription {
    Subscription {
        id: SubscriptionId(Uuid::from_u128(number)),
        tenant: tenant(owner),
        name: None,
        description: None,
        origin: None,
        source_id: None,
        event_types: Vec::new(),
        schema_major: None,
        filter_rules: Vec::new(),
        destination_id: DestinationId(Uuid::from_u128(to)),
        enabled: true,
        disabled_reason: None,
        disabled_at: None,
        verification_state: VerificationState::Active,
        retry: None,
        ordering: None,
        ordering_key: None,
        created_at: START,
        updated_at: START,
        version: 1,
    }
}

/// A receiver's answer.
pub fn status(status: u16) -> AttemptOutcome {
    let error_kind = (!(200..300).contains(&status)).then_some(ErrorKind::Status);
    AttemptOutcome { status: Some(status), error_kind, ..AttemptOutcome::default() }
}

impl Stage {
    pub fn new(bounds: Bounds) -> Self {
        Self::with_pages(bounds, Pages::default())
    }

    pub fn with_pages(bounds: Bounds, pages: Pages) -> Self {
        Self::with_tenure(bounds, pages, Tenure::Sole)
    }

    /// One slot, held on a lease that lasts.
    pub fn on_lease(sync_grace: Duration) -> Self {
        let mut stage = Self::with_tenure(Bounds::default(), Pages::default(), Tenure::Leased { sync_grace });
        stage.take_slot();
        stage.input(Input::Lease(Time::MAX));
        stage
    }

    fn with_tenure(bounds: Bounds, pages: Pages, tenure: Tenure) -> Self {
        let settings = ShardSettings {
            shard: ShardId(0),
            shards: 1,
            slots: 1,
            dedup_salt: [7; 16],
            seed: 1,
            attempts_max: 256,
            auto_disable: AutoDisable::default(),
            payload_retention: Duration::from_hours(168),
            poison_threshold: 5,
            tenure,
            bounds,
        };
        let mut stage = Self {
            shard: Shard::new(settings.clone(), START),
            settings,
            store: Memory::new(pages),
            now: START,
            mood: StoreMood::Prompt,
            read_mood: ReadMood::Prompt,
            reading: VecDeque::new(),
            sent: Vec::new(),
            settled: Vec::new(),
            reads: Vec::new(),
            changes: Vec::new(),
            waiting: VecDeque::new(),
            numbered: 0,
            topic: BTreeMap::new(),
            done: Vec::new(),
            lane: (0, 0),
            epoch: 0,
        };
        stage.settle();
        stage
    }

    /// A destination and a subscription of everything to it, of the same number.
    pub fn pipeline(&mut self, destination: Destination) {
        let (owner, number) = (destination.tenant.as_str().to_owned(), destination.id.0.as_u128());
        self.put_destination(destination);
        self.put_subscription(subscription(&owner, number, number));
    }

    pub fn put_destination(&mut self, destination: Destination) {
        self.configure(ConfigChange::PutDestination(Box::new(destination)));
    }

    pub fn put_subscription(&mut self, subscription: Subscription) {
        self.configure(ConfigChange::PutSubscription(Box::new(subscription)));
    }

    pub fn configure(&mut self, change: ConfigChange) {
        self.changes.push(change.clone());
        self.input(Input::Config(change));
    }

    /// One event of a tenant, its id made now.
    pub fn publish(&mut self, owner: &str) {
        let event = self.event(owner, self.now);
        self.arrive(vec![event]);
    }

    pub fn publish_many(&mut self, owner: &str, count: usize) {
        for _ in 0..count {
            self.pass(Duration::from_micros(20));
            self.publish(owner);
        }
    }

    /// An event of a tenant that carries `id_time`.
    pub fn event(&mut self, owner: &str, id_time: Time) -> Event {
        self.numbered += 1;
        let plan = EventPlan {
            tenant: tenant(owner),
            id: ids::uuid_v7(
                id_time,
                u128::from(self.numbered).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
            ),
            key: "loan.approved",
            schema_major: 1,
            origin: "loans",
            subject: None,
            source_id: None,
            n: Some(1),
            unstorable: false,
            lethal: false,
        };
        plan.event(self.now, LaneName("http/0".into()))
    }

    pub fn arrive(&mut self, events: Vec<Event>) {
        self.numbered += 1;
        self.input(Input::Arrival(Arrival { events, ticket: Ticket::Request(self.numbered) }));
    }

    /// An event is written to the slot's topic and read.
    pub fn record(&mut self, event: Event) {
        self.append(Inbound::Event(event));
    }

    /// A command is written to the slot's topic and read: its number.
    pub fn command(&mut self, command: Command) -> CommandId {
        CommandId(self.append(Inbound::Command { id: Uuid::nil(), command }))
    }

    fn append(&mut self, inbound: Inbound) -> u64 {
        let offset = self.topic.last_key_value().map_or(0, |(last, _)| last + 1);
        self.topic.insert(offset, inbound);
        self.read_topic(offset);
        offset
    }

    /// How far the slot's lane may be committed.
    pub fn position(&self) -> u64 {
        self.lane.1
    }

    /// The slot comes, with all configuration; its lane is read from the position that was told last.
    pub fn take_slot(&mut self) {
        let (lane, position) = self.lane;
        self.lane.0 = lane + 1;
        self.epoch = self.store.take(Slot(0));
        let name = LaneName::kafka("slots", 0);
        self.shard.handle(Input::SlotAssigned { slot: Slot(0), lane: LaneNumber(lane + 1), name, position }, self.now);
        for change in self.changes.clone() {
            self.shard.handle(Input::Config(change), self.now);
        }
        self.settle();
        self.read_topic(position);
    }

    fn read_topic(&mut self, from: u64) {
        for (offset, inbound) in self.topic.clone().split_off(&from) {
            let record = match inbound {
                Inbound::Event(event) => LaneRecord::Accept(Box::new(event)),
                Inbound::Command { command, .. } => LaneRecord::Command(CommandId(offset), Box::new(command)),
            };
            self.input(Input::Record { lane: LaneNumber(self.lane.0), offset, record });
        }
    }

    fn keep(&mut self, batch: &Batch) {
        match self.settings.tenure {
            Tenure::Sole => self.store.apply(batch),
            Tenure::Leased { .. } => self.store.apply_as(batch, self.epoch),
        }
    }

    /// The attempt that was the `number`th to start ends like this, and what became of it is written.
    pub fn answer(&mut self, number: usize, outcome: AttemptOutcome) {
        let outcome = AttemptOutcome { ended_at: self.now, ..outcome };
        self.input(Input::AttemptEnded { token: self.sent[number].token, outcome });
        self.pass(limits::OUTCOME_LINGER);
    }

    pub fn input(&mut self, input: Input) {
        self.shard.handle(input, self.now);
        self.settle();
    }

    /// Lets time pass, with everything that falls due on the way.
    pub fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some((at, _)) = self.shard.poll_timeout().filter(|(at, _)| *at <= until) {
            self.now = self.now.max(at);
            self.shard.handle_timeout(self.now);
            self.settle();
        }
        self.now = until;
    }

    /// The store answers what lies with it, in order.
    pub fn store_answers(&mut self) {
        self.mood = StoreMood::Prompt;
        while let Some(batch) = self.waiting.pop_front() {
            self.keep(&batch);
            self.input(Input::Committed(batch.unit, batch.number));
        }
    }

    /// What the owner has sent to the store, and nobody knows of: it may arrive after the next owner's.
    pub fn take_unanswered(&mut self) -> (u64, Vec<Batch>) {
        (self.epoch, self.waiting.drain(..).collect())
    }

    /// A former owner's batches arrive, all or some of their rows.
    pub fn arrive_late(&mut self, (epoch, batches): (u64, Vec<Batch>), kept: impl Fn(&Row) -> bool) {
        for batch in batches {
            let rows = batch.rows.iter().filter(|row| kept(row)).cloned().collect();
            self.store.apply_as(&Batch { rows: Rc::new(rows), ..batch }, epoch);
        }
    }

    /// The store answers the read that was asked first; `false` when none is under way.
    pub fn answer_read(&mut self) -> bool {
        let Some((id, read)) = self.reading.pop_front() else { return false };
        let answer = self.store.answer(&read);
        self.reads.push(read);
        self.input(Input::Loaded(id, answer));
        true
    }

    /// The process dies and starts anew: what the store has is all that is left.
    pub fn crash(&mut self) {
        self.waiting.clear();
        self.reading.clear();
        self.read_mood = ReadMood::Prompt;
        self.mood = StoreMood::Prompt;
        self.settings.seed += 1;
        self.shard = Shard::new(self.settings.clone(), self.now);
        for change in self.changes.clone() {
            self.shard.handle(Input::Config(change), self.now);
        }
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..OUTPUTS_MAX {
            let Some(output) = self.shard.poll_output() else { return };
            self.carry_out(output);
        }
        panic!("outputs without end");
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Commit(batch) if self.mood == StoreMood::Silent => self.waiting.push_back(batch),
            Output::Commit(batch) => {
                self.keep(&batch);
                self.shard.handle(Input::Committed(batch.unit, batch.number), self.now);
            }
            Output::Read(id, read) if self.read_mood == ReadMood::OneByOne => self.reading.push_back((id, read)),
            Output::Read(id, read) => {
                let answer = self.store.answer(&read);
                self.reads.push(read);
                self.shard.handle(Input::Loaded(id, answer), self.now);
            }
            Output::Dispatch(dispatch) => self.sent.push(*dispatch),
            Output::Settled(settled) => self.settled.push(settled),
            Output::CommandDone(id, result) => self.done.push((id, result)),
            Output::LanePosition { position, .. } => self.lane.1 = position,
            Output::Handover(..)
            | Output::PauseLane(_)
            | Output::ResumeLane(_)
            | Output::Disable { .. }
            | Output::Notice(_) => {}
        }
    }

    /// All jobs as stored, in order of event.
    pub fn jobs(&self) -> Vec<JobRecord> {
        let mut jobs: Vec<JobRecord> = self.store.jobs().map(|(_, job)| job).collect();
        jobs.sort_by_key(|job| job.key);
        jobs
    }

    /// How the jobs of a subscription ended, in order of event.
    pub fn ends(&self, subscription: u128) -> Vec<Option<End>> {
        let of = |job: &JobRecord| job.subscription.0.as_u128() == subscription;
        self.jobs().into_iter().filter(of).map(|job| job.end.map(|(end, _)| end)).collect()
    }

    /// How the shard says that the stored jobs stand.
    pub fn standings(&self) -> Vec<Standing> {
        let asked: Vec<JobQuestion> = self.jobs().iter().map(JobQuestion::from).collect();
        self.shard.standings(&asked, self.now)
    }
}
