//! The hub as a cluster: several processes on one keyspace and one slot topic, of which any may die, come and go.
//!
//! Both servers of `tests/real/servers` must run. Each test has a keyspace, topics and groups of its own, and the machine
//! to itself: one cluster is enough for it.

mod commands;
mod configuration;
mod erasure;
mod kills;
mod ledger;
mod outage;
mod replicas;
mod requests;
mod roles;
mod salted;
mod strangers;
mod takeover;

use std::sync::{Mutex, MutexGuard, PoisonError, RwLockReadGuard};
use std::time::Duration;

use scylla::client::session_builder::SessionBuilder;
use serde_json::{Value, json};

use super::broker::Broker;
use super::harness::process::Process;
use super::harness::{Hub, Setup, Tenant, merged};
use super::patience::patiently;
use super::server::Server;
use super::stage::Stage;

/// The only node of what `tests/real/servers up` starts.
const CASSANDRA: Server = Server { name: "cassandra-1", address: "127.0.0.1:19042" };

/// Its user and the password; the ring takes any.
const SCYLLA_USER: &str = "cassandra";

/// The slots of these clusters.
const SLOTS: &str = "16";

/// Base64 of 32 bytes.
const KEK: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// What a command, or a change, may take until it is felt on whichever node.
const SOON: Duration = Duration::from_secs(5);

static ALONE: Mutex<()> = Mutex::new(());

/// A prepared cluster without nodes.
struct Cluster<Guard = RwLockReadGuard<'static, ()>> {
    broker: Broker<Guard>,
    stage: Stage,
    /// What keeps its tables, each row on every one of them.
    keepers: &'static [Server],
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    /// Has `migrate` prepare it.
    fn new() -> Self {
        Self::with_slots(SLOTS)
    }

    /// With so many slots.
    fn with_slots(slots: &str) -> Self {
        Self::prepared(Broker::shared(), &[CASSANDRA], slots)
    }
}

impl<Guard> Cluster<Guard> {
    /// Has `migrate` prepare it on this broker and these servers.
    fn on(broker: Broker<Guard>, keepers: &'static [Server]) -> Self {
        Self::prepared(broker, keepers, SLOTS)
    }

    fn prepared(broker: Broker<Guard>, keepers: &'static [Server], slots: &str) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        keepers.iter().for_each(|keeper| keeper.expect_running());
        let cluster = Self { broker, stage: Stage::new(), keepers, _alone: alone };
        let copies = keepers.len().to_string();
        let arguments = ["migrate", "--replication-factor", &copies, "--slots", slots, "--topic-replication", "1"];
        let mut migrating = Process::start(&arguments, cluster.setup().settings());
        let mut ended = None;
        // Each table is a change of the schema that all nodes must agree on.
        patiently(
            || "`migrate` to end".to_owned(),
            || {
                ended = migrating.ended();
                ended.is_some()
            },
        );
        assert!(ended.is_some_and(|status| status.success()), "{}", migrating.output());
        cluster
    }

    /// A node of it.
    fn setup(&self) -> Setup {
        self.stage
            .setup()
            .with("KAFKA_SLOT_TOPIC", &format!("{}-slots", self.stage.prefix()))
            .with("KAFKA_SLOT_GROUP", &format!("{}-slots", self.stage.prefix()))
            .with("STORE", "scylla")
            .with("SCYLLA_NODES", &self.addresses().join(","))
            .with("SCYLLA_KEYSPACE", &self.keyspace())
            .with("SCYLLA_USERNAME", SCYLLA_USER)
            .with("SCYLLA_PASSWORD", SCYLLA_USER)
            .with("DEV_KEK", KEK)
            .with("SHARDS", "1")
    }

    fn addresses(&self) -> Vec<&'static str> {
        self.keepers.iter().map(|keeper| keeper.address).collect()
    }

    fn keyspace(&self) -> String {
        self.stage.prefix().replace('-', "_")
    }

    /// So many nodes, ready.
    fn start(&self, count: usize) -> Vec<Hub> {
        (0..count).map(|_| self.setup().start()).collect()
    }
}

impl<Guard> Cluster<Guard> {
    /// A server keeps memory for each table of each keyspace.
    fn drop_keyspace(&self, keyspace: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let dropped: Result<(), Box<dyn std::error::Error>> = runtime.block_on(async {
            let builder = SessionBuilder::new().known_nodes(self.addresses()).user(SCYLLA_USER, SCYLLA_USER);
            let session = builder.build().await?;
            session.query_unpaged(format!("DROP KEYSPACE IF EXISTS {keyspace}"), ()).await?;
            Ok(())
        });
        if let Err(error) = dropped {
            eprintln!("the keyspace {keyspace} is left behind: {error}");
        }
    }
}

impl<Guard> Drop for Cluster<Guard> {
    fn drop(&mut self) {
        self.drop_keyspace(&self.keyspace());
    }
}

/// A tenant as each node serves it.
struct Everywhere {
    nodes: Vec<Tenant>,
}

impl Everywhere {
    /// A new tenant; every node knows its key when this returns.
    fn new(hubs: &[Hub], name: &str) -> Self {
        let made = hubs[0].operator().post(&format!("/admin/tenants/{name}/keys"), &json!({})).expect(201);
        let key = made["key"].as_str().expect("a new key is shown").to_owned();
        let nodes: Vec<Tenant> = hubs.iter().map(|hub| hub.with_key(&key)).collect();
        for node in &nodes {
            soon("a key to be known", || node.api.get("/v1/subscriptions").status == 200);
        }
        Self { nodes }
    }

    /// Returns when its subscriptions are in force on every node; until then an event may find none.
    fn know_subscriptions(&self) {
        for node in &self.nodes {
            let is_known =
                || node.api.get("/v1/subscriptions").expect(200)["items"].as_array().is_some_and(|all| !all.is_empty());
            soon("a subscription to be known", is_known);
        }
    }

    /// The tenant at one node.
    fn at(&self, node: usize) -> &Tenant {
        &self.nodes[node % self.nodes.len()]
    }
}

/// Waits for what must not take long.
fn soon(what: &str, condition: impl FnMut() -> bool) {
    super::patience::within(SOON, || what.to_owned(), condition);
}

/// The members of a destination whose claims run out soon.
fn short_of_breath(more: Value) -> Value {
    merged(json!({"timeout_ms": 2_000}), more)
}

/// Where producers write.
fn topic_of(cluster: &Cluster, source: &str, partitions: i32) -> String {
    let topic = cluster.stage.topic(source);
    cluster.broker.create_topic(&topic, partitions);
    topic
}

/// What this run asks for instead of `usual`.
fn asked_for(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
