//! Divided roles: one node takes events in, two deliver them, and whatever node is asked answers.

use serde_json::json;

use super::{Cluster, Everywhere, short_of_breath, soon, topic_of};
use crate::harness::{CloudEvent, Hub, Receiver};
use crate::patience::patiently;
use crate::record::Record;
use crate::stage::{lanes, metric};

const PARTITIONS: i32 = 4;
/// So many have slots on both nodes that deliver.
const TENANTS: usize = 6;
/// Events of each tenant: by HTTP, and as many from the producers' topic.
const EVENTS: usize = 20;
const ATTEMPTS: &str = "streaming_hub_attempts_total{result=\"delivered\"}";

struct Line {
    name: String,
    tenant: Everywhere,
    receiver: Receiver,
    source: String,
    slug: String,
}

impl Line {
    fn new(hubs: &[Hub], number: usize) -> Self {
        let name = format!("roles-{number}");
        let (tenant, receiver) = (Everywhere::new(hubs, &name), Receiver::willing());
        let destination = tenant.at(0).destination(&receiver, short_of_breath(json!({})));
        tenant.at(0).subscription(&destination, json!({}));
        let source = tenant.at(0).source("shop");
        tenant.know_subscriptions();
        Self { name, tenant, receiver, source: source.path(), slug: source.slug }
    }

    /// One event by HTTP through `hub`, as soon as it knows the source.
    fn publish(&self, hub: &Hub) -> String {
        let event = CloudEvent::new("order", "paid");
        let headers = event.headers(&self.slug);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let accepted = || hub.anybody().send("POST", &self.source, &headers, &event.data).status == 200;
        soon("an event to be accepted", accepted);
        event.id
    }

    fn wait_for(&self, count: usize) {
        let progress = || format!("{count} requests for {}: {} came", self.name, self.receiver.count());
        patiently(progress, || self.receiver.count() >= count);
    }
}

/// Whether the node reads any partition of the topic.
fn follows(hub: &Hub, topic: &str) -> bool {
    lanes(hub).iter().any(|lane| lane["lane"].as_str().is_some_and(|name| name.contains(topic)))
}

#[test]
fn who_takes_in_does_not_deliver_and_who_delivers_goes_on_alone() {
    let cluster = Cluster::new();
    let topic = topic_of(&cluster, "loans", PARTITIONS);
    let slots = format!("{}-slots", cluster.stage.prefix());
    let roles = ["ingest", "delivery", "delivery"];
    let mut hubs: Vec<Hub> = roles.iter().map(|role| cluster.setup().with("ROLE", role).start()).collect();
    let lines: Vec<Line> = (0..TENANTS).map(|number| Line::new(&hubs, number)).collect();
    let producer = cluster.broker.producer();
    let produce = |count: usize| {
        let of = |line: &Line| Record::of(&topic, &line.name, &CloudEvent::new("loan", "paid"));
        let records: Vec<Record> = (0..count).flat_map(|_| lines.iter().map(of)).collect();
        producer.send(&records);
    };

    produce(EVENTS);
    for line in &lines {
        let ids: Vec<String> = (0..EVENTS).map(|_| line.publish(&hubs[0])).collect();
        line.wait_for(2 * EVENTS);
        for node in 0..hubs.len() {
            let api = &line.tenant.at(node).api;
            soon("every node to tell of it", || api.get(&format!("/v1/events/{}", ids[EVENTS - 1])).status == 200);
            soon("every node to list all", || line.tenant.at(node).count_delivered() == 2 * EVENTS);
        }
    }
    let delivered: Vec<f64> = hubs.iter().map(|hub| metric(hub, ATTEMPTS)).collect();
    assert!(delivered[0] == 0.0 && delivered[1] > 0.0 && delivered[2] > 0.0, "attempts by node: {delivered:?}");
    let follow = |topic: &str| -> Vec<bool> { hubs.iter().map(|hub| follows(hub, topic)).collect() };
    assert_eq!((follow(&topic), follow(&slots)), (vec![true, false, false], vec![false, true, true]));
    println!("attempts by node, of which the first only takes in: {delivered:?}");

    hubs[0].kill();
    produce(1);
    for (number, line) in lines.iter().enumerate() {
        line.publish(&hubs[1 + number % 2]);
        line.wait_for(2 * EVENTS + 1);
    }
    for hub in &hubs[1..] {
        hub.anybody().get("/readyz").expect(200);
    }
    // Nobody reads the producers' topic until such a node is back.
    hubs[0].restart_after_end();
    for line in &lines {
        line.wait_for(2 * EVENTS + 2);
        soon("all to be told as delivered", || line.tenant.at(1).count_delivered() == 2 * EVENTS + 2);
        assert_eq!(line.receiver.count(), 2 * EVENTS + 2, "each once");
    }
}
