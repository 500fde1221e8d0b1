//! The circuit of a destination: five failures open it, one probe at a time asks, success lets everything out.

use serde_json::{Value, json};

use crate::harness::{Gate, Hub, Receiver, Reply, Tenant, eventually};

const THRESHOLD: usize = 5;

fn circuit(acme: &Tenant, destination: &str) -> Value {
    acme.api.get(&format!("/v1/destinations/{destination}/circuit")).expect(200)
}

#[test]
fn five_failures_open_it_and_one_probe_closes_it() {
    const EVENTS: usize = 60;
    let (hub, probing) = (Hub::start(), Gate::default());
    let held = probing.clone();
    let receiver = Receiver::start(move |request| match request.number {
        0..THRESHOLD => Reply::status(500),
        THRESHOLD => Reply::status(200).held(&held),
        _ => Reply::status(200),
    });
    let acme = hub.tenant("acme");
    let retry = json!({"type": "fixed", "intervals_s": [1], "max_retries": 20});
    let more = json!({"retry": retry, "circuit": {"cooldown_ms": 1500}});
    let (source, destination) = acme.pipeline(&receiver, more);
    assert_eq!(circuit(&acme, &destination)["state"], "closed");
    source.publish_many(EVENTS);
    eventually("the circuit to open", || circuit(&acme, &destination)["state"] == "open");
    let open = circuit(&acme, &destination);
    assert_eq!(open["consecutive_failures"], THRESHOLD, "{open}");
    assert!(open["last_transition_at"].is_string() && open["next_probe_at"].is_string(), "{open}");
    let waiting = acme.deliveries("status=pending");
    assert!(waiting.iter().any(|delivery| delivery["waiting_for"] == "circuit"), "{waiting:?}");
    let listed = hub.operator().get("/admin/circuits").expect(200);
    let row =
        listed["items"].as_array().expect("items").iter().find(|row| row["destination_id"] == destination.as_str());
    assert_eq!(row.expect("the open circuit")["tenant"], "acme", "{listed}");

    receiver.wait_for(THRESHOLD + 1);
    eventually("the probe to be shown", || circuit(&acme, &destination)["state"] == "half_open");
    // Every job has been due for long when the probe is answered, and none came beside it.
    let attempts = receiver.received();
    assert_eq!(attempts.len(), THRESHOLD + 1);
    assert!((attempts[THRESHOLD].at - attempts[THRESHOLD - 1].at).as_millis() >= 1_300, "the cooldown is kept");
    assert_eq!(receiver.in_flight(), 1);
    probing.open();
    acme.wait_for_all(EVENTS, "delivered");
    let closed = circuit(&acme, &destination);
    assert_eq!((&closed["state"], &closed["consecutive_failures"]), (&json!("closed"), &json!(0)));
    assert_eq!(receiver.count(), THRESHOLD + EVENTS);
}

#[test]
fn an_open_circuit_uses_no_steps_survives_a_restart_and_can_be_reset() {
    let healed = Gate::default();
    let failing = healed.clone();
    let receiver = Receiver::start(move |_| Reply::status(if failing.is_open() { 200 } else { 500 }));
    let mut hub = Hub::start();
    let acme = hub.tenant("acme");
    let retry = json!({"type": "curve", "steps_s": [0, 0]});
    let more = json!({"retry": retry, "circuit": {"threshold": 2, "cooldown_ms": 3_600_000}});
    let (source, destination) = acme.pipeline(&receiver, more);
    source.publish_many(6);
    eventually("the circuit to open", || circuit(&acme, &destination)["state"] == "open");
    let before = circuit(&acme, &destination);
    hub.restart();
    let after = circuit(&acme, &destination);
    assert_eq!((&after["state"], &after["next_probe_at"]), (&before["state"], &before["next_probe_at"]));
    let used: u64 = acme.deliveries("").iter().filter_map(|delivery| delivery["attempt_count"].as_u64()).sum();
    assert_eq!((used, receiver.count()), (2, 2));
    healed.open();
    acme.api.post(&format!("/v1/destinations/{destination}/circuit/reset"), &json!({})).expect(200);
    eventually("all that waited", || acme.deliveries("status=pending").is_empty());
    assert_eq!(circuit(&acme, &destination)["state"], "closed");
}
