//! One life of a shard's engine: the engine, its way into the store, and the attempts it has under way.
//!
//! Where slots are held for good, a shard has one life, as long as the process. Where they are held on a lease, losing
//! one ends the life: another begins for the slots that are left, and the former one is seen out ([`Life::see_out`]).

use std::collections::BTreeSet;

use futures_lite::future::or;

use crate::deliver::Client;
use crate::engine::{Batch, Dispatch, Input, JobToken, Notice, Output, Read, ReadId, Shard};
use crate::runtime::channel::{Receiver, Sender};
use crate::runtime::{Clock, sleep, task};
use crate::store::{Port, StoreEvent};
use crate::types::{AttemptOutcome, Duration, ErrorKind, Time};

/// The longest sleep of a life that is seen out.
const NAP: Duration = Duration::from_secs(1);

/// An attempt that has ended.
pub(super) struct Finished {
    pub(super) token: JobToken,
    outcome: AttemptOutcome,
}

/// An engine with its links.
pub(super) struct Life {
    pub(super) engine: Shard,
    port: Port,
    client: Client,
    clock: Clock,
    finished: (Sender<Finished>, Receiver<Finished>),
    /// Attempts under way, to be cut when a shutdown's grace ends.
    under_way: BTreeSet<JobToken>,
}

impl Life {
    /// Begins with an engine that has asked for nothing yet.
    pub(super) fn new(engine: Shard, port: Port, client: Client, clock: Clock) -> Self {
        Self { engine, port, client, clock, finished: flume::unbounded(), under_way: BTreeSet::new() }
    }

    /// Another life for the same shard; what is left is the former one.
    pub(super) fn succeeded_by(&mut self, engine: Shard, port: Port) -> Self {
        let next = Self::new(engine, port, self.client.clone(), self.clock);
        std::mem::replace(self, next)
    }

    /// What the store has to say.
    pub(super) const fn store_events(&self) -> &Receiver<StoreEvent> {
        self.port.events()
    }

    /// The attempts that have ended.
    pub(super) const fn finished(&self) -> &Receiver<Finished> {
        &self.finished.1
    }

    /// Gives the engine one input.
    pub(super) fn handle(&mut self, input: Input) {
        self.engine.handle(input, self.clock.now());
    }

    /// Tells the engine what the store has said.
    pub(super) fn take_store_event(&mut self, event: StoreEvent) {
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

    /// Tells the engine of an attempt's end, unless it was cut.
    pub(super) fn take_finished(&mut self, finished: Finished) {
        if self.under_way.remove(&finished.token) {
            self.handle(Input::AttemptEnded { token: finished.token, outcome: finished.outcome });
        }
    }

    /// Cuts every attempt under way: the grace of a shutdown is over.
    pub(super) fn interrupt(&mut self) {
        for token in std::mem::take(&mut self.under_way) {
            let outcome = AttemptOutcome {
                ended_at: self.clock.now(),
                error_kind: Some(ErrorKind::Interrupted),
                error: Some("cut by the end of the shutdown's grace".into()),
                ..AttemptOutcome::default()
            };
            self.handle(Input::AttemptEnded { token, outcome });
        }
    }

    /// Hands batches to the store.
    pub(super) fn submit(&self, batches: &[Batch]) {
        if !batches.is_empty() {
            self.port.submit(batches);
        }
    }

    /// Asks the store.
    pub(super) fn read(&self, id: ReadId, read: Read) {
        self.port.read(id, read);
    }

    /// Starts an attempt.
    pub(super) fn dispatch(&mut self, dispatch: Box<Dispatch>) {
        let (client, finished) = (self.client.clone(), self.finished.0.clone());
        self.under_way.insert(dispatch.token);
        task::spawn(async move {
            let outcome = client.attempt(&dispatch).await;
            // The loop is gone only when the process is ending.
            let _ = finished.send(Finished { token: dispatch.token, outcome });
        });
    }

    /// Lets the engine, which was drained, write down what becomes of its attempts; returns once nothing is left.
    /// `looked` is called after each step.
    pub(super) async fn see_out(mut self, mut looked: impl FnMut(&mut Self, Time)) {
        self.carry_out_last();
        while !self.engine.is_idle() {
            let now = self.clock.now();
            looked(&mut self, now);
            let until = self.engine.poll_timeout().map_or(NAP, |(at, _)| at.since(now).min(NAP));
            let store = async { self.store_events().recv_async().await.ok().map(Ok) };
            let attempt = async { self.finished().recv_async().await.ok().map(Err) };
            let time = async {
                sleep(until.to_std()).await;
                None
            };
            match or(or(store, attempt), time).await {
                Some(Ok(event)) => self.take_store_event(event),
                Some(Err(finished)) => self.take_finished(finished),
                None => self.engine.handle_timeout(self.clock.now()),
            }
            self.carry_out_last();
        }
        let now = self.clock.now();
        looked(&mut self, now);
    }

    /// A drained engine writes and reads; it begins nothing, and nobody waits for it.
    fn carry_out_last(&mut self) {
        let mut batches = Vec::new();
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Commit(batch) => batches.push(batch),
                Output::Read(id, read) => self.read(id, read),
                Output::Dispatch(dispatch) => self.dispatch(dispatch),
                Output::Notice(notice) => log(&notice),
                Output::Settled(_)
                | Output::Handover(..)
                | Output::LanePosition { .. }
                | Output::PauseLane(_)
                | Output::ResumeLane(_)
                | Output::Disable { .. }
                | Output::CommandDone(..) => {}
            }
        }
        self.submit(&batches);
    }
}

/// Notices decide nothing: they are for who reads the log.
pub(super) fn log(notice: &Notice) {
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
