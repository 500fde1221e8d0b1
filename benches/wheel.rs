//! Timers, with a million pending. Budget: 0.3 µs for queues and timers together.

use std::hint::black_box;

use criterion::Criterion;
use streaming_hub::engine::wheel::Wheel;
use streaming_hub::types::Duration;

use super::common::NOW;

const PENDING: u64 = 1_000_000;

/// The delay of a timer by number: within a minute, spread.
fn delay(number: u64) -> Duration {
    Duration::from_micros(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 60_000_000)
}

pub fn bench(criterion: &mut Criterion) {
    let mut wheel = Wheel::new(NOW);
    for number in 0..PENDING {
        wheel.insert(NOW + delay(number), number);
    }
    let mut number = PENDING;
    criterion.bench_function("wheel/insert_and_cancel", |bencher| {
        bencher.iter(|| {
            number += 1;
            let timer = wheel.insert(NOW + delay(number), black_box(number));
            wheel.cancel(timer)
        });
    });
    let mut now = NOW;
    criterion.bench_function("wheel/insert_and_expire", |bencher| {
        bencher.iter(|| {
            now = now + Duration::from_micros(60);
            number += 1;
            wheel.insert(now + delay(number), black_box(number));
            let mut fired = 0;
            while wheel.pop_expired(now).is_some() {
                fired += 1;
            }
            fired
        });
    });
}
