//! The partitioned log that producers write to, and its consumer group's positions.

use bytes::Bytes;
use fastrand::Rng;
use streaming_hub::engine::{Command, CommandId, LaneRecord, QuarantineRecord};
use streaming_hub::types::{LaneName, Time};

use crate::events::EventPlan;
use crate::scenario::chance;

const TOPIC: &str = "lerian.streaming.loans";

/// What a producer wrote.
#[derive(Clone, Debug)]
pub enum Written {
    Event(EventPlan),
    /// A system event or a tombstone.
    Nothing,
    Malformed,
    /// A command of the API, on a slot's lane.
    Command(Box<Command>),
}

/// One partition.
#[derive(Default)]
pub struct Partition {
    /// In order of offset, with gaps.
    pub records: Vec<(u64, Written)>,
    /// What the group has committed.
    pub committed: Option<u64>,
}

impl Partition {
    /// The offset after the last record's.
    pub fn end(&self) -> u64 {
        self.records.last().map_or(0, |(offset, _)| offset + 1)
    }

    /// The first record at or after `position`.
    pub fn next(&self, position: u64) -> Option<&(u64, Written)> {
        self.records.get(self.records.partition_point(|(offset, _)| *offset < position))
    }

    /// Appends a record, now and then after a gap.
    pub fn append(&mut self, written: Written, rng: &mut Rng) -> u64 {
        let gap = if chance(rng, 10) { rng.u64(1..5) } else { 0 };
        let offset = self.end() + gap;
        self.records.push((offset, written));
        offset
    }
}

/// The lane of a partition.
pub fn lane_name(partition: u16) -> LaneName {
    LaneName::kafka(TOPIC, i32::from(partition))
}

/// The number of the command in a record.
pub fn command_id(partition: u16, offset: u64) -> CommandId {
    CommandId(u64::from(partition) << 48 | offset)
}

/// What the decoder makes of a record read at `now`.
pub fn decode(written: &Written, partition: u16, offset: u64, now: Time) -> LaneRecord {
    match written {
        Written::Event(plan) => LaneRecord::Accept(Box::new(plan.event(now, lane_name(partition)))),
        Written::Nothing => LaneRecord::Drop,
        Written::Malformed => LaneRecord::Quarantine(Box::new(QuarantineRecord {
            topic: TOPIC.into(),
            partition: i32::from(partition),
            offset,
            received_at: now,
            reason: "bad_id",
            header: Some("ce-id".into()),
            headers: Vec::new(),
            body: Bytes::from_static(b"not an event"),
            size: 12,
            sha256: [0; 32],
        })),
        Written::Command(command) => LaneRecord::Command(command_id(partition, offset), command.clone()),
    }
}
