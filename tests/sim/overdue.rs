//! Deadlines of jobs that wait on disk behind a queue which nothing is read into.

use streaming_hub::engine::Bounds;
use streaming_hub::types::destination::{Destination, Ordering};
use streaming_hub::types::subscription::Subscription;
use streaming_hub::types::{Duration, End, EndReason, RetryPolicy, limits};

use crate::stage::{Stage, destination, subscription};

const EVENTS: usize = 120;
const HELD: u128 = 2;

/// A tenant whose memory is filled by jobs of one destination that hangs, so that the other's jobs stay on disk.
fn crowded() -> Stage {
    let bounds = Bounds { tenant_jobs: 20, queue_head_jobs: 64, queue_refill_below: 8, ..Bounds::default() };
    let mut stage = Stage::new(bounds);
    stage.pipeline(Destination { ordering: Ordering::Parallel, ..destination("acme", 1) });
    stage.publish_many("acme", 40);
    let retry = RetryPolicy::Fixed { intervals_s: vec![60], max_retries: 3 };
    stage.pipeline(Destination { max_in_flight: 1, retry, ..destination("acme", HELD) });
    stage.publish_many("acme", EVENTS);
    stage
}

fn ended(stage: &Stage, reason: EndReason) -> usize {
    stage.ends(HELD).iter().filter(|end| **end == Some(End::DeadLettered(reason))).count()
}

#[test]
fn jobs_on_disk_of_a_disabled_subscription_expire_within_minutes_of_their_deadline() {
    let mut stage = crowded();
    stage.put_subscription(Subscription { enabled: false, ..subscription("acme", HELD, HELD) });
    stage.pass(Duration(limits::DEADLINE_MIN.0 - 10_000_000));
    assert_eq!(ended(&stage, EndReason::Expired), 0, "not before its time");
    stage.pass(Duration::from_secs(10 + 150));
    assert!(ended(&stage, EndReason::Expired) >= EVENTS - 20, "{} expired", ended(&stage, EndReason::Expired));
    assert!(stage.store.dead_letters().count() >= EVENTS - 20, "each leaves a dead letter");
    stage.crash();
    stage.pass(Duration::from_secs(150));
    let open = stage.ends(HELD).iter().filter(|end| end.is_none()).count();
    assert_eq!(open, 0, "after a restart nothing of it is left open");
}
