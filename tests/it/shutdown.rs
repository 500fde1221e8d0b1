//! `SIGTERM`: what is in flight is finished, what waits is kept, the exit is 0.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::harness::{CloudEvent, Gate, Received, Receiver, Reply, Setup, eventually};

const IN_FLIGHT: usize = 50;
const BUSY: Duration = Duration::from_secs(2);

#[test]
fn a_sigterm_with_50_in_flight_finishes_all_50() {
    let receiver = Receiver::start(|_| Reply::status(200).late(BUSY));
    // One slow tenant gets an eighth of a shard's attempts, and slow destinations together a half.
    let mut hub = Setup::new().with("DISPATCH_WORKERS", "1024").start();
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"ordering": "parallel", "max_in_flight": IN_FLIGHT}));
    source.publish_many(IN_FLIGHT);
    eventually("50 attempts in flight", || receiver.in_flight() == IN_FLIGHT);
    hub.terminate();
    let finished = hub.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    assert_eq!(receiver.count(), IN_FLIGHT);

    hub.restart_after_end();
    acme.wait_for_all(IN_FLIGHT, "delivered");
    assert_eq!(receiver.count(), IN_FLIGHT, "what was finished is not sent again");
}

#[test]
fn a_sigkill_with_50_in_flight_sends_all_50_again() {
    let gate = Gate::default();
    let held = gate.clone();
    let receiver = Receiver::start(move |_| Reply::status(200).held(&held));
    let mut hub = Setup::new().with("DISPATCH_WORKERS", "1024").start();
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"ordering": "parallel", "max_in_flight": IN_FLIGHT}));
    let ids: BTreeSet<String> = source.publish_many(IN_FLIGHT).into_iter().collect();
    eventually("50 attempts in flight", || receiver.in_flight() == IN_FLIGHT);
    hub.kill();
    gate.open();
    hub.restart_after_end();
    acme.wait_for_all(IN_FLIGHT, "delivered");
    let again: BTreeSet<String> = receiver.received()[IN_FLIGHT..].iter().map(Received::event_id).collect();
    assert_eq!(again, ids);
    assert_eq!(receiver.count(), 2 * IN_FLIGHT);
}

#[test]
fn what_the_grace_cuts_is_interrupted_and_sent_again() {
    let gate = Gate::default();
    let held = gate.clone();
    let receiver = Receiver::start(move |request| match request.number {
        0 => Reply::status(200).held(&held),
        _ => Reply::status(200),
    });
    let mut hub = Setup::new().with("SHUTDOWN_TIMEOUT", "1s").start();
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"retry": {"type": "curve", "steps_s": [0]}}));
    source.publish(&CloudEvent::new("order", "paid")).expect(200);
    receiver.wait_for(1);
    hub.terminate();
    let finished = hub.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    gate.open();
    hub.restart_after_end();
    let delivery = acme.wait_for_all(1, "delivered").remove(0);
    let delivery = acme.delivery(&delivery);
    let attempts = delivery["attempts"].as_array().expect("attempts");
    assert_eq!(attempts[0]["error_kind"], "interrupted", "{delivery}");
    // The schedule has a single step: had the cut attempt used it, there would have been no other.
    assert_eq!(attempts.len(), 2, "{delivery}");
}

#[test]
fn a_second_signal_ends_it_at_once_and_loses_nothing() {
    let gate = Gate::default();
    let held = gate.clone();
    let receiver = Receiver::start(move |request| match request.number {
        0 => Reply::status(200).held(&held),
        _ => Reply::status(200),
    });
    let mut hub = Setup::new().with("SHUTDOWN_TIMEOUT", "1h").start();
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    source.publish_many(3);
    receiver.wait_for(1);
    hub.terminate();
    let anybody = hub.anybody();
    eventually("intake to end", || {
        anybody.try_send("GET", "/readyz", &[], b"").is_ok_and(|answer| answer.status == 503)
    });
    hub.terminate();
    assert_eq!(hub.finish().code, Some(1));
    gate.open();
    hub.restart_after_end();
    acme.wait_for_all(3, "delivered");
}

#[test]
fn readiness_turns_first_while_the_hub_still_serves() {
    let receiver = Receiver::willing();
    let mut hub = Setup::new().with("PRE_STOP_DRAIN_TIMEOUT", "3s").start();
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    hub.terminate();
    let anybody = hub.anybody();
    eventually("readiness to turn", || anybody.get("/readyz").status == 503);
    assert_eq!(anybody.get("/healthz").status, 200);
    source.publish(&CloudEvent::new("order", "paid")).expect(200);
    let finished = hub.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    hub.restart_after_end();
    acme.wait_for_all(1, "delivered");
    assert_eq!(receiver.count(), 1);
}
