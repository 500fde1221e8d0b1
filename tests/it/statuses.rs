//! What each answer of a receiver means for the job, the subscription and the destination.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{CloudEvent, Hub, Received, Receiver, Reply, Tenant, signature_count};

/// Publishes one event to a receiver that does `first` and then answers 200; the delivery once it is delivered.
fn delivered_after(acme: &Tenant, receiver: &Receiver, retry: &Value) -> Value {
    let (source, _) = acme.pipeline(receiver, json!({"retry": retry, "circuit": {"enabled": false}}));
    source.publish(&CloudEvent::new("order", "paid")).expect(200);
    let listed = acme.wait_for_all(1, "delivered").remove(0);
    acme.delivery(&listed)
}

#[test]
fn a_redirect_is_a_failure_and_never_followed() {
    let (hub, elsewhere) = (Hub::start(), Receiver::willing());
    let location = elsewhere.url();
    let receiver = Receiver::start(move |request| match request.number {
        0 => Reply::with(301, "Location", location.clone()),
        _ => Reply::status(200),
    });
    let delivery = delivered_after(&hub.tenant("acme"), &receiver, &json!({"type": "curve", "steps_s": [0, 0]}));
    let first = &delivery["attempts"][0];
    assert_eq!((&first["status"], &first["error_kind"]), (&json!(301), &json!("status")));
    let headers = first["response_headers"].as_array().expect("headers");
    assert!(headers.contains(&json!({"name": "location", "value": elsewhere.url()})), "{first}");
    assert_eq!(elsewhere.count(), 0);
}

#[test]
fn a_410_ends_the_job_and_disables_the_subscription() {
    let (hub, receiver) = (Hub::start(), Receiver::answering(410));
    let acme = hub.tenant("acme");
    let subscription = acme.subscription(&acme.destination(&receiver, json!({})), json!({}));
    let source = acme.source("shop");
    source.publish_many(1);
    let delivery = acme.wait_for_all(1, "dead_lettered").remove(0);
    assert_eq!((&delivery["reason"], &delivery["attempt_count"]), (&json!("gone"), &json!(1)));
    let path = format!("/v1/subscriptions/{subscription}");
    crate::harness::eventually("the subscription to be disabled", || {
        acme.api.get(&path).expect(200)["enabled"] == false
    });
    let disabled = acme.api.get(&path).expect(200);
    assert_eq!((&disabled["disabled_reason"], disabled["disabled_at"].is_string()), (&json!("gone"), true));
    assert_eq!(disabled["verification_state"], "active");
    // A disabled subscription is not matched any more.
    let unmatched = source.publish_many(1).remove(0);
    assert_eq!(acme.api.get(&format!("/v1/events/{unmatched}")).expect(200)["deliveries"], json!([]));
}

#[test]
fn a_410_is_a_failure_like_any_other_where_the_destination_says_so() {
    let hub = Hub::start();
    let receiver = Receiver::start(|request| Reply::status(if request.number == 0 { 410 } else { 200 }));
    let acme = hub.tenant("acme");
    let retry = json!({"type": "curve", "steps_s": [0, 0]});
    let (source, _) = acme.pipeline(&receiver, json!({"on_410": "retry", "retry": retry}));
    source.publish_many(1);
    acme.wait_for_all(1, "delivered");
    assert_eq!(receiver.count(), 2);
}

#[test]
fn a_429_holds_the_whole_destination_for_as_long_as_it_says() {
    const HOLD: Duration = Duration::from_secs(2);
    let hub = Hub::start();
    let receiver = Receiver::start(|request| match request.number {
        0 => Reply::with(429, "Retry-After", HOLD.as_secs().to_string()),
        _ => Reply::status(200),
    });
    let acme = hub.tenant("acme");
    let retry = json!({"type": "curve", "steps_s": [0, 0]});
    let (source, destination) = acme.pipeline(&receiver, json!({"retry": retry}));
    source.publish_many(3);
    acme.wait_for_all(3, "delivered");
    let requests = receiver.received();
    assert_eq!(requests.len(), 4);
    for later in &requests[1..] {
        assert!(later.at - requests[0].at >= HOLD, "{:?} after the 429", later.at - requests[0].at);
    }
    let circuit = acme.api.get(&format!("/v1/destinations/{destination}/circuit")).expect(200);
    assert_eq!((&circuit["state"], &circuit["consecutive_failures"]), (&json!("closed"), &json!(0)));
}

#[test]
fn a_senseless_retry_after_is_ignored() {
    let hub = Hub::start();
    let hints = ["-1", "abc", "1e9", "", "Mon, 31 Jan 2000 08:00:00 GMT"];
    let receiver = Receiver::start(move |request| match hints.get(request.number) {
        Some(hint) => Reply::with(503, "Retry-After", *hint),
        None => Reply::status(200),
    });
    let steps = vec![0; hints.len() + 1];
    let delivery = delivered_after(&hub.tenant("acme"), &receiver, &json!({"type": "curve", "steps_s": steps}));
    assert_eq!(delivery["attempt_count"], hints.len() + 1);
}

#[test]
fn a_retry_keeps_the_event_and_is_signed_and_dated_anew() {
    let hub = Hub::start();
    let receiver = Receiver::start(|request| Reply::status(if request.number < 2 { 500 } else { 200 }));
    let acme = hub.tenant("acme");
    let source = acme.source("shop");
    let retry = json!({"type": "fixed", "intervals_s": [1], "max_retries": 2});
    acme.subscription(&acme.destination(&receiver, json!({"retry": retry})), json!({"source_id": source.id}));
    let event = source.publish_many(1).remove(0);
    let delivery = acme.wait_for_all(1, "delivered").remove(0);
    let delivery = acme.delivery(&delivery);
    // What is shown as last is the last attempt's: no trace of the failures before.
    assert_eq!((delivery["last_status"].as_u64(), delivery.get("last_error_kind")), (Some(200), None), "{delivery}");
    let requests = receiver.received();
    let values = |name: &str| requests.iter().map(|r| r.header(name).expect(name).to_owned()).collect::<Vec<_>>();
    assert_eq!(values("webhook-id"), vec![event.clone(); 3]);
    assert_eq!(values("X-hookstream-Delivery-Attempt"), ["1", "2", "3"]);
    let shown = |member: &str| {
        let attempts = delivery["attempts"].as_array().expect("attempts");
        attempts.iter().map(|attempt| attempt[member].as_str().expect(member).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(values("X-Lerian-Delivery-Id"), shown("id"));
    for [earlier, later] in [[0, 1], [1, 2]] {
        let timestamps = values("webhook-timestamp");
        assert!(timestamps[earlier] < timestamps[later], "{timestamps:?}");
        assert_ne!(values("X-Lerian-Delivery-Id")[earlier], values("X-Lerian-Delivery-Id")[later]);
    }
    assert!(requests.iter().all(|request| signature_count(&request.headers) == (1, 1)));
}

#[test]
fn after_the_last_attempt_it_is_a_dead_letter_that_can_be_retried() {
    let hub = Hub::start();
    let receiver = Receiver::start(|request| Reply::status(if request.number < 2 { 500 } else { 200 }));
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"retry": {"type": "curve", "steps_s": [0, 0]}}));
    let event = source.publish_many(1).remove(0);
    let dead = acme.wait_for_all(1, "dead_lettered").remove(0);
    assert_eq!((&dead["reason"], &dead["attempt_count"]), (&json!("exhausted"), &json!(2)));
    let letter = acme.all("/v1/dead-letters", "reason=exhausted").remove(0);
    assert_eq!((&letter["delivery_id"], &letter["event_id"]), (&dead["id"], &json!(event)));

    let path = format!("/v1/dead-letters/{}/retry", letter["id"].as_str().expect("an id"));
    acme.api.post(&path, &json!({})).expect(202);
    crate::harness::eventually("the new run's delivery", || acme.deliveries("status=delivered").len() == 1);
    let again = acme.deliveries("status=delivered").remove(0);
    assert_eq!((&again["trigger"], &again["event_id"]), (&json!("manual"), &json!(event)));
    let letters = acme.all("/v1/dead-letters", "");
    assert_eq!(letters[0]["retried_as"], again["id"], "the old record stays");
    let ids: Vec<String> = receiver.received().iter().map(Received::event_id).collect();
    assert_eq!(ids, vec![event; 3]);
}
