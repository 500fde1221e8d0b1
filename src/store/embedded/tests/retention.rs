//! What has expired goes; what is open, or not written behind, stays.

use std::rc::Rc;

use uuid::Uuid;

use super::Opened;
use crate::engine::rows::SlotRecord;
use crate::engine::{Read, ReadAnswer, Row};
use crate::store::Retention;
use crate::store::codec::samples;
use crate::store::tests::{SLOT, Subject as _, batch, event_row, job_key, tenant, whole_log};
use crate::store::{ConfigRecord, ConfigWrite, ObjectId};
use crate::types::{Duration, End, EndReason, JobRecord, Sequence, SubscriptionId, Time};

/// When the samples' events came in, nearly.
pub(super) const ARRIVAL: Time = Time::from_millis(1_700_000_000_000);

fn delivered(sequence: u64) -> Row {
    Row::End { tenant: tenant("acme"), key: job_key(sequence), end: End::Delivered, at: ARRIVAL }
}

/// Three events: the first and the last ended, the second open; all written behind.
fn filled() -> Opened {
    let mut opened = Opened::new();
    let record = SlotRecord { low_water: Sequence(4), flushed: Sequence(4), due_bound: Time(50) };
    let due = |at: u64| Row::Due { tenant: tenant("acme"), key: job_key(2), at: Time(at) };
    let mut rows: Vec<Row> = (1..=3).map(|sequence| event_row("acme", sequence, 1)).collect();
    rows.extend([delivered(1), delivered(3), Row::Slot(record), due(10), due(60)]);
    rows.push(Row::Ids { minute: ARRIVAL.as_minutes(), entries: vec![(1, Sequence(1))] });
    opened.apply(&batch(1, rows));
    opened
}

pub(super) fn sweep(opened: &Opened, retention: Retention, now: Time) {
    opened.store.sweep(retention).step(now).expect("the pass goes through");
}

const fn all_ids(minute: u64) -> Read {
    Read::Ids { slot: SLOT, minute, from: Sequence(0) }
}

fn sequences(opened: &mut Opened) -> Vec<u64> {
    whole_log(opened, 0).iter().map(|logged| logged.event.sequence.0).collect()
}

#[test]
fn ended_events_expire_and_open_ones_stay() {
    let mut opened = filled();
    let retention = Retention::default();
    sweep(&opened, retention, ARRIVAL + retention.events - Duration::from_secs(120));
    assert_eq!(sequences(&mut opened), [1, 2, 3]);
    sweep(&opened, retention, ARRIVAL + retention.events + Duration::from_secs(120));
    assert_eq!(sequences(&mut opened), [2]);
    opened.apply(&batch(2, vec![delivered(2)]));
    sweep(&opened, retention, ARRIVAL + retention.events + Duration::from_secs(120));
    assert!(sequences(&mut opened).is_empty());
    let minute = ARRIVAL.as_minutes();
    assert!(matches!(opened.answer(all_ids(minute)), ReadAnswer::Ids { entries, .. } if entries.is_empty()));
}

#[test]
fn a_pass_goes_on_over_many_writes_and_tenants() {
    let mut opened = Opened::new();
    let count = 3_000;
    for (number, name) in [(1, "acme"), (2, "zeta")] {
        let first = (number - 1) * count + 1;
        let rows = (first..first + count).flat_map(|sequence| {
            let (key, end) = (job_key(sequence), End::Delivered);
            [event_row(name, sequence, 1), Row::End { tenant: tenant(name), key, end, at: ARRIVAL }]
        });
        opened.apply(&batch(number, rows.collect()));
    }
    let below = Sequence(2 * count - 9);
    let record = SlotRecord { low_water: below, flushed: below, due_bound: Time(0) };
    opened.apply(&batch(3, vec![Row::Slot(record)]));
    let retention = Retention::default();
    sweep(&opened, retention, ARRIVAL + retention.payloads + Duration::from_secs(600));
    let kept = whole_log(&mut opened, 0);
    let full = kept.iter().filter(|logged| !logged.event.payload.is_empty()).count();
    assert_eq!((kept.len() as u64, full), (2 * count, 10));
    sweep(&opened, retention, ARRIVAL + retention.events + Duration::from_secs(600));
    assert_eq!(sequences(&mut opened), (below.0..=2 * count).collect::<Vec<_>>());
}

#[test]
fn nothing_expires_that_is_not_written_behind() {
    let mut opened = filled();
    let record = SlotRecord { low_water: Sequence(2), flushed: Sequence(4), due_bound: Time(0) };
    opened.apply(&batch(2, vec![Row::Slot(record)]));
    let retention = Retention::default();
    sweep(&opened, retention, ARRIVAL + retention.events.times(2));
    assert_eq!(sequences(&mut opened), [2, 3]);
}

#[test]
fn payloads_expire_first_and_leave_the_event() {
    let mut opened = filled();
    let retention = Retention::default();
    sweep(&opened, retention, ARRIVAL + retention.payloads + Duration::from_secs(120));
    let sizes: Vec<usize> = whole_log(&mut opened, 0).iter().map(|logged| logged.event.payload.len()).collect();
    let full = samples::plain_event("acme", 1).payload.len();
    assert_eq!(sizes, [0, full, 0], "an open job keeps its payload");
}

#[test]
fn due_rows_below_the_bound_go() {
    let mut opened = filled();
    let retention = Retention::default();
    sweep(&opened, retention, ARRIVAL);
    let read = Read::Due { slot: SLOT, from: Time(0), after: None, to: Time(100) };
    let ReadAnswer::Due { rows, .. } = opened.answer(read) else { panic!("due rows") };
    assert_eq!(rows.iter().map(|row| row.at.0).collect::<Vec<_>>(), [60]);
}

#[test]
fn deletion_marks_go_with_the_events_they_ended() {
    let opened = Opened::new();
    let object = ObjectId::Subscription(SubscriptionId(Uuid::from_u128(1)));
    let mark = ConfigRecord::Deleted { tenant: tenant("acme"), object, at: ARRIVAL };
    opened.wait(opened.store.configure(&[ConfigWrite::Put(mark.clone())])).expect("the store takes it");
    let retention = Retention::default();
    sweep(&opened, retention, ARRIVAL + retention.events);
    assert_eq!(opened.store.load_configuration().expect("readable"), [mark]);
    sweep(&opened, retention, ARRIVAL + retention.events + Duration::from_secs(1));
    assert_eq!(opened.store.load_configuration().expect("readable"), []);
}

#[test]
fn dead_letters_have_a_retention_of_their_own() {
    let mut opened = Opened::new();
    let event = samples::plain_event("acme", 1);
    let job =
        JobRecord { end: Some((End::DeadLettered(EndReason::Exhausted), ARRIVAL)), ..samples::plain_job(job_key(1)) };
    opened.apply(&batch(1, vec![Row::DeadLetter { event: Rc::new(event), job: Box::new(job) }]));
    let queries = opened.store.queries();
    let count = |opened: &Opened| {
        let page = opened.wait(queries.dead_letters(crate::store::tests::records::all_dead_letters())).expect("a page");
        page.items.len()
    };
    let retention = Retention::default();
    sweep(&opened, retention, ARRIVAL + retention.dead_letters);
    assert_eq!(count(&opened), 1);
    sweep(&opened, retention, ARRIVAL + retention.dead_letters + Duration::from_secs(1));
    assert_eq!(count(&opened), 0);
}

#[test]
fn ids_with_forged_times_go_once_their_events_have_expired() {
    let mut opened = filled();
    let retention = Retention::default();
    let far = (ARRIVAL + Duration::from_hours(24 * 365)).as_minutes();
    let ids = |minute, sequence| Row::Ids { minute, entries: vec![(9, Sequence(sequence))] };
    // More packs that must stay than one write of a pass looks at, and expired ones behind them.
    let many = 5_000;
    let mut rows: Vec<Row> = (0..many).flat_map(|step| [ids(step, 9), ids(far + step, 9)]).collect();
    rows.extend([ids(many, 1), ids(far + many, 1)]);
    opened.apply(&batch(2, rows));
    let found = |opened: &mut Opened, minute| {
        let ReadAnswer::Ids { entries, .. } = opened.answer(all_ids(minute)) else { panic!("ids") };
        entries.len()
    };
    sweep(&opened, retention, ARRIVAL + retention.events - Duration::from_secs(120));
    assert_eq!([many, far + many].map(|minute| found(&mut opened, minute)), [1, 1]);
    opened.apply(&batch(3, vec![event_at_the_cutoff(retention)]));
    sweep(&opened, retention, ARRIVAL + retention.events + Duration::from_secs(120));
    assert_eq!([many, far + many].map(|minute| found(&mut opened, minute)), [0, 0]);
    assert_eq!([0, far, far + many - 1].map(|minute| found(&mut opened, minute)), [1, 1, 1]);
}

/// An event that has not expired when the samples' have: retention ends before its number.
fn event_at_the_cutoff(retention: Retention) -> Row {
    let mut event = samples::plain_event("acme", 4);
    event.received_at = ARRIVAL + retention.events;
    Row::Event { event: Rc::new(event), jobs: Vec::new() }
}
