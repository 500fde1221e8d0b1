//! Settings from file, environment and flags, and what is said of wrong ones.

use super::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn load(file: Option<&str>, environment: Pairs<'_>, flags: Pairs<'_>) -> Result<Config, Vec<ConfigFault>> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("hub.toml");
    if let Some(text) = file {
        std::fs::write(&path, text).expect("a written file");
    }
    let flags = flags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Config::load(file.map(|_| path.as_path()), environment.iter().copied(), flags)
}

fn faults(file: Option<&str>, environment: Pairs<'_>) -> Vec<String> {
    let faults = load(file, environment, &[]).expect_err("faults");
    faults.iter().map(|fault| format!("{}: {}", fault.key, fault.rule)).collect()
}

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

#[test]
fn nothing_set_is_a_local_hub_with_every_setting_listed() {
    let config = load(None, &[], &[]).expect("defaults");
    assert_eq!(config.environment, Environment::Local);
    assert!(config.kafka.is_none() && config.security.allow_unverified);
    assert_eq!(config.retention.payload, Duration::from_hours(168));
    assert_eq!(config.listing().lines().count(), SETTINGS.len());
    assert!(config.listing().contains("http.listen_addr = \":8080\"  # default\n"));
}

#[test]
fn flags_beat_variables_beat_the_file() {
    let file = "# one\n[limits]\npull_rate = 7\npull_burst = 8\nmax_payload = \"2MiB\"\n";
    let environment = [("STREAMING_HUB_PULL_BURST", "9"), ("STREAMING_HUB_PULL_RATE", ""), ("PATH", "/bin")];
    let config = load(Some(file), &environment, &[("limits.max_payload", "3MiB")]).expect("a configuration");
    assert_eq!((config.limits.pull_rate, config.limits.pull_burst, config.limits.max_payload), (7, 9, 3 << 20));
    let listing = config.listing();
    assert!(listing.contains("hub.toml:3\n"), "{listing}");
    assert!(listing.contains("limits.pull_burst = \"9\"  # STREAMING_HUB_PULL_BURST\n"), "{listing}");
    assert!(listing.contains("limits.max_payload = \"3MiB\"  # --limits.max_payload\n"), "{listing}");
}

#[test]
fn all_faults_come_at_once_and_name_value_rule_and_origin() {
    let file = "shards = 65\n[http]\nlisten_addr = \"8080\"\n[kafka]\ntls_enabled = 1.5\n";
    let environment = [("STREAMING_HUB_KAFKA_SCRAM_PASSWORD", "hunter2"), ("STREAMING_HUB_PAYLOAD_RETENTION", "1h")];
    let faults = load(Some(file), &environment, &[("limits.pull_rate", "0")]).expect_err("faults");
    let keys: Vec<&str> = faults.iter().map(|fault| fault.key.as_str()).collect();
    let expected = [
        "kafka.tls_enabled",
        "shards",
        "http.listen_addr",
        "kafka.scram_mechanism",
        "retention.payload",
        "limits.pull_rate",
    ];
    assert_eq!(keys, expected);
    assert!(faults[2].to_string().starts_with("http.listen_addr = \"8080\": must be"), "{}", faults[2]);
    assert!(faults[2].to_string().ends_with("hub.toml:3)"), "{}", faults[2]);
    assert!(!format!("{faults:?}").contains("hunter2"));
}

#[test]
fn unknown_names_are_faults_with_the_nearest_name() {
    let file = "[kafka]\nbroker = \"a:1\"\n[colour]\nred = 1\n[kafka.brokers]\nx = 1\n";
    let environment = [("STREAMING_HUB_KAFKA_BROKER", "a:1"), ("STREAMING_HUB_ROLES", "all")];
    let found = faults(Some(file), &environment);
    let contains = |text: &str| found.iter().any(|fault| fault.contains(text));
    assert!(contains("kafka.broker: is not a setting; did you mean `kafka.brokers`?"), "{found:?}");
    assert!(contains("colour: is not a setting"), "{found:?}");
    assert!(contains("kafka.brokers: must be a string"), "{found:?}");
    assert!(contains("STREAMING_HUB_KAFKA_BROKER: is not a setting; did you mean `STREAMING_HUB_KAFKA_BROKERS`?"));
    assert!(contains("STREAMING_HUB_ROLES: is not a setting"), "{found:?}");
    let secret_flag = load(None, &[], &[("security.admin_key", "hunter2")]).expect_err("no flag for secrets");
    assert!(!format!("{secret_flag:?}").contains("hunter2"));
}

#[test]
fn a_broken_file_is_named_by_line_and_never_quoted() {
    let faults = load(Some("env = \"local\"\n[security]\nadmin_key = hunter2\n"), &[], &[]).expect_err("faults");
    let shown = faults[0].to_string();
    assert!(shown.contains("hub.toml:3)") && !shown.contains("hunter2"), "{shown}");
    let missing = Config::load(Some(Path::new("/nonexistent.toml")), [("", ""); 0], []).expect_err("a fault");
    assert_eq!(missing[0].key, "--config");
}

#[test]
fn production_refuses_to_start_unsafely() {
    let bare = [("STREAMING_HUB_ENV", "production"), ("STREAMING_HUB_KAFKA_BROKERS", "a:9092")];
    let found = faults(None, &bare);
    let starts = |key: &str| found.iter().any(|fault| fault.starts_with(key));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(starts("kafka.tls_enabled") && starts("security.admin_key") && starts("security.kek_source"));
    let insisting = faults(None, &[bare.as_slice(), &[("STREAMING_HUB_ALLOW_INSECURE_KAFKA", "true")]].concat());
    assert_eq!(insisting.len(), 3, "plain text is refused whatever is allowed: {insisting:?}");
}

#[test]
fn a_safe_production_starts_with_its_key_from_a_variable() {
    let safe = [
        ("STREAMING_HUB_ENV", "production"),
        ("STREAMING_HUB_KAFKA_BROKERS", "a:9092"),
        ("STREAMING_HUB_KAFKA_TLS_ENABLED", "true"),
        ("STREAMING_HUB_ADMIN_KEY", "0123456789abcdef"),
        ("STREAMING_HUB_KEK_SOURCE", "env"),
        ("STREAMING_HUB_KEK_REF", "STREAMING_HUB_KEY"),
        ("STREAMING_HUB_KEY", KEY),
    ];
    let config = load(None, &safe, &[]).expect("a safe configuration");
    assert_eq!(config.security.key_encryption_key.map(|key| key.expose().to_vec()), Some(vec![0; 32]));
    assert!(!config.security.allow_unverified);
}

#[test]
fn key_encryption_keys_are_read_and_judged() {
    let development = load(None, &[("STREAMING_HUB_DEV_KEK", KEY)], &[]).expect("a configuration");
    assert!(development.security.key_encryption_key.is_some());
    let short = [("STREAMING_HUB_KEK_SOURCE", "env"), ("STREAMING_HUB_KEK_REF", "K"), ("K", "c2hvcnQ=")];
    assert_eq!(faults(None, &short), ["security.kek_ref: what it names must be base64 of 32 bytes"]);
    let absent = [("STREAMING_HUB_KEK_SOURCE", "file"), ("STREAMING_HUB_KEK_REF", "/nonexistent")];
    assert!(faults(None, &absent)[0].starts_with("security.kek_ref: must name a readable file"));
}

#[test]
fn a_cluster_is_named_by_its_nodes_and_entered_with_user_and_password() {
    let cluster = [("STREAMING_HUB_STORE", "scylla"), ("STREAMING_HUB_SCYLLA_NODES", "a:9042, b:9042")];
    let store = load(None, &cluster, &[]).expect("a configuration").store;
    assert_eq!(store.kind, StoreKind::Scylla);
    let scylla = store.scylla.expect("nodes are named");
    assert_eq!((scylla.nodes.len(), scylla.keyspace.as_str()), (2, "streaming_hub"));
    assert!(scylla.login.is_none() && scylla.datacenter.is_none());
    assert!(faults(None, &cluster[..1])[0].starts_with("store.scylla_nodes: must be set"));
    let lone = [("STREAMING_HUB_SCYLLA_PASSWORD", "hunter2")];
    assert!(faults(None, &lone)[0].starts_with("store.scylla_username: must be set"));
    for bad in ["Hub", "1hub", "hub-1", "h\"", ""] {
        let keyspace = [("STREAMING_HUB_SCYLLA_KEYSPACE", bad)];
        assert_eq!(load(None, &keyspace, &[]).is_err(), !bad.is_empty(), "{bad}");
    }
    assert!(faults(None, &[("STREAMING_HUB_STORE", "cassandra")])[0].starts_with("store.kind: must be"));
    assert!(load(None, &[], &[("store.scylla_password", "hunter2")]).is_err(), "no flag for secrets");
}

#[test]
fn the_brokers_authority_is_pem_in_a_file_or_as_text() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("ca").display().to_string();
    let given = |value: &str| load(None, &[("STREAMING_HUB_KAFKA_CA_CERT", value)], &[]).map(|_| ());
    std::fs::write(&path, "not PEM").expect("a written file");
    assert!(given(&path).is_err_and(|faults| faults[0].rule.contains("PEM certificate")));
    let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(&path, format!("a comment\n{pem}")).expect("a written file");
    assert!(given(&path).is_ok() && given(pem).is_ok() && given("/nonexistent").is_err());
}

#[test]
fn the_slot_topic_is_a_topic_and_none_of_the_producers() {
    let brokers = ("STREAMING_HUB_KAFKA_BROKERS", "a:9092");
    let given = |value: &str| load(None, &[brokers, ("STREAMING_HUB_KAFKA_SLOT_TOPIC", value)], &[]).map(|_| ());
    assert!(given("hub-1.slots_a").is_ok() && given(&"a".repeat(249)).is_ok());
    for bad in ["a b", "é", "..", "lerian.streaming.slots", &"a".repeat(250)] {
        assert!(given(bad).is_err_and(|faults| faults[0].key == "kafka.slot_topic"), "{bad}");
    }
}

#[test]
fn a_directory_to_take_over_from_is_named_by_its_id() {
    let given = |value: &str| load(None, &[("STREAMING_HUB_KAFKA_TAKE_OVER", value)], &[]).map(|_| ());
    assert!(given("0f8b6f0e-1c1d-4d55-9d1f-0b1e3c9a7a10").is_ok());
    assert!(given("true").is_err() && given("*").is_err());
}

#[test]
fn log_levels_are_levels_or_filters() {
    assert!(load(None, &[("STREAMING_HUB_LOG_LEVEL", "info,hyper=warn,streaming_hub::source=debug")], &[]).is_ok());
    for bad in ["verbose", "info,", "hyper=loud", "=warn"] {
        assert!(load(None, &[("STREAMING_HUB_LOG_LEVEL", bad)], &[]).is_err(), "{bad}");
    }
}

proptest::proptest! {
    #[test]
    fn no_file_and_no_value_panics(file: String, value: String, index in 0..SETTINGS.len()) {
        let flag = (SETTINGS[index].key, value.as_str());
        let _judged = load(Some(&file), &[(SETTINGS[index].variable, &value)], &[flag]);
    }
}
