//! What batches of the engine become: rows of bytes per table, in one buffer, ready to travel to another thread.

use std::ops::Range;

use super::key::{self, LogPart, StateKind};
use super::{dead_letter, destination, event, ids, job, lane, overflow, quarantine, slot};
use crate::engine::QuarantineRecord;
use crate::engine::rows::{Batch, DestinationRecord, NewJob, Row, Unit};
use crate::types::{
    AttemptRecord, ClaimRecord, DestinationId, End, Event, JobKey, JobRecord, Sequence, Slot, SubscriptionId, TenantId,
    Time,
};

/// The tables of the embedded store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Events, jobs, attempts, ends.
    Log,
    /// Jobs by the time they are due.
    Due,
    /// Ids of accepted events.
    Ids,
    /// Slots, overflow cursors, destinations, the hub's own record.
    State,
    /// Positions.
    Lanes,
    /// Malformed records.
    Quarantine,
    /// Dead letters and their two indexes.
    DeadLetters,
    /// Records that producers dead-lettered.
    ProducerDlq,
    /// What tenants and operators set.
    Configuration,
}

/// The events of a slot's batch: the first one's minute and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// Where.
    pub slot: Slot,
    /// Minutes since the epoch.
    pub minute: u64,
    /// The lowest number.
    pub first: Sequence,
}

/// Rows of bytes that become durable together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedBatch {
    bytes: Vec<u8>,
    rows: Vec<EncodedRow>,
    arrivals: Vec<Arrivals>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct EncodedRow {
    table: Table,
    key: Range<usize>,
    /// Absent: the row is removed.
    value: Option<Range<usize>>,
}

/// Encodes batches of different units as one, on the thread that owns them.
#[must_use]
pub fn encode(batches: &[Batch]) -> EncodedBatch {
    let rows = || batches.iter().flat_map(|batch| batch.rows.iter());
    let count = rows().count();
    let mut encoded = EncodedBatch {
        bytes: Vec::with_capacity(rows().map(room_for).sum()),
        rows: Vec::with_capacity(count + count / 8),
        arrivals: Vec::new(),
    };
    for batch in batches {
        batch.rows.iter().for_each(|row| encoded.put_row(batch.unit, row));
    }
    encoded
}

/// About what a row takes, rather more than less: a buffer that grows step by step is copied each time.
fn room_for(row: &Row) -> usize {
    const ROW_BYTES: usize = 320;
    if let Row::Event { event, jobs } = row { event.weight() + ROW_BYTES + jobs.len() * 96 } else { ROW_BYTES }
}

impl EncodedBatch {
    /// The rows in order: table, key, and value or `None` for a removal.
    pub fn rows(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        self.rows.iter().map(|row| {
            let value = row.value.clone().map(|range| &self.bytes[range]);
            (row.table, &self.bytes[row.key.clone()], value)
        })
    }

    /// The first event of each slot that has any.
    #[must_use]
    pub fn arrivals(&self) -> &[Arrivals] {
        &self.arrivals
    }

    /// The number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Keys and values, in bytes.
    #[must_use]
    pub const fn byte_size(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a row whose key and value are written by the two functions.
    pub fn put_with(&mut self, table: Table, key: impl FnOnce(&mut Vec<u8>), value: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        let middle = self.bytes.len();
        value(&mut self.bytes);
        self.rows.push(EncodedRow { table, key: start..middle, value: Some(middle..self.bytes.len()) });
    }

    /// Adds a row.
    pub fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.put_with(table, |out| out.extend_from_slice(key), |out| out.extend_from_slice(value));
    }

    /// Removes a row.
    pub fn remove(&mut self, table: Table, key: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.rows.push(EncodedRow { table, key: start..self.bytes.len(), value: None });
    }

    fn put_row(&mut self, unit: Unit, row: &Row) {
        match row {
            Row::Event { event, jobs } => self.put_event(slot_of(unit), event, jobs),
            Row::Run { tenant, key, subscription, destination, run, trigger, created_at } => {
                let row = job::RunRow {
                    subscription: *subscription,
                    destination: *destination,
                    run: *run,
                    trigger: *trigger,
                    created_at: *created_at,
                };
                self.put_run(tenant, *key, &row);
            }
            Row::Claim { tenant, key, number, claim } => self.put_claim(tenant, *key, *number, claim),
            Row::Attempt { tenant, key, record, end } => self.put_attempt(tenant, *key, record, *end),
            Row::End { tenant, key, end, at } => self.put_end(tenant, *key, *end, *at),
            Row::DeadLetter { event, job } => self.put_dead_letter(event, job),
            Row::Due { tenant, key, at } => self.put_due(tenant, *key, *at),
            Row::Overflow { tenant, subscription, cursor } => {
                self.put_overflow(slot_of(unit), tenant, *subscription, *cursor);
            }
            Row::Destination { tenant, destination, record } => {
                self.put_destination(slot_of(unit), tenant, *destination, record.as_ref());
            }
            Row::Ids { minute, entries } => self.put_ids(slot_of(unit), *minute, entries),
            Row::Slot(record) => {
                let key = key::state(StateKind::Slot, slot_of(unit));
                self.put_with(Table::State, |out| out.extend_from_slice(&key), |out| slot::encode(record, out));
            }
            Row::Lane { name, position } => {
                let key = name.0.as_bytes();
                self.put_with(Table::Lanes, |out| out.extend_from_slice(key), |out| lane::encode(*position, out));
            }
            Row::Quarantine(record) => self.put_quarantine(record),
        }
    }

    fn put_event(&mut self, slot: Slot, event: &Event, jobs: &[NewJob]) {
        let minute = event.received_at.as_minutes();
        if self.arrivals.last().is_none_or(|last| last.slot != slot) {
            self.arrivals.push(Arrivals { slot, minute, first: event.sequence });
        }
        self.put_with(
            Table::Log,
            |out| key::put_log(out, slot, &event.tenant, event.sequence, LogPart::Event),
            |out| event::encode(event, jobs, out),
        );
    }

    fn put_log_row(&mut self, tenant: &TenantId, at: JobKey, part: LogPart, value: impl FnOnce(&mut Vec<u8>)) {
        self.put_with(Table::Log, |out| key::put_log(out, at.slot, tenant, at.sequence, part), value);
    }

    fn put_run(&mut self, tenant: &TenantId, key: JobKey, row: &job::RunRow) {
        let part = LogPart::Run { ordinal: key.ordinal };
        self.put_log_row(tenant, key, part, |out| job::encode_run(row, out));
    }

    fn put_claim(&mut self, tenant: &TenantId, key: JobKey, number: u32, claim: &ClaimRecord) {
        let part = LogPart::Attempt { ordinal: key.ordinal, number };
        self.put_log_row(tenant, key, part, |out| job::encode_claim(claim, out));
    }

    fn put_attempt(&mut self, tenant: &TenantId, key: JobKey, record: &AttemptRecord, end: Option<End>) {
        let part = LogPart::Attempt { ordinal: key.ordinal, number: record.number };
        self.put_log_row(tenant, key, part, |out| job::encode_attempt(record, end, out));
    }

    fn put_end(&mut self, tenant: &TenantId, key: JobKey, end: End, at: Time) {
        let part = LogPart::End { ordinal: key.ordinal, strength: end.strength() };
        self.put_log_row(tenant, key, part, |out| job::encode_end(end, at, out));
    }

    fn put_dead_letter(&mut self, event: &Event, job: &JobRecord) {
        let at = job.end.map_or(job.created_at, |(_, at)| at);
        let key = key::dead_letter(&event.tenant, at, job.key);
        self.put_with(
            Table::DeadLetters,
            |out| out.extend_from_slice(&key),
            |out| dead_letter::encode(event, job, out),
        );
        self.put(Table::DeadLetters, &key::dead_letter_by_time(at, job.key), event.tenant.as_str().as_bytes());
        self.put_with(
            Table::DeadLetters,
            |out| out.extend_from_slice(&key::dead_letter_by_id(job.key)),
            |out| super::wire::put_time(out, at),
        );
    }

    fn put_due(&mut self, tenant: &TenantId, key: JobKey, at: Time) {
        self.put(Table::Due, &key::due(at, key), tenant.as_str().as_bytes());
    }

    fn put_overflow(&mut self, slot: Slot, tenant: &TenantId, subscription: SubscriptionId, cursor: Option<Sequence>) {
        let key = key::overflow(slot, tenant, subscription);
        match cursor {
            None => self.remove(Table::State, &key),
            Some(cursor) => {
                self.put_with(Table::State, |out| out.extend_from_slice(&key), |out| overflow::encode(cursor, out));
            }
        }
    }

    fn put_destination(
        &mut self,
        slot: Slot,
        tenant: &TenantId,
        id: DestinationId,
        record: Option<&DestinationRecord>,
    ) {
        let key = key::destination(slot, tenant, id);
        match record {
            None => self.remove(Table::State, &key),
            Some(record) => {
                self.put_with(Table::State, |out| out.extend_from_slice(&key), |out| destination::encode(record, out));
            }
        }
    }

    fn put_ids(&mut self, slot: Slot, minute: u64, entries: &[(u128, Sequence)]) {
        let key = key::ids(slot, minute, ids::first_sequence(entries));
        self.put_with(Table::Ids, |out| out.extend_from_slice(&key), |out| ids::encode(entries, out));
    }

    fn put_quarantine(&mut self, record: &QuarantineRecord) {
        let id = quarantine::record_id(record.received_at, &record.topic, record.partition, record.offset);
        self.put_with(
            Table::Quarantine,
            |out| out.extend_from_slice(id.as_bytes()),
            |out| quarantine::encode(record, out),
        );
    }
}

fn slot_of(unit: Unit) -> Slot {
    match unit {
        Unit::Slot(slot) => slot,
        Unit::Lanes => unreachable!("a slot's rows travel in the slot's own batch"),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::super::samples;
    use super::*;
    use crate::engine::rows::BatchNumber;

    #[test]
    fn rows_keep_their_order_and_removals_have_no_value() {
        let event = samples::plain_event("acme", 7);
        let subscription = SubscriptionId(uuid::Uuid::from_u128(1));
        let tenant = event.tenant.clone();
        let rows = vec![
            Row::Event { event: Rc::new(event), jobs: Vec::new() },
            Row::Overflow { tenant, subscription, cursor: None },
        ];
        let batch = Batch { unit: Unit::Slot(Slot(3)), number: BatchNumber(1), rows: Rc::new(rows) };
        let other = Batch { unit: Unit::Slot(Slot(4)), number: BatchNumber(1), rows: Rc::clone(&batch.rows) };
        let encoded = encode(&[batch, other]);
        let arrivals: Vec<_> = encoded.arrivals().iter().map(|arrivals| (arrivals.slot, arrivals.first)).collect();
        assert_eq!(arrivals, [(Slot(3), Sequence(7)), (Slot(4), Sequence(7))]);
        let rows: Vec<_> = encoded.rows().map(|(table, _, value)| (table, value.is_some())).collect();
        assert_eq!(rows, [(Table::Log, true), (Table::State, false), (Table::Log, true), (Table::State, false)]);
    }
}
