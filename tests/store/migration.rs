//! `migrate` against a real server, by the real binary: what it does, and what it says when it can't.

use std::process::{Command, Output};
use std::sync::OnceLock;

use streaming_hub::store::scylla::{ClusterError, ClusterSettings};
use streaming_hub::store::{FeedNumber, Kek, Scylla, ScyllaSettings};

use super::cassandra::{NODE, SLOTS, USER, cluster, node_settings, shared, unmigrated};

/// Base64 of [`super::cassandra::kek`].
const KEY: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
/// Another one.
const OTHER_KEY: &str = "CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg=";

/// Runs `migrate` with these arguments beside the nodes.
fn migrate(arguments: &[&str]) -> (Option<i32>, String, String) {
    migrate_on((NODE, USER), Some(KEY), arguments)
}

fn migrate_on((nodes, password): (&str, &str), key: Option<&str>, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_streaming-hub"));
    command.arg("migrate").args(["--store.scylla_nodes", nodes, "--store.scylla_username", USER]).args(arguments);
    command.env("STREAMING_HUB_SCYLLA_PASSWORD", password).envs(key.map(|key| ("STREAMING_HUB_DEV_KEK", key)));
    let Output { status, stdout, stderr } = command.output().expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

fn keyspace(name: &str) -> String {
    format!("hub_{name}_{}", std::process::id())
}

fn connect(cluster: ClusterSettings) -> Result<Scylla, ClusterError> {
    Scylla::connect(node_settings(cluster, "migration"))
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
        told.contains("made, copies in datacenter1: 1") && told.contains("applied step 1, 2, now version 2"),
        "{told}"
    );
    let (code, told, errors) = migrate(&arguments[..2]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(told.contains("was there") && told.contains("version 2, nothing to do"), "{told}");
    let store = connect(unmigrated(&name)).expect("it is prepared");
    let (records, number) = futures_lite::future::block_on(store.load_configuration()).expect("it is there");
    assert!(records.is_empty() && number == FeedNumber(0), "nothing was ever changed");
}

#[test]
fn a_deployment_keeps_its_slots_and_its_key() {
    let _server = shared();
    let arguments = deployed();
    let name = arguments[1];
    let deployment = connect(unmigrated(name)).expect("it is prepared").deployment();
    assert_eq!(deployment.slots, 16);
    let (code, again, _) = migrate(&arguments);
    assert!(code == Some(0) && again.contains(&deployment.id.to_string()), "{again}");
    let (code, _, errors) = migrate(&["--store.scylla_keyspace", name, "--slots", "32"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("--slots 32") && errors.contains("made with 16 slots"), "{errors}");
    let (code, _, errors) = migrate_on((NODE, USER), Some(OTHER_KEY), &arguments);
    assert_eq!(code, Some(1));
    assert!(errors.contains("security.kek_source: the key-encryption key must be"), "{errors}");
    let with = |kek| Scylla::connect(ScyllaSettings { kek, ..node_settings(unmigrated(name), "other") });
    assert!(matches!(with(Some(Kek::new([8; 32]))).err(), Some(ClusterError::OtherKey(_))));
    assert!(matches!(with(None).err(), Some(ClusterError::KeyMissing)));
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
    let (code, _, errors) = migrate_on(("127.0.0.1:9", USER), Some(KEY), &[]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("store.scylla_nodes = \"127.0.0.1:9\"") && errors.contains("refused"), "{errors}");
    let (code, _, errors) = migrate_on((NODE, "hunter2"), Some(KEY), &["--replication-factor", "1"]);
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

/// The deployment of this run has 16 slots, the keyspace that all other tests use has more.
#[test]
fn it_makes_the_slot_topic_once_and_refuses_another() {
    let _server = shared();
    let topic = format!("hub.slots.{}", std::process::id());
    let kafka = ["--kafka.brokers", "127.0.0.1:19092", "--kafka.slot_topic", &topic, "--topic-replication", "1"];
    let all = [deployed().as_slice(), &kafka].concat();
    let (code, told, errors) = migrate(&all);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(told.contains(&format!("slot topic {topic}: made, 16 partitions, copies: 1")), "{told}");
    let (code, told, errors) = migrate(&all);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(told.contains(&format!("slot topic {topic}: was there, with 16 partitions")), "{told}");
    let (code, _, errors) = migrate(&[["--store.scylla_keyspace", &cluster().keyspace].as_slice(), &kafka].concat());
    assert_eq!(code, Some(1));
    assert!(errors.contains(&format!("kafka.slot_topic = {topic:?}")), "{errors}");
    assert!(errors.contains(&format!("16 partitions and must have {SLOTS},")), "{errors}");
    let fresh = format!("{topic}.more");
    let (code, _, errors) = migrate(&[deployed().as_slice(), &kafka[..2], &["--kafka.slot_topic", &fresh]].concat());
    assert_eq!(code, Some(1));
    assert!(errors.contains("--topic-replication 3") && errors.contains("eplication"), "{errors}");
}

/// What names a keyspace with 16 slots that is there.
fn deployed() -> [&'static str; 2] {
    static NAME: OnceLock<String> = OnceLock::new();
    let name = NAME.get_or_init(|| {
        let name = keyspace("deployed");
        let arguments = ["--store.scylla_keyspace", &name, "--replication-factor", "1", "--slots", "16"];
        let (code, _, errors) = migrate_on((NODE, USER), None, &arguments);
        assert!(code == Some(1) && errors.contains("security.kek_source: must be set"), "{errors}");
        let (code, told, errors) = migrate(&arguments);
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        assert!(told.contains("16 slots") && told.contains("kafka.brokers is not set"), "{told}");
        name
    });
    ["--store.scylla_keyspace", name]
}
