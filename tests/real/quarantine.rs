//! Records that are no events: each reason is listed, nothing stands still, nothing is delivered.

use std::collections::BTreeMap;

use serde_json::Value;

use super::broker::Broker;
use super::harness::{CloudEvent, Receiver, eventually, uuid_v7};
use super::patience::patiently;
use super::record::Record;
use super::stage::{Stage, is_read_up, metric, subscribe};

const LIMIT_BYTES: usize = 1024 * 1024;

/// A record for each reason that a record can give; `unstorable` is the store's alone.
fn broken(good: &Record) -> Vec<(&'static str, &'static str, Record)> {
    let changed = |reason, header, value: &str| (reason, header, good.clone().replacing(header, value));
    vec![
        ("missing_header", "ce-specversion", good.clone().without("ce-specversion")),
        ("duplicate_header", "ce-id", good.clone().with("ce-id", uuid_v7())),
        ("invalid_utf8", "ce-subject", good.clone().with("ce-subject", [0xff])),
        changed("control_character", "ce-subject", "a\r\nX-Evil: 1"),
        changed("too_long", "ce-subject", &"x".repeat(1025)),
        changed("bad_specversion", "ce-specversion", "0.3"),
        changed("bad_id", "ce-id", "936da01f-9abd-4d9d-80c7-02af85c822a8"),
        changed("bad_source", "ce-source", "Loans"),
        changed("topic_mismatch", "ce-source", "cards"),
        changed("bad_type", "ce-type", "com.example.paid"),
        changed("type_mismatch", "ce-type", "studio.lerian.loans.loan.refused"),
        changed("bad_time", "ce-time", "yesterday"),
        changed("bad_schema_version", "ce-schemaversion", "first"),
        ("missing_tenant", "ce-tenantid", good.clone().without("ce-tenantid")),
        ("oversize", "", good.clone().valued(Some(vec![b'x'; LIMIT_BYTES + 1]))),
        changed("structured_mode", "content-type", "application/cloudevents+json"),
    ]
}

#[test]
fn every_reason_is_listed_and_nothing_stands_still() {
    let broker = Broker::shared();
    let (stage, receiver) = (Stage::new(), Receiver::willing());
    let topic = stage.topic("loans");
    broker.create_topic_with(&topic, 1, &[("max.message.bytes", "4000000")]);
    let hub = stage.setup().start();
    subscribe(&hub, "acme", &receiver.url(), serde_json::json!({"secret": receiver.secret()}));
    let good = Record::of(&topic, "acme", &CloudEvent::new("loan", "paid"));
    let faults = broken(&good);
    let mut records: Vec<Record> = faults.iter().map(|(.., record)| record.clone()).collect();
    records.push(good.clone().without("ce-tenantid").with("ce-systemevent", "true"));
    records.push(Record { headers: Vec::new(), ..good.clone() }.valued(None));
    records.push(good);
    broker.producer().send(&records);
    patiently(|| "the event behind them".to_owned(), || receiver.count() == 1);
    let listed = by_offset(&hub.operator().get("/admin/quarantine?limit=100").expect(200));
    assert_eq!(listed.len(), faults.len(), "{listed:#?}");
    for (offset, (reason, header, record)) in (0..).zip(&faults) {
        let shown = &listed[&offset];
        assert_eq!((&shown["reason"], &shown["topic"]), (&(*reason).into(), &topic.as_str().into()), "{shown}");
        assert_eq!(shown["header"].as_str().unwrap_or_default(), *header, "{reason}");
        assert_eq!(shown["size"], record.value.as_ref().map_or(0, Vec::len), "{reason}");
        assert_eq!(shown["headers"].as_array().map(Vec::len), Some(record.headers.len()), "{reason}");
    }
    eventually("the lane's lag to be 0", || is_read_up(&hub, 1));
    eventually("the end to be committed", || broker.committed(&stage.group(), &topic, 1) == broker.ends(&topic, 1));
    let dropped = ["system_event", "tombstone"]
        .map(|reason| metric(&hub, &format!("streaming_hub_events_dropped_total{{reason=\"{reason}\"}}")));
    assert_eq!(dropped, [1.0, 1.0]);
    assert_eq!(receiver.count(), 1);
}

fn by_offset(page: &Value) -> BTreeMap<u64, Value> {
    let items = page["items"].as_array().expect("a page has items");
    items.iter().map(|item| (item["offset"].as_u64().expect("an offset"), item.clone())).collect()
}
