//! What each part of an event's way costs, one core, nothing else running: `cargo bench --bench parts`.
//!
//! Each module names the budget it is held against (section 8 of the design). Figures of one part are read with
//! `cargo bench --bench parts -- <name>`.

mod codec;
mod common;
mod decode;
mod dedup;
mod guard;
mod matching;
mod pick;
mod sign;
mod turn;
mod turn_driver;
mod wheel;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};

/// Short, so that all of them together take about a minute.
fn settings() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_500))
}

criterion_group! {
    name = parts;
    config = settings();
    targets = decode::bench, dedup::bench, matching::bench, wheel::bench, pick::bench, sign::bench, codec::bench,
        turn::bench, guard::bench
}
criterion_main!(parts);
