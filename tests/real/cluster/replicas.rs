//! One of the three servers that keep a cluster's tables is killed under load and comes back, and nothing is felt of it:
//! every event is delivered once, and no destination is blamed.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scylla::client::session_builder::SessionBuilder;
use serde_json::{Value, json};

use super::ledger::Ledger;
use super::{Cluster, Everywhere, short_of_breath, topic_of};
use crate::broker::Broker;
use crate::harness::{Hub, Tenant};
use crate::patience::{LONG, patiently, within};
use crate::server::Server;
use crate::stage::{subscribe, tenant_name};
use crate::tally::SECRET;

const NODES: usize = 2;
const PARTITIONS: i32 = 8;
const TENANTS: u64 = 20;
/// The load: each tenant has an event so often, for as long as it lasts.
const EACH: Duration = Duration::from_millis(100);
/// Events of each tenant that must come with all servers, while one is gone, and when it is back.
const EVENTS: u64 = 50;
/// The first is the one that the nodes are told first, and by which the others found each other.
const RING: [Server; 3] = [
    Server { name: "cassandra-11", address: "127.0.0.11:19042" },
    Server { name: "cassandra-12", address: "127.0.0.12:19042" },
    Server { name: "cassandra-13", address: "127.0.0.13:19042" },
];

/// The servers, for as long as this test needs them.
struct Ring;

impl Ring {
    fn start() -> Self {
        servers("up");
        let ring = Self;
        for server in RING {
            let progress = || format!("{} to know of all", server.name);
            patiently(progress, || known_to(server) == Some(RING.len()));
        }
        ring
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        servers("down");
    }
}

/// How many servers this one counts, if it answers.
fn known_to(server: Server) -> Option<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let session = runtime.block_on(SessionBuilder::new().known_node(server.address).build()).ok()?;
    Some(session.get_cluster_state().get_nodes_info().len())
}

fn servers(command: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/servers");
    let status = Command::new(script).args([command, "ring"]).status().expect("the script is there");
    assert!(status.success() || std::thread::panicking(), "`tests/real/servers {command} ring`: {status}");
}

#[test]
fn a_server_of_three_is_killed_and_no_destination_is_charged() {
    let _ring = Ring::start();
    let (cluster, ledger) = (Cluster::on(Broker::shared(), &RING), Ledger::willing());
    let topic = topic_of(&cluster, "loans", PARTITIONS);
    let hubs: Vec<Hub> = cluster.start(NODES);
    let more = short_of_breath(json!({"secret": SECRET, "ordering": "fifo"}));
    let subscribed = |number| {
        let tenant = tenant_name(number);
        subscribe(&hubs[0], &tenant, &ledger.url(&tenant), more.clone())
    };
    let tenants: Vec<Tenant> = (0..TENANTS).map(subscribed).collect();
    // Changes come in order: where the last is known, all are.
    Everywhere::new(&hubs, "the-last");
    let (producer, is_over) = (cluster.broker.producer(), AtomicBool::new(false));
    let per_tenant = std::thread::scope(|scope| {
        let producing = scope.spawn(|| producer.keep_giving(&topic, TENANTS, EACH, &is_over));
        let _over = Over(&is_over);
        more_come(&ledger, "with all servers");
        let killed = RING[0].kill();
        more_come(&ledger, "without one");
        drop(killed);
        more_come(&ledger, "with all servers again");
        is_over.store(true, Ordering::Relaxed);
        producing.join().expect("the producer does not panic")
    });
    let events = per_tenant * TENANTS;
    patiently(|| format!("{events} successes: {} came", ledger.successes()), || ledger.successes() >= events);
    expect_each_once(&ledger, per_tenant);
    let held_back: usize = tenants.iter().map(|tenant| expect_no_charge(tenant, per_tenant)).sum();
    println!("{events} events of {TENANTS} tenants through the loss of one server of three: each came once, in order");
    println!("all circuits closed, no failure counted; {held_back} attempts were held back before they began");
}

/// Ends the load also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn more_come(ledger: &Ledger, when: &str) {
    let wanted = ledger.successes() + EVENTS * TENANTS;
    patiently(|| format!("{wanted} successes {when}: {} came", ledger.successes()), || ledger.successes() >= wanted);
}

/// Each tenant's events came in order, each once.
fn expect_each_once(ledger: &Ledger, per_tenant: u64) {
    for (tenant, came) in ledger.came() {
        let numbers: Vec<u64> = came.iter().map(|request| request.number).collect();
        assert_eq!(numbers, (0..per_tenant).collect::<Vec<_>>(), "{tenant}: each event comes once, in order");
    }
}

/// All is told as delivered, and nothing as the destination's fault. Gives how many attempts counted that were held back
/// for want of the store: those are no requests.
fn expect_no_charge(tenant: &Tenant, per_tenant: u64) -> usize {
    let per_tenant = usize::try_from(per_tenant).expect("few");
    within(LONG, || "all to be told as delivered".to_owned(), || tenant.count_delivered() == per_tenant);
    let all = tenant.deliveries("");
    assert_eq!(all.len(), per_tenant, "none is open, and none ended otherwise");
    for destination in tenant.all("/v1/destinations", "") {
        let id = destination["id"].as_str().expect("an id");
        let circuit = tenant.api.get(&format!("/v1/destinations/{id}/circuit")).expect(200);
        assert_eq!((&circuit["state"], &circuit["consecutive_failures"]), (&json!("closed"), &json!(0)));
    }
    let again = all.iter().filter(|delivery| delivery["attempt_count"] != 1);
    again.map(|delivery| expect_held_back(&tenant.delivery(delivery))).sum()
}

/// All attempts but the last one were held back; how many.
fn expect_held_back(delivery: &Value) -> usize {
    let attempts = delivery["attempts"].as_array().expect("one delivery has its attempts");
    let is_held_back = |attempt: &&Value| attempt["error_kind"] == "interrupted";
    let held_back = attempts.iter().filter(is_held_back).count();
    assert_eq!(held_back + 1, attempts.len(), "an attempt is charged: {delivery}");
    held_back
}
