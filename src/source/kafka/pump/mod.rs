//! The consumer's loop: rebalances, start positions, commits. It never sees a record.

mod commits;
mod rebalance;

use std::collections::VecDeque;

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::client::{self, Client};
use super::consumer::Links;
use super::context::{Happening, Partition};
use super::lanes::{Lane, Lanes};
use super::ownership::{self, GroupTaken, Identity};
use super::refusal::{Refusals, is_refusal};
use super::{KafkaAlarm, KafkaSettings, LaneBoard, native};
use crate::engine::LaneNumber;
use crate::types::{Time, limits};

/// Partitions the group has given, not yet begun.
#[derive(Debug)]
struct Pending {
    partitions: Vec<Partition>,
    due: Time,
}

/// What the handle has given to the loop.
pub(super) struct Handles {
    pub(super) client: Client,
    pub(super) stopped: flume::Receiver<()>,
    pub(super) taken: flume::Sender<GroupTaken>,
    pub(super) board: LaneBoard,
}

/// The consumer's loop and all it knows.
pub(super) struct Pump {
    // Configuration.
    settings: KafkaSettings,
    identity: Identity,
    pattern: String,
    // Links.
    links: Links,
    client: Client,
    stopped: flume::Receiver<()>,
    taken: flume::Sender<GroupTaken>,
    reports: flume::Sender<LaneNumber>,
    out_of_range: flume::Receiver<LaneNumber>,
    board: LaneBoard,
    // State.
    lanes: Lanes,
    happenings: VecDeque<Happening>,
    pending: Option<Pending>,
    refusals: Refusals,
    commit_due: Time,
    /// Since when a commit has been on its way.
    commit_sent: Option<Time>,
    /// When the commits that are not answered were sent, the oldest first.
    unanswered: VecDeque<Time>,
    has_committed: ownership::Committed,
    is_stopping: bool,
    is_broken: bool,
}

impl Pump {
    pub(super) fn new(
        settings: KafkaSettings,
        identity: Identity,
        links: Links,
        pattern: String,
        handles: Handles,
    ) -> Self {
        let Handles { client, stopped, taken, board } = handles;
        let (reports, out_of_range) = flume::bounded(limits::KAFKA_REPORTS_MAX);
        Self {
            settings,
            identity,
            pattern,
            links,
            client,
            stopped,
            taken,
            reports,
            out_of_range,
            board,
            lanes: Lanes::default(),
            happenings: VecDeque::new(),
            pending: None,
            refusals: Refusals::default(),
            commit_due: Time::ZERO,
            commit_sent: None,
            unanswered: VecDeque::new(),
            has_committed: ownership::Committed::NotYet,
            is_stopping: false,
            is_broken: false,
        }
    }

    /// Runs until it is told to stop or its handle is gone.
    pub(super) fn run(mut self) {
        while !self.is_stopping {
            self.turn();
            if self.is_broken {
                self.rebuild();
            }
            self.is_stopping |= !matches!(self.stopped.try_recv(), Err(flume::TryRecvError::Empty));
        }
        self.release(&self.lanes.numbers());
        if !client::close(self.client, limits::KAFKA_CLOSE_TIMEOUT) {
            tracing::warn!("the kafka client did not close in time");
        }
    }

    fn turn(&mut self) {
        self.poll();
        while let Some(happening) = self.happenings.pop_front() {
            match happening {
                Happening::Assign(partitions) => self.assigned(partitions),
                Happening::Revoke(partitions) => self.revoke(&partitions),
                Happening::Committed(outcomes) => self.committed(&outcomes),
                Happening::Failed(code, error) => self.failed(code, error),
            }
        }
        if self.out_of_range.try_iter().any(|lane| self.lanes.contains(lane)) {
            self.begin_again();
        }
        self.begin_pending();
        let now = (self.links.clock)();
        if now >= self.commit_due {
            self.commit_due = now + limits::KAFKA_COMMIT_INTERVAL;
            self.commit(now);
            self.note_ends();
            self.board.look(now);
        }
    }

    /// Serves the client and takes up what happened.
    fn poll(&mut self) {
        let polled = self.client.poll(limits::KAFKA_TURN.to_std()).map(|polled| polled.map(drop));
        match polled {
            None => {}
            // Every partition has a queue of its own before it is assigned. Should one come here nevertheless, its
            // reader would miss it: all begin again from what is durable.
            Some(Ok(())) => self.begin_again(),
            Some(Err(error)) => self.client_error(&error),
        }
        self.happenings.extend(self.client.context().take());
    }

    fn client_error(&mut self, error: &KafkaError) {
        let fatal = self.client.client().fatal_error();
        if let Some((code, reason)) = fatal {
            self.is_broken = true;
            self.alarm(KafkaAlarm::Rebuilding { error: format!("{code:?}: {reason}") });
        } else if error.rdkafka_error_code() == Some(RDKafkaErrorCode::UnknownTopicOrPartition) {
            // Nothing is wrong: no topic of the pattern exists yet. One that comes is found.
            tracing::debug!(%error, pattern = self.pattern, "kafka has no such topic");
        } else if error.rdkafka_error_code().is_some_and(is_refusal) {
            // It has come as a happening too, with the brokers' own words.
        } else {
            self.alarm(KafkaAlarm::Retrying { step: "poll", error: error.to_string() });
        }
    }

    /// Errors that only the operator can end are said in the operator's words; the rest ends by itself.
    fn failed(&mut self, code: RDKafkaErrorCode, error: String) {
        if let Some(settings) = self.refusals.due_for(code, (self.links.clock)()) {
            self.alarm(KafkaAlarm::Refused { settings, error });
        }
    }

    fn alarm(&self, alarm: KafkaAlarm) {
        if let KafkaAlarm::Refused { settings, error } = &alarm {
            tracing::warn!(settings, error, "the kafka brokers refuse this hub: check these settings; it tries again");
        } else {
            tracing::warn!(?alarm, "kafka alarm");
        }
        let _logged_at_least = self.links.alarms.try_send(alarm);
    }

    /// What the brokers said last, for the lag.
    fn note_ends(&self) {
        for (_, Lane { partition, watermark }) in self.lanes.iter() {
            if let Some(end) = native::known_end(&self.client, partition) {
                watermark.note_end(end);
            }
        }
    }

    /// Leaves the broken client to be closed by itself and opens another, for as long as that takes.
    fn rebuild(&mut self) {
        self.pending = None;
        self.release(&self.lanes.numbers());
        self.happenings.clear();
        self.commit_sent = None;
        self.unanswered.clear();
        loop {
            match client::open(&self.settings, &self.pattern, &self.identity.client_id()) {
                Ok(client) => {
                    let _closes_by_itself = client::abandon(std::mem::replace(&mut self.client, client));
                    self.is_broken = false;
                    return;
                }
                Err(error) => self.alarm(KafkaAlarm::Retrying { step: "open", error: error.to_string() }),
            }
            let stop = self.stopped.recv_timeout(limits::KAFKA_RETRY.to_std());
            if stop != Err(flume::RecvTimeoutError::Timeout) {
                self.is_stopping = true;
                return;
            }
        }
    }
}
