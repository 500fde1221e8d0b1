//! What producers dead-letter themselves is shown, and never delivered.

use serde_json::json;

use super::broker::Broker;
use super::harness::{CloudEvent, Receiver, eventually_some};
use super::patience::patiently;
use super::record::Record;
use super::stage::{Stage, subscribe};

#[test]
fn a_dead_letter_of_a_producer_is_listed_and_not_delivered() {
    let broker = Broker::shared();
    let (stage, receiver) = (Stage::new(), Receiver::willing());
    let (topic, letters) = (stage.topic("loans"), stage.topic("loans.dlq"));
    broker.create_topic(&topic, 1);
    broker.create_topic(&letters, 1);
    let hub = stage.setup().start();
    subscribe(&hub, "acme", &receiver.url(), json!({"secret": receiver.secret()}));
    let (failed, good) = (CloudEvent::new("loan", "failed"), CloudEvent::new("loan", "paid"));
    let letter = Record { topic: letters.clone(), ..Record::of(&topic, "acme", &failed) }
        .with("x-lerian-dlq-source-topic", &topic)
        .with("x-lerian-dlq-error-class", "broker_unavailable")
        .with("x-lerian-dlq-error-message", "no leader for partition 3")
        .with("x-lerian-dlq-retry-count", "7")
        .with("x-lerian-dlq-first-failure-at", "2026-01-31T08:00:00Z")
        .with("x-lerian-dlq-producer-id", "loans-1");
    broker.producer().send(&[letter, Record::of(&topic, "acme", &good)]);
    let shown = eventually_some("the letter to be listed", || {
        let page = hub.operator().get("/admin/dlq?error_class=broker_unavailable").expect(200);
        page["items"].as_array().and_then(|items| items.first().cloned())
    });
    let expected = json!({
        "topic": letters, "partition": 0, "offset": 0, "tenant": "acme", "event_id": failed.id, "source_topic": topic,
        "error_class": "broker_unavailable", "error_message": "no leader for partition 3", "retry_count": 7,
        "producer_id": "loans-1",
    });
    for (member, value) in expected.as_object().expect("an object") {
        assert_eq!(&shown[member], value, "{member} in {shown}");
    }
    patiently(|| "the event beside it".to_owned(), || receiver.count() > 0);
    let delivered: Vec<String> = receiver.received().iter().map(|request| request.event_id()).collect();
    assert_eq!(delivered, [good.id]);
    assert!(hub.log().lines().all(|line| !line.contains(&format!("lane=kafka/{letters}"))), "{}", hub.log());
}
