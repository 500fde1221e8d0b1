//! Erasure: nothing of an erased tenant can be read, its open jobs end `cancelled`, and others lose nothing.

use serde_json::{Value, json};

use crate::harness::{CloudEvent, Gate, Hub, Receiver, Reply, Tenant, eventually, eventually_some};

const LISTS: [&str; 7] = [
    "/v1/sources",
    "/v1/destinations",
    "/v1/subscriptions",
    "/v1/events",
    "/v1/deliveries",
    "/v1/dead-letters",
    "/v1/api-keys",
];

/// The pull list has no end: its first page does here.
fn everything(tenant: &Tenant) -> Vec<Value> {
    LISTS.iter().map(|list| tenant.api.get(&format!("{list}?limit=100")).expect(200)["items"].clone()).collect()
}

/// A tenant with delivered, dead-lettered and pending jobs. Gives it with the id of an event and of a delivery.
fn busy(hub: &Hub, name: &str, refusing: &Receiver) -> (Tenant, String, String) {
    let willing = Receiver::willing();
    let tenant = hub.tenant(name);
    let source = tenant.source("shop");
    let once = json!({"retry": {"type": "curve", "steps_s": [0]}});
    let after = |seconds: u32| json!({"retry": {"type": "fixed", "intervals_s": [seconds], "max_retries": 3}});
    let kinds = [
        (&willing, json!({}), "paid"),
        (refusing, once, "lost"),
        (refusing, after(50), "late"),
        (refusing, after(3_600), "asleep"),
    ];
    for (receiver, more, event) in kinds {
        let key = format!("order.{event}");
        tenant.subscription(&tenant.destination(receiver, more), json!({"event_types": [key]}));
        for _ in 0..4 {
            source.publish(&CloudEvent::new("order", event)).expect(200);
        }
    }
    eventually("every job to stand as it should", || {
        let count = |status: &str| tenant.deliveries(&format!("status={status}")).len();
        (count("delivered"), count("dead_lettered"), count("pending")) == (4, 4, 8)
    });
    let first = |list: &str| tenant.all(list, "").remove(0)["id"].as_str().expect("an id").to_owned();
    let event = tenant.api.get("/v1/events?limit=1").expect(200)["items"][0]["id"].as_str().expect("an id").to_owned();
    let delivery = first("/v1/deliveries");
    (tenant, event, delivery)
}

fn cancelled(hub: &Hub) -> u64 {
    let text = hub.anybody().get("/metrics").text();
    let of_cancelled =
        |line: &&str| line.starts_with("streaming_hub_jobs_ended_total") && line.contains("\"cancelled\"");
    text.lines().find(of_cancelled).and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// A key of a tenant that has just been erased, once that is over.
fn tenant_again(hub: &Hub, name: &str) -> Tenant {
    let path = format!("/admin/tenants/{name}/keys");
    let key = eventually_some("the erasure to end", || {
        let made = hub.operator().post(&path, &json!({}));
        assert!(made.status == 201 || made.problem(409) == "tenant_erasing");
        (made.status == 201).then(|| made.json()["key"].as_str().expect("a key").to_owned())
    });
    hub.with_key(&key)
}

#[test]
fn nothing_of_an_erased_tenant_is_left_and_others_lose_nothing() {
    let mut hub = Hub::start();
    let refusing = Receiver::answering(500);
    let (acme, event, delivery) = busy(&hub, "acme", &refusing);
    let source = acme.all("/v1/sources", "").remove(0)["id"].as_str().expect("an id").to_owned();
    let (globex, ..) = busy(&hub, "globex", &refusing);
    let kept = everything(&globex);
    let answer = hub.operator().delete("/admin/tenants/acme").expect(202);
    assert_eq!(answer["tenant"], "acme");
    assert_eq!(acme.api.get("/v1/events").status, 401, "its keys open nothing");
    let ingest = format!("/v1/ingest/{source}");
    assert_eq!(hub.anybody().post(&ingest, &json!({})).status, 404, "its sources take nothing");
    let again = tenant_again(&hub, "acme");
    assert!(cancelled(&hub) >= 4, "its jobs in memory ended cancelled");
    for round in ["at once", "after a restart"] {
        for (list, items) in LISTS.iter().zip(everything(&again)) {
            let expected = usize::from(*list == "/v1/api-keys");
            assert_eq!(items.as_array().map(Vec::len), Some(expected), "{list} {round}");
        }
        for path in [format!("/v1/events/{event}"), format!("/v1/deliveries/{delivery}")] {
            assert_eq!(again.api.get(&path).problem(404), "not_found", "{path} {round}");
        }
        let letters = hub.operator().get("/admin/dead-letters?limit=100").expect(200);
        let letters = letters["items"].as_array().expect("a page has items");
        assert_eq!(letters.len(), 4, "{round}");
        assert_eq!(everything(&globex), kept, "{round}");
        hub.restart();
    }
    let (healed, receiver) = (again.source("shop"), Receiver::willing());
    again.subscription(&again.destination(&receiver, json!({})), json!({}));
    healed.publish_many(2);
    receiver.wait_for(2);
}

#[test]
fn an_erasure_waits_for_the_attempt_under_way_and_goes_on_after_a_kill() {
    let (mut hub, gate) = (Hub::start(), Gate::default());
    let held = gate.clone();
    let receiver = Receiver::start(move |_| Reply::status(200).held(&held));
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    source.publish_many(20);
    receiver.wait_for(1);
    hub.operator().delete("/admin/tenants/acme").expect(202);
    hub.operator().delete("/admin/tenants/acme").expect(202);
    let path = "/admin/tenants/acme/keys";
    assert_eq!(hub.operator().post(path, &json!({})).problem(409), "tenant_erasing");
    hub.restart();
    gate.open();
    let again = tenant_again(&hub, "acme");
    let items = everything(&again);
    assert!(items[..6].iter().all(|items| items == &json!([])), "{items:?}");
    hub.restart();
    assert_eq!(everything(&again)[..6], items[..6]);
    assert!(receiver.count() <= 2, "nothing but the attempt that was under way, and that again");
}
