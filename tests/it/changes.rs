//! Changes under load: what was deleted gets nothing more, what was changed takes effect at once.

use serde_json::{Value, json};

use crate::harness::{CloudEvent, Gate, Hub, Receiver, Reply, eventually, signature_count};

#[test]
fn a_deleted_destination_with_pending_jobs_gets_nothing_more() {
    const EVENTS: usize = 100;
    let (hub, gate) = (Hub::start(), Gate::default());
    let held = gate.clone();
    let receiver = Receiver::start(move |_| Reply::status(500).held(&held));
    let acme = hub.tenant("acme");
    let (source, destination) = acme.pipeline(&receiver, json!({}));
    source.publish_many(EVENTS);
    receiver.wait_for(1);
    acme.api.delete(&format!("/v1/destinations/{destination}")).expect(204);
    gate.open();
    let cancelled = acme.wait_for_all(EVENTS, "cancelled");
    assert!(cancelled.iter().all(|delivery| delivery["ended_at"].is_string()));
    assert_eq!(receiver.count(), 1, "only the attempt that was in flight");
    assert_eq!(acme.api.get(&format!("/v1/destinations/{destination}")).problem(404), "not_found");
    assert!(acme.all("/v1/subscriptions", "").is_empty());
    let retry = format!("/v1/deliveries/{}/retry", cancelled[0]["id"].as_str().expect("an id"));
    assert_eq!(acme.api.post(&retry, &json!({})).problem(409), "subscription_deleted");
}

#[test]
fn jobs_of_a_deleted_subscription_stay_cancelled_after_a_restart() {
    let mut hub = Hub::start();
    let receiver = Receiver::answering(500);
    let acme = hub.tenant("acme");
    let retry = json!({"type": "fixed", "intervals_s": [2], "max_retries": 50});
    let subscription = acme.subscription(&acme.destination(&receiver, json!({"retry": retry})), json!({}));
    acme.source("shop").publish_many(5);
    receiver.wait_for(5);
    acme.api.delete(&format!("/v1/subscriptions/{subscription}")).expect(204);
    acme.wait_for_all(5, "cancelled");
    let sent = receiver.count();
    hub.restart();
    // Another subscription's deliveries show that the hub is at work.
    let good = Receiver::willing();
    acme.subscription(&acme.destination(&good, json!({})), json!({}));
    acme.source("bank").publish_many(3);
    good.wait_for(3);
    assert_eq!(acme.deliveries("status=cancelled").len(), 5);
    assert_eq!(receiver.count(), sent);
}

#[test]
fn a_changed_url_takes_effect_at_once() {
    let hub = Hub::start();
    let (old, new) = (Receiver::willing(), Receiver::willing());
    new.trust(&[old.secret()]);
    let acme = hub.tenant("acme");
    let (source, destination) = acme.pipeline(&old, json!({}));
    source.publish_many(3);
    acme.wait_for_all(3, "delivered");
    acme.api.patch(&format!("/v1/destinations/{destination}"), &json!({"url": new.url()})).expect(200);
    source.publish_many(20);
    acme.wait_for_all(23, "delivered");
    assert_eq!((old.count(), new.count()), (3, 20));
}

#[test]
fn a_waiting_retry_goes_to_the_changed_url_with_the_changed_headers() {
    let hub = Hub::start();
    let (old, new) = (Receiver::answering(500), Receiver::willing());
    new.trust(&[old.secret()]);
    let acme = hub.tenant("acme");
    let retry = json!({"type": "fixed", "intervals_s": [2], "max_retries": 5});
    let (source, destination) = acme.pipeline(&old, json!({"retry": retry}));
    source.publish_many(1);
    acme.wait_for_attempts(1);
    let change = json!({"url": new.url(), "headers": [{"name": "X-New", "value": "1"}]});
    acme.api.patch(&format!("/v1/destinations/{destination}"), &change).expect(200);
    acme.wait_for_all(1, "delivered");
    assert_eq!((old.count(), new.count()), (1, 1));
    assert_eq!(new.received()[0].header("x-new"), Some("1"));
}

#[test]
fn a_rotated_secret_signs_beside_the_old_one_for_the_overlap() {
    let (hub, receiver, other) = (Hub::start(), Receiver::willing(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, destination) = acme.pipeline(&receiver, json!({}));
    let (first, second) = (receiver.secret(), other.secret());
    let rotate = format!("/v1/destinations/{destination}/rotate-secret");
    let rotated = acme.api.post(&rotate, &json!({"secret": second, "overlap_s": 60})).expect(200);
    assert_eq!(rotated["secret"], second.as_str(), "it is shown once");
    let send = |secrets: &[String], count: usize| {
        receiver.trust(secrets);
        source.publish_many(1);
        signature_count(&receiver.wait_for(count)[count - 1].headers)
    };
    // Each of the two verifies alone.
    assert_eq!(send(std::slice::from_ref(&first), 1), (2, 2));
    assert_eq!(send(std::slice::from_ref(&second), 2), (2, 2));
    let third = acme.api.post(&rotate, &json!({"overlap_s": 0})).expect(200);
    let third = third["secret"].as_str().expect("a new secret").to_owned();
    assert_eq!(send(&[third], 3), (1, 1));
    acme.wait_for_all(3, "delivered");
}

#[test]
fn a_disabled_subscription_holds_its_jobs_and_matches_nothing_new() {
    let hub = Hub::start();
    let healed = Gate::default();
    let failing = healed.clone();
    let receiver = Receiver::start(move |_| Reply::status(if failing.is_open() { 200 } else { 500 }));
    let acme = hub.tenant("acme");
    let retry = json!({"type": "fixed", "intervals_s": [1], "max_retries": 50});
    let subscription = acme.subscription(&acme.destination(&receiver, json!({"retry": retry})), json!({}));
    let path = format!("/v1/subscriptions/{subscription}");
    let source = acme.source("shop");
    source.publish_many(3);
    receiver.wait_for(3);
    acme.api.patch(&path, &json!({"enabled": false})).expect(200);
    eventually("the jobs to be held", || {
        let waiting = acme.deliveries("status=pending");
        waiting.len() == 3 && waiting.iter().all(|delivery| delivery["waiting_for"] == "disabled")
    });
    let unmatched = source.publish_many(1).remove(0);
    assert_eq!(acme.api.get(&format!("/v1/events/{unmatched}")).expect(200)["deliveries"], json!([]));
    healed.open();
    acme.api.patch(&path, &json!({"enabled": true})).expect(200);
    acme.wait_for_all(3, "delivered");
}

#[test]
fn a_challenge_must_come_back_before_anything_is_delivered() {
    let hub = Hub::start();
    let consenting = Gate::default();
    let consent = consenting.clone();
    let receiver = Receiver::start(move |request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match (request.header("x-lerian-event-type"), consent.is_open()) {
            (Some("webhook.verification"), true) => {
                Reply::body(200, json!({"challenge": body["challenge"]}).to_string())
            }
            (Some("webhook.verification"), false) => Reply::body(200, "yes, whatever"),
            _ => Reply::status(200),
        }
    });
    let acme = hub.tenant("acme");
    let inline = json!({"url": receiver.url(), "secret": receiver.secret()});
    let made = acme.api.post("/v1/subscriptions", &json!({"destination": inline})).expect(201);
    assert_eq!((&made["verification_state"], &made["enabled"]), (&json!("pending"), &json!(true)));
    let id = made["id"].as_str().expect("an id");
    let source = acme.source("shop");
    let early = CloudEvent::new("order", "paid");
    source.publish(&early).expect(200);
    let verify = format!("/v1/subscriptions/{id}/verify");
    assert_eq!(acme.api.post(&verify, &json!({})).problem(409), "verification_failed");
    consenting.open();
    assert_eq!(acme.api.post(&verify, &json!({})).expect(200)["verification_state"], "active");
    let late = CloudEvent::new("order", "sent");
    source.publish(&late).expect(200);
    acme.wait_for_all(1, "delivered");
    let requests = receiver.received();
    let (asked, sent): (Vec<_>, Vec<_>) =
        requests.iter().partition(|request| request.header("x-lerian-event-type") == Some("webhook.verification"));
    assert_eq!(sent.iter().map(|request| request.event_id()).collect::<Vec<_>>(), [late.id]);
    let challenge: Value = serde_json::from_slice(&asked[0].body).expect("JSON");
    assert_eq!((&challenge["type"], &challenge["subscription_id"]), (&json!("webhook.verification"), &json!(id)));
    assert_eq!(challenge["challenge"].as_str().map(str::len), Some(43));
}
