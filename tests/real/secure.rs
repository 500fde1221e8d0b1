//! TLS and SCRAM: events come in through both mechanisms, and a hub that is turned away says which setting to look at,
//! goes on serving HTTP, and reads as soon as it may.

use serde_json::json;

use super::broker::{Broker, SCRAM_USER, SECURE_ADDRESS, authority};
use super::harness::{CloudEvent, Receiver, Setup};
use super::patience::patiently;
use super::record::Record;
use super::stage::{Stage, is_read_up, subscribe};

/// A hub that comes in by the secure listener.
fn setup(stage: &Stage, mechanism: &str, password: &str, ca: &str) -> Setup {
    stage
        .setup()
        .with("KAFKA_BROKERS", SECURE_ADDRESS)
        .with("KAFKA_TLS_ENABLED", "true")
        .with("KAFKA_CA_CERT", ca)
        .with("KAFKA_SCRAM_MECHANISM", mechanism)
        .with("KAFKA_SCRAM_USERNAME", SCRAM_USER.0)
        .with("KAFKA_SCRAM_PASSWORD", password)
}

fn delivers_through(mechanism: &str, ca: &str) {
    let broker = Broker::shared();
    let (stage, receiver) = (Stage::new(), Receiver::willing());
    let topic = stage.topic("loans");
    broker.create_topic(&topic, 2);
    let hub = setup(&stage, mechanism, SCRAM_USER.1, ca).start();
    subscribe(&hub, "acme", &receiver.url(), json!({"secret": receiver.secret()}));
    let events: Vec<CloudEvent> = (0..20).map(|_| CloudEvent::new("loan", "paid")).collect();
    let records: Vec<Record> = events.iter().map(|event| Record::of(&topic, "acme", event)).collect();
    broker.producer().send(&records);
    patiently(|| format!("20 deliveries: {} came", receiver.count()), || receiver.count() == events.len());
    let delivered: Vec<String> = receiver.received().iter().map(|request| request.event_id()).collect();
    assert_eq!(delivered, events.iter().map(|event| event.id.clone()).collect::<Vec<_>>());
    patiently(
        || "commits up to the end".to_owned(),
        || broker.committed(&stage.group(), &topic, 2) == broker.ends(&topic, 2),
    );
}

/// A hub that is turned away alarms with `setting` and the client's `words`; corrected, it delivers what came meanwhile.
fn alarms_and_goes_on(wrong: (&str, &str), setting: &str, words: &str, right: (&str, &str)) {
    let broker = Broker::shared();
    let (stage, receiver) = (Stage::new(), Receiver::willing());
    let topic = stage.topic("loans");
    broker.create_topic(&topic, 1);
    let mut hub = setup(&stage, "SCRAM-SHA-512", SCRAM_USER.1, &authority("ca")).with(wrong.0, wrong.1).start();
    let tenant = subscribe(&hub, "acme", &receiver.url(), json!({"secret": receiver.secret()}));
    broker.producer().send(&[Record::of(&topic, "acme", &CloudEvent::new("loan", "paid"))]);
    let told = |line: &str| {
        line.contains("WARN") && line.contains("refuse this hub") && line.contains(setting) && line.contains(words)
    };
    patiently(|| format!("an alarm that names {setting}"), || hub.log().lines().any(told));
    assert!(!hub.log().contains(wrong.1) || !wrong.0.contains("PASSWORD"), "a secret is in the log");
    assert_eq!(tenant.api.get("/v1/events").status, 200, "HTTP goes on");
    assert_eq!(hub.anybody().get("/readyz").status, 200);
    assert_eq!(receiver.count(), 0);
    hub.set(right.0, right.1);
    hub.restart();
    patiently(|| "the delivery of what came meanwhile".to_owned(), || receiver.count() == 1);
    patiently(|| "the lane to be read up".to_owned(), || is_read_up(&hub, 1));
    let told = hub.log().lines().filter(|line| told(line)).count();
    assert!(told <= 4, "said {told} times: it is said once a minute and group");
}

#[test]
fn events_come_in_with_scram_sha_256() {
    delivers_through("SCRAM-SHA-256", &authority("ca"));
}

#[test]
fn events_come_in_with_scram_sha_512_and_the_authority_as_text() {
    let text = std::fs::read_to_string(authority("ca")).expect("`tests/real/servers up` makes it");
    delivers_through("SCRAM-SHA-512", &text);
}

#[test]
fn a_wrong_password_is_alarmed_by_the_setting_and_waited_out() {
    alarms_and_goes_on(
        ("KAFKA_SCRAM_PASSWORD", "not-the-password"),
        "kafka.scram_password",
        "Authentication failed",
        ("KAFKA_SCRAM_PASSWORD", SCRAM_USER.1),
    );
}

#[test]
fn a_wrong_authority_is_alarmed_by_the_setting_and_waited_out() {
    alarms_and_goes_on(
        ("KAFKA_CA_CERT", &authority("other-ca")),
        "kafka.ca_cert",
        "certificate",
        ("KAFKA_CA_CERT", &authority("ca")),
    );
}
