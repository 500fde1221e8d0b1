//! Retention: removes what has expired, a bounded step each second, never under an open job.
//!
//! Sequences ascend with time within a slot, and the committer marks the first one of each minute, so "older
//! than" is "numbered below". A pass goes over the slots; in each it walks every tenant's events below that
//! number: from the tenant's oldest for whole events, from where the last pass ended for payloads. An event
//! with an open job is left for a later pass.

use super::committer::{Done, Submission};
use super::marks;
use super::tables::Tables;
use super::walk::{Met, Walk};
use crate::store::codec::batch::{EncodedBatch, Table};
use crate::store::codec::key::{self, LogPart, StateKind};
use crate::store::codec::{configuration, event, slot};
use crate::store::{Retention, StoreError, sealed};
use crate::types::{JobKey, Sequence, Slot, TenantId, Time, limits};

/// Where retention stands.
pub struct Sweep {
    tables: Tables,
    submissions: flume::WeakSender<Submission>,
    slots: u16,
    retention: Retention,
    stage: Stage,
    next_pass: Time,
}

/// What the pass does next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing until the next pass.
    Resting,
    /// Whole events below `below`, after the place `after`.
    Events { slot: Slot, below: Sequence, after: Option<(TenantId, Sequence)> },
    /// Payloads from `from` up to `below`, after the place `after`.
    Payloads { slot: Slot, from: Sequence, below: Sequence, after: Option<(TenantId, Sequence)> },
    /// Due rows and minute marks of a slot.
    Indexes(Slot),
    /// Packs of ids of a slot, from the key `from` on.
    Ids { slot: Slot, from: Vec<u8> },
    /// Lists ordered by time.
    Lists,
}

impl Sweep {
    /// Builds one; its first pass begins with its first step.
    pub const fn new(
        tables: Tables,
        submissions: flume::WeakSender<Submission>,
        slots: u16,
        retention: Retention,
    ) -> Self {
        Self { tables, submissions, slots, retention, stage: Stage::Resting, next_pass: Time::ZERO }
    }

    /// Takes one step: at most about [`limits::SWEEP_ROWS`] rows are looked at.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails; the step is taken again.
    pub fn step(&mut self, now: Time) -> Result<(), StoreError> {
        let mut rows = 0;
        while rows < limits::SWEEP_ROWS {
            let mut batch = EncodedBatch::default();
            let (stage, looked_at) = self.advance(now, &mut batch)?;
            let resting = stage == Stage::Resting;
            self.write(batch)?;
            self.stage = stage;
            if resting {
                break;
            }
            rows += looked_at.max(1);
        }
        Ok(())
    }

    fn advance(&mut self, now: Time, batch: &mut EncodedBatch) -> Result<(Stage, usize), StoreError> {
        match self.stage.clone() {
            Stage::Resting if now < self.next_pass => Ok((Stage::Resting, 0)),
            Stage::Resting => {
                self.next_pass = now + limits::SWEEP_PAUSE;
                Ok((self.begin_slot(Slot(0), now)?, 0))
            }
            Stage::Events { slot, below, after } => self.expire_events(now, (slot, below), after.as_ref(), batch),
            Stage::Payloads { slot, from, below, after } => {
                self.expire_payloads(slot, (from, below), after.as_ref(), batch)
            }
            Stage::Indexes(slot) => {
                let rows = self.trim_indexes(slot, now, batch)?;
                let again = rows >= CHUNK_ROWS;
                Ok((if again { Stage::Indexes(slot) } else { self.begin_ids(slot, now)? }, rows))
            }
            Stage::Ids { slot, from } => self.expire_ids(slot, from, now, batch),
            Stage::Lists => {
                let rows = self.trim_lists(now, batch)?;
                Ok((if rows < CHUNK_ROWS { Stage::Resting } else { Stage::Lists }, rows))
            }
        }
    }

    fn begin_slot(&self, slot: Slot, now: Time) -> Result<Stage, StoreError> {
        if slot.0 >= self.slots {
            return Ok(Stage::Lists);
        }
        let below = self.expired_below(slot, now - self.retention.events)?;
        if below == Sequence(0) {
            self.begin_payloads(slot, now)
        } else {
            Ok(Stage::Events { slot, below, after: None })
        }
    }

    fn begin_payloads(&self, slot: Slot, now: Time) -> Result<Stage, StoreError> {
        let from = self.stripped(slot)?;
        let below = self.expired_below(slot, now - self.retention.payloads)?;
        Ok(if from < below { Stage::Payloads { slot, from, below, after: None } } else { Stage::Indexes(slot) })
    }

    /// The sequence below which everything of `slot` was received before `cutoff`, and is written behind.
    fn expired_below(&self, slot: Slot, cutoff: Time) -> Result<Sequence, StoreError> {
        let Some(record) = super::read::slot_record(&self.tables, slot)? else { return Ok(Sequence(0)) };
        let reached = marks::first_from(&self.tables, slot, cutoff.as_minutes())?;
        Ok(reached.min(record.low_water).min(record.flushed))
    }

    fn expire_events(
        &self,
        now: Time,
        (slot, below): (Slot, Sequence),
        after: Option<&(TenantId, Sequence)>,
        batch: &mut EncodedBatch,
    ) -> Result<(Stage, usize), StoreError> {
        let mut walk = Walk::over_slot(&self.tables, slot, Sequence(0), after).below(below).keeping_keys();
        while let Some(met) = walk.next_event()? {
            remove_event(&met, batch);
            let size = walk.row_count + walk.seeks;
            if size >= CHUNK_ROWS || walk.byte_count >= limits::SCAN_MAX_BYTES {
                let after = Some((met.tenant, met.sequence));
                return Ok((Stage::Events { slot, below, after }, size));
            }
        }
        Ok((self.begin_payloads(slot, now)?, walk.row_count))
    }

    fn expire_payloads(
        &self,
        slot: Slot,
        (from, below): (Sequence, Sequence),
        after: Option<&(TenantId, Sequence)>,
        batch: &mut EncodedBatch,
    ) -> Result<(Stage, usize), StoreError> {
        let mut walk = Walk::over_slot(&self.tables, slot, from, after).below(below);
        while let Some(met) = walk.next_event()? {
            strip_payload(&self.tables, slot, &met, batch)?;
            let size = walk.row_count + walk.seeks;
            if size >= CHUNK_ROWS || walk.byte_count >= limits::SCAN_MAX_BYTES {
                let after = Some((met.tenant, met.sequence));
                return Ok((Stage::Payloads { slot, from, below, after }, size));
            }
        }
        let key = key::state(StateKind::Stripped, slot);
        batch.put_with(Table::State, |out| out.extend_from_slice(&key), |out| slot::encode_sequence(below, out));
        Ok((Stage::Indexes(slot), walk.row_count))
    }

    fn stripped(&self, slot: Slot) -> Result<Sequence, StoreError> {
        let value = self.tables.of(Table::State).get(key::state(StateKind::Stripped, slot))?;
        Ok(value.map(|bytes| slot::decode_sequence(&bytes)).transpose()?.unwrap_or_default())
    }

    /// Removes a slot's due rows below its bound, and minute marks; gives the rows removed.
    fn trim_indexes(&self, slot: Slot, now: Time, batch: &mut EncodedBatch) -> Result<usize, StoreError> {
        let Some(record) = super::read::slot_record(&self.tables, slot)? else { return Ok(0) };
        let cutoff = now - self.retention.events;
        let mut removed = 0;
        let due = (key::slot_start(slot), key::due_from(slot, record.due_bound));
        removed += trim(&self.tables, Table::Due, due, batch)?;
        let marks = (key::arrivals(slot, 0), key::arrivals(slot, cutoff.as_minutes()));
        removed += trim(&self.tables, Table::State, marks, batch)?;
        Ok(removed)
    }

    /// Ids can expire only where events have.
    fn begin_ids(&self, slot: Slot, now: Time) -> Result<Stage, StoreError> {
        if self.expired_below(slot, now - self.retention.events)? == Sequence(0) {
            self.begin_slot(Slot(slot.0 + 1), now)
        } else {
            Ok(Stage::Ids { slot, from: key::slot_start(slot) })
        }
    }

    /// Removes ids of expired events: those of minutes before the retention, and those of minutes that lie ahead,
    /// which a forged time may put so far that they never come. Ids of the time between wait for their minute.
    fn expire_ids(
        &self,
        slot: Slot,
        from: Vec<u8>,
        now: Time,
        batch: &mut EncodedBatch,
    ) -> Result<(Stage, usize), StoreError> {
        let cutoff = now - self.retention.events;
        let below = self.expired_below(slot, cutoff)?;
        let past = key::ids(slot, cutoff.as_minutes(), Sequence(0));
        let ahead = key::ids(slot, (now + limits::IDS_AHEAD).as_minutes().saturating_add(1), Sequence(0));
        let is_past = from < past;
        let (start, end) = if is_past { (from, past) } else { (from.max(ahead.clone()), key::slot_end(slot)) };
        let mut rows = 0;
        for guard in self.tables.of(Table::Ids).range(start.clone()..end.max(start)) {
            let key = guard.key()?;
            if key::decode_ids(&key)?.2 < below {
                batch.remove(Table::Ids, &key);
            }
            rows += 1;
            if rows >= CHUNK_ROWS {
                let from = [&key, &[0][..]].concat();
                return Ok((Stage::Ids { slot, from }, rows));
            }
        }
        let next = if is_past { Stage::Ids { slot, from: ahead } } else { self.begin_slot(Slot(slot.0 + 1), now)? };
        Ok((next, rows))
    }

    fn trim_lists(&self, now: Time, batch: &mut EncodedBatch) -> Result<usize, StoreError> {
        let mut removed = self.trim_dead_letters(now - self.retention.dead_letters, batch)?;
        let end = crate::types::ids::uuid_v7(now - self.retention.quarantine, 0);
        for table in [Table::Quarantine, Table::ProducerDlq] {
            let bounds = (vec![0; 16], end.as_bytes().to_vec());
            removed += trim(&self.tables, table, bounds, batch)?;
        }
        removed += self.trim_deletions(now - self.retention.events, batch)?;
        Ok(removed)
    }

    /// Marks of deletions go when no event can have a job for what was deleted any more.
    fn trim_deletions(&self, cutoff: Time, batch: &mut EncodedBatch) -> Result<usize, StoreError> {
        let mut removed = 0;
        for guard in self.tables.of(Table::Configuration).prefix([configuration::DELETED]) {
            let (key, value) = guard.into_inner()?;
            if sealed::deleted_at(&key, &value)? < cutoff {
                batch.remove(Table::Configuration, &key);
                removed += 1;
            }
            if removed >= CHUNK_ROWS {
                break;
            }
        }
        Ok(removed)
    }

    fn trim_dead_letters(&self, cutoff: Time, batch: &mut EncodedBatch) -> Result<usize, StoreError> {
        let place = JobKey { slot: Slot(0), sequence: Sequence(0), ordinal: 0 };
        let bounds = key::dead_letter_by_time(Time::ZERO, place)..key::dead_letter_by_time(cutoff, place);
        let mut removed = 0;
        for guard in self.tables.of(Table::DeadLetters).range(bounds).take(CHUNK_ROWS) {
            let (bytes, tenant) = guard.into_inner()?;
            let (at, job) = key::decode_time_and_place(&bytes)?;
            let tenant = super::read::tenant_of(&tenant)?;
            batch.remove(Table::DeadLetters, &bytes);
            batch.remove(Table::DeadLetters, &key::dead_letter(&tenant, at, job));
            batch.remove(Table::DeadLetters, &key::dead_letter_by_id(job));
            removed += 1;
        }
        Ok(removed)
    }

    /// Hands removals to the committer and waits, so that the pass is never ahead of the disk.
    fn write(&self, batch: EncodedBatch) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let submissions = self.submissions.upgrade().ok_or(StoreError::Stopped)?;
        let (sender, done) = flume::bounded(1);
        submissions.send(Submission { batch, done: Done::Waiter(sender) }).map_err(|_| StoreError::Stopped)?;
        done.recv().map_err(|_| StoreError::Stopped)
    }
}

/// Rows between two writes of a pass.
const CHUNK_ROWS: usize = 4_096;

fn has_open_job(met: &Met) -> bool {
    met.event.as_ref().is_some_and(|event| event.logged.jobs.iter().any(|job| job.end.is_none()))
}

fn remove_event(met: &Met, batch: &mut EncodedBatch) {
    if has_open_job(met) {
        return;
    }
    for key in &met.keys {
        batch.remove(Table::Log, key);
    }
}

fn strip_payload(tables: &Tables, slot: Slot, met: &Met, batch: &mut EncodedBatch) -> Result<(), StoreError> {
    let kept = met.event.as_ref().is_some_and(|event| !event.logged.payload_expired && event.payload_size > 0);
    if !kept || has_open_job(met) {
        return Ok(());
    }
    let mut key = Vec::new();
    key::put_log(&mut key, slot, &met.tenant, met.sequence, LogPart::Event);
    if let Some(value) = tables.of(Table::Log).get(&key)? {
        let row = event::decode(&met.tenant, met.sequence, &value)?;
        let value = |out: &mut Vec<u8>| {
            event::encode_without_payload(&row.event, &row.jobs, row.payload_size, out);
        };
        batch.put_with(Table::Log, |out| out.extend_from_slice(&key), value);
    }
    Ok(())
}

/// Removes rows between two keys, a chunk at most; gives the number removed.
fn trim(
    tables: &Tables,
    table: Table,
    (start, end): (Vec<u8>, Vec<u8>),
    batch: &mut EncodedBatch,
) -> Result<usize, StoreError> {
    let mut removed = 0;
    let end = end.max(start.clone());
    for guard in tables.of(table).range(start..end).take(CHUNK_ROWS) {
        batch.remove(table, &guard.key()?);
        removed += 1;
    }
    Ok(removed)
}
