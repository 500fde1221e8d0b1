//! The loop of one shard: takes in what has come, lets the engine decide, carries out what it wants, sleeps.

use futures_lite::future::or;

use super::disabled::DisabledOutbox;
use super::handle::{Disabled, Message};
use super::lanes::LaneReaders;
use super::leases::Leases;
use super::life::{Finished, Life, log};
use super::outbox::Outbox;
use super::replies::Replies;
use super::watch::Pulse;
use crate::engine::{Arrival, CommandId, CommandResult, Input, LaneNumber, Output, Settled, SettledItem, Ticket};
use crate::runtime::channel::{Receiver, Sender};
use crate::runtime::{Clock, sleep, task};
use crate::source::kafka::{AssignedLane, KafkaEvent};
use crate::store::{Store, StoreEvent};
use crate::types::{ConfigChange, Time};

/// Inputs of one kind taken in per turn, so that no kind starves another.
const TURN: usize = 256;
/// The longest sleep: a sign of life is due now and then.
const NAP: crate::types::Duration = crate::types::Duration::from_secs(1);

/// What the loop is wired to.
pub struct Wiring {
    /// Time.
    pub clock: Clock,
    /// Whether there is room to take in more; where the results of a cluster's commands go.
    pub store: Store,
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
    life: Life,
    /// Present where slots are held on a lease.
    leases: Option<Leases>,
    wiring: Wiring,
    lanes: LaneReaders,
    disabled: DisabledOutbox,
    requests: Replies<Vec<SettledItem>>,
    commands: Replies<CommandResult>,
    draining: bool,
    /// The shutdown's grace is over.
    cut: bool,
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
    /// A loop around an engine that has been told all stored configuration, and that keeps its slots.
    #[must_use]
    pub(super) fn new(life: Life, lanes: LaneReaders, wiring: Wiring) -> Self {
        Self {
            life,
            leases: None,
            lanes,
            disabled: DisabledOutbox::new(wiring.disabled.clone()),
            requests: Replies::default(),
            commands: Replies::default(),
            draining: false,
            cut: false,
            wiring,
        }
    }

    /// The same loop where slots come and go.
    pub(super) fn on_lease(mut self, leases: Leases) -> Self {
        self.leases = Some(leases);
        self
    }

    /// Runs until a drain is complete.
    pub async fn run(mut self) {
        self.carry_out();
        loop {
            let now = self.wiring.clock.now();
            self.wiring.pulse.beat(now);
            let worked = self.turn(now);
            let told = self.disabled.flush() || self.cut;
            if self.draining && told && self.has_ended() {
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

    fn has_ended(&self) -> bool {
        self.life.engine.is_idle() && self.leases.as_ref().is_none_or(Leases::all_have_ended)
    }

    /// Takes in what has come, a bounded number of each kind. Says whether there was anything.
    fn turn(&mut self, now: Time) -> bool {
        let mut worked = false;
        for _ in 0..TURN {
            let Ok(event) = self.life.store_events().try_recv() else { break };
            self.take_store_event(event);
            worked = true;
        }
        let mut ended = 0;
        while ended < TURN
            && let Ok(finished) = self.life.finished().try_recv()
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
        if self.life.engine.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.life.engine.handle_timeout(now);
            worked = true;
        }
        for _ in 0..TURN {
            let Ok(event) = self.wiring.kafka.try_recv() else { break };
            self.take_kafka(event);
            worked = true;
        }
        let is_open = self.leases.is_some() || self.wiring.outbox.is_open();
        if self.wiring.outbox.flush() && !self.draining && is_open && self.wiring.store.intake_allowed() {
            worked |= self.lanes.poll(&mut self.life.engine, ended, now);
        }
        self.carry_out();
        worked
    }

    async fn sleep(&self, now: Time) -> Woken {
        let until = self.life.engine.poll_timeout().map_or(NAP, |(at, _)| at.since(now).min(NAP));
        let message = async { self.wiring.inbox.recv_async().await.map_or(Woken::Orphaned, Woken::Message) };
        let store = async { self.life.store_events().recv_async().await.map_or(Woken::Orphaned, Woken::Store) };
        let finished = async { self.life.finished().recv_async().await.map_or(Woken::Orphaned, Woken::Finished) };
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
        self.wiring.pulse.beat(self.wiring.clock.now());
        self.life.handle(input);
    }

    fn take_store_event(&mut self, event: StoreEvent) {
        self.wiring.pulse.beat(self.wiring.clock.now());
        self.life.take_store_event(event);
    }

    fn take_finished(&mut self, finished: Finished) {
        self.life.take_finished(finished);
    }

    fn take_kafka(&mut self, event: KafkaEvent) {
        match event {
            KafkaEvent::Assigned(assigned) => self.assigned(assigned),
            KafkaEvent::Revoked { lane, acknowledge } => self.revoked(lane, acknowledge),
            KafkaEvent::Lease(until) => {
                if let Some(leases) = &mut self.leases {
                    leases.until = until;
                }
                self.handle(Input::Lease(until));
            }
        }
    }

    /// A lane comes; with a slot's comes what its tenants have configured.
    fn assigned(&mut self, assigned: AssignedLane) {
        let (lane, name, position) = (assigned.lane, assigned.name.clone(), assigned.position);
        match (&mut self.leases, assigned.slot) {
            (Some(leases), Some(slot)) => {
                leases.held.insert(slot);
                let (until, changes) = (leases.until, leases.book.of(slot).collect::<Vec<_>>());
                self.handle(Input::SlotAssigned { slot, lane, name, position });
                changes.into_iter().for_each(|change| self.handle(Input::Config(change)));
                self.handle(Input::Lease(until));
            }
            (None, _) | (Some(_), None) => self.handle(Input::LaneAssigned { lane, name, position }),
        }
        self.lanes.assigned(assigned);
    }

    /// A lane goes; with a slot's ends the engine's life.
    fn revoked(&mut self, lane: LaneNumber, acknowledge: Sender<LaneNumber>) {
        let now = self.wiring.clock.now();
        let Some(leases) = &mut self.leases else {
            self.lanes.revoked(lane, &mut self.life.engine, now);
            // Never full, as the consumer promises; without it nobody waits any more.
            let _ = acknowledge.try_send(lane);
            return;
        };
        if self.lanes.has(lane) {
            let (engine, port) = leases.engine(now);
            let mut former = self.life.succeeded_by(engine, port);
            former.handle(Input::Drain);
            leases.leave(former, self.lanes.take_all(), now);
        }
        leases.give_back(lane, acknowledge);
    }

    fn take_message(&mut self, message: Message) {
        match message {
            Message::Arrive(events, reply) => {
                let ticket = Ticket::Request(self.requests.owe(reply));
                self.handle(Input::Arrival(Arrival { events, ticket }));
            }
            Message::Configure(change, reply) => {
                self.configure(change);
                // Whoever has stopped waiting is not missed.
                let _ = reply.try_send(());
            }
            Message::Command(command, reply) => {
                let id = CommandId(self.commands.owe(reply));
                self.handle(Input::Command(id, command));
            }
            Message::Report(reply) => {
                let mut report = self.life.engine.report();
                self.lanes.dropped().for_each(|(reason, number)| report.counters.events_dropped.add(reason, number));
                if let Some(leases) = &self.leases {
                    leases.count(&mut report.counters);
                }
                let _ = reply.try_send(report);
            }
            Message::Circuit(tenant, destination, reply) => {
                let _ = reply.try_send(self.life.engine.circuit(&tenant, destination));
            }
            Message::Standings(jobs, reply) => {
                let _ = reply.try_send(self.life.engine.standings(&jobs, self.wiring.clock.now()));
            }
            Message::SequenceOf(tenant, id, reply) => {
                let _ = reply.try_send(self.life.engine.sequence_of(&tenant, id));
            }
            Message::Handover(arrival) => self.handle(Input::Arrival(arrival)),
            Message::Settled(ticket) => self.handle(Input::Settled(ticket)),
            Message::Drain => {
                self.draining = true;
                self.handle(Input::Drain);
            }
            Message::Interrupt => {
                self.cut = true;
                self.life.interrupt();
                if let Some(leases) = &self.leases {
                    leases.cut();
                }
            }
        }
    }

    /// A change is for the engine, unless its slot is another node's; then it is only noted.
    fn configure(&mut self, change: ConfigChange) {
        if let Some(leases) = &mut self.leases {
            leases.book.note(change.clone());
            if !leases.holds(change.tenant()) {
                return;
            }
        }
        self.handle(Input::Config(change));
    }

    /// Does what the engine wants. All batches of a turn go to the store as one.
    fn carry_out(&mut self) {
        let mut batches = Vec::new();
        while let Some(output) = self.life.engine.poll_output() {
            match output {
                Output::Commit(batch) => batches.push(batch),
                Output::Read(id, read) => self.life.read(id, read),
                Output::Dispatch(dispatch) => self.life.dispatch(dispatch),
                Output::Settled(settled) => self.settled(settled),
                Output::Handover(shard, arrival) => self.wiring.outbox.hand_over(shard, arrival),
                Output::LanePosition { lane, position } => self.lanes.advance(lane, position),
                Output::PauseLane(lane) => self.lanes.pause(lane, true),
                Output::ResumeLane(lane) => self.lanes.pause(lane, false),
                Output::Disable { tenant, subscriptions, reason } => {
                    tracing::warn!(%tenant, count = subscriptions.len(), reason = reason.as_str(), "subscriptions disabled");
                    self.disabled.send(Disabled { tenant, subscriptions, reason });
                }
                Output::CommandDone(id, result) => self.command_done(id, result),
                Output::Notice(notice) => log(&notice),
            }
        }
        self.life.submit(&batches);
    }

    fn settled(&mut self, settled: Settled) {
        match settled.ticket {
            Ticket::Request(number) => self.requests.answer(number, settled.items),
            Ticket::Lane { shard, .. } => self.wiring.outbox.settled(shard, Message::Settled(settled.ticket)),
        }
    }

    /// A command that came by a lane is answered in the store, where the node that asked looks for it.
    fn command_done(&mut self, id: CommandId, result: CommandResult) {
        match self.lanes.command_done(id) {
            Some(asked) => {
                let store = self.wiring.store.clone();
                task::spawn(async move { store.put_command_result(asked, result).await });
            }
            None => self.commands.answer(id.0, result),
        }
    }
}
