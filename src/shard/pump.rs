//! The loop of one shard: takes in what has come, lets the engine decide, carries out what it wants, sleeps.

use futures_lite::future::or;

use super::disabled::DisabledOutbox;
use super::handle::{Disabled, Message};
use super::lanes::LaneReaders;
use super::outbox::Outbox;
use super::replies::Replies;
use super::watch::Pulse;
use crate::deliver::Client;
use crate::engine::{
    Arrival, CommandId, CommandResult, Dispatch, Input, JobToken, Notice, Output, Settled, SettledItem, Shard, Ticket,
};
use crate::runtime::channel::{Receiver, Sender};
use crate::runtime::{Clock, sleep, task};
use crate::source::kafka::KafkaEvent;
use crate::store::{Embedded, StoreEvent};
use crate::types::{AttemptOutcome, ErrorKind, ShardId, Time};

/// Inputs of one kind taken in per turn, so that no kind starves another.
const TURN: usize = 256;
/// The longest sleep: a sign of life is due now and then.
const NAP: crate::types::Duration = crate::types::Duration::from_secs(1);

/// What the loop is wired to.
pub struct Wiring {
    /// Which shard.
    pub shard: ShardId,
    /// Time.
    pub clock: Clock,
    /// Where rows go.
    pub store: Embedded,
    /// The way out.
    pub client: Client,
    /// What others tell this shard.
    pub inbox: Receiver<Message>,
    /// What this shard tells others.
    pub outbox: Outbox,
    /// Lanes that come and go.
    pub kafka: Receiver<KafkaEvent>,
    /// Where disabled subscriptions are written down.
    pub disabled: Sender<Disabled>,
    /// Sign of life.
    pub pulse: Pulse,
}

/// One shard's loop with its state.
pub struct Pump {
    engine: Shard,
    wiring: Wiring,
    store_events: Receiver<StoreEvent>,
    lanes: LaneReaders,
    finished: (Sender<Finished>, Receiver<Finished>),
    /// Attempts under way, to be cut when a shutdown's grace ends.
    under_way: std::collections::BTreeSet<JobToken>,
    disabled: DisabledOutbox,
    requests: Replies<Vec<SettledItem>>,
    commands: Replies<CommandResult>,
    draining: bool,
    /// The shutdown's grace is over.
    cut: bool,
}

struct Finished {
    token: JobToken,
    outcome: AttemptOutcome,
}

/// What ended a sleep.
enum Woken {
    Message(Message),
    Store(StoreEvent),
    Finished(Finished),
    Kafka(KafkaEvent),
    Time,
    /// Nobody can tell this shard anything any more.
    Orphaned,
}

impl Pump {
    /// A loop around an engine that has been told all stored configuration.
    #[must_use]
    pub fn new(engine: Shard, wiring: Wiring) -> Self {
        let store_events = wiring.store.events(wiring.shard);
        Self {
            engine,
            store_events,
            lanes: LaneReaders::default(),
            finished: flume::unbounded(),
            under_way: std::collections::BTreeSet::new(),
            disabled: DisabledOutbox::new(wiring.disabled.clone()),
            requests: Replies::default(),
            commands: Replies::default(),
            draining: false,
            cut: false,
            wiring,
        }
    }

    /// Runs until a drain is complete.
    pub async fn run(mut self) {
        self.carry_out();
        loop {
            let now = self.wiring.clock.now();
            self.wiring.pulse.beat(now);
            let worked = self.turn(now);
            let told = self.disabled.flush() || self.cut;
            if self.draining && self.engine.is_idle() && told {
                return;
            }
            if worked {
                task::yield_now().await;
                continue;
            }
            match self.sleep(now).await {
                Woken::Message(message) => self.take_message(message),
                Woken::Store(event) => self.take_store_event(event),
                Woken::Finished(finished) => self.take_finished(finished),
                Woken::Kafka(event) => self.take_kafka(event),
                Woken::Time => {}
                Woken::Orphaned => return,
            }
            self.carry_out();
        }
    }

    /// Takes in what has come, a bounded number of each kind. Says whether there was anything.
    fn turn(&mut self, now: Time) -> bool {
        let mut worked = false;
        for _ in 0..TURN {
            let Ok(event) = self.store_events.try_recv() else { break };
            self.take_store_event(event);
            worked = true;
        }
        let mut ended = 0;
        while ended < TURN
            && let Ok(finished) = self.finished.1.try_recv()
        {
            self.take_finished(finished);
            ended += 1;
        }
        worked |= ended > 0;
        for _ in 0..TURN {
            let Ok(message) = self.wiring.inbox.try_recv() else { break };
            self.take_message(message);
            worked = true;
        }
        if self.engine.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.engine.handle_timeout(now);
            worked = true;
        }
        for _ in 0..TURN {
            let Ok(event) = self.wiring.kafka.try_recv() else { break };
            self.take_kafka(event);
            worked = true;
        }
        if self.wiring.outbox.flush() && !self.draining && self.wiring.store.intake_allowed() {
            worked |= self.lanes.poll(&mut self.engine, ended, now);
        }
        self.carry_out();
        worked
    }

    fn take_kafka(&mut self, event: KafkaEvent) {
        let now = self.wiring.clock.now();
        self.lanes.take(event, &mut self.engine, now);
    }

    async fn sleep(&self, now: Time) -> Woken {
        let until = self.engine.poll_timeout().map_or(NAP, |(at, _)| at.since(now).min(NAP));
        let message = async { self.wiring.inbox.recv_async().await.map_or(Woken::Orphaned, Woken::Message) };
        let store = async { self.store_events.recv_async().await.map_or(Woken::Orphaned, Woken::Store) };
        let finished = async { self.finished.1.recv_async().await.map_or(Woken::Orphaned, Woken::Finished) };
        let kafka = async { self.wiring.kafka.recv_async().await.map_or(Woken::Orphaned, Woken::Kafka) };
        let lane = async {
            self.lanes.woken().await;
            Woken::Time
        };
        let time = async {
            sleep(until.to_std()).await;
            Woken::Time
        };
        or(or(store, finished), or(or(message, time), or(kafka, lane))).await
    }

    fn handle(&mut self, input: Input) {
        let now = self.wiring.clock.now();
        self.wiring.pulse.beat(now);
        self.engine.handle(input, now);
    }

    fn take_store_event(&mut self, event: StoreEvent) {
        match event {
            StoreEvent::Committed(batches) => {
                batches.into_iter().for_each(|(unit, number)| self.handle(Input::Committed(unit, number)));
            }
            StoreEvent::Refused(batches, refusal) => {
                let refused = |(unit, number)| Input::Refused(unit, number, refusal);
                batches.into_iter().for_each(|batch| self.handle(refused(batch)));
            }
            StoreEvent::Loaded(read, answer) => self.handle(Input::Loaded(read, *answer)),
        }
    }

    fn take_finished(&mut self, finished: Finished) {
        if self.under_way.remove(&finished.token) {
            self.handle(Input::AttemptEnded { token: finished.token, outcome: finished.outcome });
        }
    }

    fn take_message(&mut self, message: Message) {
        match message {
            Message::Arrive(events, reply) => {
                let ticket = Ticket::Request(self.requests.owe(reply));
                self.handle(Input::Arrival(Arrival { events, ticket }));
            }
            Message::Configure(change, reply) => {
                self.handle(Input::Config(change));
                // Whoever has stopped waiting is not missed.
                let _ = reply.try_send(());
            }
            Message::Command(command, reply) => {
                let id = CommandId(self.commands.owe(reply));
                self.handle(Input::Command(id, command));
            }
            Message::Report(reply) => {
                let mut report = self.engine.report();
                self.lanes.dropped().for_each(|(reason, number)| report.counters.events_dropped.add(reason, number));
                let _ = reply.try_send(report);
            }
            Message::Circuit(tenant, destination, reply) => {
                let _ = reply.try_send(self.engine.circuit(&tenant, destination));
            }
            Message::Standings(jobs, reply) => {
                let _ = reply.try_send(self.engine.standings(&jobs, self.wiring.clock.now()));
            }
            Message::SequenceOf(tenant, id, reply) => {
                let _ = reply.try_send(self.engine.sequence_of(&tenant, id));
            }
            Message::Handover(arrival) => self.handle(Input::Arrival(arrival)),
            Message::Settled(ticket) => self.handle(Input::Settled(ticket)),
            Message::Drain => {
                self.draining = true;
                self.handle(Input::Drain);
            }
            Message::Interrupt => self.interrupt(),
        }
    }

    /// Cuts every attempt under way: the grace of a shutdown is over.
    fn interrupt(&mut self) {
        self.cut = true;
        for token in std::mem::take(&mut self.under_way) {
            let outcome = AttemptOutcome {
                ended_at: self.wiring.clock.now(),
                error_kind: Some(ErrorKind::Interrupted),
                error: Some("cut by the end of the shutdown's grace".into()),
                ..AttemptOutcome::default()
            };
            self.handle(Input::AttemptEnded { token, outcome });
        }
    }

    /// Does what the engine wants. All batches of a turn go to the store as one.
    fn carry_out(&mut self) {
        let mut batches = Vec::new();
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Commit(batch) => batches.push(batch),
                Output::Read(id, read) => self.wiring.store.read(self.wiring.shard, id, read),
                Output::Dispatch(dispatch) => self.dispatch(dispatch),
                Output::Settled(settled) => self.settled(settled),
                Output::Handover(shard, arrival) => self.wiring.outbox.send(shard, Message::Handover(arrival)),
                Output::LanePosition { lane, position } => self.lanes.advance(lane, position),
                Output::PauseLane(lane) => self.lanes.pause(lane, true),
                Output::ResumeLane(lane) => self.lanes.pause(lane, false),
                Output::Disable { tenant, subscriptions, reason } => {
                    tracing::warn!(%tenant, count = subscriptions.len(), reason = reason.as_str(), "subscriptions disabled");
                    self.disabled.send(Disabled { tenant, subscriptions, reason });
                }
                Output::CommandDone(id, result) => self.commands.answer(id.0, result),
                Output::Notice(notice) => log(&notice),
            }
        }
        if !batches.is_empty() {
            self.wiring.store.submit(self.wiring.shard, &batches);
        }
    }

    fn dispatch(&mut self, dispatch: Box<Dispatch>) {
        let (client, finished) = (self.wiring.client.clone(), self.finished.0.clone());
        self.under_way.insert(dispatch.token);
        task::spawn(async move {
            let outcome = client.attempt(&dispatch).await;
            // The loop is gone only when the process is ending.
            let _ = finished.send(Finished { token: dispatch.token, outcome });
        });
    }

    fn settled(&mut self, settled: Settled) {
        match settled.ticket {
            Ticket::Request(number) => self.requests.answer(number, settled.items),
            Ticket::Lane { shard, .. } => self.wiring.outbox.send(shard, Message::Settled(settled.ticket)),
        }
    }
}

/// Notices decide nothing: they are for who reads the log.
fn log(notice: &Notice) {
    match notice {
        Notice::Circuit { tenant, destination, open } => tracing::info!(%tenant, %destination, open, "circuit"),
        Notice::DeadLettered { tenant, key, reason } => {
            tracing::debug!(%tenant, sequence = key.sequence.0, reason = reason.as_str(), "dead-lettered");
        }
        Notice::MalformedSchedule(subscription) => {
            tracing::warn!(%subscription, "its stored retry schedule is malformed: the default is used");
        }
        Notice::SlotLoaded(slot) => tracing::debug!(slot = slot.0, "slot loaded"),
    }
}
