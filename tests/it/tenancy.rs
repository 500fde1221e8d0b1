//! Nothing crosses tenants: what is another's does not exist, on any route.

use serde_json::json;

use crate::harness::{CloudEvent, Hub, Receiver};

#[test]
fn anothers_objects_are_404_on_every_route() {
    let (hub, receiver) = (Hub::start(), Receiver::answering(500));
    let (acme, globex) = (hub.tenant("acme"), hub.tenant("globex"));
    let destination = acme.destination(&receiver, json!({"retry": {"type": "curve", "steps_s": [0]}}));
    let source = acme.source("shop");
    let subscription = acme.subscription(&destination, json!({"source_id": source.id}));
    let event = source.publish_many(1).remove(0);
    let delivery = acme.wait_for_all(1, "dead_lettered").remove(0)["id"].as_str().expect("an id").to_owned();
    let letter = acme.all("/v1/dead-letters", "").remove(0)["id"].as_str().expect("an id").to_owned();
    let key = acme.all("/v1/api-keys", "").remove(0)["id"].as_str().expect("an id").to_owned();
    let source = source.id;

    let routes = [
        ("GET", format!("/v1/sources/{source}")),
        ("PATCH", format!("/v1/sources/{source}")),
        ("DELETE", format!("/v1/sources/{source}")),
        ("GET", format!("/v1/destinations/{destination}")),
        ("PATCH", format!("/v1/destinations/{destination}")),
        ("DELETE", format!("/v1/destinations/{destination}")),
        ("POST", format!("/v1/destinations/{destination}/rotate-secret")),
        ("GET", format!("/v1/destinations/{destination}/circuit")),
        ("POST", format!("/v1/destinations/{destination}/circuit/reset")),
        ("GET", format!("/v1/subscriptions/{subscription}")),
        ("PATCH", format!("/v1/subscriptions/{subscription}")),
        ("DELETE", format!("/v1/subscriptions/{subscription}")),
        ("POST", format!("/v1/subscriptions/{subscription}/verify")),
        ("GET", format!("/v1/connections/{subscription}")),
        ("GET", format!("/v1/events/{event}")),
        ("POST", format!("/v1/events/{event}/retry")),
        ("GET", format!("/v1/deliveries/{delivery}")),
        ("POST", format!("/v1/deliveries/{delivery}/retry")),
        ("GET", format!("/v1/delivery-attempts/{delivery}")),
        ("POST", format!("/v1/dead-letters/{letter}/retry")),
        ("DELETE", format!("/v1/api-keys/{key}")),
    ];
    for (method, path) in &routes {
        let answer = globex.api.call(method, path, (*method != "GET").then(|| json!({})).as_ref());
        assert_eq!(answer.problem(404), "not_found", "{method} {path}");
    }
    // Each of them exists for its owner; reading is harmless.
    for (method, path) in routes.iter().filter(|(method, _)| *method == "GET") {
        assert_eq!(acme.api.call(method, path, None).status, 200, "{method} {path}");
    }
    for list in ["sources", "destinations", "subscriptions", "events", "deliveries", "dead-letters"] {
        let items = globex.api.get(&format!("/v1/{list}")).expect(200);
        assert_eq!(items["items"], json!([]), "{list}");
    }
    for filter in [format!("subscription_id={subscription}"), format!("event_id={event}")] {
        assert!(globex.deliveries(&filter).is_empty(), "{filter}");
    }
    assert_eq!(globex.api.post("/v1/dead-letters/retry", &json!({})).expect(202)["matched"], 0);
    assert_eq!(receiver.count(), 1);
}

#[test]
fn a_subscription_names_no_other_tenants_destination_or_source() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let (acme, globex) = (hub.tenant("acme"), hub.tenant("globex"));
    let (theirs, source) = (acme.destination(&receiver, json!({})), acme.source("shop"));
    let refused = globex.api.post("/v1/subscriptions", &json!({"destination_id": theirs}));
    assert_eq!(refused.pointers(), ["/destination_id"]);
    let own = globex.destination(&receiver, json!({}));
    let refused = globex.api.post("/v1/subscriptions", &json!({"destination_id": own, "source_id": source.id}));
    assert_eq!(refused.pointers(), ["/source_id"]);
}

#[test]
fn an_event_posted_for_another_tenant_is_refused_and_reaches_nobody() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let (acme, globex) = (hub.tenant("acme"), hub.tenant("globex"));
    let (source, _) = acme.pipeline(&receiver, json!({}));
    globex.pipeline(&receiver, json!({}));
    let foreign = CloudEvent::new("order", "paid").with_header("ce-tenantid", "globex");
    assert_eq!(source.publish(&foreign).problem(400), "tenant_mismatch");
    let own = CloudEvent::new("order", "paid").with_header("ce-tenantid", "acme");
    source.publish(&own).expect(200);
    acme.wait_for_all(1, "delivered");
    assert_eq!(receiver.count(), 1);
    assert_eq!(globex.api.get("/v1/events").expect(200)["items"], json!([]));
}

#[test]
fn a_paused_tenants_events_wait_and_nobody_elses() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let (acme, globex) = (hub.tenant("acme"), hub.tenant("globex"));
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let (other, _) = globex.pipeline(&receiver, json!({}));
    hub.operator().post("/admin/tenants/acme/pause", &json!({})).expect(200);
    let held = source.publish_many(2);
    other.publish_many(1);
    globex.wait_for_all(1, "delivered");
    let waiting = acme.wait_for_all(2, "pending");
    assert!(waiting.iter().all(|delivery| delivery["waiting_for"] == "paused"), "{waiting:?}");
    assert_eq!(receiver.count(), 1);
    hub.operator().post("/admin/tenants/acme/resume", &json!({})).expect(200);
    acme.wait_for_all(2, "delivered");
    let sent: Vec<String> = receiver.received()[1..].iter().map(|request| request.event_id()).collect();
    assert_eq!(sent, held);
}
