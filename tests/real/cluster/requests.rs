//! How much the hub asks of its store under full load: one request carries the rows of several events.

use std::time::Duration;

use serde_json::json;

use super::{Cluster, asked_for, topic_of};
use crate::harness::time::now;
use crate::harness::{CloudEvent, Hub, Receiver, Reply};
use crate::patience::patiently;
use crate::record::Record;
use crate::stage::{metric, subscribe, tenant_name};

const PARTITIONS: i32 = 12;
/// Spread over all slots.
const TENANTS: u64 = 200;
/// `REQUESTS_EVENTS` asks for another number.
const EVENTS: u64 = 10_000;

/// Of a node with all of a cluster's slots: requests for each delivered event, and how long all took.
fn requests_per_event(slots: &str) -> (f64, Duration) {
    let cluster = Cluster::with_slots(slots);
    let topic = topic_of(&cluster, "loans", PARTITIONS);
    let hubs = cluster.start(1);
    let receiver = Receiver::start(|_| Reply::status(200));
    let more = json!({"secret": receiver.secret(), "ordering": "parallel"});
    for number in 0..TENANTS {
        subscribe(&hubs[0], &tenant_name(number), &receiver.url(), more.clone());
    }
    let per_tenant = asked_for("REQUESTS_EVENTS", EVENTS) / TENANTS;
    let events = usize::try_from(per_tenant * TENANTS).expect("few");
    let before = requests(&hubs[0]);
    let of = |tenant| Record::of(&topic, &tenant_name(tenant), &CloudEvent::new("loan", "paid"));
    let records: Vec<Record> = (0..per_tenant).flat_map(|_| (0..TENANTS).map(of)).collect();
    let begun = now();
    cluster.broker.producer().send(&records);
    patiently(|| format!("{events} requests: {} came", receiver.count()), || receiver.count() >= events);
    let sent = requests(&hubs[0]) - before;
    (sent / events as f64, begun.elapsed())
}

/// Requests that the node has sent to its store.
fn requests(hub: &Hub) -> f64 {
    let of = |kind| metric(hub, &format!("streaming_hub_cql_requests_total{{kind=\"{kind}\"}}"));
    ["write", "read", "conditional"].map(of).iter().sum()
}

#[test]
fn a_request_carries_the_rows_of_several_events() {
    for (slots, most) in [("64", 1.0), ("8", 0.3)] {
        let (each, took) = requests_per_event(slots);
        println!(
            "{slots} slots on the node: {each:.2} requests for each delivered event, at most {most}; all in {took:?}"
        );
        assert!(each <= most, "{each} requests for each event with {slots} slots");
    }
}
