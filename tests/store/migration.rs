//! `migrate` against a real server, by the real binary: what it does, and what it says when it can't.

use std::process::{Command, Output};

use streaming_hub::store::scylla::{ClusterError, ClusterSettings};
use streaming_hub::store::{Retention, Scylla, ScyllaSettings};

use super::cassandra::{NODE, USER, shared, unmigrated};

/// Runs `migrate` with these arguments beside the nodes.
fn migrate(arguments: &[&str]) -> (Option<i32>, String, String) {
    migrate_on(NODE, USER, arguments)
}

fn migrate_on(nodes: &str, password: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_streaming-hub"));
    command.arg("migrate").args(["--store.scylla_nodes", nodes, "--store.scylla_username", USER]).args(arguments);
    command.env("STREAMING_HUB_SCYLLA_PASSWORD", password);
    let Output { status, stdout, stderr } = command.output().expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

fn keyspace(name: &str) -> String {
    format!("hub_{name}_{}", std::process::id())
}

fn connect(cluster: ClusterSettings) -> Result<Scylla, ClusterError> {
    let clock = streaming_hub::runtime::Clock::start();
    let owner = "migration".to_owned();
    Scylla::connect(ScyllaSettings { cluster, shards: 1, owner, clock, retention: Retention::default() })
}

#[test]
fn it_makes_the_keyspace_once_and_then_has_nothing_to_do() {
    let _server = shared();
    let name = keyspace("made");
    let arguments = ["--store.scylla_keyspace", &name, "--replication-factor", "1"];
    let (code, told, errors) = migrate(&arguments);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(told.contains("Apache Cassandra 5"), "{told}");
    assert!(
        told.contains("made, copies in datacenter1: 1") && told.contains("applied step 1, now version 1"),
        "{told}"
    );
    let (code, told, errors) = migrate(&arguments[..2]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(told.contains("was there") && told.contains("version 1, nothing to do"), "{told}");
    assert!(connect(unmigrated(&name)).is_ok());
}

#[test]
fn what_stands_in_the_way_is_named_with_its_value_and_the_rule() {
    let _server = shared();
    let name = keyspace("absent");
    let (code, _, errors) = migrate(&["--store.scylla_keyspace", &name]);
    assert_eq!(code, Some(1));
    assert!(errors.contains(&format!("store.scylla_keyspace = {name:?}: must be a keyspace")), "{errors}");
    let (code, _, errors) = migrate(&["--store.scylla_keyspace", &name, "--replication-factor", "3"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("--replication-factor 3") && errors.contains("\"datacenter1\" has 1 node(s)"), "{errors}");
    let (code, _, errors) = migrate(&["--store.scylla_datacenter", "mars", "--replication-factor", "1"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("store.scylla_datacenter = \"mars\"") && errors.contains("datacenter1"), "{errors}");
    let (code, _, errors) = migrate_on("127.0.0.1:9", USER, &[]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("store.scylla_nodes = \"127.0.0.1:9\"") && errors.contains("refused"), "{errors}");
    let (code, _, errors) = migrate_on(NODE, "hunter2", &["--replication-factor", "1"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("store.scylla_username = \"cassandra\": user and"), "{errors}");
    assert!(!errors.contains("hunter2"), "{errors}");
}

#[test]
fn a_store_is_not_opened_on_a_keyspace_that_is_not_prepared() {
    let _server = shared();
    let absent = connect(unmigrated(&keyspace("never"))).err().expect("there is no such keyspace");
    assert!(matches!(absent, ClusterError::UnknownKeyspace(_)), "{absent}");
    let foreign = connect(unmigrated("system_auth")).err().expect("it is another's");
    assert!(foreign.to_string().contains("run `streaming-hub migrate`"), "{foreign}");
}
