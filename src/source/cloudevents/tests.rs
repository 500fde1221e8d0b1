use http::{HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::source::reason::Reason;
use crate::source::test_source;
use crate::types::limits;
use crate::types::source::SourceKind;

const ID: &str = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";

fn receive(headers: &HeaderMap, body: &[u8]) -> Result<Received, Refusal> {
    cloud_events(&CloudEventsRequest {
        source: &test_source(SourceKind::CloudEvents),
        type_prefix: "studio.lerian",
        headers,
        body: &Bytes::copy_from_slice(body),
        lane: &LaneName("http/0".into()),
        now: Time::from_millis(1_645_557_742_000),
    })
}

fn attributes() -> Vec<(&'static str, &'static str)> {
    vec![
        ("specversion", "1.0"),
        ("id", ID),
        ("source", "shop"),
        ("type", "studio.lerian.shop.order.paid"),
        ("time", "2026-01-01T00:00:00Z"),
        ("schemaversion", "1"),
        ("resourcetype", "order"),
        ("eventtype", "paid"),
    ]
}

fn binary_headers(changes: &[(&str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in attributes() {
        let name = HeaderName::try_from(format!("ce-{name}")).expect("a header name");
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in changes {
        let name = HeaderName::try_from(*name).expect("a header name");
        headers.insert(name, HeaderValue::from_bytes(value).expect("a header value"));
    }
    headers
}

fn content_type(value: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(value));
    headers
}

fn object(changes: Value) -> Value {
    let pairs = attributes().into_iter().map(|(name, value)| (name.to_owned(), json!(value)));
    let mut object: serde_json::Map<String, Value> = pairs.collect();
    if let Value::Object(changes) = changes {
        object.extend(changes);
    }
    Value::Object(object)
}

fn structured(changes: Value) -> Result<Received, Refusal> {
    receive(&content_type("application/cloudevents+json; charset=utf-8"), object(changes).to_string().as_bytes())
}

fn batch(body: &str) -> Result<Received, Refusal> {
    receive(&content_type("application/cloudevents-batch+json"), body.as_bytes())
}

fn one(received: Result<Received, Refusal>) -> Event {
    match received {
        Ok(Received::One(event)) => *event,
        other => panic!("not one event: {other:?}"),
    }
}

/// Status, and code and pointer of each violation.
fn refusal(received: Result<Received, Refusal>) -> (u16, Vec<(&'static str, String)>) {
    let refusal = received.expect_err("refused");
    let named = refusal.violations().iter().map(|violation| (violation.code.as_str(), violation.pointer.clone()));
    (refusal.status(), named.collect())
}

fn refused(received: Result<Received, Refusal>, code: &'static str, pointer: &str) {
    assert_eq!(refusal(received), (400, vec![(code, pointer.to_owned())]));
}

#[test]
fn a_binary_event_keeps_its_id_and_body_and_belongs_to_the_sources_tenant() {
    let sent =
        [("content-type", b"text/plain".as_slice()), ("content-encoding", b"gzip"), ("ce-subject", b"%E2%82%AC")];
    let event = one(receive(&binary_headers(&sent), &[0x1f, 0x8b, 0xff]));
    assert_eq!((event.tenant.as_str(), event.public_id().as_str()), ("tenant-1", ID));
    assert_eq!((&*event.key, event.subject(), event.content_type()), ("order.paid", Some("€"), Some("text/plain")));
    assert_eq!((&*event.payload, event.content_encoding.as_deref()), ([0x1f, 0x8b, 0xff].as_slice(), Some("gzip")));
    assert!(event.source_id.is_some() && event.request.is_none());
}

#[test]
fn a_structured_events_payload_is_the_data_members_own_bytes() {
    let text = object(json!({})).to_string();
    let data = r#"{ "n":12345678901234567890.123456789 , "s":"\u00e9" }"#;
    let body = format!("{},\"data\": {data} }}", &text[..text.len() - 1]);
    let event = one(receive(&content_type("application/cloudevents+json"), body.as_bytes()));
    assert_eq!(&*event.payload, data.as_bytes());
    assert_eq!(event.attributes.value("data"), None);
    assert_eq!(&*one(structured(json!({"data_base64": "H4v/"}))).payload, [0x1f, 0x8b, 0xff]);
    assert!(one(structured(json!({}))).payload.is_empty());
}

#[test]
fn scalars_are_attributes_and_null_is_absent() {
    let event = one(structured(json!({"count": 3, "flag": true, "none": null, "systemevent": false, "subject": "é"})));
    assert_eq!(event.attributes.value("count"), Some("3"));
    assert_eq!(event.attributes.value("flag"), Some("true"));
    assert_eq!(event.attributes.value("none"), None);
    assert_eq!(event.subject(), Some("é"));
}

#[test]
fn each_violation_of_binary_mode_is_named() {
    let with = |name, value: &[u8]| receive(&binary_headers(&[(name, value)]), b"");
    refused(with("ce-source", b"cards"), "source_mismatch", "/source");
    refused(with("ce-tenantid", b"tenant-2"), "tenant_mismatch", "/tenantid");
    refused(with("ce-systemevent", b"true"), "system_event", "/systemevent");
    refused(with("ce-id", b"1"), "bad_id", "/id");
    refused(with("ce-subject", b"a%0D%0AX: y"), "control_character", "/subject");
    refused(with("ce-subject", b"%80"), "invalid_utf8", "/subject");
    refused(with("content-type", b"application/cloudevents+avro"), "structured_mode", "");
    refused(receive(&HeaderMap::new(), b"{}"), "missing_header", "/specversion");
    let mut twice = binary_headers(&[]);
    twice.append("ce-id", HeaderValue::from_static(ID));
    refused(receive(&twice, b""), "duplicate_header", "/id");
    assert_eq!(one(with("ce-tenantid", b"tenant-1")).attributes.value("tenantid"), None);
}

#[test]
fn each_violation_of_structured_mode_is_named() {
    refused(structured(json!({"source": "cards"})), "source_mismatch", "/source");
    refused(structured(json!({"tenantid": "tenant-2"})), "tenant_mismatch", "/tenantid");
    refused(structured(json!({"systemevent": true})), "system_event", "/systemevent");
    refused(structured(json!({"time": null})), "missing_header", "/time");
    refused(structured(json!({"subject": {"a/b": 1}})), "malformed_json", "/subject");
    refused(structured(json!({"a/b": []})), "malformed_json", "/a~1b");
    refused(structured(json!({"data": 1, "data_base64": ""})), "malformed_json", "/data");
    refused(structured(json!({"data_base64": "*"})), "malformed_json", "/data_base64");
    let json = content_type("application/cloudevents+json");
    for body in ["", "{", "[]", "null", "{\"id\":\"\\ud800\"}x", "\u{0}"] {
        refused(receive(&json, body.as_bytes()), "malformed_json", "");
    }
    let text = object(json!({})).to_string();
    let repeated = format!("{},\"id\":\"{ID}\"}}", &text[..text.len() - 1]);
    refused(receive(&json, repeated.as_bytes()), "duplicate_header", "/id");
}

#[test]
fn too_many_members_are_too_long_and_cost_no_memory() {
    let many: serde_json::Map<String, Value> = (0..10_000).map(|n| (format!("x{n}"), json!("v"))).collect();
    let refusal = refusal(structured(Value::Object(many)));
    assert_eq!((refusal.0, refusal.1[0].0), (400, "too_long"));
}

#[test]
fn a_batch_is_taken_whole_in_order() {
    let second = ID.replace("8f", "90");
    let body = json!([object(json!({"data": 1})), object(json!({"id": second, "data": [2]}))]).to_string();
    match batch(&body) {
        Ok(Received::Batch(events)) => {
            let seen: Vec<_> = events.iter().map(|event| (event.id.to_string(), event.payload.to_vec())).collect();
            assert_eq!(seen, [(ID.to_owned(), b"1".to_vec()), (second, b"[2]".to_vec())]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(batch(" [] "), Ok(Received::Batch(Vec::new())));
}

#[test]
fn a_batch_names_the_violation_of_each_event() {
    let bad_time = object(json!({"time": "now"}));
    let foreign = object(json!({"tenantid": "tenant-2"}));
    let body = json!([object(json!({})), bad_time, 7, foreign, object(json!({"ext": []}))]).to_string();
    let named = [
        ("bad_time", "/1/time"),
        ("malformed_json", "/2"),
        ("tenant_mismatch", "/3/tenantid"),
        ("malformed_json", "/4/ext"),
    ];
    let expected = named.map(|(code, pointer)| (code, pointer.to_owned())).to_vec();
    assert_eq!(refusal(batch(&body)), (422, expected));
    refused(batch("{}"), "malformed_json", "");
    refused(batch("[{}"), "malformed_json", "");
}

#[test]
fn a_batch_has_at_most_a_thousand_events() {
    let of = |count| format!("[{}]", vec![object(json!({})).to_string(); count].join(","));
    assert!(batch(&of(limits::BATCH_MAX_EVENTS)).is_ok());
    let over = (422, vec![("batch_too_large", String::new())]);
    assert_eq!(refusal(batch(&of(limits::BATCH_MAX_EVENTS + 1))), over);
    refused(batch(&of(limits::BATCH_MAX_EVENTS + 2)[1..]), "malformed_json", "");
}

#[test]
fn details_name_the_attribute_and_the_rule() {
    let refusal = structured(json!({"id": "1"})).expect_err("refused");
    assert_eq!(refusal.to_string(), "`ce-id` must be a UUIDv7 in canonical text");
    assert_eq!(refusal.violations()[0].code, Code::Reason(Reason::BadId));
}

proptest! {
    #[test]
    fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..60), kind in 0..3_usize) {
        let kinds = ["application/cloudevents+json", "application/cloudevents-batch+json", "text/plain"];
        let _received = receive(&content_type(kinds[kind]), &body);
    }

    #[test]
    fn an_accepted_attribute_has_no_control_characters(name in "[a-z/~]{1,6}", value in any::<String>()) {
        let value = value.as_str();
        if let Ok(received) = structured(json!({ name: value })) {
            for event in received.into_events() {
                prop_assert!(event.attributes.iter().all(|(_, value)| !value.chars().any(char::is_control)));
            }
        }
    }
}
