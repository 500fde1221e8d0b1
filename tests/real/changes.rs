//! Topics that appear while the hub runs, and what a shutdown leaves for the next start.

use std::time::Duration;

use serde_json::json;

use super::broker::Broker;
use super::harness::{CloudEvent, Receiver, eventually};
use super::patience::{patiently, within};
use super::record::Record;
use super::stage::{Stage, is_read_up, lanes, metric, subscribe};

const PARTITIONS: i32 = 3;

fn events(topic: &str, count: usize) -> Vec<Record> {
    let tenants = ["acme", "globex", "initech"];
    (0..count)
        .map(|number| Record::of(topic, tenants[number % tenants.len()], &CloudEvent::new("loan", "paid")))
        .collect()
}

fn subscribed(receiver: &Receiver, hub: &super::harness::Hub) {
    for tenant in ["acme", "globex", "initech"] {
        subscribe(hub, tenant, &receiver.url(), json!({"secret": receiver.secret(), "ordering": "parallel"}));
    }
}

#[test]
fn a_topic_made_while_the_hub_runs_is_followed_within_a_minute() {
    let broker = Broker::shared();
    let (stage, receiver) = (Stage::new(), Receiver::willing());
    let (first, second) = (stage.topic("loans"), stage.topic("cards"));
    broker.create_topic(&first, PARTITIONS);
    let hub = stage.setup().start();
    subscribed(&receiver, &hub);
    broker.producer().send(&events(&first, 30));
    patiently(|| format!("30 requests: {} came", receiver.count()), || receiver.count() == 30);
    broker.create_topic(&second, 1);
    broker.producer().send(&events(&second, 10));
    within(Duration::from_secs(60), || "events of the new topic".to_owned(), || receiver.count() == 40);
    broker.producer().send(&events(&first, 30));
    patiently(|| format!("70 requests: {} came", receiver.count()), || receiver.count() >= 70);
    eventually("both topics to be read up", || is_read_up(&hub, PARTITIONS as usize + 1));
    assert_eq!(receiver.count(), 70, "the rebalance repeats nothing");
}

#[test]
fn a_shutdown_commits_what_is_done_and_the_next_start_reads_nothing_again() {
    let broker = Broker::shared();
    let (stage, receiver) = (Stage::new(), Receiver::willing());
    let topic = stage.topic("loans");
    broker.create_topic(&topic, PARTITIONS);
    let mut hub = stage.setup().start();
    subscribed(&receiver, &hub);
    broker.producer().send(&events(&topic, 300));
    patiently(|| format!("300 requests: {} came", receiver.count()), || receiver.count() == 300);
    let is_committed = |lane: &serde_json::Value| lane["committed"] == lane["position"];
    eventually("the operator to see it committed", || lanes(&hub).iter().all(is_committed));
    hub.terminate();
    assert_eq!(hub.finish().code, Some(0));
    assert_eq!(broker.committed(&stage.group(), &topic, PARTITIONS), broker.ends(&topic, PARTITIONS));
    hub.restart_after_end();
    broker.producer().send(&events(&topic, 30));
    patiently(|| format!("330 requests: {} came", receiver.count()), || receiver.count() >= 330);
    eventually("the topic to be read up", || is_read_up(&hub, PARTITIONS as usize));
    assert_eq!(receiver.count(), 330);
    assert_eq!(metric(&hub, "streaming_hub_events_duplicate_total"), 0.0, "{:#?}", lanes(&hub));
}
