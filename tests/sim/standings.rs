//! What a job waits for, as the engine tells it: each word of the contract, one after another.

use streaming_hub::engine::{Bounds, Standing, WaitingFor};
use streaming_hub::types::destination::{CircuitSettings, Destination, Ordering, RateLimit};
use streaming_hub::types::subscription::{Subscription, VerificationState};
use streaming_hub::types::{AttemptOutcome, ConfigChange, Duration, RetryPolicy};

use crate::stage::{Stage, destination, status, subscription, tenant};

const IN_FLIGHT: Standing = Standing::InFlight;

fn waiting(reason: WaitingFor) -> Standing {
    Standing::Waiting(reason)
}

fn slow_retry() -> RetryPolicy {
    RetryPolicy::Fixed { intervals_s: vec![30], max_retries: 5 }
}

/// A stage with a destination of `acme`.
fn stage_with(destination: Destination) -> Stage {
    let mut stage = Stage::new(Bounds::default());
    stage.pipeline(destination);
    stage
}

#[test]
fn a_later_job_waits_for_the_order_and_an_earlier_failed_one_for_its_retry() {
    let mut stage = stage_with(Destination { retry: slow_retry(), ..destination("acme", 1) });
    stage.publish_many("acme", 3);
    assert_eq!(stage.standings(), [IN_FLIGHT, waiting(WaitingFor::Order), waiting(WaitingFor::Order)]);
    stage.answer(0, status(500));
    assert_eq!(stage.standings(), [waiting(WaitingFor::Retry), IN_FLIGHT, waiting(WaitingFor::Order)]);
}

#[test]
fn under_strict_the_later_ones_wait_for_the_order_while_the_first_waits_for_its_retry() {
    let strict = Destination { ordering: Ordering::Strict, retry: slow_retry(), ..destination("acme", 1) };
    let mut stage = stage_with(strict);
    stage.publish_many("acme", 2);
    stage.answer(0, status(500));
    assert_eq!(stage.standings(), [waiting(WaitingFor::Retry), waiting(WaitingFor::Order)]);
}

#[test]
fn a_retry_after_holds_all_jobs_of_the_destination() {
    let mut stage = stage_with(destination("acme", 1));
    stage.publish_many("acme", 2);
    let busy = AttemptOutcome { retry_after: Some(Duration::from_secs(90)), ..status(429) };
    stage.answer(0, busy);
    assert_eq!(stage.standings(), [waiting(WaitingFor::RetryAfter); 2]);
    stage.pass(Duration::from_secs(91));
    assert_eq!(stage.sent.len(), 2, "the hold has ended");
}

#[test]
fn an_open_circuit_is_waited_for_and_so_is_its_probe() {
    let circuit = CircuitSettings { threshold: 1, ..CircuitSettings::default() };
    let mut stage = stage_with(Destination { circuit, retry: slow_retry(), ..destination("acme", 1) });
    stage.publish_many("acme", 2);
    stage.answer(0, status(500));
    assert_eq!(stage.standings(), [waiting(WaitingFor::Circuit); 2]);
    stage.pass(Duration::from_secs(70));
    assert_eq!(stage.sent.len(), 2, "the probe is out");
    let probing = stage.standings();
    assert!(probing.contains(&IN_FLIGHT) && probing.contains(&waiting(WaitingFor::Circuit)), "{probing:?}");
}

#[test]
fn a_rate_and_a_full_destination_are_told_apart() {
    let parallel = Destination { ordering: Ordering::Parallel, max_in_flight: 2, ..destination("acme", 1) };
    let mut stage = stage_with(parallel.clone());
    stage.publish_many("acme", 3);
    assert_eq!(stage.standings(), [IN_FLIGHT, IN_FLIGHT, waiting(WaitingFor::Capacity)]);
    let slow = RateLimit { per_second: 1, burst: 1 };
    let mut stage = stage_with(Destination { rate_limit: Some(slow), max_in_flight: 16, ..parallel });
    stage.publish_many("acme", 2);
    assert_eq!(stage.standings(), [IN_FLIGHT, waiting(WaitingFor::Rate)]);
    let fifo = Destination { rate_limit: Some(slow), ..destination("acme", 1) };
    let mut stage = stage_with(fifo);
    stage.publish_many("acme", 3);
    stage.answer(0, status(200));
    assert_eq!(stage.standings()[1..], [waiting(WaitingFor::Rate), waiting(WaitingFor::Order)]);
}

#[test]
fn what_holds_a_subscription_comes_before_everything_else() {
    let mut stage = stage_with(destination("acme", 1));
    stage.publish_many("acme", 2);
    let mut changed = subscription("acme", 1, 1);
    for (change, word) in [
        (Subscription { enabled: false, ..changed.clone() }, WaitingFor::Disabled),
        (Subscription { verification_state: VerificationState::Pending, ..changed.clone() }, WaitingFor::Unverified),
    ] {
        stage.put_subscription(change);
        assert_eq!(stage.standings(), [IN_FLIGHT, waiting(word)]);
    }
    stage.configure(ConfigChange::PauseTenant(tenant("acme")));
    assert_eq!(stage.standings(), [IN_FLIGHT, waiting(WaitingFor::Paused)]);
    changed.version += 1;
    stage.put_subscription(changed);
    stage.configure(ConfigChange::ResumeTenant(tenant("acme")));
    assert_eq!(stage.standings(), [IN_FLIGHT, waiting(WaitingFor::Order)]);
}

#[test]
fn a_job_on_disk_waits_for_what_its_queue_waits_for() {
    let bounds = Bounds { queue_head_jobs: 4, queue_refill_below: 2, ..Bounds::default() };
    for (order, word) in [(Ordering::Fifo, WaitingFor::Order), (Ordering::Parallel, WaitingFor::Capacity)] {
        let mut stage = Stage::new(bounds);
        stage.pipeline(Destination { ordering: order, max_in_flight: 1, ..destination("acme", 1) });
        stage.publish_many("acme", 30);
        assert!(stage.shard.report().jobs < 10, "the rest lies on disk");
        assert_eq!(stage.standings()[29], waiting(word));
        stage.configure(ConfigChange::PauseTenant(tenant("acme")));
        assert_eq!(stage.standings()[29], waiting(WaitingFor::Paused));
        stage.crash();
        assert_eq!(stage.standings()[29], waiting(WaitingFor::Paused), "after a restart too");
    }
}

#[test]
fn a_retry_that_lies_in_the_store_waits_for_its_time() {
    let far = RetryPolicy::Fixed { intervals_s: vec![7_200], max_retries: 5 };
    let mut stage = stage_with(Destination { retry: far, ..destination("acme", 1) });
    stage.publish("acme");
    stage.answer(0, status(500));
    assert_eq!(stage.shard.report().jobs, 0);
    assert_eq!(stage.standings(), [waiting(WaitingFor::Retry)]);
    stage.configure(ConfigChange::DeleteSubscription(tenant("acme"), subscription("acme", 1, 1).id));
    assert_eq!(stage.standings(), [Standing::Unknown], "its deletion is the view's to tell");
}
