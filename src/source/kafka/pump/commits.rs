//! Positions on their way to the group: one commit at a time, again until it holds.

use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};

use super::Pump;
use crate::engine::LaneNumber;
use crate::source::kafka::context::{Happening, Partition};
use crate::source::kafka::{KafkaAlarm, KafkaEvent, native, ownership};
use crate::types::{Time, limits};

impl Pump {
    /// Sends what is not committed, unless a commit is on its way already.
    pub(super) fn commit(&mut self, now: Time) {
        if self.commit_sent.is_some_and(|sent| now.since(sent) < limits::KAFKA_COMMIT_TIMEOUT) {
            return;
        }
        self.commit_sent = None;
        // A slot's owner commits whether or not a position has moved: that is how the group hears of it.
        let positions = if self.holds_slots() { self.lanes.positions() } else { self.lanes.uncommitted(|_| true) };
        self.commit_positions(&positions, now);
    }

    fn commit_positions(&mut self, positions: &[(Partition, u64)], now: Time) {
        if positions.is_empty() {
            return;
        }
        match self.send_commit(positions) {
            Ok(()) => {
                self.commit_sent = Some(now);
                self.unanswered.push_back(now);
            }
            Err(error) => self.alarm(KafkaAlarm::Retrying { step: "commit", error: error.to_string() }),
        }
    }

    /// A commit that was sent then is acknowledged: the group gives nothing away before a whole session timeout after it.
    fn tell_lease(&self, sent: Option<Time>) {
        let Some(sent) = sent else { return };
        let until = (sent + self.settings.session_timeout) - limits::KAFKA_LEASE_MARGIN;
        for shard in &self.links.shards {
            // A shard too busy to be told goes on for as long as it was told before; a second later comes the next.
            let _ = shard.try_send(KafkaEvent::Lease(until));
        }
    }

    fn send_commit(&self, positions: &[(Partition, u64)]) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::with_capacity(positions.len());
        for (partition, position) in positions {
            add(&mut list, partition, *position)?.set_metadata(&self.settings.hub_id);
        }
        native::commit(&self.client, &list)
    }

    pub(super) fn committed(&mut self, outcomes: &[(Partition, Result<u64, String>)]) {
        self.commit_sent = None;
        // Answers come in the order of their commits; should one ever not, the oldest time is the safe one.
        let sent = self.unanswered.pop_front();
        if self.holds_slots() && outcomes.iter().all(|(_, outcome)| outcome.is_ok()) {
            self.tell_lease(sent);
        }
        for (partition, outcome) in outcomes {
            match outcome {
                Ok(position) => {
                    self.has_committed = ownership::Committed::Already;
                    self.lanes.note_committed(partition, *position);
                }
                Err(error) => self.alarm(KafkaAlarm::Retrying { step: "commit", error: error.clone() }),
            }
        }
    }

    /// Commits until nothing of these lanes is left to commit, at most until `deadline`. Other happenings wait their
    /// turn.
    pub(super) fn commit_by(&mut self, numbers: &[LaneNumber], deadline: Time) {
        let mut now = (self.links.clock)();
        while now < deadline && !self.is_broken {
            if self.commit_sent.is_none() {
                let positions = self.lanes.uncommitted(|number| numbers.contains(&number));
                self.commit_positions(&positions, now);
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
                    other @ (Happening::Assign(_) | Happening::Revoke(_) | Happening::Failed(..)) => {
                        self.happenings.push_back(other);
                    }
                }
            }
            now = (self.links.clock)();
        }
    }
}

/// Adds a partition with its position.
pub(super) fn add<'l>(
    list: &'l mut TopicPartitionList,
    (topic, partition): &Partition,
    position: u64,
) -> Result<TopicPartitionListElem<'l>, KafkaError> {
    let mut element = list.add_partition(topic, *partition);
    element.set_offset(Offset::Offset(i64::try_from(position).unwrap_or(i64::MAX)))?;
    Ok(element)
}
