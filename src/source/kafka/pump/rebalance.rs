//! Partitions that come and go: where each begins, which shard reads it, and how it is given back.

use std::sync::Arc;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;

use super::commits::add;
use super::{Pending, Pump};
use crate::source::kafka::context::Partition;
use crate::source::kafka::lanes::Lane;
use crate::source::kafka::plan::{Plan, plan};
use crate::source::kafka::reader::ReaderParts;
use crate::source::kafka::{AssignedLane, KafkaAlarm, KafkaEvent, LaneWatermark, PartitionReader};
use crate::types::{Time, limits};

impl Pump {
    pub(super) fn revoke(&mut self) {
        self.pending = None;
        self.release();
        if let Err(error) = self.client.unassign() {
            self.alarm(KafkaAlarm::Retrying { step: "unassign", error: error.to_string() });
        }
    }

    /// Takes all lanes back from the shards and begins the same partitions again, from what is durable.
    pub(super) fn begin_again(&mut self) {
        if self.lanes.len() == 0 {
            return;
        }
        let partitions: Vec<Partition> = self.lanes.iter().map(|(_, lane)| lane.partition.clone()).collect();
        self.revoke();
        self.pending = Some(Pending { partitions, due: (self.links.clock)() + limits::KAFKA_RETRY });
    }

    pub(super) fn begin_pending(&mut self) {
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
    pub(super) fn begin(&mut self, plans: Vec<Plan>) -> Result<(), String> {
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

    pub(super) fn open_lane(&mut self, plan: Plan) -> Result<(Plan, AssignedLane), String> {
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

    pub(super) fn hand_over(&mut self, plan: Plan, assigned: AssignedLane) {
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

    pub(super) fn shard(&self, partition: i32) -> flume::Sender<KafkaEvent> {
        let number = usize::try_from(partition).unwrap_or_default() % self.links.shards.len();
        self.links.shards[number].clone()
    }

    /// Takes all lanes back: tells the shards, waits for them, commits what they made durable.
    pub(super) fn release(&mut self) {
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

    pub(super) fn wait_for_shards(&self, deadline: Time) {
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
}
