//! The stored form of the two rows that a delivered event costs, and reading them back. Budget: part of the 8 µs
//! of the store, whose database takes 6.9 µs of it.

use std::hint::black_box;
use std::rc::Rc;

use criterion::Criterion;
use streaming_hub::engine::rows::{Batch, BatchNumber, NewJob, Row, Unit};
use streaming_hub::store::codec::batch::{EncodedBatch, Table, encode};
use streaming_hub::store::codec::fold::Fold;
use streaming_hub::store::codec::key::LogKey;
use streaming_hub::types::{
    AttemptId, AttemptOutcome, AttemptRecord, ClaimRecord, DestinationId, End, JobKey, Sequence, Slot, SubscriptionId,
};
use uuid::Uuid;

use super::common::{NOW, event, payload, tenant};

const SLOT: Slot = Slot(3);

fn claim() -> ClaimRecord {
    ClaimRecord { attempt: AttemptId(Uuid::from_u128(5)), claimed_at: NOW, until: NOW, alone: false }
}

fn event_row() -> Row {
    let job = NewJob {
        subscription: SubscriptionId(Uuid::from_u128(1)),
        destination: DestinationId(Uuid::from_u128(2)),
        claim: Some(claim()),
    };
    let event = event(&tenant(1), 7, "loan.approved", NOW, payload(1_024));
    Row::Event { event: Rc::new(event), jobs: vec![job] }
}

fn attempt_row() -> Row {
    let record = AttemptRecord {
        number: 1,
        claim: claim(),
        destination: DestinationId(Uuid::from_u128(2)),
        url: "https://example.com/hook".into(),
        outcome: AttemptOutcome { ended_at: NOW, status: Some(200), ..AttemptOutcome::default() },
        counted: true,
        reclaim: false,
        next_at: None,
    };
    let key = JobKey { slot: SLOT, sequence: Sequence(7), ordinal: 0 };
    Row::Attempt { tenant: tenant(1), key, record: Box::new(record), end: Some(End::Delivered) }
}

fn batch(row: Row) -> Batch {
    Batch { unit: Unit::Slot(SLOT), number: BatchNumber(1), rows: Rc::new(vec![row]) }
}

fn fold(rows: &[EncodedBatch]) -> usize {
    let mut fold = Fold::new(SLOT, tenant(1), Sequence(7));
    for (table, key, value) in rows.iter().flat_map(EncodedBatch::rows) {
        assert_eq!(table, Table::Log);
        let key = LogKey::decode(key).expect("a key of the log");
        fold.add(key.part, value.expect("nothing is removed")).expect("a row of the log");
    }
    fold.finish().map_or(0, |folded| folded.logged.jobs.len())
}

pub fn bench(criterion: &mut Criterion) {
    let (arrived, attempted) = ([batch(event_row())], [batch(attempt_row())]);
    criterion.bench_function("codec/encode_event_1KiB", |bencher| bencher.iter(|| encode(black_box(&arrived))));
    criterion.bench_function("codec/encode_attempt", |bencher| bencher.iter(|| encode(black_box(&attempted))));
    let rows = [encode(&arrived), encode(&attempted)];
    assert_eq!(fold(&rows), 1);
    criterion.bench_function("codec/fold_event_and_attempt", |bencher| bencher.iter(|| fold(black_box(&rows))));
}
