//! The real server, a keyspace on it for this run, and a store that is asked and answered in step.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use streaming_hub::engine::{Batch, Read, ReadAnswer, ReadId};
use streaming_hub::runtime::Clock;
use streaming_hub::store::scylla::{ClusterSettings, MigrateOptions, ScyllaPort, Taken, migrate};
use streaming_hub::store::tests::Subject;
use streaming_hub::store::{Kek, Retention, Scylla, ScyllaSettings, StoreEvent};
use streaming_hub::types::{Secret, Slot, Time};

use super::fresh_slot;

/// Where `tests/real/servers` has it listen.
pub const NODE: &str = "127.0.0.1:19042";

/// The user it has from the start, and its password.
pub const USER: &str = "cassandra";

/// Among how many slots tenants are dealt: more than all tests use.
pub const SLOTS: u16 = 1_024;

/// How long the server may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tests share the server; the one that freezes it has it alone.
static USE: RwLock<()> = RwLock::new(());

/// The server beside other tests.
pub fn shared() -> RwLockReadGuard<'static, ()> {
    expect_running();
    USE.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The server for a test that freezes it.
pub fn alone() -> Alone {
    expect_running();
    Alone { _held: USE.write().unwrap_or_else(std::sync::PoisonError::into_inner) }
}

/// The server held by one test alone.
pub struct Alone {
    _held: RwLockWriteGuard<'static, ()>,
}

/// The server's process, stopped where it stands until this is dropped.
pub struct Frozen {
    process: Pid,
}

impl Alone {
    /// Stops its process where it stands.
    pub fn freeze(&self) -> Frozen {
        let text = std::fs::read_to_string(directory().join("cassandra-1.pid")).expect("`servers up` writes it");
        let process = text.trim().parse().ok().and_then(Pid::from_raw).expect("a process's number");
        kill_process(process, Signal::STOP).expect("the server runs");
        Frozen { process }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        kill_process(self.process, Signal::CONT).expect("the server is there");
    }
}

/// Where the server is, and the keyspace of this run.
pub fn cluster() -> ClusterSettings {
    static MIGRATED: OnceLock<()> = OnceLock::new();
    let settings = unmigrated(&format!("hub_test_{}", std::process::id()));
    MIGRATED.get_or_init(|| {
        let options = MigrateOptions { factor: Some(1), slots: Some(SLOTS), kek: Some(kek()) };
        migrate(&settings, &options, Time(1)).expect("a keyspace for this run");
    });
    settings
}

/// Where `tests/real/servers` keeps everything.
pub fn directory() -> PathBuf {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/real");
    std::env::var_os("REAL_DIR").map_or_else(default, PathBuf::from)
}

/// The key-encryption key of all clusters of these tests.
pub fn kek() -> Kek {
    Kek::new([7; 32])
}

/// The settings of a node of `cluster`.
pub fn node_settings(cluster: ClusterSettings, owner: &str) -> ScyllaSettings {
    ScyllaSettings {
        cluster,
        owner: owner.to_owned(),
        clock: Clock::start(),
        retention: Retention::default(),
        kek: Some(kek()),
    }
}

/// Where the server is, with a keyspace that may not be there.
pub fn unmigrated(keyspace: &str) -> ClusterSettings {
    ClusterSettings {
        nodes: vec![NODE.to_owned()],
        keyspace: keyspace.to_owned(),
        login: Some((USER.to_owned(), Secret::new(USER.as_bytes().to_vec()))),
        datacenter: Some("datacenter1".to_owned()),
        authority: None,
    }
}

/// One node's store, and a slot of its own.
pub struct Node {
    pub store: Scylla,
    pub port: Rc<ScyllaPort>,
    slot: Slot,
}

impl Node {
    /// Connects, and takes a slot that no other test uses.
    pub fn with_a_slot(owner: &str) -> Self {
        let node = Self::connect(owner, fresh_slot());
        node.take();
        node
    }

    /// Connects without taking `slot`.
    pub fn connect(owner: &str, slot: Slot) -> Self {
        let store = Scylla::connect(node_settings(cluster(), owner)).expect("the server is there");
        Self { port: Rc::new(store.port()), store, slot }
    }

    /// Takes its slot.
    pub fn take(&self) -> Taken {
        futures_lite::future::block_on(self.port.take(self.slot)).expect("the slot is free to be taken")
    }

    /// The same node with another slot of its own.
    pub fn with_another_slot(&self) -> Self {
        let other = Self { store: self.store.clone(), port: Rc::clone(&self.port), slot: fresh_slot() };
        other.take();
        other
    }

    /// What became of the batch or read under way.
    pub fn next(&self) -> StoreEvent {
        self.port.events().recv_timeout(PATIENCE).expect("the store answers")
    }
}

impl Subject for Node {
    fn apply(&mut self, batch: &Batch) {
        self.port.submit(std::slice::from_ref(batch));
        let told = self.next();
        let StoreEvent::Committed(batches) = told else { panic!("the batch is not durable: {told:?}") };
        assert_eq!(batches, [(batch.unit, batch.number)]);
    }

    fn answer(&mut self, read: Read) -> ReadAnswer {
        self.port.read(ReadId(1), read);
        let told = self.next();
        let StoreEvent::Loaded(ReadId(1), answer) = told else { panic!("no answer: {told:?}") };
        *answer
    }

    fn slot(&self) -> Slot {
        self.slot
    }
}

#[track_caller]
fn expect_running() {
    let accepts = std::net::TcpStream::connect(NODE).is_ok();
    assert!(accepts, "no Cassandra on {NODE}: start it with `tests/real/servers up`");
}
