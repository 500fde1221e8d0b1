use std::rc::Rc;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::store::Retention;
use crate::store::codec::samples;
use crate::store::scylla::phase::PlannedRow;
use crate::store::scylla::statement::{Statement, Value};
use crate::types::{DestinationId, End, EndReason, ErrorKind, JobKey, JobRecord};

const SLOT: Slot = Slot(3);
const NOW: Time = Time(1_800_000_000_000_000);

fn planner() -> SlotPlanner {
    SlotPlanner::new(SLOT, Epoch(5), None)
}

fn kept() -> Lifetimes {
    Lifetimes::from(Retention::default())
}

fn tenant() -> TenantId {
    TenantId::new("acme").expect("a valid tenant")
}

fn event(sequence: u64, payload: usize) -> Row {
    let event = Event { payload: vec![7; payload].into(), ..samples::plain_event("acme", sequence) };
    Row::Event { event: Rc::new(event), jobs: vec![samples::claimed_job(1)] }
}

fn key(sequence: u64) -> JobKey {
    JobKey { slot: SLOT, sequence: Sequence(sequence), ordinal: 0 }
}

fn attempt(sequence: u64) -> Row {
    let record = Box::new(samples::failed_attempt(1, ErrorKind::Connect));
    Row::Attempt { tenant: tenant(), key: key(sequence), record, end: Some(End::DeadLettered(EndReason::Gone)) }
}

fn dead_letter(sequence: u64) -> Row {
    let job =
        JobRecord { end: Some((End::DeadLettered(EndReason::Gone), Time(9))), ..samples::plain_job(key(sequence)) };
    Row::DeadLetter { event: Rc::new(samples::plain_event("acme", sequence)), job: Box::new(job) }
}

fn due(sequence: u64, at: u64) -> Row {
    Row::Due { tenant: tenant(), key: key(sequence), at: Time(at) }
}

fn cursor(cursor: Option<u64>) -> Row {
    let subscription = SubscriptionId(Uuid::from_u128(1));
    Row::Overflow { tenant: tenant(), subscription, cursor: cursor.map(Sequence) }
}

fn record(flushed: u64) -> Row {
    Row::Slot(SlotRecord { low_water: Sequence(flushed), flushed: Sequence(flushed), due_bound: Time(1) })
}

fn ids() -> Row {
    Row::Ids { minute: 7, entries: vec![(1, Sequence(1))] }
}

fn destination() -> Row {
    let destination = DestinationId(Uuid::from_u128(2));
    Row::Destination { tenant: tenant(), destination, record: None }
}

fn planned(planner: &mut SlotPlanner, rows: &[Row]) -> Plan {
    planner.plan(rows, &kept(), NOW).expect("timestamps are left")
}

/// The place of the phase that has a row of this statement.
fn phase_of(plan: &Plan, statement: Statement) -> usize {
    let has = |phase: &Phase| rows(phase).any(|row| row.statement == statement);
    plan.phases.iter().position(has).unwrap_or_else(|| panic!("no {statement:?}"))
}

fn rows(phase: &Phase) -> impl Iterator<Item = &PlannedRow> {
    phase.writes.iter().flat_map(|write| &write.rows)
}

fn all_rows(plan: &Plan) -> impl Iterator<Item = &PlannedRow> {
    plan.phases.iter().flat_map(rows)
}

fn count(plan: &Plan, statement: Statement) -> usize {
    all_rows(plan).filter(|row| row.statement == statement).count()
}

/// Everything that a batch may hold, in an order that is wrong for a server.
fn everything() -> Vec<Row> {
    vec![
        record(2),
        cursor(Some(1)),
        event(1, 100_000),
        attempt(1),
        due(1, 90_000_000),
        dead_letter(1),
        ids(),
        destination(),
    ]
}

#[test]
fn what_gives_something_up_comes_after_what_keeps_it() {
    let plan = planned(&mut planner(), &everything());
    let at = |statement| phase_of(&plan, statement);
    let in_order = [
        (Statement::PutPayload, Statement::PutLog),
        (Statement::PutLogChunk, Statement::PutLog),
        (Statement::PutDueMinute, Statement::PutDue),
        (Statement::PutDeadLetter, Statement::PutLog),
        (Statement::PutDeadLetterOfEvent, Statement::PutLog),
        (Statement::PutDue, Statement::PutLog),
        (Statement::PutLog, Statement::PutOverflow),
        (Statement::PutOverflow, Statement::PutSlot),
        (Statement::PutIds, Statement::PutSlot),
        (Statement::PutIndex, Statement::PutSlot),
        (Statement::RemoveDestination, Statement::PutSlot),
    ];
    for (before, after) in in_order {
        assert!(at(before) < at(after), "{before:?} before {after:?}");
    }
    assert_eq!(at(Statement::PutSlot), plan.phases.len() - 1);
}

proptest! {
    #[test]
    fn the_order_of_the_batch_does_not_matter(rows in Just(everything()).prop_shuffle()) {
        prop_assert_eq!(planned(&mut planner(), &rows).phases.len(), 5);
        let last = planned(&mut planner(), &rows).phases.pop().map(|phase| phase.stage);
        prop_assert_eq!(last, Some(Stage::Records));
    }
}

#[test]
fn removals_of_cursors_come_after_the_ends_that_allow_them() {
    let plan = planned(&mut planner(), &[cursor(None), attempt(1), record(1)]);
    assert!(phase_of(&plan, Statement::PutLog) < phase_of(&plan, Statement::RemoveOverflow));
    assert!(phase_of(&plan, Statement::RemoveOverflow) < phase_of(&plan, Statement::PutSlot));
}

#[test]
fn an_ordinary_event_is_one_write_of_one_phase() {
    let mut planner = planner();
    let first = planned(&mut planner, &[event(1, 100)]);
    assert_eq!(first.phases.len(), 2, "its chunk is listed first");
    planner.acknowledged(&first.learned);
    let next = planned(&mut planner, &[event(2, 100), attempt(1)]);
    assert_eq!((next.phases.len(), next.phases[0].writes.len()), (1, 1));
    assert_eq!(count(&next, Statement::PutLogPayload), 1);
}

#[test]
fn a_chunk_and_a_minute_are_listed_until_that_is_durable_and_again_after_a_day() {
    let mut planner = planner();
    let batch = [event(1, 1), due(1, NOW.0)];
    let first = planned(&mut planner, &batch);
    let again = planned(&mut planner, &batch);
    let listed = |plan: &Plan| (count(plan, Statement::PutLogChunk), count(plan, Statement::PutDueMinute));
    assert_eq!((listed(&first), listed(&again)), ((1, 1), (1, 1)));
    planner.acknowledged(&again.learned);
    assert_eq!(listed(&planned(&mut planner, &batch)), (0, 0));
    assert_eq!(listed(&planned(&mut planner, &[event(limits::CQL_LOG_CHUNK_EVENTS, 1)])), (1, 0));
    let tomorrow = NOW + limits::CQL_LIST_AGAIN;
    let later = planner.plan(&batch, &kept(), tomorrow).expect("timestamps are left");
    assert_eq!(listed(&later), (1, 1));
}

#[test]
fn events_of_two_chunks_are_two_writes() {
    let border = limits::CQL_LOG_CHUNK_EVENTS;
    let plan = planned(&mut planner(), &[event(border - 1, 1), event(border, 1)]);
    let log = &plan.phases[phase_of(&plan, Statement::PutLog)];
    let partitions: Vec<&Partition> = log.writes.iter().map(|write| &write.partition).collect();
    assert_eq!(partitions, [&Partition::Log(SLOT, 0), &Partition::Log(SLOT, 1)]);
}

#[test]
fn an_event_is_never_parted_from_its_claims_and_payload() {
    let claim = |sequence| Row::Claim {
        tenant: tenant(),
        key: JobKey { ordinal: 1, ..key(sequence) },
        number: 1,
        claim: samples::plain_claim(1),
    };
    let rows: Vec<Row> = (1..=60).map(|n| event(n, 4_096)).chain((1..=60).map(claim)).collect();
    let plan = planned(&mut planner(), &rows);
    let log = &plan.phases[phase_of(&plan, Statement::PutLog)];
    let log: Vec<_> = log.writes.iter().filter(|write| write.partition == Partition::Log(SLOT, 0)).collect();
    assert!(log.len() > 1);
    for write in log {
        let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for row in &write.rows {
            *counts.entry(format!("{:?}", row.values[2]).into_bytes()).or_default() += 1;
        }
        assert!(counts.values().all(|count| *count == 3), "event, payload and claim");
    }
}

#[test]
fn of_two_writes_of_one_row_the_later_is_sent() {
    let plan = planned(&mut planner(), &[record(1), cursor(Some(4)), cursor(None), record(2)]);
    assert_eq!((count(&plan, Statement::PutSlot), count(&plan, Statement::PutOverflow)), (1, 0));
    assert_eq!(count(&plan, Statement::RemoveOverflow), 1);
    assert_eq!(plan.learned.flushed, Some(Sequence(2)));
}

#[test]
fn rows_that_change_are_stamped_by_epoch_and_later_batches_later() {
    let stamp =
        |plan: &Plan| all_rows(plan).find(|row| row.statement == Statement::PutSlot).map(|row| row.values[0].clone());
    let mut planner = planner();
    let first = stamp(&planned(&mut planner, &[record(1)]));
    let second = stamp(&planned(&mut planner, &[record(1)]));
    assert_eq!(first, Some(Value::Long(5 << 30)));
    assert_eq!(second, Some(Value::Long((5 << 30) + 1)));
}

#[test]
fn the_index_is_written_behind_before_the_record_that_counts_on_it() {
    let mut planner = planner();
    let events = planned(&mut planner, &[event(1, 1), event(2, 1), event(3, 1)]);
    assert_eq!(count(&events, Statement::PutIndex), 0);
    let flush = planned(&mut planner, &[record(3)]);
    assert_eq!(count(&flush, Statement::PutIndex), 2);
    let again = planned(&mut planner, &[record(3)]);
    assert_eq!(count(&again, Statement::PutIndex), 2, "until it is durable");
    planner.acknowledged(&again.learned);
    assert_eq!(planner.flushed(), Sequence(3));
    assert_eq!(count(&planned(&mut planner, &[record(4)]), Statement::PutIndex), 1);
}

#[test]
fn what_a_former_owner_wrote_gets_its_entry_and_waits_for_it_in_sight() {
    let found = SlotRecord { flushed: Sequence(5), ..SlotRecord::default() };
    let mut planner = SlotPlanner::new(SLOT, Epoch(2), Some(found));
    let logged = |sequence: u64| LoggedEvent {
        event: samples::plain_event("acme", sequence),
        jobs: vec![samples::plain_job(key(sequence))],
        payload_expired: false,
    };
    for sequence in [4, 5, 6] {
        planner.met(&logged(sequence));
    }
    let wanted = Wanted::from([(SubscriptionId(Uuid::from_u128(1)), Sequence(1))]);
    let pending = |planner: &SlotPlanner| planner.pending(&tenant(), Sequence(1), Sequence(9), &wanted);
    assert_eq!(pending(&planner), [Sequence(5), Sequence(6)]);
    let flush = planned(&mut planner, &[record(6)]);
    planner.acknowledged(&flush.learned);
    assert_eq!(pending(&planner), [Sequence(6)]);
    let nobody = Wanted::from([(SubscriptionId(Uuid::from_u128(9)), Sequence(1))]);
    assert!(planner.pending(&tenant(), Sequence(1), Sequence(9), &nobody).is_empty());
    assert!(planner.pending(&tenant(), Sequence(9), Sequence(1), &wanted).is_empty());
}

#[test]
fn a_plan_of_another_epoch_teaches_nothing() {
    let mut planner = planner();
    let plan = planned(&mut planner, &[event(1, 1), record(2)]);
    let mut next = SlotPlanner::new(SLOT, Epoch(6), None);
    next.acknowledged(&plan.learned);
    assert_eq!(next.flushed(), Sequence(0));
}

#[test]
fn large_payloads_are_pieces_and_empty_ones_nothing() {
    let size = limits::CQL_PAYLOAD_PIECE_BYTES + 1;
    let plan = planned(&mut planner(), &[event(1, size), event(2, 0)]);
    assert_eq!((count(&plan, Statement::PutPayload), count(&plan, Statement::PutLogPayload)), (2, 0));
}

#[test]
fn lanes_positions_come_last_and_only_grow() {
    let lane = |position| Row::Lane { name: crate::types::LaneName::kafka("t", 0), position };
    let quarantined = crate::engine::QuarantineRecord {
        topic: "t".into(),
        partition: 0,
        offset: 1,
        received_at: Time(1),
        reason: "bad_id",
        header: None,
        headers: Vec::new(),
        body: bytes::Bytes::new(),
        size: 0,
        sha256: [0; 32],
    };
    let plan = plan_lanes(&[lane(8), Row::Quarantine(Box::new(quarantined))], &kept(), NOW);
    assert!(phase_of(&plan, Statement::PutQuarantine) < phase_of(&plan, Statement::PutLane));
    let position = all_rows(&plan).find(|row| row.statement == Statement::PutLane);
    assert_eq!(position.and_then(|row| row.values.last()), Some(&Value::Long(8)), "its timestamp");
}

#[test]
fn a_lane_moves_past_producers_dead_letters_when_they_are_kept() {
    let (name, letter) = (crate::types::LaneName::kafka("t.dlq", 0), samples::producer_dead_letter(4));
    let phases = crate::store::scylla::rows::plan_producer_dead_letters(&[letter], Some((&name, 5)), &kept());
    let plan = Plan { phases, learned: Learned::default() };
    assert!(phase_of(&plan, Statement::PutProducerDeadLetter) < phase_of(&plan, Statement::PutLane));
    for row in all_rows(&plan) {
        assert_eq!(row.values.len(), row.statement.text().matches('?').count(), "{:?}", row.statement);
    }
}

#[test]
fn as_many_values_are_bound_as_a_statement_has_markers() {
    let mut rows = everything();
    rows.extend([cursor(None), event(2, 5)]);
    let set = Row::Destination {
        tenant: tenant(),
        destination: DestinationId(Uuid::from_u128(3)),
        record: Some(crate::engine::rows::DestinationRecord::default()),
    };
    rows.push(set);
    let plans = [planned(&mut planner(), &rows), planned(&mut planner(), &everything())];
    for row in plans.iter().flat_map(all_rows) {
        assert_eq!(row.values.len(), row.statement.text().matches('?').count(), "{:?}", row.statement);
    }
}

#[test]
fn a_claim_in_a_row_of_its_own_is_listed_in_a_place_until_its_attempt_has_ended() {
    let claim =
        |sequence, number| Row::Claim { tenant: tenant(), key: key(sequence), number, claim: samples::plain_claim(1) };
    let mut planner = planner();
    let places = |plan: &Plan| -> Vec<Value> {
        all_rows(plan).filter(|row| row.statement == Statement::PutClaim).map(|row| row.values[2].clone()).collect()
    };
    let at = |places: &[i32]| places.iter().copied().map(Value::Int).collect::<Vec<_>>();
    assert_eq!(places(&planned(&mut planner, &[event(1, 1)])), [], "it is in the tail");
    let two = [claim(1, 2), claim(2, 1)];
    assert_eq!(places(&planned(&mut planner, &two)), at(&[0, 1]));
    assert_eq!(places(&planned(&mut planner, &two)), at(&[0, 1]), "the same batch again");
    let ended = Row::End { tenant: tenant(), key: key(2), end: End::Cancelled, at: Time(1) };
    assert_eq!(places(&planned(&mut planner, &[ended])), []);
    assert_eq!(places(&planned(&mut planner, &[claim(3, 1), claim(4, 1)])), at(&[1, 2]));
}
