//! The store goes away under load, and so do the brokers; all goes on by itself after, and nothing accepted is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::{CASSANDRA, Cluster, Everywhere, soon};
use crate::broker::Broker;
use crate::harness::time::now;
use crate::harness::{Api, CloudEvent, Hub, Receiver, Reply, Source};
use crate::patience::patiently;

const NODES: usize = 2;
/// Unsettled records beyond which the cluster takes nothing in.
const LAG_MAX: &str = "100";
/// How long what is stopped stays so, at least.
const OUTAGE: Duration = Duration::from_secs(30);

/// A tenant whose events come in by one node, and what its receiver gets.
struct Line {
    acme: Everywhere,
    receiver: Receiver,
    source: Source,
    destination: String,
    operators: Vec<Api>,
    accepted: BTreeSet<String>,
}

impl Line {
    fn new(hubs: &[Hub]) -> Self {
        let acme = Everywhere::new(hubs, "acme");
        let receiver = Receiver::start(|_| Reply::status(200));
        let (source, destination) = acme.at(0).pipeline(&receiver, json!({"ordering": "fifo"}));
        acme.know_subscriptions();
        let operators = hubs.iter().map(Hub::anybody).collect();
        let mut line = Self { acme, receiver, source, destination, operators, accepted: BTreeSet::new() };
        for _ in 0..20 {
            assert_eq!(line.publish(), None);
        }
        line.expect_all("before the outage");
        line
    }

    /// Publishes an event; why it was not accepted.
    fn publish(&mut self) -> Option<String> {
        let event = CloudEvent::new("order", "paid");
        let answer = self.source.publish(&event);
        if answer.status == 200 {
            self.accepted.insert(event.id);
            return None;
        }
        assert_eq!(answer.problem(503), "unavailable");
        assert!(answer.header("retry-after").is_some(), "{}", answer.text());
        Some(detail(&answer.json()))
    }

    /// Publishes through an outage until it is over; the last reason for which an event was not accepted.
    fn publish_through(&mut self) -> String {
        let (begun, mut refused) = (now(), String::new());
        while begun.elapsed() < OUTAGE || refused.is_empty() {
            refused = self.publish().unwrap_or(refused);
            std::thread::sleep(Duration::from_millis(20));
        }
        refused
    }

    /// Why the first node is not ready.
    fn not_ready(&self) -> String {
        detail(&self.operators[0].get("/readyz").expect(503))
    }

    fn expect_all(&self, when: &str) {
        let progress = || format!("{} events {when}: {} requests came", self.accepted.len(), self.receiver.count());
        patiently(progress, || self.receiver.count() >= self.accepted.len());
    }

    /// Everything is as if nothing had been; how many events came through it.
    fn expect_recovery(mut self) -> usize {
        self.expect_all("after the outage");
        patiently(|| "the hub to take events in".to_owned(), || self.publish().is_none());
        for operator in &self.operators {
            patiently(|| "each node to be ready".to_owned(), || operator.get("/readyz").status == 200);
        }
        self.expect_all("in the end");
        let came: BTreeSet<String> = self.receiver.received().iter().map(|request| request.event_id()).collect();
        assert_eq!((came, self.receiver.count()), (self.accepted.clone(), self.accepted.len()), "each once");
        let all = self.accepted.len();
        soon("all to be told as delivered", || self.acme.at(1).count_delivered() == all);
        // An attempt that was held back for want of the store counts, but is no request and no failure.
        let circuit = self.acme.at(0).api.get(&format!("/v1/destinations/{}/circuit", self.destination)).expect(200);
        assert_eq!((&circuit["state"], &circuit["consecutive_failures"]), (&json!("closed"), &json!(0)));
        all
    }
}

fn detail(problem: &Value) -> String {
    problem["detail"].as_str().expect("a problem has a detail").to_owned()
}

#[test]
fn intake_goes_on_without_the_store_up_to_its_bound() {
    let cluster = Cluster::new();
    let hubs: Vec<Hub> = (0..NODES).map(|_| cluster.setup().with("KAFKA_SLOT_LAG_MAX", LAG_MAX).start()).collect();
    let mut line = Line::new(&hubs);
    let before = line.accepted.len();
    let frozen = CASSANDRA.freeze();
    let refused = line.publish_through();
    assert!(line.accepted.len() > before, "the slot topic takes events in");
    for why in [refused, line.not_ready()] {
        assert!(why.contains("kafka.slot_lag_max"), "{why}");
    }
    drop(frozen);
    let all = line.expect_recovery();
    println!("{all} events through an outage of {OUTAGE:?}: each delivered once, none charged to the destination");
}

#[test]
fn without_the_brokers_nothing_is_accepted_and_nothing_is_lost() {
    let cluster = Cluster::on(Broker::alone(), &[CASSANDRA]);
    let hubs = cluster.start(NODES);
    let mut line = Line::new(&hubs);
    let before = line.accepted.len();
    let frozen = cluster.broker.freeze();
    let refused = line.publish_through();
    assert_eq!(line.accepted.len(), before, "nothing is acknowledged that the brokers have not");
    for why in [refused, line.not_ready()] {
        assert!(why.contains("kafka.brokers"), "{why}");
    }
    drop(frozen);
    // What was answered 503 may have come in nevertheless.
    patiently(|| "the hub to take events in".to_owned(), || line.publish().is_none());
    let accepted = line.accepted.clone();
    let came = || -> BTreeSet<String> { line.receiver.received().iter().map(|request| request.event_id()).collect() };
    patiently(|| "every accepted event".to_owned(), || came().is_superset(&accepted));
    assert_eq!(came().len(), line.receiver.count(), "each once");
}
