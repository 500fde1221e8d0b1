//! Partitions that come and go: where each begins, which shard reads it, and how it is given back.

use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;

use super::commits::add;
use super::{Pending, Pump};
use crate::engine::LaneNumber;
use crate::source::kafka::context::Partition;
use crate::source::kafka::lanes::Lane;
use crate::source::kafka::ownership::{GroupTaken, Verdict};
use crate::source::kafka::plan::{self, Plan};
use crate::source::kafka::reader::ReaderParts;
use crate::source::kafka::{AssignedLane, Assignment, KafkaAlarm, KafkaEvent, LaneWatermark, PartitionReader, group};
use crate::source::topic::Followed;
use crate::types::{LaneName, Slot, Time, limits};

/// Why assigned partitions are not begun.
enum Hindrance {
    /// It is tried again.
    Passing(String),
    /// The group is another's.
    Taken(GroupTaken),
}

impl From<String> for Hindrance {
    fn from(error: String) -> Self {
        Self::Passing(error)
    }
}

impl Pump {
    /// A cooperative group adds these to what is held; any other gives all anew.
    pub(super) fn assigned(&mut self, mut partitions: Vec<Partition>) {
        if let (Assignment::CooperativeSticky, Some(pending)) = (self.settings.assignment, &mut self.pending) {
            partitions.append(&mut pending.partitions);
        }
        self.pending = Some(Pending { partitions, due: Time::ZERO });
    }

    /// Gives partitions back: these, or all when the group is not cooperative.
    pub(super) fn revoke(&mut self, partitions: &[Partition]) {
        match self.settings.assignment {
            Assignment::Range => {
                self.pending = None;
                self.give_back(&self.lanes.numbers());
            }
            Assignment::CooperativeSticky => {
                if let Some(pending) = &mut self.pending {
                    pending.partitions.retain(|partition| !partitions.contains(partition));
                }
                self.give_back(&self.lanes.numbers_of(partitions));
            }
        }
    }

    /// Takes lanes back from their shards, and tells the client. The group waits for that, also where none is left.
    fn give_back(&mut self, numbers: &[LaneNumber]) {
        let mut list = TopicPartitionList::with_capacity(numbers.len());
        for lane in numbers.iter().filter_map(|number| self.lanes.get(*number)) {
            list.add_partition(&lane.partition.0, lane.partition.1);
        }
        self.release(numbers);
        let told = match self.settings.assignment {
            Assignment::Range => self.client.unassign(),
            Assignment::CooperativeSticky => self.client.incremental_unassign(&list),
        };
        if let Err(error) = told {
            self.alarm(KafkaAlarm::Retrying { step: "unassign", error: error.to_string() });
        }
    }

    /// Takes all lanes back from the shards and begins the same partitions again, from what is durable.
    pub(super) fn begin_again(&mut self) {
        if self.lanes.len() == 0 {
            return;
        }
        let mut partitions: Vec<Partition> = self.lanes.iter().map(|(_, lane)| lane.partition.clone()).collect();
        partitions.extend(self.pending.take().into_iter().flat_map(|pending| pending.partitions));
        self.give_back(&self.lanes.numbers());
        self.pending = Some(Pending { partitions, due: (self.links.clock)() + limits::KAFKA_RETRY });
    }

    pub(super) fn begin_pending(&mut self) {
        let now = (self.links.clock)();
        let Some(pending) = self.pending.take_if(|pending| pending.due <= now) else { return };
        match self.plan_own(&pending.partitions).and_then(|plans| self.begin(plans)) {
            Ok(()) => {}
            Err(Hindrance::Taken(taken)) => {
                let _said_already = self.taken.try_send(taken);
                self.is_stopping = true;
            }
            Err(Hindrance::Passing(error)) => {
                self.alarm(KafkaAlarm::Retrying { step: "begin", error });
                let due = (self.links.clock)() + limits::KAFKA_RETRY;
                self.pending = Some(Pending { due, ..pending });
            }
        }
    }

    /// Where each partition begins, if the group is this hub's.
    fn plan_own(&self, partitions: &[Partition]) -> Result<Vec<Plan>, Hindrance> {
        let committed = plan::committed(&self.client, partitions)?;
        let (settings, identity) = (&self.settings, &self.identity);
        let own_client_id = identity.client_id();
        let group = group::look(&self.client, settings, &own_client_id, &committed, self.has_committed)?;
        // Without a partition there is nothing to fall out about while the group is nobody's yet.
        let is_idle = partitions.is_empty() && group.claims.is_empty();
        match if is_idle { Verdict::Alone } else { identity.judge(&group) } {
            Verdict::Alone => {}
            Verdict::Shared(with) => self.alarm(KafkaAlarm::GroupShared { with }),
            Verdict::Taken(by) => {
                let (group, hub) = (settings.group.clone(), settings.hub_id.clone());
                let (setting, membership) = (settings.group_setting, settings.membership);
                return Err(Hindrance::Taken(GroupTaken { setting, group, hub, membership, by }));
            }
        }
        Ok(plan::plan(&self.client, partitions, committed, self.links.stored.as_ref(), &settings.hub_id)?)
    }

    /// Splits the queues, assigns, and hands the lanes to their shards, in this order: so no record is ever in the
    /// client's common queue.
    fn begin(&mut self, plans: Vec<Plan>) -> Result<(), Hindrance> {
        let mut list = TopicPartitionList::with_capacity(plans.len());
        let mut assigned = Vec::with_capacity(plans.len());
        for plan in plans {
            add(&mut list, &plan.partition, plan.position).map_err(|error| error.to_string())?;
            assigned.push(self.open_lane(plan)?);
        }
        let told = match self.settings.assignment {
            Assignment::Range => self.client.assign(&list),
            Assignment::CooperativeSticky => self.client.incremental_assign(&list),
        };
        told.map_err(|error| error.to_string())?;
        let partitions = assigned.len() + self.lanes.len();
        if partitions > self.settings.expected_partitions {
            self.alarm(KafkaAlarm::PrefetchOverBudget { partitions });
        }
        tracing::info!(lanes = assigned.len(), "kafka partitions assigned");
        self.commit_due = Time::ZERO;
        for (plan, lane) in assigned {
            self.hand_over(plan, lane);
        }
        Ok(())
    }

    fn open_lane(&mut self, plan: Plan) -> Result<(Plan, AssignedLane), String> {
        let (topic, partition) = (&plan.partition.0, plan.partition.1);
        let queue =
            self.client.split_partition_queue(topic, partition).ok_or_else(|| "no such partition".to_owned())?;
        let lane = self.lanes.next_number();
        let parts = ReaderParts {
            lane,
            name: plan.name.clone(),
            topic: topic.as_str().into(),
            partition,
            position: plan.position,
            out_of_range: self.reports.clone(),
        };
        let assigned = AssignedLane {
            lane,
            name: plan.name.clone(),
            slot: self.holds_slots().then_some(Slot(slot_number(partition)?)),
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

    /// Whether the partitions are slots, held on a lease.
    pub(super) const fn holds_slots(&self) -> bool {
        matches!(self.settings.followed, Followed::Slots(_))
    }

    fn shard(&self, partition: i32) -> flume::Sender<KafkaEvent> {
        let number = usize::try_from(partition).unwrap_or_default() % self.links.shards.len();
        self.links.shards[number].clone()
    }

    /// Takes lanes back: tells the shards, waits for them, commits what they made durable.
    pub(super) fn release(&mut self, numbers: &[LaneNumber]) {
        if numbers.is_empty() {
            return;
        }
        let deadline = (self.links.clock)() + limits::KAFKA_REVOKE_TIMEOUT;
        self.wait_for_shards(numbers, deadline);
        if !self.client.assignment_lost() {
            self.commit_by(numbers, (self.links.clock)() + limits::KAFKA_COMMIT_TIMEOUT);
        }
        tracing::info!(lanes = numbers.len(), "kafka partitions released");
        for lane in numbers.iter().filter_map(|number| self.lanes.remove(*number)) {
            self.board.withdraw(&LaneName::kafka(&lane.partition.0, lane.partition.1));
        }
    }

    fn wait_for_shards(&self, numbers: &[LaneNumber], deadline: Time) {
        let (acknowledge, acknowledged) = flume::bounded(numbers.len());
        for number in numbers {
            let Some(lane) = self.lanes.get(*number) else { continue };
            let revoked = KafkaEvent::Revoked { lane: *number, acknowledge: acknowledge.clone() };
            if self.shard(lane.partition.1).send(revoked).is_err() {
                tracing::info!("a shard has ended; its kafka lane is released without it");
            }
        }
        drop(acknowledge);
        for _ in numbers {
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

fn slot_number(partition: i32) -> Result<u16, String> {
    u16::try_from(partition).map_err(|_| format!("partition {partition} is no slot's"))
}
