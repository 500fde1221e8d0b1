//! Commands through whichever node: the owner of the tenant's slot carries them out within seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{Cluster, Everywhere, short_of_breath, soon};
use crate::harness::{CloudEvent, Hub, Receiver, Reply, Source};
use crate::patience::patiently;

const NODES: usize = 3;
/// So many have slots on every node.
const TENANTS: usize = 6;

/// A tenant with one source and one destination, whose receiver fails as often as it is told.
struct Line {
    acme: Everywhere,
    receiver: Receiver,
    failures: Arc<AtomicUsize>,
    source: Source,
    destination: String,
}

impl Line {
    fn new(hubs: &[Hub], number: usize, more: Value) -> Self {
        let acme = Everywhere::new(hubs, &format!("commands-{number}"));
        let failures = Arc::new(AtomicUsize::new(1));
        let left = Arc::clone(&failures);
        let one_less = |left: usize| left.checked_sub(1);
        let receiver = Receiver::start(move |_| {
            let fails = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
            Reply::status(if fails { 503 } else { 200 })
        });
        let (source, destination) = acme.at(0).pipeline(&receiver, short_of_breath(more));
        acme.know_subscriptions();
        Self { acme, receiver, failures, source, destination }
    }

    /// An event, and its first attempt: that may wait until slots have settled on the nodes that just started.
    fn publish(&self) {
        let before = self.receiver.count();
        self.source.publish(&CloudEvent::new("order", "paid")).expect(200);
        patiently(|| "a first attempt".to_owned(), || self.receiver.count() > before);
    }

    fn wait_for_requests(&self, count: usize) {
        soon(&format!("{count} requests"), || self.receiver.count() >= count);
    }

    /// The only delivery in this state, as a node tells it.
    fn only(&self, node: usize, status: &str) -> Value {
        let mut found = Vec::new();
        soon(&format!("a delivery to be {status}"), || {
            found = self.acme.at(node).deliveries(&format!("status={status}"));
            !found.is_empty()
        });
        found.swap_remove(0)
    }

    fn circuit(&self, node: usize) -> Value {
        self.acme.at(node).api.get(&format!("/v1/destinations/{}/circuit", self.destination)).expect(200)
    }
}

#[test]
fn commands_reach_the_owner_from_any_node() {
    let cluster = Cluster::new();
    let hubs = cluster.start(NODES);
    for number in 0..TENANTS {
        retries(&hubs, number);
    }
    for number in TENANTS..TENANTS * 2 {
        resets(&hubs, number);
    }
    println!("{TENANTS} tenants' retries and as many circuits' resets, each through every one of {NODES} nodes");
}

/// A pending job is retried through one node, and the ended one through each of the others.
fn retries(hubs: &[Hub], number: usize) {
    let line = Line::new(hubs, number, json!({"retry": {"type": "curve", "steps_s": [0, 36_000]}}));
    line.publish();
    let pending = line.only(number, "pending");
    let path = format!("/v1/deliveries/{}/retry", pending["id"].as_str().expect("an id"));
    let first = line.acme.at(number).api.post(&path, &json!({})).expect(202);
    assert_eq!(first["id"], pending["id"], "the same job is due now");
    line.wait_for_requests(2);
    line.only(number + 1, "delivered");
    for again in 1..NODES {
        let run = line.acme.at(number + again).api.post(&path, &json!({})).expect(202);
        assert_ne!(run["id"], pending["id"], "an ended one gets a new run");
        line.wait_for_requests(2 + again);
        let is_told = || {
            let delivered = line.acme.at(number).deliveries("status=delivered");
            delivered.iter().any(|delivery| delivery["id"] == run["id"])
        };
        soon("the run to be told as delivered", is_told);
    }
    assert_eq!(line.receiver.count(), 1 + NODES, "each run is one attempt");
}

/// A circuit that one failure opens is closed through each node in turn.
fn resets(hubs: &[Hub], number: usize) {
    let circuit = json!({"threshold": 1, "cooldown_ms": 3_600_000});
    let line = Line::new(hubs, number, json!({"circuit": circuit, "retry": {"type": "curve", "steps_s": [0, 0, 0]}}));
    for node in 0..NODES {
        line.failures.store(1, Ordering::SeqCst);
        let before = line.receiver.count();
        line.publish();
        soon("the circuit to open", || line.circuit(node)["state"] == "open");
        let path = format!("/v1/destinations/{}/circuit/reset", line.destination);
        line.acme.at(node).api.post(&path, &json!({})).expect(200);
        line.wait_for_requests(before + 2);
        for other in 0..NODES {
            soon("the circuit to be told as closed", || line.circuit(other)["state"] == "closed");
        }
    }
}
