//! The reference store: the meaning of every row and read, in memory and without I/O.
//!
//! It applies a batch at once and whole; latency, refusals and loss are its caller's to play. A clone is a
//! snapshot. Rows are monotone: applying a batch twice, or an older one again, undoes nothing. The few that are not
//! (an event with its jobs, a cursor, a record) carry the epoch of the owner who wrote them and the number of its batch.

mod job;
mod slot;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::engine::rows::{DestinationRecord, LoggedEvent, SlotRecord};
use crate::engine::{Batch, BatchNumber, QuarantineRecord, Read, ReadAnswer, Row, Unit};
use crate::types::{AttemptRecord, DestinationId, Event, JobKey, JobRecord, LaneName, Slot, TenantId, limits};

use self::job::JobRows;
use self::slot::SlotRows;

/// Where a page of each kind of read ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Events looked at in one page, at least 1.
    pub events: usize,
    /// Bytes of events in one page; a single event may be larger.
    pub bytes: usize,
    /// Due rows in one page, at least 1.
    pub due_rows: usize,
    /// Ids in one page, at least 1.
    pub ids: usize,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            events: limits::LOG_PAGE_EVENTS,
            bytes: limits::LOG_PAGE_BYTES,
            due_rows: limits::DUE_PAGE_ROWS,
            ids: limits::IDS_PAGE,
        }
    }
}

/// All rows of all slots and lanes.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pages: Pages,
    slots: BTreeMap<Slot, SlotRows>,
    lanes: BTreeMap<LaneName, u64>,
    quarantine: BTreeMap<(Box<str>, i32, u64), QuarantineRecord>,
    /// Counts the batches applied in turn.
    applied: u64,
}

impl Memory {
    /// An empty store whose reads end their pages at `pages`.
    #[must_use]
    pub fn new(pages: Pages) -> Self {
        Self { pages, ..Self::default() }
    }

    /// A new owner takes a slot: its record is made from the last one's. Its epoch, from 1.
    pub fn take(&mut self, slot: Slot) -> u64 {
        self.slots.entry(slot).or_insert_with(|| SlotRows::new(slot)).take()
    }

    /// Makes the rows of `batch` durable, after all that were applied before, whoever wrote them.
    pub fn apply(&mut self, batch: &Batch) {
        self.applied += 1;
        self.apply_as(&Batch { number: BatchNumber(self.applied), ..batch.clone() }, 0);
    }

    /// Makes the rows of `batch` durable as those of the slot's owner in `epoch`: what a later batch of its, or a later
    /// owner, has written stands.
    pub fn apply_as(&mut self, batch: &Batch, epoch: u64) {
        for row in batch.rows.iter() {
            match row {
                Row::Lane { name, position } => {
                    let stored = self.lanes.entry(name.clone()).or_insert(*position);
                    *stored = (*stored).max(*position);
                }
                Row::Quarantine(record) => {
                    let place = (record.topic.clone(), record.partition, record.offset);
                    self.quarantine.insert(place, (**record).clone());
                }
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
                | Row::Slot(_) => {
                    if let Unit::Slot(slot) = batch.unit {
                        self.slots.entry(slot).or_insert_with(|| SlotRows::new(slot)).apply(row, (epoch, batch.number));
                    }
                }
            }
        }
    }

    /// Answers `read` as of all batches applied so far.
    #[must_use]
    pub fn answer(&self, read: &Read) -> ReadAnswer {
        let empty = SlotRows::new(read_slot(read));
        let rows = self.slots.get(&empty.slot).unwrap_or(&empty);
        match read {
            Read::Slot(_) => rows.answer_slot(),
            Read::Log { from, after, .. } => rows.answer_log(*from, after.as_ref(), self.pages),
            Read::Queue { tenant, from, to, wanted, bytes_max, .. } => {
                let pages = Pages { bytes: self.pages.bytes.min(*bytes_max), ..self.pages };
                rows.answer_queue(tenant, *from..=*to, wanted, pages)
            }
            Read::Due { from, after, to, .. } => rows.answer_due((*from, *after), *to, self.pages),
            Read::Ids { minute, from, .. } => rows.answer_ids(*minute, *from, self.pages),
            Read::Event { tenant, sequence, .. } => ReadAnswer::Event(rows.logged(&(tenant.clone(), *sequence))),
        }
    }

    /// The stored position of a lane: the next offset to read.
    #[must_use]
    pub fn lane(&self, name: &LaneName) -> Option<u64> {
        self.lanes.get(name).copied()
    }

    /// All malformed and unstorable records, in order of topic, partition and offset.
    pub fn quarantined(&self) -> impl Iterator<Item = &QuarantineRecord> {
        self.quarantine.values()
    }

    /// All events of all slots with their jobs, folded.
    pub fn events(&self) -> impl Iterator<Item = LoggedEvent> {
        self.slots.values().flat_map(|rows| rows.events.keys().filter_map(|place| rows.logged(place)))
    }

    /// All jobs of all events, folded, each with its tenant.
    pub fn jobs(&self) -> impl Iterator<Item = (TenantId, JobRecord)> {
        self.events().flat_map(|logged| {
            let tenant = logged.event.tenant.clone();
            logged.jobs.into_iter().map(move |job| (tenant.clone(), job))
        })
    }

    /// One job, folded.
    #[must_use]
    pub fn job(&self, tenant: &TenantId, key: JobKey) -> Option<JobRecord> {
        let rows = self.slots.get(&key.slot)?.events.get(&(tenant.clone(), key.sequence))?;
        rows.jobs.get(&key.ordinal)?.record(key)
    }

    /// The attempts of one job that have ended, by number.
    #[must_use]
    pub fn attempts(&self, tenant: &TenantId, key: JobKey) -> Vec<&AttemptRecord> {
        let event = self.slots.get(&key.slot).and_then(|rows| rows.events.get(&(tenant.clone(), key.sequence)));
        let job = event.and_then(|event| event.jobs.get(&key.ordinal));
        job.into_iter().flat_map(JobRows::attempts).collect()
    }

    /// All dead letters with their copies of event and job, in order of slot and place.
    pub fn dead_letters(&self) -> impl Iterator<Item = (&Rc<Event>, &JobRecord)> {
        self.slots.values().flat_map(|rows| rows.dead_letters.values().map(|(event, job)| (event, job)))
    }

    /// What is remembered of destinations of one slot.
    pub fn destinations(&self, slot: Slot) -> impl Iterator<Item = (&TenantId, DestinationId, &DestinationRecord)> {
        let rows = self.slots.get(&slot).into_iter();
        rows.flat_map(|rows| rows.destinations.iter().map(|((tenant, id), record)| (tenant, *id, record)))
    }

    /// A slot's own record.
    #[must_use]
    pub fn slot(&self, slot: Slot) -> Option<SlotRecord> {
        self.slots.get(&slot)?.record()
    }
}

fn read_slot(read: &Read) -> Slot {
    match read {
        Read::Slot(slot)
        | Read::Log { slot, .. }
        | Read::Queue { slot, .. }
        | Read::Due { slot, .. }
        | Read::Ids { slot, .. }
        | Read::Event { slot, .. } => *slot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::BatchNumber;
    use crate::engine::rows::{NewJob, Wanted};
    use crate::store::tests::{Subject, conforms};
    use crate::types::{
        AttemptId, AttemptOutcome, Attributes, ClaimRecord, End, EndReason, Sequence, SubscriptionId, Time,
    };
    use uuid::Uuid;

    const SLOT: Slot = Slot(0);

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("a plain name")
    }

    fn subscription(number: u128) -> SubscriptionId {
        SubscriptionId(Uuid::from_u128(number))
    }

    fn key(sequence: u64) -> JobKey {
        JobKey { slot: SLOT, sequence: Sequence(sequence), ordinal: 0 }
    }

    fn event_row(owner: &str, sequence: u64, wanted_by: u128) -> Row {
        let event = Event {
            tenant: tenant(owner),
            id: Uuid::from_u128(u128::from(sequence)),
            sequence: Sequence(sequence),
            received_at: Time(sequence),
            key: "loan.approved".into(),
            schema_major: 1,
            attributes: Attributes::default(),
            traceparent: None,
            tracestate: None,
            content_encoding: None,
            source_id: None,
            request: None,
            lane: LaneName::kafka("t", 0),
            payload: bytes::Bytes::new(),
        };
        let destination = DestinationId(Uuid::from_u128(9));
        let job = NewJob { subscription: subscription(wanted_by), destination, claim: None };
        Row::Event { event: Rc::new(event), jobs: vec![job] }
    }

    fn claim(number: u128) -> ClaimRecord {
        let attempt = AttemptId(Uuid::from_u128(number));
        ClaimRecord { attempt, claimed_at: Time(1), until: Time(2), alone: false }
    }

    fn claim_row(sequence: u64, number: u32) -> Row {
        Row::Claim { tenant: tenant("a"), key: key(sequence), number, claim: claim(u128::from(number)) }
    }

    fn attempt_row(sequence: u64, number: u32, reclaim: bool, end: Option<End>) -> Row {
        let record = AttemptRecord {
            number,
            claim: claim(u128::from(number)),
            destination: DestinationId(Uuid::from_u128(9)),
            url: "http://r.test/".into(),
            outcome: AttemptOutcome { ended_at: Time(7), status: Some(500), ..AttemptOutcome::default() },
            counted: !reclaim,
            reclaim,
            next_at: Some(Time(70)),
        };
        Row::Attempt { tenant: tenant("a"), key: key(sequence), record: Box::new(record), end }
    }

    fn batch(rows: Vec<Row>) -> Batch {
        Batch { unit: Unit::Slot(SLOT), number: BatchNumber(1), rows: Rc::new(rows) }
    }

    impl Subject for Memory {
        fn apply(&mut self, batch: &Batch) {
            Self::apply(self, batch);
        }

        fn answer(&mut self, read: Read) -> ReadAnswer {
            Self::answer(self, &read)
        }
    }

    #[test]
    fn it_conforms() {
        conforms(Memory::default);
    }

    fn small() -> Memory {
        Memory::new(Pages { events: 2, bytes: 1 << 20, due_rows: 2, ids: 1 })
    }

    #[test]
    fn rows_of_a_job_fold_into_one_record() {
        let mut store = small();
        let rows = [event_row("a", 1, 1), claim_row(1, 1), attempt_row(1, 1, true, None), claim_row(1, 2)];
        store.apply(&batch(rows.to_vec()));
        let job = store.job(&tenant("a"), key(1)).expect("stored");
        assert_eq!((job.attempts, job.counted, job.reclaims), (1, 0, 1));
        assert_eq!(job.open_claim, Some(claim(2)));
        assert_eq!(job.next_at, Some(Time(70)));
        store.apply(&batch(vec![attempt_row(1, 2, false, None), claim_row(1, 2)]));
        let job = store.job(&tenant("a"), key(1)).expect("stored");
        assert_eq!((job.attempts, job.counted, job.open_claim), (2, 1, None));
        assert_eq!(job.last_status, Some(500));
    }

    #[test]
    fn the_stronger_end_stands_whatever_the_order_and_however_often() {
        let mut store = small();
        let dead = End::DeadLettered(EndReason::Exhausted);
        let end = |end, at| Row::End { tenant: tenant("a"), key: key(1), end, at: Time(at) };
        store.apply(&batch(vec![event_row("a", 1, 1), end(End::Cancelled, 5)]));
        store.apply(&batch(vec![attempt_row(1, 1, false, Some(End::Delivered))]));
        store.apply(&batch(vec![end(dead, 9), end(End::Cancelled, 10), event_row("a", 1, 1)]));
        let job = store.job(&tenant("a"), key(1)).expect("stored");
        assert_eq!(job.end, Some((End::Delivered, Time(7))));
    }

    #[test]
    fn log_pages_go_on_where_the_last_ended() {
        let mut store = small();
        let rows = [("b", 4), ("a", 1), ("a", 3), ("b", 2), ("a", 5)];
        store.apply(&batch(rows.iter().map(|(owner, sequence)| event_row(owner, *sequence, 1)).collect()));
        let mut after = None;
        let mut seen = Vec::new();
        loop {
            let read = Read::Log { slot: SLOT, from: Sequence(2), after };
            let ReadAnswer::Log { events, next } = store.answer(&read) else { panic!("a log was asked for") };
            seen.extend(events.iter().map(|logged| logged.event.sequence.0));
            if next.is_none() {
                break;
            }
            after = next;
        }
        assert_eq!(seen, [3, 5, 2, 4]);
    }

    #[test]
    fn a_queue_page_says_how_far_it_looked() {
        let mut store = small();
        let rows = [(1, 1), (2, 2), (3, 1), (4, 1)];
        store.apply(&batch(rows.iter().map(|(sequence, wanted_by)| event_row("a", *sequence, *wanted_by)).collect()));
        let read = |from| Read::Queue {
            slot: SLOT,
            tenant: tenant("a"),
            from: Sequence(from),
            to: Sequence(9),
            wanted: Wanted::from([(subscription(1), Sequence(from))]),
            bytes_max: usize::MAX,
        };
        let ReadAnswer::Queue { events, scanned_to } = store.answer(&read(1)) else { panic!("a queue was asked for") };
        assert_eq!((events.len(), scanned_to), (1, Sequence(2)));
        let ReadAnswer::Queue { events, scanned_to } = store.answer(&read(3)) else { panic!("a queue was asked for") };
        assert_eq!((events.len(), scanned_to), (2, Sequence(9)));
    }

    #[test]
    fn due_rows_come_in_order_of_time_with_their_events() {
        let mut store = small();
        let due = |sequence, at| Row::Due { tenant: tenant("a"), key: key(sequence), at: Time(at) };
        store.apply(&batch(vec![event_row("a", 1, 1), due(1, 30), due(1, 10), due(2, 20), due(1, 40)]));
        let read = |after| Read::Due { slot: SLOT, from: Time(10), after, to: Time(40) };
        let ReadAnswer::Due { rows, more, .. } = store.answer(&read(None)) else { panic!("due rows were asked for") };
        assert_eq!(
            rows.iter().map(|row| (row.at.0, row.event.is_some())).collect::<Vec<_>>(),
            [(10, true), (20, false)]
        );
        assert!(more);
        let last = Some((Time(20), key(2)));
        let ReadAnswer::Due { rows, more, first_after } = store.answer(&read(last)) else {
            panic!("due rows were asked for")
        };
        assert_eq!((rows.len(), more, first_after), (1, false, Some(Time(40))));
    }

    #[test]
    fn the_lowest_sequence_of_an_id_counts_and_positions_only_rise() {
        let mut store = small();
        let ids = |sequence| Row::Ids { minute: 3, entries: vec![(7, Sequence(sequence))] };
        store.apply(&batch(vec![ids(5), ids(2), ids(9)]));
        let read = |from| {
            let answer = store.answer(&Read::Ids { slot: SLOT, minute: 3, from });
            let ReadAnswer::Ids { entries, next } = answer else { panic!("ids were asked for") };
            (entries, next)
        };
        assert_eq!(read(Sequence(0)), (vec![(7, Sequence(2))], Some(Sequence(3))));
        assert_eq!(read(Sequence(3)), (vec![], None));
        let name = LaneName::kafka("t", 0);
        let lane = |position| Row::Lane { name: name.clone(), position };
        store.apply(&Batch { unit: Unit::Lanes, number: BatchNumber(1), rows: Rc::new(vec![lane(9), lane(4)]) });
        assert_eq!(store.lane(&name), Some(9));
    }

    #[test]
    fn a_later_owner_s_row_stands_and_so_does_a_later_batch_s() {
        let mut store = small();
        let batch = |number, rows| Batch { unit: Unit::Slot(SLOT), number: BatchNumber(number), rows: Rc::new(rows) };
        let cursor = |at| Row::Overflow { tenant: tenant("a"), subscription: subscription(1), cursor: at };
        let cursors = |store: &Memory| {
            let ReadAnswer::Slot { overflow, .. } = store.answer(&Read::Slot(SLOT)) else {
                panic!("a slot was asked for")
            };
            overflow.into_iter().map(|(_, _, at)| at.0).collect::<Vec<_>>()
        };
        assert_eq!([store.take(SLOT), store.take(SLOT)], [1, 2]);
        store.apply_as(&batch(7, vec![cursor(Some(Sequence(5))), cursor(Some(Sequence(9)))]), 1);
        store.apply_as(&batch(6, vec![cursor(Some(Sequence(4)))]), 1);
        assert_eq!(cursors(&store), [9], "batch 6 came late");
        store.apply_as(&batch(1, vec![cursor(Some(Sequence(9)))]), 2);
        store.apply_as(&batch(8, vec![cursor(None)]), 1);
        assert_eq!(cursors(&store), [9], "the former owner's came late");
        let record = |low| Row::Slot(SlotRecord { low_water: Sequence(low), ..SlotRecord::default() });
        store.apply_as(&batch(2, vec![record(3)]), 2);
        store.apply_as(&batch(9, vec![record(8)]), 1);
        assert_eq!(store.slot(SLOT).map(|record| record.low_water), Some(Sequence(3)));
        assert_eq!(store.take(SLOT), 3);
        assert_eq!(store.slot(SLOT).map(|record| record.low_water), Some(Sequence(3)), "the next goes on from it");
    }

    #[test]
    fn jobs_before_low_water_that_may_be_under_way_are_told() {
        let mut store = small();
        let record = Row::Slot(SlotRecord { low_water: Sequence(3), ..SlotRecord::default() });
        let rows = [event_row("a", 1, 1), event_row("a", 2, 1), event_row("a", 3, 1), record];
        store.apply(&batch(rows.to_vec()));
        store.apply(&batch(vec![claim_row(1, 1), claim_row(2, 1), claim_row(3, 1), attempt_row(1, 1, false, None)]));
        let ReadAnswer::Slot { claimed, .. } = store.answer(&Read::Slot(SLOT)) else { panic!("a slot was asked for") };
        assert_eq!(claimed, [(tenant("a"), key(2))]);
    }
}
