//! The dedup window. Budget: 0.1 µs for an event's look and insert, 32 bytes for an entry.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use streaming_hub::engine::dedup::{Dedup, Look};
use streaming_hub::types::{Sequence, Slot};

use super::common::NOW;

const SLOT: Slot = Slot(3);
const IDS: u64 = 100_000;
/// About what arrives between two ticks of the write-behind.
const FLUSH_EVERY: u64 = 10_000;
const BUDGET: usize = 64 << 20;

/// A key as ids have them: no pattern in its bits.
fn key(number: u64) -> u128 {
    u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

fn read_window() -> Dedup {
    let mut dedup = Dedup::new(BUDGET, 1);
    assert!(dedup.begin_read(SLOT, NOW.as_minutes()));
    dedup.page(SLOT, NOW.as_minutes(), &[], None);
    dedup
}

/// Looks and inserts as admission does, and writes behind.
fn fill(mut dedup: Dedup) -> Dedup {
    let minute = NOW.as_minutes();
    for number in 0..IDS {
        let key = key(number);
        assert_eq!(dedup.look(SLOT, minute, key), Look::Fresh);
        dedup.insert(SLOT, minute, key, Sequence(number + 1));
        if number % FLUSH_EVERY == FLUSH_EVERY - 1 {
            black_box(dedup.take_unwritten(SLOT, Sequence(number + 2)));
            dedup.written(SLOT);
        }
    }
    dedup
}

pub fn bench(criterion: &mut Criterion) {
    let mut full = fill(read_window());
    let minute = NOW.as_minutes();
    assert!(full.bytes() <= full.entries() * 64, "a table at its emptiest, just doubled, has 64 bytes an entry");
    let mut number = 0;
    let mut next = || {
        number = (number + 7_919) % IDS;
        key(number)
    };
    criterion.bench_function("dedup/look_hit", |bencher| {
        bencher.iter(|| full.look(SLOT, minute, black_box(next())));
    });
    criterion.bench_function("dedup/look_miss", |bencher| {
        bencher.iter(|| full.look(SLOT, minute, black_box(!next())));
    });
    let mut group = criterion.benchmark_group("dedup/look_and_insert");
    group.throughput(Throughput::Elements(IDS));
    group.bench_function("with_flush", |bencher| {
        bencher.iter_batched(read_window, fill, BatchSize::PerIteration);
    });
    group.finish();
}
