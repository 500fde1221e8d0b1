//! The main job: an event comes in over HTTP, in each way it may, and goes out as one signed webhook.

use serde_json::json;

use crate::harness::{CloudEvent, Hub, Receiver};

#[test]
fn an_http_request_becomes_a_signed_webhook() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let source = acme.source_with(&json!({"slug": "shop", "event_key_header": "X-GitHub-Event"}));
    let destination = acme.destination(&receiver, json!({"headers": [{"name": "X-Room", "value": "7"}]}));
    acme.subscription(&destination, json!({"source_id": source.id}));

    let headers = [("X-GitHub-Event", "push"), ("Content-Type", "application/json"), ("traceparent", "00-1-2-01")];
    let answer = source.post(&headers, br#"{"ref": "main"}"#).expect(200);
    let event_id = answer["event_id"].as_str().expect("the answer names the event");
    assert_eq!(answer["source_id"], source.id.as_str());

    let delivery = acme.wait_for_all(1, "delivered").remove(0);
    let requests = receiver.received();
    let [request] = requests.as_slice() else { panic!("not one request: {requests:#?}") };
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/hook?x=1"));
    assert_eq!(request.text(), r#"{"ref": "main"}"#);
    assert_eq!(event_id, format!("evt_{}", request.event_id().replace('-', "")));
    let hub_version = format!("streaming-hub/{}", env!("CARGO_PKG_VERSION"));
    for (name, value) in [
        ("X-Room", "7"),
        ("Content-Type", "application/json"),
        ("X-Lerian-Event-Type", "push"),
        ("X-hookstream-Delivery-Attempt", "1"),
        ("ce-source", "shop"),
        ("ce-type", "studio.lerian.shop.push"),
        ("ce-specversion", "1.0"),
        ("User-Agent", &hub_version),
    ] {
        assert_eq!(request.header(name), Some(value), "{name} in {request:#?}");
    }
    assert_eq!(request.header("webhook-id"), Some(request.event_id().as_str()));
    assert_eq!(request.header("webhook-timestamp"), request.header("x-lerian-timestamp"));
    assert_eq!(request.header("X-Lerian-Subscription-Id"), delivery["subscription_id"].as_str());
    let attempt = &acme.delivery(&delivery)["attempts"][0];
    assert_eq!(request.header("X-Lerian-Delivery-Id"), attempt["id"].as_str());
    assert_eq!((&attempt["status"], &attempt["number"]), (&json!(200), &json!(1)));
}

#[test]
fn an_http_event_can_be_read_with_its_request_and_its_delivery() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    acme.subscription(&acme.destination(&receiver, json!({})), json!({}));
    let source = acme.source_with(&json!({"slug": "shop"}));
    let path = format!("{}/orders/7?draft=1", source.path());
    let headers = [("Content-Type", "text/plain"), ("X-Own", "mine")];
    let answer = hub.anybody().send("PUT", &path, &headers, b"hello").expect(200);

    let delivery = acme.wait_for_all(1, "delivered").remove(0);
    let event = acme.api.get(&format!("/v1/events/{}", answer["event_id"].as_str().expect("an id"))).expect(200);
    assert_eq!(event["event_type"], "http.put");
    assert_eq!((&event["origin"], &event["size"]), (&json!("shop"), &json!(5)));
    assert_eq!(event["data_base64"], "aGVsbG8=");
    let request = &event["request"];
    assert_eq!((&request["method"], &request["path"]), (&json!("PUT"), &json!("/orders/7")));
    assert_eq!((&request["query"], &request["source_ip"]), (&json!("draft=1"), &json!("127.0.0.1")));
    let kept = request["headers"].as_array().expect("headers");
    assert!(kept.contains(&json!({"name": "x-own", "value": "mine"})), "{kept:?}");
    assert_eq!(event["deliveries"][0]["id"], delivery["id"]);
    assert_eq!(event["id"], delivery["event_id"]);
}

#[test]
fn any_method_and_two_subscriptions_on_one_url() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let destination = acme.destination(&receiver, json!({}));
    let subscriptions = [(); 2].map(|()| acme.subscription(&destination, json!({})));
    let source = acme.source_with(&json!({"slug": "shop"}));
    let methods = ["GET", "DELETE", "PATCH", "OPTIONS", "PROPFIND"];
    for method in methods {
        hub.anybody().send(method, &source.path(), &[], b"").expect(200);
    }
    acme.wait_for_all(2 * methods.len(), "delivered");
    for subscription in subscriptions {
        let requests = receiver.received();
        let own = requests.iter().filter(|r| r.header("x-lerian-subscription-id") == Some(&subscription));
        let keys: Vec<_> = own.map(|r| r.header("x-lerian-event-type").expect("a key").to_owned()).collect();
        assert_eq!(keys, methods.map(|method| format!("http.{}", method.to_ascii_lowercase())));
    }
}

#[test]
fn a_cloud_event_in_binary_mode_keeps_its_attributes() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let event = CloudEvent::new("loan_application", "approved")
        .with_data(r#"{"amount": 12345678901234567890.123456789}"#)
        .with_header("ce-tenantid", "acme")
        .with_header("ce-subject", "%C3%A9 %E2%82%AC")
        .with_header("ce-myextension", "kept");
    let answer = source.publish(&event).expect(200);
    assert_eq!(answer, json!({"event_id": event.id, "source_id": source.id}));

    acme.wait_for_all(1, "delivered");
    let request = receiver.received().remove(0);
    assert_eq!(request.body, event.data);
    assert_eq!(request.event_id(), event.id);
    for (name, value) in [
        ("X-Lerian-Event-Type", "loan_application.approved"),
        ("ce-id", event.id.as_str()),
        ("ce-source", "shop"),
        ("ce-type", "studio.lerian.shop.loan_application.approved"),
        ("ce-time", "2026-01-31T08:00:00Z"),
        ("ce-schemaversion", "1.2.0"),
        ("ce-subject", "%C3%A9%20%E2%82%AC"),
        ("ce-myextension", "kept"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name} in {request:#?}");
    }
    assert_eq!((request.header("ce-tenantid"), request.header("ce-systemevent")), (None, None));
    assert_eq!(request.header("X-hookstream-Event-Id"), None, "the subscription is not pinned to a source");
}

#[test]
fn structured_and_batch_events_carry_the_data_members_own_bytes() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let number = r#"{"n":12345678901234567890.123456789, "s" : "\u00e9"}"#;
    let one = CloudEvent::new("order", "paid").with_data(number);
    let answer = source.post(&[("Content-Type", "application/cloudevents+json")], one.structured("shop").as_bytes());
    assert_eq!(answer.expect(200)["event_id"], one.id.as_str());

    let two = CloudEvent::new("order", "sent").with_data("[1,  2]");
    let three = CloudEvent::new("order", "lost").with_data("\"text\"");
    let batch = format!("[{},{}]", two.structured("shop"), three.structured("shop"));
    let content_type = [("Content-Type", "application/cloudevents-batch+json; charset=utf-8")];
    let answer = source.post(&content_type, batch.as_bytes()).expect(200);
    assert_eq!(answer, json!({"items": [{"event_id": two.id}, {"event_id": three.id}]}));

    acme.wait_for_all(3, "delivered");
    let bodies: Vec<(String, String)> = receiver.received().iter().map(|r| (r.event_id(), r.text())).collect();
    let expected = [(one.id, number), (two.id, "[1,  2]"), (three.id, "\"text\"")];
    assert_eq!(bodies, expected.map(|(id, data)| (id, data.to_owned())));
}

#[test]
fn an_event_nobody_wants_is_kept_with_no_delivery() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let destination = acme.destination(&receiver, json!({}));
    acme.subscription(&destination, json!({"event_types": ["order.*"], "schema_major": 1}));
    let source = acme.source("shop");
    let unwanted = CloudEvent::new("loan", "paid");
    let other_major = CloudEvent::new("order", "paid").with_header("ce-schemaversion", "v2");
    let wanted = CloudEvent::new("order", "paid");
    for event in [&unwanted, &other_major, &wanted] {
        source.publish(event).expect(200);
    }
    acme.wait_for_all(1, "delivered");
    assert_eq!(receiver.received()[0].event_id(), wanted.id);
    let read = acme.api.get(&format!("/v1/events/{}", unwanted.id)).expect(200);
    assert_eq!(read["deliveries"], json!([]));
    let metrics = hub.anybody().get("/metrics").text();
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<u64>().ok()).unwrap_or_else(|| panic!("no {name} in {metrics}"))
    };
    assert_eq!(value("streaming_hub_events_accepted_total"), 3);
    // An event is durable before its answer, and so is each object that was made.
    assert!(value("streaming_hub_store_fsyncs_total") >= 3, "{metrics}");
}

#[test]
fn filters_pins_and_inline_destinations_decide_who_gets_what() {
    let (hub, rich, pinned) = (Hub::start(), Receiver::willing(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (shop, bank) = (acme.source("shop"), acme.source("bank"));
    let inline = json!({"url": rich.url(), "secret": rich.secret(), "verification": "none"});
    let rules = json!([{"field": "payload.amount", "op": "gte", "value": 100}]);
    acme.api.post("/v1/subscriptions", &json!({"destination": inline, "filter_rules": rules})).expect(201);
    acme.subscription(&acme.destination(&pinned, json!({})), json!({"origin": "bank"}));

    for (source, amount) in [(&shop, 99), (&shop, 100), (&bank, 5), (&bank, 500)] {
        let event = CloudEvent::new("order", "paid").with_data(json!({"amount": amount}).to_string());
        source.publish(&event).expect(200);
    }
    acme.wait_for_all(4, "delivered");
    let texts = |receiver: &Receiver| receiver.received().iter().map(|r| r.text()).collect::<Vec<_>>();
    assert_eq!(texts(&rich), [r#"{"amount":100}"#, r#"{"amount":500}"#]);
    assert_eq!(texts(&pinned), [r#"{"amount":5}"#, r#"{"amount":500}"#]);
}
