//! What every store must do, as tests over "apply a batch, answer a read". A store's own tests run
//! [`conforms`] with a fresh one for each case, or with a slot of its own for each. A store that the API asks runs
//! [`lists::list`], too. The feature `real` has it all, for the tests against real servers.

mod chunks;
pub mod configuration;
#[cfg(feature = "serve")]
pub mod lists;
#[cfg(feature = "serve")]
pub mod records;

use std::rc::Rc;

use uuid::Uuid;

use super::codec::plain as samples;
use crate::engine::rows::{CircuitRecord, DestinationRecord, LoggedEvent, NewJob, SlotRecord, Wanted};
use crate::engine::{Batch, BatchNumber, Read, ReadAnswer, Row, Unit};
use crate::types::{
    AttemptRecord, DestinationId, End, EndReason, ErrorKind, JobKey, Sequence, Slot, SubscriptionId, TenantId, Time,
    Trigger, limits,
};

/// A store under test.
pub trait Subject {
    /// Makes a batch durable.
    fn apply(&mut self, batch: &Batch);
    /// Answers a read.
    fn answer(&mut self, read: Read) -> ReadAnswer;
    /// The slot that a case uses.
    fn slot(&self) -> Slot {
        SLOT
    }
}

/// Runs every case, each on a store of its own.
pub fn conforms<S: Subject>(mut make: impl FnMut() -> S) {
    let cases: [fn(&mut S); 14] = [
        a_slot_never_written_has_no_record,
        a_slot_s_small_records_come_back_as_last_written,
        events_come_back_with_their_jobs,
        the_log_is_read_in_pages_and_from_a_sequence,
        a_queue_page_says_how_far_it_looked,
        due_rows_come_in_order_with_their_events,
        ids_of_a_bucket_come_back_from_all_packs,
        a_late_or_repeated_row_undoes_nothing,
        the_later_row_of_a_batch_stands,
        chunks::a_large_payload_comes_back_whole,
        chunks::events_on_both_sides_of_a_border_are_one_log,
        chunks::pages_go_on_across_chunks,
        chunks::a_queue_is_read_below_and_above_what_is_flushed,
        chunks::due_rows_of_many_minutes_come_in_order_and_in_pages,
    ];
    for case in cases {
        case(&mut make());
    }
}

/// The slot that all cases use, unless the store gives each its own.
pub const SLOT: Slot = Slot(3);

/// A batch of [`SLOT`].
pub fn batch(number: u64, rows: Vec<Row>) -> Batch {
    batch_of(SLOT, number, rows)
}

/// A batch of `slot`.
pub fn batch_of(slot: Slot, number: u64, rows: Vec<Row>) -> Batch {
    Batch { unit: Unit::Slot(slot), number: BatchNumber(number), rows: Rc::new(rows) }
}

/// A tenant.
pub fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a valid tenant")
}

/// An event with one job, its first attempt claimed.
pub fn event_row(name: &str, sequence: u64, subscription: u128) -> Row {
    let jobs = vec![samples::claimed_job(subscription)];
    Row::Event { event: Rc::new(samples::plain_event(name, sequence)), jobs }
}

/// The first job of an event of [`SLOT`].
pub fn job_key(sequence: u64) -> JobKey {
    first_job(SLOT, sequence)
}

/// The first job of an event of `slot`.
pub fn first_job(slot: Slot, sequence: u64) -> JobKey {
    JobKey { slot, sequence: Sequence(sequence), ordinal: 0 }
}

/// Everything the log has from `from` on, read page by page.
pub fn whole_log<S: Subject>(store: &mut S, from: u64) -> Vec<LoggedEvent> {
    let slot = store.slot();
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let read = Read::Log { slot, from: Sequence(from), after };
        let ReadAnswer::Log { events, next } = store.answer(read) else { panic!("a page of the log") };
        assert!(events.len() <= limits::LOG_PAGE_EVENTS);
        all.extend(events);
        match next {
            None => return all,
            Some(_) => after = next,
        }
    }
}

fn one_event<S: Subject>(store: &mut S, name: &str, sequence: u64) -> Option<LoggedEvent> {
    let slot = store.slot();
    let read = Read::Event { slot, tenant: tenant(name), sequence: Sequence(sequence) };
    let ReadAnswer::Event(event) = store.answer(read) else { panic!("an event") };
    event
}

fn a_slot_never_written_has_no_record<S: Subject>(store: &mut S) {
    let slot = store.slot();
    let ReadAnswer::Slot { record, overflow, destinations, first_due, .. } = store.answer(Read::Slot(slot)) else {
        panic!("a slot")
    };
    assert_eq!((record, overflow, destinations, first_due), (None, Vec::new(), Vec::new(), None));
    assert!(whole_log(store, 0).is_empty());
    assert!(one_event(store, "acme", 1).is_none());
}

fn a_slot_s_small_records_come_back_as_last_written<S: Subject>(store: &mut S) {
    let slot = store.slot();
    let (subscription, gone) = (SubscriptionId(Uuid::from_u128(1)), SubscriptionId(Uuid::from_u128(2)));
    let destination = DestinationId(Uuid::from_u128(3));
    let circuit = CircuitRecord::Closed { failures: 2, since: Time(5) };
    let remembered = DestinationRecord { circuit, failure_span: Some((Time(1), Time(2))), hold_until: None };
    let record = SlotRecord { low_water: Sequence(4), flushed: Sequence(9), due_bound: Time(100) };
    let overflow = |subscription, cursor| Row::Overflow { tenant: tenant("acme"), subscription, cursor };
    let destination_row = |destination, record| Row::Destination { tenant: tenant("acme"), destination, record };
    store.apply(&batch_of(
        slot,
        1,
        vec![
            Row::Slot(SlotRecord::default()),
            overflow(subscription, Some(Sequence(7))),
            overflow(gone, Some(Sequence(8))),
            destination_row(destination, Some(DestinationRecord::default())),
            Row::Due { tenant: tenant("acme"), key: first_job(slot, 1), at: Time(99) },
            Row::Due { tenant: tenant("acme"), key: first_job(slot, 2), at: Time(150) },
        ],
    ));
    store.apply(&batch_of(
        slot,
        2,
        vec![Row::Slot(record), overflow(gone, None), destination_row(destination, Some(remembered))],
    ));
    let ReadAnswer::Slot { record: found, overflow, destinations, first_due, .. } = store.answer(Read::Slot(slot))
    else {
        panic!("a slot")
    };
    assert_eq!(found, Some(record));
    assert_eq!(overflow, [(tenant("acme"), subscription, Sequence(7))]);
    assert_eq!(destinations, [(tenant("acme"), destination, remembered)]);
    assert_eq!(first_due, Some(Time(150)), "rows before the bound are dealt with");
}

fn events_come_back_with_their_jobs<S: Subject>(store: &mut S) {
    let slot = store.slot();
    let event = samples::plain_event("acme", 1);
    let waiting = NewJob { claim: None, ..samples::claimed_job(8) };
    store.apply(&batch_of(
        slot,
        1,
        vec![Row::Event { event: Rc::new(event.clone()), jobs: vec![samples::claimed_job(7), waiting] }],
    ));
    let failed = samples::failed_attempt(1, ErrorKind::Connect);
    store.apply(&batch_of(
        slot,
        2,
        vec![
            attempt_row(slot, "acme", 1, &failed, None),
            Row::Claim { tenant: tenant("acme"), key: first_job(slot, 1), number: 2, claim: samples::plain_claim(2) },
            Row::Run {
                tenant: tenant("acme"),
                key: JobKey { ordinal: 2, ..first_job(slot, 1) },
                subscription: waiting.subscription,
                destination: waiting.destination,
                run: samples::manual_run(5).run,
                trigger: Trigger::Manual,
                created_at: Time(30),
            },
        ],
    ));
    let found = one_event(store, "acme", 1).expect("it was written");
    assert_eq!(found.event, event);
    let ordinals: Vec<u16> = found.jobs.iter().map(|job| job.key.ordinal).collect();
    assert_eq!(ordinals, [0, 1, 2]);
    let first = &found.jobs[0];
    assert_eq!((first.attempts, first.counted, first.next_at), (1, 1, failed.next_at));
    assert_eq!(first.open_claim, Some(samples::plain_claim(2)));
    assert_eq!(first.created_at, event.received_at);
    assert_eq!((found.jobs[1].attempts, found.jobs[1].open_claim), (0, None));
    assert_eq!((found.jobs[2].run, found.jobs[2].created_at), (samples::manual_run(5).run, Time(30)));
    assert!(one_event(store, "other", 1).is_none(), "another tenant has no such event");
}

fn the_log_is_read_in_pages_and_from_a_sequence<S: Subject>(store: &mut S) {
    let slot = store.slot();
    let count = limits::LOG_PAGE_EVENTS as u64 + 10;
    let names = ["acme", "acme2", "b"];
    let rows = (1..=count).map(|sequence| event_row(names[(sequence % 3) as usize], sequence, 1)).collect();
    store.apply(&batch_of(slot, 1, rows));
    assert_eq!(whole_log(store, 0).len() as u64, count);
    let tail = whole_log(store, count - 4);
    let mut sequences: Vec<u64> = tail.iter().map(|logged| logged.event.sequence.0).collect();
    sequences.sort_unstable();
    assert_eq!(sequences, (count - 4..=count).collect::<Vec<_>>());
    for name in names {
        let own = |logged: &&LoggedEvent| logged.event.tenant.as_str() == name;
        assert!(tail.iter().filter(own).is_sorted_by_key(|logged| logged.event.sequence));
    }
    let other = Read::Log { slot: Slot(slot.0 + 1), from: Sequence(0), after: None };
    assert!(matches!(store.answer(other), ReadAnswer::Log { events, next: None } if events.is_empty()));
}

fn a_queue_page_says_how_far_it_looked<S: Subject>(store: &mut S) {
    let slot = store.slot();
    let rows = (1..=20).map(|sequence| event_row("acme", sequence, u128::from(sequence % 2) + 1)).collect();
    store.apply(&batch_of(slot, 1, rows));
    let read = Read::Queue {
        slot,
        tenant: tenant("acme"),
        from: Sequence(5),
        to: Sequence(12),
        wanted: Wanted::from([(SubscriptionId(Uuid::from_u128(2)), Sequence(7))]),
        bytes_max: limits::LOG_PAGE_BYTES,
    };
    let ReadAnswer::Queue { events, scanned_to } = store.answer(read) else { panic!("a queue page") };
    let sequences: Vec<u64> = events.iter().map(|logged| logged.event.sequence.0).collect();
    assert_eq!(sequences, [7, 9, 11]);
    assert_eq!(scanned_to, Sequence(12));
}

fn due_rows_come_in_order_with_their_events<S: Subject>(store: &mut S) {
    let slot = store.slot();
    let due =
        |sequence: u64, at: u64| Row::Due { tenant: tenant("acme"), key: first_job(slot, sequence), at: Time(at) };
    let rows =
        vec![event_row("acme", 1, 1), event_row("acme", 2, 1), due(2, 300), due(1, 100), due(9, 200), due(1, 900)];
    store.apply(&batch_of(slot, 1, rows));
    let read = |from: u64, after, to: u64| Read::Due { slot, from: Time(from), after, to: Time(to) };
    let ReadAnswer::Due { rows, more, first_after } = store.answer(read(100, None, 301)) else { panic!("due rows") };
    let found: Vec<_> = rows.iter().map(|row| (row.at.0, row.key.sequence.0, row.event.is_some())).collect();
    assert_eq!(found, [(100, 1, true), (200, 9, false), (300, 2, true)]);
    assert_eq!((more, first_after), (false, Some(Time(900))));
    let after = Some((Time(200), first_job(slot, 9)));
    let ReadAnswer::Due { rows, .. } = store.answer(read(100, after, 301)) else { panic!("due rows") };
    assert_eq!(rows.iter().map(|row| row.at.0).collect::<Vec<_>>(), [300]);
    let ReadAnswer::Due { rows, first_after, .. } = store.answer(read(901, None, 1_000)) else { panic!("due rows") };
    assert!(rows.is_empty() && first_after.is_none());
}

fn ids_of_a_bucket_come_back_from_all_packs<S: Subject>(store: &mut S) {
    let slot = store.slot();
    let ids = |minute, entries| Row::Ids { minute, entries };
    store.apply(&batch_of(
        slot,
        1,
        vec![ids(7, vec![(1, Sequence(1)), (2, Sequence(2))]), ids(8, vec![(3, Sequence(3))])],
    ));
    store.apply(&batch_of(slot, 2, vec![ids(7, vec![(4, Sequence(4))])]));
    let from = Sequence(0);
    let read = Read::Ids { slot, minute: 7, from };
    let ReadAnswer::Ids { entries: mut found, .. } = store.answer(read) else { panic!("ids") };
    found.sort_unstable();
    assert_eq!(found, [(1, Sequence(1)), (2, Sequence(2)), (4, Sequence(4))]);
    let none = store.answer(Read::Ids { slot, minute: 9, from });
    assert!(matches!(none, ReadAnswer::Ids { entries, next: None } if entries.is_empty()));
}

fn a_late_or_repeated_row_undoes_nothing<S: Subject>(store: &mut S) {
    let slot = store.slot();
    let end = |end| Row::End { tenant: tenant("acme"), key: first_job(slot, 1), end, at: Time(50) };
    let first = batch_of(slot, 1, vec![event_row("acme", 1, 1)]);
    store.apply(&first);
    let delivered = AttemptRecord { next_at: None, ..samples::failed_attempt(1, ErrorKind::Reset) };
    let ended = batch_of(slot, 2, vec![attempt_row(slot, "acme", 1, &delivered, Some(End::Delivered))]);
    store.apply(&ended);
    store.apply(&batch_of(slot, 3, vec![end(End::DeadLettered(EndReason::Expired)), end(End::Cancelled)]));
    store.apply(&ended);
    store.apply(&first);
    let job = one_event(store, "acme", 1).expect("it was written").jobs.remove(0);
    assert_eq!(job.end, Some((End::Delivered, delivered.outcome.ended_at)));
    assert_eq!((job.attempts, job.open_claim, job.next_at), (1, None, None));
}

fn the_later_row_of_a_batch_stands<S: Subject>(store: &mut S) {
    let slot = store.slot();
    let record = |low: u64| SlotRecord { low_water: Sequence(low), ..SlotRecord::default() };
    let failed = samples::failed_attempt(1, ErrorKind::Reset);
    let claim = Row::Claim { tenant: tenant("acme"), key: first_job(slot, 1), number: 1, claim: failed.claim };
    let rows = vec![
        event_row("acme", 1, 1),
        Row::Slot(record(1)),
        claim,
        attempt_row(slot, "acme", 1, &failed, None),
        Row::Slot(record(2)),
    ];
    store.apply(&batch_of(slot, 1, rows));
    let job = one_event(store, "acme", 1).expect("it was written").jobs.remove(0);
    assert_eq!((job.attempts, job.open_claim), (1, None));
    assert!(
        matches!(store.answer(Read::Slot(slot)), ReadAnswer::Slot { record: Some(found), .. } if found == record(2))
    );
}

fn attempt_row(slot: Slot, name: &str, sequence: u64, record: &AttemptRecord, end: Option<End>) -> Row {
    Row::Attempt { tenant: tenant(name), key: first_job(slot, sequence), record: Box::new(record.clone()), end }
}
