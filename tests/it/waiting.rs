//! What a delivery says it waits for: each word of the contract, as a client sees it.

use serde_json::{Value, json};

use crate::harness::{Gate, Hub, Receiver, Reply, Tenant, eventually};

/// What the newest delivery says.
fn newest(acme: &Tenant) -> Value {
    acme.deliveries("").first().cloned().unwrap_or_default()
}

fn eventually_waits(acme: &Tenant, word: &str) {
    eventually(&format!("the newest delivery to wait for {word}"), || newest(acme)["waiting_for"] == word);
    let delivery = newest(acme);
    assert_eq!(delivery["status"], "pending", "{delivery}");
    assert_eq!(acme.delivery(&delivery)["waiting_for"], word);
    let event = acme.api.get(&format!("/v1/events/{}", delivery["event_id"].as_str().expect("an id"))).expect(200);
    assert_eq!(event["deliveries"][0]["waiting_for"], word, "{event}");
}

/// A hub whose receiver answers only once the gate is open.
struct Held {
    hub: Hub,
    acme: Tenant,
    gate: Gate,
    _receiver: Receiver,
    source: crate::harness::Source,
    destination: String,
}

fn held(more: Value) -> Held {
    let (gate, hub) = (Gate::default(), Hub::start());
    let closed = gate.clone();
    let receiver = Receiver::start(move |_| Reply::status(200).held(&closed));
    let acme = hub.tenant("acme");
    let (source, destination) = acme.pipeline(&receiver, more);
    Held { hub, acme, gate, _receiver: receiver, source, destination }
}

/// A tenant whose receiver answers every request like this.
fn answered(reply: fn() -> Reply, more: Value) -> (Hub, Receiver, Tenant) {
    let hub = Hub::start();
    let receiver = Receiver::start(move |_| reply());
    let acme = hub.tenant("acme");
    acme.pipeline(&receiver, more).0.publish_many(1);
    (hub, receiver, acme)
}

#[test]
fn order_and_capacity_tell_a_queue_from_a_full_destination() {
    let Held { acme, gate, source, .. } = &held(json!({}));
    source.publish_many(2);
    eventually_waits(acme, "order");
    gate.open();
    acme.wait_for_all(2, "delivered");
    assert!(newest(acme).get("waiting_for").is_none());
    let Held { acme, gate, source, .. } = &held(json!({"ordering": "parallel", "max_in_flight": 1}));
    source.publish_many(2);
    eventually_waits(acme, "capacity");
    gate.open();
}

#[test]
fn rate_is_waited_for_when_the_tokens_are_spent() {
    let limit = json!({"per_second": 1, "burst": 1});
    let Held { acme, gate, source, .. } = &held(json!({"ordering": "parallel", "rate_limit": limit}));
    source.publish_many(30);
    eventually_waits(acme, "rate");
    gate.open();
}

#[test]
fn retry_and_retry_after_tell_a_schedule_from_a_hold() {
    let retry = json!({"type": "fixed", "intervals_s": [600], "max_retries": 3});
    let (_hub, _receiver, acme) = answered(|| Reply::status(500), json!({"retry": retry}));
    eventually_waits(&acme, "retry");
    let retry = json!({"type": "fixed", "intervals_s": [1], "max_retries": 3});
    let busy = || Reply::with(429, "Retry-After", "3600");
    let (_hub, _receiver, acme) = answered(busy, json!({"retry": retry}));
    eventually_waits(&acme, "retry_after");
}

#[test]
fn circuit_is_waited_for_while_it_is_open() {
    let circuit = json!({"threshold": 1, "cooldown_ms": 3_600_000});
    let (_hub, _receiver, acme) = answered(|| Reply::status(500), json!({"circuit": circuit}));
    eventually_waits(&acme, "circuit");
}

#[test]
fn disabled_unverified_and_paused_hold_whatever_waits() {
    let Held { hub, acme, gate, source, destination, .. } = &held(json!({}));
    source.publish_many(2);
    eventually_waits(acme, "order");
    let subscription = acme.all("/v1/subscriptions", "")[0]["id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/subscriptions/{subscription}");
    acme.api.patch(&path, &json!({"enabled": false})).expect(200);
    eventually_waits(acme, "disabled");
    acme.api.patch(&path, &json!({"enabled": true})).expect(200);
    eventually_waits(acme, "order");
    hub.operator().post("/admin/tenants/acme/pause", &json!({})).expect(200);
    eventually_waits(acme, "paused");
    hub.operator().post("/admin/tenants/acme/resume", &json!({})).expect(200);
    let elsewhere = json!({"verification": "challenge", "url": "http://127.0.0.1:1/"});
    acme.api.patch(&format!("/v1/destinations/{destination}"), &elsewhere).expect(200);
    eventually_waits(acme, "unverified");
    gate.open();
}
