//! What the engine's reads cost, and that every one of them is answered.

use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;

use super::{Opened, SHARD};
use crate::engine::rows::DueRow;
use crate::engine::{Read, ReadAnswer, ReadId, Row};
use crate::store::StoreEvent;
use crate::store::codec::samples;
use crate::store::tests::{SLOT, Subject as _, batch, job_key, tenant};
use crate::types::{AttemptOutcome, AttemptRecord, ErrorKind, JobKey, Sequence, Time, limits};

/// One event with `jobs` jobs; each has a failed attempt with a response of 1 MiB, and a due row.
fn an_event_that_failed_everywhere(jobs: u16) -> Opened {
    let mut opened = Opened::new();
    let event = Rc::new(samples::plain_event("acme", 1));
    let matched = (0..jobs).map(|ordinal| samples::claimed_job(u128::from(ordinal) + 1)).collect();
    let mut rows = vec![Row::Event { event, jobs: matched }];
    for ordinal in 0..jobs {
        let key = JobKey { ordinal, ..job_key(1) };
        rows.push(Row::Attempt { tenant: tenant("acme"), key, record: Box::new(long_failure()), end: None });
        rows.push(Row::Due { tenant: tenant("acme"), key, at: Time(1_000) });
    }
    opened.apply(&batch(1, rows));
    opened
}

fn long_failure() -> AttemptRecord {
    let failed = samples::failed_attempt(1, ErrorKind::Status);
    let outcome = AttemptOutcome { response_body: Bytes::from(vec![7; 1 << 20]), ..failed.outcome };
    AttemptRecord { outcome, ..failed }
}

fn due_page(opened: &mut Opened, after: Option<(Time, JobKey)>) -> (Vec<DueRow>, bool) {
    let read = Read::Due { slot: SLOT, from: Time(0), after, to: Time(2_000) };
    let ReadAnswer::Due { rows, more, .. } = opened.answer(read) else { panic!("due rows") };
    (rows, more)
}

#[test]
fn a_due_row_comes_with_its_own_job_only() {
    let mut opened = an_event_that_failed_everywhere(3);
    let (rows, _) = due_page(&mut opened, None);
    assert_eq!(rows.len(), 3);
    for row in rows {
        let logged = row.event.expect("the event is there");
        assert_eq!(logged.jobs.iter().map(|job| job.key).collect::<Vec<_>>(), [row.key]);
        assert_eq!((logged.jobs[0].attempts, logged.jobs[0].next_at), (1, Some(Time(1_000))));
        assert_eq!(logged.event, samples::plain_event("acme", 1));
    }
}

#[test]
fn a_due_row_of_a_run_comes_with_the_run() {
    let mut opened = an_event_that_failed_everywhere(1);
    let key = JobKey { ordinal: 7, ..job_key(1) };
    let run = samples::manual_run(5);
    let row = Row::Run {
        tenant: tenant("acme"),
        key,
        subscription: run.subscription,
        destination: run.destination,
        run: run.run,
        trigger: run.trigger,
        created_at: run.created_at,
    };
    opened.apply(&batch(2, vec![row, Row::Due { tenant: tenant("acme"), key, at: Time(1_500) }]));
    let (rows, _) = due_page(&mut opened, Some((Time(1_000), job_key(1))));
    let logged = rows[0].event.as_ref().expect("the event is there");
    assert_eq!((rows.len(), logged.jobs.len(), logged.jobs[0].run), (1, 1, run.run));
}

#[test]
fn a_page_of_due_rows_ends_by_the_bytes_that_it_read() {
    let mut opened = an_event_that_failed_everywhere(10);
    let (mut after, mut ordinals, mut pages) = (None, Vec::new(), 0);
    loop {
        let (rows, more) = due_page(&mut opened, after);
        assert!(rows.len() <= limits::LOG_PAGE_BYTES >> 20, "{} rows of 1 MiB in one page", rows.len());
        after = rows.last().map(|row| (row.at, row.key));
        ordinals.extend(rows.iter().map(|row| row.key.ordinal));
        pages += 1;
        if !more {
            break;
        }
    }
    assert_eq!(ordinals, (0..10).collect::<Vec<_>>());
    assert_eq!(pages, 3);
}

#[test]
fn every_read_is_answered_even_when_nobody_listens_yet() {
    let opened = Opened::new();
    let count = (2 * (limits::STORE_READS + limits::STORE_SUBMISSIONS) + limits::STORE_READS) as u64;
    for id in 0..count {
        opened.store.read(SHARD, ReadId(id), Read::Ids { slot: SLOT, minute: 1, from: Sequence(0) });
    }
    let mut answered = BTreeSet::new();
    for _ in 0..count {
        let StoreEvent::Loaded(id, _) = opened.next() else { panic!("an answer") };
        answered.insert(id);
    }
    assert_eq!(answered.len() as u64, count);
}
