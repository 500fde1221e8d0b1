//! A backlog larger than memory's share of it: kept on disk, in order, across stops, kills and another number of
//! shards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{CloudEvent, Gate, Hub, Received, Receiver, Reply, Source, Tenant, eventually};

/// Publishes that many events in batches; gives their ids in order.
fn publish(source: &Source, count: usize) -> Vec<String> {
    let events: Vec<CloudEvent> = (0..count).map(|_| CloudEvent::new("order", "paid")).collect();
    for batch in events.chunks(500) {
        let texts: Vec<String> = batch.iter().map(|event| event.structured(&source.slug)).collect();
        let body = format!("[{}]", texts.join(","));
        source.post(&[("Content-Type", "application/cloudevents-batch+json")], body.as_bytes()).expect(200);
    }
    events.into_iter().map(|event| event.id).collect()
}

/// Refuses everything until the gate is open.
fn failing_until(gate: &Gate) -> Receiver {
    let healed = gate.clone();
    Receiver::start(move |_| Reply::status(if healed.is_open() { 200 } else { 500 }))
}

fn delivered(receiver: &Receiver, refused: usize) -> Vec<String> {
    receiver.received()[refused..].iter().map(Received::event_id).collect()
}

/// A circuit that asks again soon, and a schedule that outlasts the test.
fn patient() -> Value {
    let retry = json!({"type": "fixed", "intervals_s": [1], "max_retries": 100});
    json!({"retry": retry, "circuit": {"threshold": 1, "cooldown_ms": 1000}, "ordering": "strict"})
}

fn assert_nothing_pending(acme: &Tenant) {
    eventually("every outcome to be recorded", || acme.deliveries("status=pending").is_empty());
}

#[test]
fn more_than_memory_holds_goes_out_in_order_once_the_destination_heals() {
    const EVENTS: usize = 3_000;
    let (hub, healed) = (Hub::start(), Gate::default());
    let receiver = failing_until(&healed);
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, patient());
    let published = publish(&source, EVENTS);
    eventually("a refusal", || receiver.count() > 0);
    healed.open();
    let refused = receiver.count();
    eventually("the backlog to go out", || receiver.count() >= refused + EVENTS);
    let sent = delivered(&receiver, receiver.count() - EVENTS);
    assert!(sent == published, "not in order of arrival");
    assert_nothing_pending(&acme);
}

#[test]
fn a_backlog_survives_a_stop_a_kill_and_another_number_of_shards() {
    const EVENTS: usize = 2_600;
    let (mut hub, healed) = (Hub::start(), Gate::default());
    let receiver = failing_until(&healed);
    let (acme, globex) = (hub.tenant("acme"), hub.tenant("globex"));
    let (source, _) = acme.pipeline(&receiver, patient());
    let (other, _) = globex.pipeline(&receiver, patient());
    let mut published = publish(&source, EVENTS / 2);
    other.publish_many(10);
    hub.terminate();
    let finished = hub.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    hub.set("SHARDS", "3");
    hub.restart_after_end();
    published.extend(publish(&source, EVENTS / 2));
    hub.kill();
    hub.set("SHARDS", "1");
    hub.restart_after_end();
    healed.open();
    eventually("both backlogs to go out", || acme.count_delivered() == EVENTS && globex.count_delivered() == 10);
    let of_acme: Vec<String> = delivered(&receiver, 0).into_iter().filter(|id| published.contains(id)).collect();
    let sent = &of_acme[of_acme.len() - EVENTS..];
    assert!(sent == published, "not in order of arrival");
}

#[test]
fn kills_while_a_backlog_drains_lose_nothing_and_repeat_only_what_was_in_flight() {
    const EVENTS: usize = 4_000;
    const KILLS: usize = 4;
    const IN_FLIGHT: usize = 8;
    let started = Gate::default();
    let held = started.clone();
    let receiver = Receiver::start(move |_| Reply::status(200).held(&held));
    let mut hub = Hub::start();
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"ordering": "parallel", "max_in_flight": IN_FLIGHT}));
    let published = publish(&source, EVENTS);
    started.open();
    for _ in 0..KILLS {
        let before = receiver.count();
        eventually("a part of the backlog", || receiver.count() > before + 500);
        hub.restart();
    }
    eventually("the backlog to go out", || acme.count_delivered() == EVENTS);
    let sent: BTreeSet<String> = delivered(&receiver, 0).into_iter().collect();
    assert!(sent == published.into_iter().collect(), "not the same events");
    assert!(receiver.count() <= EVENTS + KILLS * IN_FLIGHT, "{} requests", receiver.count());
}

#[test]
fn first_in_first_out_holds_while_a_backlog_on_disk_drains_across_kills() {
    const EVENTS: usize = 3_000;
    const KILLS: usize = 3;
    let started = Gate::default();
    let held = started.clone();
    let receiver = Receiver::start(move |_| Reply::status(200).held(&held));
    let mut hub = Hub::start();
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let published = publish(&source, EVENTS);
    started.open();
    for _ in 0..KILLS {
        let before = receiver.count();
        eventually("a part of the backlog", || receiver.count() > before + 400);
        hub.restart();
    }
    eventually("the backlog to go out", || acme.count_delivered() == EVENTS);
    let mut seen = BTreeSet::new();
    let first_attempts: Vec<String> =
        delivered(&receiver, 0).into_iter().filter(|id| seen.insert(id.clone())).collect();
    let place: BTreeMap<&String, usize> = published.iter().enumerate().map(|(place, id)| (id, place)).collect();
    let places: Vec<usize> = first_attempts.iter().map(|id| place[id]).collect();
    // The attempt that a kill catches between its claim and its first byte is a retry from then on: it steps aside.
    let is_late = |at: usize| places[..at].iter().any(|earlier| *earlier > places[at]);
    let late = (0..places.len()).filter(|at| is_late(*at)).count();
    assert_eq!(places.len(), EVENTS);
    assert!(late <= KILLS, "{late} are late");
}

#[test]
fn a_deletion_ends_a_backlog_on_disk_even_across_a_kill() {
    const EVENTS: usize = 2_600;
    let (mut hub, healed) = (Hub::start(), Gate::default());
    let receiver = failing_until(&healed);
    let acme = hub.tenant("acme");
    let (source, destination) = acme.pipeline(&receiver, patient());
    publish(&source, EVENTS);
    receiver.wait_for(1);
    acme.api.delete(&format!("/v1/destinations/{destination}")).expect(204);
    hub.restart();
    healed.open();
    eventually("every job to be cancelled", || acme.deliveries("status=cancelled").len() == EVENTS);
    assert_eq!(acme.deliveries("").len(), EVENTS);
    // Nothing that was asked for after the answer; what was in flight then may have arrived.
    let sent = receiver.received();
    assert!(sent.iter().all(|request| request.number < 8), "{} requests", sent.len());
}

#[test]
fn a_backlog_held_by_its_subscription_goes_out_when_that_is_enabled_and_changed() {
    const EVENTS: usize = 2_300;
    let (hub, healed) = (Hub::start(), Gate::default());
    let receiver = failing_until(&healed);
    let acme = hub.tenant("acme");
    let retry = json!({"type": "fixed", "intervals_s": [1], "max_retries": 100});
    let destination =
        acme.destination(&receiver, json!({"retry": retry, "circuit": {"threshold": 1, "cooldown_ms": 1000}}));
    let subscription = acme.subscription(&destination, json!({}));
    let path = format!("/v1/subscriptions/{subscription}");
    publish(&acme.source("shop"), EVENTS);
    receiver.wait_for(1);
    acme.api.patch(&path, &json!({"enabled": false})).expect(200);
    healed.open();
    acme.api.patch(&path, &json!({"ordering": "parallel"})).expect(200);
    acme.api.patch(&path, &json!({"enabled": true})).expect(200);
    eventually("the backlog to go out", || acme.count_delivered() == EVENTS);
    assert_nothing_pending(&acme);
}

#[test]
fn more_than_the_hub_can_take_at_once_is_refused_and_what_it_took_is_kept() {
    const WRITERS: usize = 24;
    const EVENTS: usize = 1_000;
    let mut hub = Hub::start();
    let acme = hub.tenant("acme");
    let source = acme.source("shop");
    let batch = || -> Vec<CloudEvent> { (0..EVENTS).map(|_| CloudEvent::new("order", "paid")).collect() };
    let post = |events: &[CloudEvent]| {
        let texts: Vec<String> = events.iter().map(|event| event.structured("shop")).collect();
        source.post(
            &[("Content-Type", "application/cloudevents-batch+json")],
            format!("[{}]", texts.join(",")).as_bytes(),
        )
    };
    let taken: Vec<String> = std::thread::scope(|scope| {
        let write = || {
            let events = batch();
            let answer = post(&events);
            match answer.status {
                200 => vec![events[0].id.clone(), events[EVENTS - 1].id.clone()],
                _ => {
                    answer.problem(503);
                    assert!(answer.header("retry-after").is_some());
                    Vec::new()
                }
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer")).collect()
    });
    assert!(!taken.is_empty());
    hub.restart();
    // An event is found by its id once that is written behind, about a second later.
    for id in taken {
        eventually(&id, || acme.api.get(&format!("/v1/events/{id}")).status == 200);
    }
}

#[test]
fn a_retry_in_the_far_future_is_remembered_and_can_be_asked_for_now() {
    let (mut hub, healed) = (Hub::start(), Gate::default());
    let receiver = failing_until(&healed);
    let acme = hub.tenant("acme");
    let retry = json!({"type": "fixed", "intervals_s": [3600], "max_retries": 5});
    let (source, _) = acme.pipeline(&receiver, json!({"retry": retry}));
    source.publish_many(3);
    receiver.wait_for(3);
    let planned = |tenant: &Tenant| {
        let mut times: Vec<Value> =
            tenant.deliveries("status=pending").iter().map(|d| d["next_attempt_at"].clone()).collect();
        times.sort_by_key(Value::to_string);
        times
    };
    eventually("three plans", || planned(&acme).iter().filter(|at| at.is_string()).count() == 3);
    let before = planned(&acme);
    hub.restart();
    assert_eq!(planned(&acme), before);
    healed.open();
    for delivery in acme.deliveries("") {
        assert_eq!((&delivery["waiting_for"], &delivery["attempt_count"]), (&json!("retry"), &json!(1)));
        let path = format!("/v1/deliveries/{}/retry", delivery["id"].as_str().expect("an id"));
        acme.api.post(&path, &json!({})).expect(202);
    }
    acme.wait_for_all(3, "delivered");
    assert_eq!(receiver.count(), 6);
}

#[test]
fn a_retry_after_holds_its_destination_across_a_kill() {
    const HOLD: Duration = Duration::from_secs(4);
    let receiver = Receiver::start(|request| match request.number {
        0 => Reply::with(503, "Retry-After", HOLD.as_secs().to_string()),
        _ => Reply::status(200),
    });
    let mut hub = Hub::start();
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"retry": {"type": "curve", "steps_s": [0, 0]}}));
    source.publish_many(2);
    acme.wait_for_attempt_recorded();
    hub.restart();
    source.publish_many(1);
    acme.wait_for_all(3, "delivered");
    let requests = receiver.received();
    for later in &requests[1..] {
        assert!(later.at - requests[0].at >= HOLD, "{:?} after the 503", later.at - requests[0].at);
    }
}

#[test]
fn dead_letters_are_retried_in_bulk_once() {
    const EVENTS: usize = 120;
    let (hub, healed) = (Hub::start(), Gate::default());
    let receiver = failing_until(&healed);
    let acme = hub.tenant("acme");
    let more =
        json!({"retry": {"type": "curve", "steps_s": [0]}, "circuit": {"enabled": false}, "ordering": "parallel"});
    let (source, destination) = acme.pipeline(&receiver, more);
    publish(&source, EVENTS);
    acme.wait_for_all(EVENTS, "dead_lettered");
    healed.open();
    let filter = json!({"destination_id": destination, "reason": "exhausted"});
    let answer = acme.api.post("/v1/dead-letters/retry", &filter).expect(202);
    assert_eq!((&answer["matched"], &answer["retried"]), (&json!(EVENTS), &json!(EVENTS)), "{answer}");
    eventually("the second runs", || acme.count_delivered() == EVENTS);
    let again = acme.api.post("/v1/dead-letters/retry", &filter).expect(202);
    assert_eq!((&again["retried"], &again["skipped"]), (&json!(0), &json!(EVENTS)), "{again}");
    assert_eq!(receiver.count(), 2 * EVENTS);
}
