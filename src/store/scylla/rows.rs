//! The rows of the engine as rows of tables: keys, values, and how long they live.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::epoch::Epoch;
use super::part::Part;
use super::phase::{Gather, Phase, PlannedRow, Stage};
use super::plan::log_chunk;
use super::statement::{Partition, Statement, Value};
use crate::engine::rows::{DestinationRecord, NewJob, SlotRecord};
use crate::engine::{QuarantineRecord, Row};
use crate::store::Retention;
use crate::store::codec::{dead_letter, destination, event, ids, job, lane, overflow, producer_dlq, quarantine, slot};
use crate::types::{
    AttemptRecord, ClaimRecord, DestinationId, Duration, End, Event, JobKey, JobRecord, LaneName, ProducerDeadLetter,
    Sequence, Slot, SubscriptionId, TenantId, Time, limits,
};

/// How long rows of each kind live, in the seconds of `USING TTL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    payloads: i32,
    events: i32,
    dead_letters: i32,
    quarantine: i32,
    /// The same as `events`, as a span: a due row lives so long beyond its time.
    beyond: Duration,
}

impl From<Retention> for Lifetimes {
    fn from(kept: Retention) -> Self {
        Self {
            payloads: ttl(kept.payloads),
            events: ttl(kept.events),
            dead_letters: ttl(kept.dead_letters),
            quarantine: ttl(kept.quarantine),
            beyond: kept.events,
        }
    }
}

impl Lifetimes {
    /// Of what is kept as long as events, in seconds.
    #[cfg(feature = "serve")]
    pub(super) const fn events(&self) -> i32 {
        self.events
    }

    /// Of a row that is needed until `at` and as long after as events are kept: it may be dealt with late.
    fn until(&self, at: Time, now: Time) -> i32 {
        ttl(at.since(now) + self.beyond)
    }

    /// Of an entry that must outlive the rows of its chunk or minute, the last of which may be written just before it
    /// is listed again.
    fn listed(&self, at: Time, now: Time) -> i32 {
        ttl(at.since(now) + self.beyond + limits::CQL_LIST_AGAIN.times(2))
    }
}

/// A span in the bounds of `USING TTL`: 1 s to 20 years.
pub(super) fn ttl(span: Duration) -> i32 {
    let seconds = span.as_secs().clamp(1, limits::CQL_TTL_MAX_S);
    i32::try_from(seconds).expect("20 years in seconds fit")
}

/// The timestamp of a row that never changes.
pub(super) fn at_clock(now: Time) -> i64 {
    i64::try_from(now.0).unwrap_or(i64::MAX)
}

/// Turns the rows of one batch of a slot into rows of tables.
#[derive(Debug)]
pub(super) struct Writing<'a> {
    slot: Slot,
    epoch: Epoch,
    /// Of rows that change.
    stamp: i64,
    now: Time,
    kept: &'a Lifetimes,
    cursors: BTreeMap<(TenantId, SubscriptionId), Option<Sequence>>,
    destinations: BTreeMap<(TenantId, DestinationId), Option<DestinationRecord>>,
    wrote: Wrote,
    places: &'a mut Places,
}

/// Where the claims that stand in rows of their own are listed: each has a place until its attempt has ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    taken: BTreeMap<(JobKey, u32), u32>,
    free: BTreeSet<u32>,
}

impl Places {
    /// The place of a claim, the same when it is asked for again.
    fn take(&mut self, key: JobKey, number: u32) -> u32 {
        let next = u32::try_from(self.taken.len()).expect("attempts in flight are few");
        let free = &mut self.free;
        *self.taken.entry((key, number)).or_insert_with(|| free.pop_first().unwrap_or(next))
    }

    /// The attempts of a job up to `number` are over.
    fn give_back(&mut self, key: JobKey, number: u32) {
        let over: Vec<(JobKey, u32)> = self.taken.range((key, 0)..=(key, number)).map(|(claim, _)| *claim).collect();
        self.free.extend(over.into_iter().filter_map(|claim| self.taken.remove(&claim)));
    }
}

/// What a batch wrote that others depend on.
#[derive(Clone, Debug, Default)]
pub(super) struct Wrote {
    /// Chunks of the log with new events.
    pub(super) chunks: BTreeSet<u64>,
    /// Minutes with due rows.
    pub(super) minutes: BTreeSet<u64>,
    /// The slot's record.
    pub(super) record: Option<SlotRecord>,
}

impl<'a> Writing<'a> {
    pub(super) fn new(
        slot: Slot,
        (epoch, stamp): (Epoch, i64),
        now: Time,
        kept: &'a Lifetimes,
        places: &'a mut Places,
    ) -> Self {
        let (cursors, destinations) = (BTreeMap::new(), BTreeMap::new());
        Self { slot, epoch, stamp, now, kept, cursors, destinations, wrote: Wrote::default(), places }
    }

    /// Puts a row, or remembers it when a later one of the batch may take its place.
    pub(super) fn put(&mut self, row: &Row, gather: &mut Gather) {
        match row {
            Row::Event { event, jobs } => self.put_event(event, jobs, gather),
            Row::Run { tenant, key, subscription, destination, run, trigger, created_at } => {
                let row = job::RunRow {
                    subscription: *subscription,
                    destination: *destination,
                    run: *run,
                    trigger: *trigger,
                    created_at: *created_at,
                };
                let value = bytes_of(|out| job::encode_run(&row, out));
                self.put_log(tenant, key.sequence, Part::run(key.ordinal), value, gather);
            }
            Row::Claim { tenant, key, number, claim } => {
                let value = bytes_of(|out| job::encode_claim(claim, out));
                self.put_log(tenant, key.sequence, Part::claim(key.ordinal, *number), value, gather);
                self.list_claim(tenant, *key, *number, claim, gather);
            }
            Row::Attempt { tenant, key, record, end } => self.put_attempt(tenant, *key, record, *end, gather),
            Row::End { tenant, key, end, at } => {
                let value = bytes_of(|out| job::encode_end(*end, *at, out));
                self.put_log(tenant, key.sequence, Part::end(key.ordinal, end.strength()), value, gather);
                self.places.give_back(*key, u32::MAX);
            }
            Row::DeadLetter { event, job } => self.put_dead_letter(event, job, gather),
            Row::Due { tenant, key, at } => self.put_due(tenant, *key, *at, gather),
            Row::Overflow { tenant, subscription, cursor } => {
                self.cursors.insert((tenant.clone(), *subscription), *cursor);
            }
            Row::Destination { tenant, destination, record } => {
                self.destinations.insert((tenant.clone(), *destination), *record);
            }
            Row::Ids { minute, entries } => self.put_ids(*minute, entries, gather),
            Row::Slot(record) => self.wrote.record = Some(*record),
            Row::Lane { .. } | Row::Quarantine(_) => put_lane_row(row, self.kept, gather),
        }
    }

    /// Puts what was remembered, and says what others depend on.
    pub(super) fn finish(&mut self, gather: &mut Gather) -> Wrote {
        for ((tenant, id), cursor) in std::mem::take(&mut self.cursors) {
            let value = cursor.map(|cursor| bytes_of(|out| overflow::encode(cursor, out)));
            let row = self.member(&tenant, id.0, value, (Statement::PutOverflow, Statement::RemoveOverflow));
            gather.put(Stage::Cursors, Partition::Overflow(self.slot), row);
        }
        for ((tenant, id), record) in std::mem::take(&mut self.destinations) {
            let value = record.map(|record| bytes_of(|out| destination::encode(&record, out)));
            let row = self.member(&tenant, id.0, value, (Statement::PutDestination, Statement::RemoveDestination));
            gather.put(Stage::Log, Partition::Destinations(self.slot), row);
        }
        if let Some(record) = self.wrote.record {
            let value = Value::Blob(bytes_of(|out| slot::encode(&record, out)));
            let values = vec![Value::Long(self.stamp), value, Value::slot(self.slot), self.epoch_value()];
            let row = PlannedRow { statement: Statement::PutSlot, values };
            gather.put(Stage::Records, Partition::Slot(self.slot), row);
        }
        self.wrote.clone()
    }

    /// Lists a chunk of the log.
    pub(super) fn list_chunk(&self, chunk: u64, gather: &mut Gather) {
        let columns = [Value::long(chunk)];
        let ttl = self.kept.listed(self.now, self.now);
        self.put_lasting((Stage::Named, Partition::LogChunks(self.slot)), Statement::PutLogChunk, columns, ttl, gather);
    }

    /// Lists a minute of due rows.
    pub(super) fn list_minute(&self, minute: u64, gather: &mut Gather) {
        let columns = [Value::long(minute)];
        let ttl = self.kept.listed(end_of_minute(minute), self.now);
        self.put_lasting(
            (Stage::Named, Partition::DueMinutes(self.slot)),
            Statement::PutDueMinute,
            columns,
            ttl,
            gather,
        );
    }

    /// An event's row of the tenants' index.
    pub(super) fn index_row(&self, chunk: u64, tenant: &TenantId, sequence: Sequence, head: &Bytes) -> PlannedRow {
        let columns = [Value::tenant(tenant), Value::long(sequence.0), Value::Blob(head.clone())];
        let partition = Partition::Index(self.slot, chunk);
        self.lasting(&partition, Statement::PutIndex, columns, self.kept.events)
    }

    fn put_event(&mut self, event: &Event, jobs: &[NewJob], gather: &mut Gather) {
        let sequence = event.sequence;
        self.wrote.chunks.insert(log_chunk(sequence));
        let size = event.payload.len();
        let value = bytes_of(|out| event::encode_without_payload(event, jobs, size as u64, out));
        self.put_log(&event.tenant, sequence, Part::EVENT, value, gather);
        if size == 0 {
            return;
        }
        if size <= limits::CQL_INLINE_PAYLOAD_BYTES {
            let payload = Value::Blob(event.payload.clone());
            let columns = self.log_key(sequence, Part::EVENT).into_iter().chain([payload]);
            let partition = self.log_partition(sequence);
            let row = self.lasting(&partition, Statement::PutLogPayload, columns, self.kept.payloads);
            gather.put_with(Stage::Log, partition, sequence.0, row);
            return;
        }
        for (piece, at) in (0..).zip((0..size).step_by(limits::CQL_PAYLOAD_PIECE_BYTES)) {
            let bytes = event.payload.slice(at..size.min(at + limits::CQL_PAYLOAD_PIECE_BYTES));
            let columns = [Value::Int(piece), Value::Blob(bytes)];
            let partition = Partition::Payload(self.slot, sequence);
            self.put_lasting((Stage::Named, partition), Statement::PutPayload, columns, self.kept.payloads, gather);
        }
    }

    fn list_claim(&mut self, tenant: &TenantId, key: JobKey, number: u32, claim: &ClaimRecord, gather: &mut Gather) {
        let place = i32::try_from(self.places.take(key, number)).expect("attempts in flight are few");
        let ttl = ttl(claim.until.since(self.now) + limits::CQL_CLAIM_BEYOND);
        let mut values = vec![Value::slot(self.slot), self.epoch_value(), Value::Int(place)];
        values.extend([Value::long(key.sequence.0), Value::Int(key.ordinal.into()), Value::tenant(tenant)]);
        values.extend([Value::Int(ttl), Value::Long(self.stamp)]);
        gather.put(Stage::Log, Partition::Claims(self.slot), PlannedRow { statement: Statement::PutClaim, values });
    }

    fn put_attempt(
        &mut self,
        tenant: &TenantId,
        key: JobKey,
        record: &AttemptRecord,
        end: Option<End>,
        gather: &mut Gather,
    ) {
        let value = bytes_of(|out| job::encode_attempt(record, end, out));
        let part = Part::attempt(key.ordinal, record.number, record.reclaim);
        self.put_log(tenant, key.sequence, part, value, gather);
        self.places.give_back(key, record.number);
    }

    /// A row of the log, never parted from the others of its event.
    fn put_log(&self, tenant: &TenantId, sequence: Sequence, part: Part, value: Bytes, gather: &mut Gather) {
        let columns = self.log_key(sequence, part).into_iter().chain([Value::tenant(tenant), Value::Blob(value)]);
        let partition = self.log_partition(sequence);
        let row = self.lasting(&partition, Statement::PutLog, columns, self.kept.events);
        gather.put_with(Stage::Log, partition, sequence.0, row);
    }

    const fn log_partition(&self, sequence: Sequence) -> Partition {
        Partition::Log(self.slot, log_chunk(sequence))
    }

    fn log_key(&self, sequence: Sequence, part: Part) -> Vec<Value> {
        let [ordinal, kind, number] = part.values();
        vec![Value::long(sequence.0), ordinal, kind, number, self.epoch_value()]
    }

    fn put_dead_letter(&self, event: &Event, job: &JobRecord, gather: &mut Gather) {
        let at = job.end.map_or(job.created_at, |(_, at)| at);
        let key = job.key;
        let value = Value::Blob(bytes_of(|out| dead_letter::encode_without_payload(event, job, out)));
        let ordinal = Value::Int(key.ordinal.into());
        let ttl = self.kept.dead_letters;
        let place = [Value::long(at.0), Value::slot(key.slot), Value::long(key.sequence.0), ordinal.clone()];
        let columns = place.iter().cloned().chain([value, Value::Blob(event.payload.clone())]);
        let partition = Partition::DeadLetters(event.tenant.clone(), day_of(at));
        self.put_lasting((Stage::Named, partition), Statement::PutDeadLetter, columns, ttl, gather);
        let columns = place.into_iter().chain([Value::tenant(&event.tenant)]);
        let partition = Partition::DeadLettersByHour(hour_of(at));
        self.put_lasting((Stage::Named, partition), Statement::PutDeadLetterByHour, columns, ttl, gather);
        let columns = [ordinal, Value::long(at.0), Value::tenant(&event.tenant)];
        let partition = Partition::DeadLettersOfEvent(key.slot, key.sequence);
        self.put_lasting((Stage::Named, partition), Statement::PutDeadLetterOfEvent, columns, ttl, gather);
    }

    fn put_due(&mut self, tenant: &TenantId, key: JobKey, at: Time, gather: &mut Gather) {
        self.wrote.minutes.insert(at.as_minutes());
        let columns =
            [Value::long(at.0), Value::long(key.sequence.0), Value::Int(key.ordinal.into()), Value::tenant(tenant)];
        let ttl = self.kept.until(at, self.now);
        let partition = Partition::Due(self.slot, at.as_minutes());
        self.put_lasting((Stage::Covers, partition), Statement::PutDue, columns, ttl, gather);
    }

    fn put_ids(&self, minute: u64, entries: &[(u128, Sequence)], gather: &mut Gather) {
        let first = ids::first_sequence(entries);
        let value = Value::Blob(bytes_of(|out| ids::encode(entries, out)));
        let columns = [Value::long(first.0), self.epoch_value(), value];
        let partition = Partition::Ids(self.slot, minute);
        self.put_lasting((Stage::Log, partition), Statement::PutIds, columns, self.kept.events, gather);
    }

    /// A small record of a tenant's object, set or removed.
    fn member(
        &self,
        tenant: &TenantId,
        id: uuid::Uuid,
        value: Option<Bytes>,
        (put, remove): (Statement, Statement),
    ) -> PlannedRow {
        let (stamp, slot) = (Value::Long(self.stamp), Value::slot(self.slot));
        let (tenant, id) = (Value::tenant(tenant), Value::Uuid(id));
        match value {
            Some(value) => PlannedRow { statement: put, values: vec![slot, tenant, id, Value::Blob(value), stamp] },
            None => PlannedRow { statement: remove, values: vec![stamp, slot, tenant, id] },
        }
    }

    fn epoch_value(&self) -> Value {
        Value::long(self.epoch.0.into())
    }

    fn put_lasting(
        &self,
        (stage, partition): (Stage, Partition),
        statement: Statement,
        columns: impl IntoIterator<Item = Value>,
        ttl: i32,
        gather: &mut Gather,
    ) {
        let row = self.lasting(&partition, statement, columns, ttl);
        gather.put(stage, partition, row);
    }

    /// A row that never changes and expires.
    fn lasting(
        &self,
        partition: &Partition,
        statement: Statement,
        columns: impl IntoIterator<Item = Value>,
        ttl: i32,
    ) -> PlannedRow {
        lasting(partition, statement, columns, (ttl, self.now))
    }
}

fn lasting(
    partition: &Partition,
    statement: Statement,
    columns: impl IntoIterator<Item = Value>,
    (ttl, now): (i32, Time),
) -> PlannedRow {
    let mut values = partition.key();
    values.extend(columns);
    values.extend([Value::Int(ttl), Value::Long(at_clock(now))]);
    PlannedRow { statement, values }
}

/// Puts a lane's position or a quarantined record; other rows are a slot's.
///
/// # Panics
/// For a slot's row: the engine sends those in the slot's own batch.
pub(super) fn put_lane_row(row: &Row, kept: &Lifetimes, gather: &mut Gather) {
    match row {
        Row::Lane { name, position } => put_position(name, *position, gather),
        Row::Quarantine(record) => put_quarantine(record, kept, gather),
        Row::Event { .. }
        | Row::Run { .. }
        | Row::Claim { .. }
        | Row::Attempt { .. }
        | Row::End { .. }
        | Row::DeadLetter { .. }
        | Row::Due { .. }
        | Row::Overflow { .. }
        | Row::Destination { .. }
        | Row::Ids { .. }
        | Row::Slot(_) => unreachable!("a slot's rows travel in the slot's own batch"),
    }
}

fn put_position(name: &LaneName, position: u64, gather: &mut Gather) {
    let partition = Partition::of_lane(name);
    let mut values = partition.key();
    let value = Value::Blob(bytes_of(|out| lane::encode(position, out)));
    // The position is the timestamp: whoever writes it, the highest stands.
    values.extend([Value::Text(name.0.clone()), value, Value::long(position)]);
    gather.put(Stage::Records, partition, PlannedRow { statement: Statement::PutLane, values });
}

/// Records of producers' dead-letter topics, then the position of their lane.
#[must_use]
pub fn plan_producer_dead_letters(
    records: &[ProducerDeadLetter],
    position: Option<(&LaneName, u64)>,
    kept: &Lifetimes,
) -> Vec<Phase> {
    let mut gather = Gather::default();
    for record in records {
        let id = quarantine::record_id(record.received_at, &record.topic, record.partition, record.offset);
        let value = Value::Blob(bytes_of(|out| producer_dlq::encode(record, out)));
        let partition = Partition::ProducerDlq(hour_of(record.received_at));
        let columns = [Value::Uuid(id), value];
        let ttl = (kept.quarantine, record.received_at);
        let row = lasting(&partition, Statement::PutProducerDeadLetter, columns, ttl);
        gather.put(Stage::Named, partition, row);
    }
    if let Some((name, position)) = position {
        put_position(name, position, &mut gather);
    }
    gather.finish()
}

fn put_quarantine(record: &QuarantineRecord, kept: &Lifetimes, gather: &mut Gather) {
    let id = quarantine::record_id(record.received_at, &record.topic, record.partition, record.offset);
    let value = Value::Blob(bytes_of(|out| quarantine::encode(record, out)));
    let partition = Partition::Quarantine(hour_of(record.received_at));
    let columns = [Value::Uuid(id), value];
    let row = lasting(&partition, Statement::PutQuarantine, columns, (kept.quarantine, record.received_at));
    gather.put(Stage::Named, partition, row);
}

fn bytes_of(encode: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::new();
    encode(&mut out);
    out.into()
}

/// The span of a partition of a day.
pub const DAY: Duration = Duration::from_hours(24);

/// The span of a partition of an hour.
pub const HOUR: Duration = Duration::from_hours(1);

/// Days since the epoch.
#[must_use]
pub const fn day_of(at: Time) -> u64 {
    at.0 / DAY.0
}

/// Hours since the epoch.
#[must_use]
pub const fn hour_of(at: Time) -> u64 {
    at.0 / HOUR.0
}

const fn end_of_minute(minute: u64) -> Time {
    Time::from_millis(minute.saturating_add(1).saturating_mul(60_000))
}
