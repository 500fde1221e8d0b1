//! The consumer's loop: rebalances, start positions, commits. It never sees a record.

use std::collections::VecDeque;
use std::sync::Arc;

use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::client::{self, Client};
use super::consumer::Links;
use super::context::{Happening, Partition};
use super::lanes::{Lane, Lanes};
use super::plan::{Plan, plan};
use super::reader::ReaderParts;
use super::{AssignedLane, KafkaAlarm, KafkaEvent, KafkaSettings, LaneBoard, LaneWatermark, PartitionReader, native};
use crate::engine::LaneNumber;
use crate::source::decode::DecodeRules;
use crate::types::{Time, limits};

/// Partitions the group has given, not yet begun.
#[derive(Debug)]
struct Pending {
    partitions: Vec<Partition>,
    due: Time,
}

/// The consumer's loop and all it knows.
pub(super) struct Pump {
    // Configuration.
    settings: KafkaSettings,
    pattern: String,
    rules: Arc<DecodeRules>,
    // Links.
    links: Links,
    client: Client,
    stopped: flume::Receiver<()>,
    reports: flume::Sender<LaneNumber>,
    out_of_range: flume::Receiver<LaneNumber>,
    board: LaneBoard,
    // State.
    lanes: Lanes,
    happenings: VecDeque<Happening>,
    pending: Option<Pending>,
    commit_due: Time,
    /// Since when a commit has been on its way.
    commit_sent: Option<Time>,
    is_stopping: bool,
    is_broken: bool,
}

impl Pump {
    pub(super) fn new(
        settings: KafkaSettings,
        links: Links,
        pattern: String,
        client: Client,
        stopped: flume::Receiver<()>,
        board: LaneBoard,
    ) -> Self {
        let (reports, out_of_range) = flume::bounded(limits::KAFKA_REPORTS_MAX);
        Self {
            settings,
            pattern,
            rules: Arc::new(links.rules.clone()),
            links,
            client,
            stopped,
            reports,
            out_of_range,
            board,
            lanes: Lanes::default(),
            happenings: VecDeque::new(),
            pending: None,
            commit_due: Time::ZERO,
            commit_sent: None,
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
        self.release();
        if !client::close(self.client, limits::KAFKA_CLOSE_TIMEOUT) {
            tracing::warn!("the kafka client did not close in time");
        }
    }

    fn turn(&mut self) {
        self.poll();
        while let Some(happening) = self.happenings.pop_front() {
            match happening {
                Happening::Assign(partitions) => self.pending = Some(Pending { partitions, due: Time::ZERO }),
                Happening::Revoke => self.revoke(),
                Happening::Committed(outcomes) => self.committed(&outcomes),
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
        } else {
            self.alarm(KafkaAlarm::Retrying { step: "poll", error: error.to_string() });
        }
    }

    fn alarm(&self, alarm: KafkaAlarm) {
        tracing::warn!(?alarm, "kafka alarm");
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

    // ── Rebalances ───────────────────────────────────────────────────────────────────────────────────────

    fn revoke(&mut self) {
        self.pending = None;
        self.release();
        if let Err(error) = self.client.unassign() {
            self.alarm(KafkaAlarm::Retrying { step: "unassign", error: error.to_string() });
        }
    }

    /// Takes all lanes back from the shards and begins the same partitions again, from what is durable.
    fn begin_again(&mut self) {
        if self.lanes.len() == 0 {
            return;
        }
        let partitions: Vec<Partition> = self.lanes.iter().map(|(_, lane)| lane.partition.clone()).collect();
        self.revoke();
        self.pending = Some(Pending { partitions, due: (self.links.clock)() + limits::KAFKA_RETRY });
    }

    fn begin_pending(&mut self) {
        let now = (self.links.clock)();
        let Some(pending) = self.pending.take_if(|pending| pending.due <= now) else { return };
        let stored = self.links.stored.as_ref();
        let planned = plan(&self.client, &pending.partitions, stored, &self.settings.hub_id);
        if let Err(error) = planned.and_then(|plans| self.begin(plans)) {
            self.alarm(KafkaAlarm::Retrying { step: "begin", error });
            let due = (self.links.clock)() + limits::KAFKA_RETRY;
            self.pending = Some(Pending { due, ..pending });
        }
    }

    /// Splits the queues, assigns, and hands the lanes to their shards, in this order: so no record is ever in the
    /// client's common queue.
    fn begin(&mut self, plans: Vec<Plan>) -> Result<(), String> {
        let mut list = TopicPartitionList::with_capacity(plans.len());
        let mut assigned = Vec::with_capacity(plans.len());
        for plan in plans {
            add(&mut list, &plan.partition, plan.position).map_err(|error| error.to_string())?;
            assigned.push(self.open_lane(plan)?);
        }
        self.client.assign(&list).map_err(|error| error.to_string())?;
        if assigned.len() > self.settings.expected_partitions {
            self.alarm(KafkaAlarm::PrefetchOverBudget { partitions: assigned.len() });
        }
        tracing::info!(lanes = assigned.len(), "kafka partitions assigned");
        for (plan, lane) in assigned {
            self.hand_over(plan, lane);
        }
        Ok(())
    }

    fn open_lane(&mut self, plan: Plan) -> Result<(Plan, AssignedLane), String> {
        let (topic, partition) = (&plan.partition.0, plan.partition.1);
        let queue = self.client.split_partition_queue(topic, partition).ok_or("no such partition")?;
        let lane = self.lanes.next_number();
        let parts = ReaderParts {
            lane,
            name: plan.name.clone(),
            topic: topic.as_str().into(),
            partition,
            position: plan.position,
            rules: Arc::clone(&self.rules),
            out_of_range: self.reports.clone(),
        };
        let assigned = AssignedLane {
            lane,
            name: plan.name.clone(),
            position: plan.position,
            reader: PartitionReader::new(queue, parts),
            watermark: LaneWatermark::new(plan.position),
        };
        Ok((plan, assigned))
    }

    fn hand_over(&mut self, plan: Plan, assigned: AssignedLane) {
        plan.alarms.into_iter().for_each(|alarm| self.alarm(alarm));
        let watermark = assigned.watermark.clone();
        let shard = self.shard(plan.partition.1);
        if let Some(committed) = plan.committed {
            watermark.note_committed(committed);
        }
        self.board.post(&plan.name, watermark.clone(), (self.links.clock)());
        self.lanes.insert(assigned.lane, Lane { partition: plan.partition, watermark });
        if shard.send(KafkaEvent::Assigned(assigned)).is_err() {
            tracing::info!("a shard has ended; its kafka lanes are not read");
        }
    }

    fn shard(&self, partition: i32) -> flume::Sender<KafkaEvent> {
        let number = usize::try_from(partition).unwrap_or_default() % self.links.shards.len();
        self.links.shards[number].clone()
    }

    /// Takes all lanes back: tells the shards, waits for them, commits what they made durable.
    fn release(&mut self) {
        if self.lanes.len() == 0 {
            return;
        }
        let deadline = (self.links.clock)() + limits::KAFKA_REVOKE_TIMEOUT;
        self.wait_for_shards(deadline);
        if !self.client.assignment_lost() {
            self.commit_by((self.links.clock)() + limits::KAFKA_COMMIT_TIMEOUT);
        }
        tracing::info!(lanes = self.lanes.len(), "kafka partitions released");
        self.lanes.clear();
        self.board.clear();
    }

    fn wait_for_shards(&self, deadline: Time) {
        let (acknowledge, acknowledged) = flume::bounded(self.lanes.len());
        for (lane, Lane { partition, .. }) in self.lanes.iter() {
            let revoked = KafkaEvent::Revoked { lane, acknowledge: acknowledge.clone() };
            if self.shard(partition.1).send(revoked).is_err() {
                tracing::info!("a shard has ended; its kafka lane is released without it");
            }
        }
        drop(acknowledge);
        for _ in 0..self.lanes.len() {
            let left = deadline.since((self.links.clock)());
            match acknowledged.recv_timeout(left.to_std()) {
                Ok(_) => {}
                Err(flume::RecvTimeoutError::Disconnected) => return,
                Err(flume::RecvTimeoutError::Timeout) => {
                    tracing::warn!("a shard did not release its kafka lanes in time");
                    return;
                }
            }
        }
    }

    // ── Commits ──────────────────────────────────────────────────────────────────────────────────────────

    /// Sends what is not committed, unless a commit is on its way already.
    fn commit(&mut self, now: Time) {
        if self.commit_sent.is_some_and(|sent| now.since(sent) < limits::KAFKA_COMMIT_TIMEOUT) {
            return;
        }
        self.commit_sent = None;
        let positions = self.lanes.uncommitted();
        if positions.is_empty() {
            return;
        }
        match self.send_commit(&positions) {
            Ok(()) => self.commit_sent = Some(now),
            Err(error) => self.alarm(KafkaAlarm::Retrying { step: "commit", error: error.to_string() }),
        }
    }

    fn send_commit(&self, positions: &[(Partition, u64)]) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::with_capacity(positions.len());
        for (partition, position) in positions {
            add(&mut list, partition, *position)?.set_metadata(&self.settings.hub_id);
        }
        native::commit(&self.client, &list)
    }

    fn committed(&mut self, outcomes: &[(Partition, Result<u64, String>)]) {
        self.commit_sent = None;
        for (partition, outcome) in outcomes {
            match outcome {
                Ok(position) => self.lanes.note_committed(partition, *position),
                Err(error) => self.alarm(KafkaAlarm::Retrying { step: "commit", error: error.clone() }),
            }
        }
    }

    /// Commits until nothing is left to commit, at most until `deadline`. Other happenings wait their turn.
    fn commit_by(&mut self, deadline: Time) {
        let mut now = (self.links.clock)();
        while now < deadline && !self.is_broken {
            if self.commit_sent.is_none() {
                self.commit(now);
                if self.commit_sent.is_none() {
                    return;
                }
            }
            let polled = self.client.poll(limits::KAFKA_TURN.to_std()).map(|polled| polled.map(drop));
            if let Some(Err(error)) = polled {
                self.client_error(&error);
            }
            for happening in self.client.context().take() {
                match happening {
                    Happening::Committed(outcomes) => self.committed(&outcomes),
                    other @ (Happening::Assign(_) | Happening::Revoke) => self.happenings.push_back(other),
                }
            }
            now = (self.links.clock)();
        }
    }

    // ── A new client ─────────────────────────────────────────────────────────────────────────────────────

    /// Leaves the broken client to be closed by itself and opens another, for as long as that takes.
    fn rebuild(&mut self) {
        self.pending = None;
        self.release();
        self.happenings.clear();
        self.commit_sent = None;
        loop {
            match client::open(&self.settings, &self.pattern) {
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

/// Adds a partition with its position.
fn add<'l>(
    list: &'l mut TopicPartitionList,
    (topic, partition): &Partition,
    position: u64,
) -> Result<rdkafka::topic_partition_list::TopicPartitionListElem<'l>, KafkaError> {
    let mut element = list.add_partition(topic, *partition);
    element.set_offset(Offset::Offset(i64::try_from(position).unwrap_or(i64::MAX)))?;
    Ok(element)
}
