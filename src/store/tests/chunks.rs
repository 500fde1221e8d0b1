//! Cases for stores that keep payloads apart, cut a log into chunks and time into minutes, or write an index behind.

use std::rc::Rc;

use uuid::Uuid;

use super::{Subject, batch_of, event_row, first_job, one_event, tenant, whole_log};
use crate::engine::rows::{SlotRecord, Wanted};
use crate::engine::{Read, ReadAnswer, Row};
use crate::store::codec::plain as samples;
use crate::types::{Event, Sequence, SubscriptionId, Time, limits};

/// One minute, in the hub's microseconds.
const MINUTE: u64 = 60_000_000;

fn event_with_payload(sequence: u64, size: usize) -> Event {
    let payload: Vec<u8> = (0..size).map(|at| at.to_le_bytes()[0]).collect();
    Event { payload: payload.into(), ..samples::plain_event("acme", sequence) }
}

pub(super) fn a_large_payload_comes_back_whole<S: Subject>(store: &mut S) {
    let sizes = [0, limits::CQL_INLINE_PAYLOAD_BYTES, limits::CQL_INLINE_PAYLOAD_BYTES + 1, 1_500_000];
    let events: Vec<Event> = (1..).zip(sizes).map(|(sequence, size)| event_with_payload(sequence, size)).collect();
    let row = |event: &Event| Row::Event { event: Rc::new(event.clone()), jobs: vec![samples::claimed_job(1)] };
    store.apply(&batch_of(store.slot(), 1, events.iter().map(row).collect()));
    for (event, sequence) in events.iter().zip(1..) {
        let found = one_event(store, "acme", sequence).expect("it was written");
        assert_eq!((&found.event, found.payload_expired), (event, false));
    }
    let log = whole_log(store, 1);
    assert!(log.iter().zip(&events).all(|(logged, event)| logged.event == *event && !logged.payload_expired));
}

pub(super) fn events_on_both_sides_of_a_border_are_one_log<S: Subject>(store: &mut S) {
    let border = limits::CQL_LOG_CHUNK_EVENTS;
    let sequences: Vec<u64> = (border - 2..border + 2).collect();
    let rows = sequences.iter().map(|sequence| event_row("acme", *sequence, 1)).collect();
    store.apply(&batch_of(store.slot(), 1, rows));
    let found = |log: Vec<crate::engine::rows::LoggedEvent>| -> Vec<u64> {
        log.iter().map(|logged| logged.event.sequence.0).collect()
    };
    assert_eq!(found(whole_log(store, 0)), sequences);
    assert_eq!(found(whole_log(store, border)), sequences[2..]);
    assert!(one_event(store, "acme", border).is_some_and(|event| event.jobs[0].open_claim.is_some()));
}

pub(super) fn pages_go_on_across_chunks<S: Subject>(store: &mut S) {
    let border = limits::CQL_LOG_CHUNK_EVENTS;
    let half = limits::LOG_PAGE_EVENTS as u64;
    let far = border * 5;
    let sequences: Vec<u64> = (border - half..border + half).chain([far]).collect();
    let rows = sequences.iter().map(|sequence| event_row("acme", *sequence, 1)).collect();
    store.apply(&batch_of(store.slot(), 1, rows));
    let found: Vec<u64> = whole_log(store, 1).iter().map(|logged| logged.event.sequence.0).collect();
    assert_eq!(found, sequences);
    let (events, _) = queue(store, 1, far, 1);
    let first: Vec<u64> = sequences.iter().copied().take(limits::LOG_PAGE_EVENTS).collect();
    assert_eq!(events, first);
}

pub(super) fn a_queue_is_read_below_and_above_what_is_flushed<S: Subject>(store: &mut S) {
    let event = |sequence: u64| event_row("acme", sequence, u128::from(sequence % 2) + 1);
    store.apply(&batch_of(store.slot(), 1, (1..=10).map(event).collect()));
    let flushed = |flushed| Row::Slot(SlotRecord { flushed: Sequence(flushed), ..SlotRecord::default() });
    store.apply(&batch_of(store.slot(), 2, (11..=20).map(event).chain([flushed(11)]).collect()));
    assert_eq!(queue(store, 1, 20, 2), ((1..=20).step_by(2).collect(), 20));
    store.apply(&batch_of(store.slot(), 3, vec![flushed(21)]));
    assert_eq!(queue(store, 1, 20, 2), ((1..=20).step_by(2).collect(), 20));
    assert_eq!(queue(store, 4, 9, 1), (vec![4, 6, 8], 9));
    assert_eq!(queue(store, 21, 20, 1), (Vec::new(), 20));
}

/// The events of one page with a job of `subscription`, and how far it looked.
fn queue<S: Subject>(store: &mut S, from: u64, to: u64, subscription: u128) -> (Vec<u64>, u64) {
    let read = Read::Queue {
        slot: store.slot(),
        tenant: tenant("acme"),
        from: Sequence(from),
        to: Sequence(to),
        wanted: Wanted::from([(SubscriptionId(Uuid::from_u128(subscription)), Sequence(from))]),
        bytes_max: limits::LOG_PAGE_BYTES,
    };
    let ReadAnswer::Queue { events, scanned_to } = store.answer(read) else { panic!("a queue page") };
    (events.iter().map(|logged| logged.event.sequence.0).collect(), scanned_to.0)
}

pub(super) fn due_rows_of_many_minutes_come_in_order_and_in_pages<S: Subject>(store: &mut S) {
    let slot = store.slot();
    let count = limits::DUE_PAGE_ROWS as u64 + 40;
    let at = |n: u64| (n % 30) * 7 * MINUTE + n;
    let due = |n: u64| Row::Due { tenant: tenant("acme"), key: first_job(slot, n), at: Time(at(n)) };
    let rows = (1..=2).map(|n| event_row("acme", n, 1)).chain((1..=count).map(due)).collect();
    store.apply(&batch_of(slot, 1, rows));
    let mut expected: Vec<u64> = (1..=count).map(at).collect();
    expected.sort_unstable();
    let to = 200 * MINUTE;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let read = Read::Due { slot, from: Time(0), after, to: Time(to) };
        let ReadAnswer::Due { rows, more, first_after } = store.answer(read) else { panic!("due rows") };
        assert!(rows.len() <= limits::DUE_PAGE_ROWS);
        assert!(rows.iter().all(|row| row.event.is_some() == (row.key.sequence.0 <= 2)));
        after = rows.last().map(|row| (row.at, row.key));
        found.extend(rows.iter().map(|row| row.at.0));
        if !more {
            assert_eq!(first_after.map(|at| at.0), expected.iter().copied().find(|at| *at >= to));
            break;
        }
    }
    expected.retain(|at| *at < to);
    assert_eq!(found, expected);
}
