//! What comes into the slots of a shard: each record is an event or a command.

use std::collections::HashMap;

use ahash::RandomState;
use uuid::Uuid;

use crate::engine::{CommandId, LaneRecord};
use crate::source::decode::{RawRecord, unreadable};
use crate::store::codec::slot_record::{self, Inbound};
use crate::types::{Sequence, TenantId, Time};

/// Reads records, and remembers by which id each command's result is asked for.
pub struct SlotReader {
    last: u64,
    /// Commands that are not done.
    open: HashMap<CommandId, Uuid, RandomState>,
}

impl Default for SlotReader {
    fn default() -> Self {
        Self { last: 0, open: HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4)) }
    }
}

impl SlotReader {
    /// What a record is to the engine. Only the hub writes this topic; what it cannot read is kept in quarantine.
    pub(super) fn read(&mut self, record: &RawRecord<'_>, now: Time) -> LaneRecord {
        match inbound(record) {
            Some(Inbound::Event(event)) => LaneRecord::Accept(Box::new(event)),
            Some(Inbound::Command { id, command }) => {
                self.last += 1;
                let number = CommandId(self.last);
                self.open.insert(number, id);
                LaneRecord::Command(number, Box::new(command))
            }
            None => {
                let (topic, partition, offset) = (record.topic, record.partition, record.offset);
                tracing::error!(topic, partition, offset, "a record of the slot topic can't be read");
                LaneRecord::Quarantine(Box::new(unreadable(record, now)))
            }
        }
    }

    /// The command's own id, once it is done.
    pub(super) fn done(&mut self, command: CommandId) -> Option<Uuid> {
        self.open.remove(&command)
    }

    /// The engine that had these commands is drained: its successor reads them again.
    pub(super) fn forget(&mut self) {
        self.open.clear();
    }
}

fn inbound(record: &RawRecord<'_>) -> Option<Inbound> {
    let tenant = TenantId::new(std::str::from_utf8(record.key?).ok()?).ok()?;
    slot_record::decode(&tenant, Sequence(record.offset + 1), record.payload?).ok()
}
