//! One tenant whose producer spreads it over all partitions: it still has one dedup, one limit and one circuit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::{Cluster, Everywhere, short_of_breath, soon, topic_of};
use crate::harness::{CloudEvent, Receiver, Reply};
use crate::patience::patiently;
use crate::record::Record;

const NODES: usize = 3;
const PARTITIONS: i32 = 12;
const EVENTS: usize = 1_000;
const MAX_IN_FLIGHT: usize = 4;
const THRESHOLD: usize = 5;

#[test]
fn a_tenant_salted_over_partitions_has_one_order() {
    let cluster = Cluster::new();
    let topic = topic_of(&cluster, "loans", PARTITIONS);
    let hubs = cluster.start(NODES);
    let acme = Everywhere::new(&hubs, "acme");
    let failing = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&failing);
    let receiver = Receiver::start(move |_| {
        let status = if told.load(Ordering::Relaxed) { 500 } else { 200 };
        Reply::status(status).late(Duration::from_millis(10))
    });
    let circuit = json!({"threshold": THRESHOLD, "cooldown_ms": 3_600_000});
    let more = json!({"ordering": "parallel", "max_in_flight": MAX_IN_FLIGHT, "circuit": circuit});
    let destination = acme.at(0).destination(&receiver, short_of_breath(more));
    acme.at(0).subscription(&destination, json!({}));
    acme.know_subscriptions();
    let producer = cluster.broker.producer();

    let events: Vec<CloudEvent> = (0..EVENTS).map(|_| CloudEvent::new("loan", "paid")).collect();
    let twice = events.iter().enumerate().flat_map(|(index, event)| {
        let copies = if index % 10 == 0 { 2 } else { 1 };
        (0..copies).map(move |copy| (index + copy, event))
    });
    producer.send(&twice.map(|(salt, event)| salted(&topic, salt, event)).collect::<Vec<_>>());
    patiently(|| format!("{EVENTS} requests: {} came", receiver.count()), || receiver.count() >= EVENTS);
    soon("all to be told as delivered", || acme.at(1).count_delivered() == EVENTS);
    let ids: BTreeSet<String> = receiver.received().iter().map(|request| request.event_id()).collect();
    assert_eq!((receiver.count(), ids.len()), (EVENTS, EVENTS), "each comes once");
    let most = receiver.most_in_flight();
    assert!(most <= MAX_IN_FLIGHT, "{most} attempts were in flight");
    println!("{EVENTS} events over {PARTITIONS} partitions, a tenth of them twice; at most {most} in flight");

    failing.store(true, Ordering::Relaxed);
    let more: Vec<Record> = (0..100).map(|salt| salted(&topic, salt, &CloudEvent::new("loan", "paid"))).collect();
    producer.send(&more);
    for node in 0..NODES {
        let state = || acme.at(node).api.get(&format!("/v1/destinations/{destination}/circuit")).expect(200);
        soon("the circuit to be open on every node", || state()["state"] == "open");
    }
    soon("all to be stored", || acme.at(2).deliveries("status=pending").len() == more.len());
    let failed = receiver.count() - EVENTS;
    let most = THRESHOLD + MAX_IN_FLIGHT - 1;
    assert!((THRESHOLD..=most).contains(&failed), "one circuit lets {THRESHOLD} to {most} fail, {failed} did");
}

/// The tenant's event with another key than the tenant.
fn salted(topic: &str, salt: usize, event: &CloudEvent) -> Record {
    Record { key: format!("salt-{salt}"), ..Record::of(topic, "acme", event) }
}
