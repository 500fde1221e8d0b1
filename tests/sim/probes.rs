//! A circuit probes at its time with whatever job waits, also with one that lies far ahead in the store.

use streaming_hub::engine::{Bounds, Read};
use streaming_hub::types::destination::{CircuitSettings, Destination, Ordering};
use streaming_hub::types::{ConfigChange, Duration, RetryPolicy, Time};

use crate::stage::{Stage, destination, status, tenant};

const HOUR: Duration = Duration::from_hours(1);

/// A destination whose circuit opens at the second failure for an hour, and whose retries come after ten.
fn failing(number: u128) -> Destination {
    Destination {
        ordering: Ordering::Parallel,
        circuit: CircuitSettings { threshold: 2, cooldown_ms: 3_600_000, ..CircuitSettings::default() },
        retry: RetryPolicy::Fixed { intervals_s: vec![36_000], max_retries: 3 },
        ..destination("acme", number)
    }
}

/// A stage on which the circuit is open and all jobs wait in the store.
fn stage_with_far_jobs() -> Stage {
    let mut stage = Stage::new(Bounds::default());
    stage.pipeline(failing(1));
    stage.publish_many("acme", 3);
    for number in 0..3 {
        stage.answer(number, status(500));
    }
    stage.pass(Duration::from_secs(600));
    stage
}

#[test]
fn after_a_restart_an_open_circuit_probes_at_its_time_though_all_jobs_are_far() {
    let mut stage = stage_with_far_jobs();
    stage.crash();
    assert_eq!(stage.shard.report().jobs, 0, "every job lies in the store");
    let probe_at = stage.shard.report().circuits[0].next_probe_at.expect("it is open");
    let until = probe_at.since(stage.now);
    stage.pass(Duration(until.0 - 1));
    assert_eq!(stage.sent.len(), 3);
    stage.pass(Duration::from_secs(5));
    assert_eq!(stage.sent.len(), 4, "the probe is out within seconds of its time");
    stage.pass(Duration::from_secs(5));
    assert_eq!(stage.sent.len(), 4, "and it is alone");
    stage.answer(3, status(200));
    assert!(stage.shard.report().circuits.is_empty(), "it closes");
}

#[test]
fn a_circuit_without_any_job_looks_once_and_not_again() {
    let mut stage = stage_with_far_jobs();
    stage.crash();
    let deleted = stage.jobs()[0].subscription;
    stage.configure(ConfigChange::DeleteSubscription(tenant("acme"), deleted));
    let before = stage.reads.len();
    stage.pass(Duration(HOUR.0 * 3));
    let searches = stage.reads[before..].iter().filter(|read| matches!(read, Read::Due { to: Time::MAX, .. }));
    assert_eq!(searches.count(), 1);
    assert_eq!(stage.sent.len(), 3);
}
