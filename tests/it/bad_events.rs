//! Events that break a rule: 400 with the rule's own name, all of a batch's at once, and nothing of them is stored.

use serde_json::{Value, json};

use crate::harness::{CloudEvent, Hub, Receiver, Source, uuid_v7};

fn event() -> CloudEvent {
    CloudEvent::new("order", "paid")
}

/// Each event that is malformed in one way, with the code of that way.
fn malformed() -> Vec<(&'static str, CloudEvent)> {
    let with = |name: &str, value: &str| event().with_header(name, value);
    let old_uuid = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";
    let mut all: Vec<(&'static str, CloudEvent)> = [
        "ce-specversion",
        "ce-id",
        "ce-source",
        "ce-type",
        "ce-time",
        "ce-schemaversion",
        "ce-resourcetype",
        "ce-eventtype",
    ]
    .map(|name| ("missing_header", event().without_header(name)))
    .into();
    all.extend([
        ("missing_header", with("ce-resourcetype", "")),
        ("invalid_utf8", with("ce-subject", "%80")),
        ("control_character", with("ce-subject", "a%0D%0AX-Evil: 1")),
        ("control_character", with("ce-myextension", "%00")),
        ("too_long", with("ce-subject", &"a".repeat(1025))),
        ("too_long", with("ce-resourcetype", &"a".repeat(129))),
        ("too_long", with("ce-dataschema", &"a".repeat(2049))),
        ("bad_specversion", with("ce-specversion", "0.3")),
        ("bad_id", with("ce-id", old_uuid)),
        ("bad_id", with("ce-id", &uuid_v7().replace('-', ""))),
        ("bad_source", with("ce-source", "Shop!")),
        ("source_mismatch", with("ce-source", "bank")),
        ("bad_type", with("ce-type", "com.example.shop.order.paid")),
        ("bad_type", with("ce-type", "studio.lerian.shop")),
        ("type_mismatch", with("ce-type", "studio.lerian.bank.order.paid")),
        ("type_mismatch", with("ce-eventtype", "sent")),
        ("bad_time", with("ce-time", "yesterday")),
        ("bad_time", with("ce-time", "2026-02-30T00:00:00Z")),
        ("bad_schema_version", with("ce-schemaversion", "one")),
        ("bad_schema_version", with("ce-schemaversion", "v")),
        ("tenant_mismatch", with("ce-tenantid", "globex")),
        ("system_event", with("ce-systemevent", "true")),
        ("structured_mode", with("content-type", "application/cloudevents+avro")),
    ]);
    all
}

/// Publishes a good event, and sees that nothing but it was stored.
fn assert_only_the_good_one(hub_tenant: &crate::harness::Tenant, source: &Source) {
    let good = event();
    source.publish(&good).expect(200);
    hub_tenant.wait_for_all(1, "delivered");
    let newest = hub_tenant.api.get("/v1/events?order=desc").expect(200);
    let ids: Vec<&Value> = newest["items"].as_array().expect("items").iter().map(|item| &item["id"]).collect();
    assert_eq!(ids, [&json!(good.id)]);
}

#[test]
fn each_rule_has_its_code_and_nothing_is_stored() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    for (code, event) in malformed() {
        let answer = source.publish(&event);
        assert_eq!(answer.problem(400), code, "{:?}\n{}", event.headers("shop"), answer.text());
        let structured = event.structured("shop");
        let in_json = matches!(code, "missing_header" | "tenant_mismatch" | "system_event" | "bad_id" | "bad_time");
        if in_json {
            let answer = source.post(&[("Content-Type", "application/cloudevents+json")], structured.as_bytes());
            assert_eq!(answer.problem(400), code, "{structured}");
        }
    }
    assert_only_the_good_one(&acme, &source);
}

#[test]
fn a_repeated_attribute_is_ambiguous() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let event = event();
    let headers = event.headers("shop");
    let mut headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    headers.push(("ce-id", &event.id));
    assert_eq!(source.post(&headers, b"{}").problem(400), "duplicate_header");
    assert_only_the_good_one(&acme, &source);
}

#[test]
fn json_that_is_no_event_is_malformed() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let twice = event().structured("shop").replace("\"data\":{}", "\"data\":{},\"data_base64\":\"e30=\"");
    let deep = event().with_data("[".repeat(100_000)).structured("shop");
    for body in ["", "{", "[]", "null", "\"text\"", "{\"specversion\":\"1.0\"} trailing", "\u{feff}{}", &twice, &deep] {
        let answer = source.post(&[("Content-Type", "application/cloudevents+json")], body.as_bytes());
        assert_eq!(answer.problem(400), "malformed_json", "{}", &body[..body.len().min(200)]);
    }
    assert_only_the_good_one(&acme, &source);
}

#[test]
fn a_batch_names_every_faulty_event_and_stores_none() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let batch_type = [("Content-Type", "application/cloudevents-batch+json")];
    let events = [
        event().structured("shop"),
        event().with_header("ce-id", "nonsense").structured("shop"),
        event().structured("shop"),
        event().with_header("ce-tenantid", "globex").structured("shop"),
        "7".to_owned(),
    ];
    let answer = source.post(&batch_type, format!("[{}]", events.join(",")).as_bytes());
    assert_eq!(answer.pointers(), ["/1/id", "/3/tenantid", "/4"]);

    let too_many = vec![event().structured("shop"); 1001].join(",");
    assert_eq!(source.post(&batch_type, format!("[{too_many}]").as_bytes()).problem(422), "invalid_events");
    assert_eq!(source.post(&batch_type, b"{}").status / 100, 4);
    assert_eq!(source.post(&batch_type, b"[]").expect(200), json!({"items": []}));
    assert_only_the_good_one(&acme, &source);
}

#[test]
fn a_source_that_is_unknown_disabled_or_deleted_takes_nothing() {
    let hub = Hub::start();
    let acme = hub.tenant("acme");
    let source = acme.source("shop");
    let path = format!("/v1/sources/{}", source.id);
    acme.api.patch(&path, &json!({"enabled": false})).expect(200);
    assert_eq!(source.publish(&event()).problem(403), "source_disabled");
    acme.api.patch(&path, &json!({"enabled": true})).expect(200);
    source.publish(&event()).expect(200);
    acme.api.delete(&path).expect(204);
    assert_eq!(source.publish(&event()).problem(404), "not_found");
    for path in ["/v1/ingest/", "/v1/ingest/src_00", "/v1/ingest/src_00000000000000000000000000000000"] {
        assert_eq!(hub.anybody().post(path, &json!({})).problem(404), "not_found");
    }
}
