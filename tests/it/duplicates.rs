//! One event once: the same id twice is one delivery, whoever wins the race; another tenant's id is another event.

use std::sync::Barrier;

use serde_json::json;

use crate::harness::{CloudEvent, Hub, Receiver};

#[test]
fn the_same_event_twice_is_answered_as_a_duplicate_and_delivered_once() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let event = CloudEvent::new("order", "paid");
    let first = source.publish(&event).expect(200);
    assert_eq!(first.get("duplicate"), None);
    let second = source.publish(&event.clone().with_data("\"other data\"")).expect(200);
    assert_eq!(second, json!({"event_id": event.id, "source_id": source.id, "duplicate": true}));
    let batch = format!("[{0},{0}]", event.structured("shop"));
    let third = source.post(&[("Content-Type", "application/cloudevents-batch+json")], batch.as_bytes()).expect(200);
    let copy = json!({"event_id": event.id, "duplicate": true});
    assert_eq!(third, json!({"items": [copy, copy]}));

    // Whatever a wrong copy would bring has come when a later event has.
    source.publish(&CloudEvent::new("order", "sent")).expect(200);
    acme.wait_for_all(2, "delivered");
    assert_eq!(receiver.count(), 2);
}

#[test]
fn a_batch_that_names_one_event_twice_has_it_once() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let event = CloudEvent::new("order", "paid");
    let batch = format!("[{0},{0}]", event.structured("shop"));
    let answer = source.post(&[("Content-Type", "application/cloudevents-batch+json")], batch.as_bytes()).expect(200);
    assert_eq!(answer["items"][0], json!({"event_id": event.id}));
    assert_eq!(answer["items"][1], json!({"event_id": event.id, "duplicate": true}));
    acme.wait_for_all(1, "delivered");
}

#[test]
fn of_32_racing_copies_one_is_new() {
    const RACERS: usize = 32;
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let (event, start) = (CloudEvent::new("order", "paid"), Barrier::new(RACERS));
    let race = || {
        start.wait();
        source.publish(&event).expect(200)
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS).map(|_| scope.spawn(race)).collect();
        racers.into_iter().map(|racer| racer.join().expect("a racer")).collect()
    });
    let new = answers.iter().filter(|answer| answer.get("duplicate").is_none()).count();
    assert_eq!(new, 1, "{answers:?}");
    acme.wait_for_all(1, "delivered");
    assert_eq!(receiver.count(), 1);
}

#[test]
fn a_duplicate_is_known_after_a_restart() {
    let (mut hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let event = CloudEvent::new("order", "paid");
    source.publish(&event).expect(200);
    acme.wait_for_all(1, "delivered");
    hub.restart();
    assert_eq!(source.publish(&event).expect(200)["duplicate"], true);
    source.publish(&CloudEvent::new("order", "sent")).expect(200);
    acme.wait_for_all(2, "delivered");
    assert_eq!(receiver.count(), 2);
}

#[test]
fn two_tenants_may_use_one_id() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let event = CloudEvent::new("order", "paid");
    for name in ["acme", "globex"] {
        let tenant = hub.tenant(name);
        let (source, _) = tenant.pipeline(&receiver, json!({}));
        assert_eq!(source.publish(&event).expect(200).get("duplicate"), None);
        tenant.wait_for_all(1, "delivered");
    }
    assert_eq!(receiver.count(), 2);
}
