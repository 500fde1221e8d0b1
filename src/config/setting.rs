//! The settings: their names, defaults and meanings, each said once.
//!
//! The same table serves the file, the environment, the flags, `check`'s listing and the README.

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The dotted key in the TOML file; with `--` before it, the flag.
    pub key: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// What holds when nobody sets it.
    pub default: Fallback,
    /// Whether its value may be shown and given as a flag.
    pub exposure: Exposure,
    /// One sentence for a person.
    pub help: &'static str,
}

/// What holds when nobody sets a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Nothing.
    Unset,
    /// This text.
    Text(&'static str),
    /// One text per environment.
    PerEnvironment {
        /// With `env = local`.
        local: &'static str,
        /// With `env = production`.
        production: &'static str,
    },
}

/// Whether a setting's value may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// It may.
    Open,
    /// Never: it is redacted in listings and faults and is no flag, since other users see a process's arguments.
    Secret,
}

/// What every environment variable of the hub begins with.
pub const VARIABLE_PREFIX: &str = "STREAMING_HUB_";

/// The setting of this key.
#[must_use]
pub fn by_key(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// The setting of this environment variable.
#[must_use]
pub fn by_variable(variable: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.variable == variable)
}

const fn unset(key: &'static str, variable: &'static str, help: &'static str) -> Setting {
    Setting { key, variable, default: Fallback::Unset, exposure: Exposure::Open, help }
}

const fn secret(key: &'static str, variable: &'static str, help: &'static str) -> Setting {
    Setting { key, variable, default: Fallback::Unset, exposure: Exposure::Secret, help }
}

const fn set(key: &'static str, variable: &'static str, default: &'static str, help: &'static str) -> Setting {
    Setting { key, variable, default: Fallback::Text(default), exposure: Exposure::Open, help }
}

const fn local(key: &'static str, variable: &'static str, help: &'static str) -> Setting {
    let default = Fallback::PerEnvironment { local: "true", production: "false" };
    Setting { key, variable, default, exposure: Exposure::Open, help }
}

/// Every setting, in the order in which listings show them.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    set("env", "STREAMING_HUB_ENV", "local", "`local` or `production`; `production` refuses to start unsafely"),
    set("role", "STREAMING_HUB_ROLE", "all", "what a cluster's node does: `ingest` reads producers' topics, `delivery` owns slots, `all` both; every node serves HTTP"),
    unset("shards", "STREAMING_HUB_SHARDS", "delivery shards, 1 to 64; unset: decided by the number of cores"),
    set("type_prefix", "STREAMING_HUB_TYPE_PREFIX", "studio.lerian", "what `ce-type` begins with"),

    set("http.listen_addr", "STREAMING_HUB_HTTP_LISTEN_ADDR", ":8080", "address and port of API, ingest and metrics; without an address: all of IPv4"),
    unset("http.trusted_proxies", "STREAMING_HUB_TRUSTED_PROXIES", "proxies whose `X-Forwarded-For` is believed: addresses and CIDRs"),

    unset("kafka.brokers", "STREAMING_HUB_KAFKA_BROKERS", "`host:port` list; unset: HTTP alone"),
    set("kafka.group", "STREAMING_HUB_KAFKA_GROUP", "streaming-hub", "consumer group of the event topics"),
    set("kafka.dlq_group", "STREAMING_HUB_DLQ_GROUP", "streaming-hub-dlq", "consumer group of the producers' dead-letter topics"),
    set("kafka.slot_topic", "STREAMING_HUB_KAFKA_SLOT_TOPIC", "streaming-hub.slots", "the hub's own topic on a cluster, with a partition for each slot: `migrate` makes it; no other hub may use it"),
    set("kafka.slot_group", "STREAMING_HUB_KAFKA_SLOT_GROUP", "streaming-hub-slots", "consumer group of the nodes that own slots, on a cluster"),
    set("kafka.slot_lag_max", "STREAMING_HUB_KAFKA_SLOT_LAG_MAX", "1000000", "records in all slots that their owners have not settled, beyond which a cluster takes nothing in: lanes wait, HTTP ingest answers 503"),
    unset("kafka.take_over", "STREAMING_HUB_KAFKA_TAKE_OVER", "id of a data directory that is gone for good, whose consumer groups this one takes over; without it a group of another directory is refused"),
    set("kafka.assignment", "STREAMING_HUB_KAFKA_ASSIGNMENT", "range", "how the group shares partitions out: `range`, or `cooperative-sticky`, whose rebalances stop only what moves; all members of a group alike"),
    set("kafka.session_timeout", "STREAMING_HUB_KAFKA_SESSION_TIMEOUT", "45s", "after so long without a sign of life the group gives this process's partitions away, 6s to 5m; a killed hub's successor waits for it"),
    set("kafka.topic_prefix", "STREAMING_HUB_TOPIC_PREFIX", "lerian.streaming", "topics `<prefix>.<source>` are followed"),
    set("kafka.accept_underscore_headers", "STREAMING_HUB_KAFKA_ACCEPT_UNDERSCORE_HEADERS", "false", "read `ce_<name>` headers beside `ce-<name>`"),
    set("kafka.tls_enabled", "STREAMING_HUB_KAFKA_TLS_ENABLED", "false", "TLS to the brokers"),
    unset("kafka.ca_cert", "STREAMING_HUB_KAFKA_CA_CERT", "PEM file, or PEM text, of the brokers' authority; unset: the system's"),
    unset("kafka.scram_mechanism", "STREAMING_HUB_KAFKA_SCRAM_MECHANISM", "`SCRAM-SHA-256` or `SCRAM-SHA-512`; unset: no SASL"),
    unset("kafka.scram_username", "STREAMING_HUB_KAFKA_SCRAM_USERNAME", "SASL user"),
    secret("kafka.scram_password", "STREAMING_HUB_KAFKA_SCRAM_PASSWORD", "SASL password"),
    local("kafka.allow_insecure", "STREAMING_HUB_ALLOW_INSECURE_KAFKA", "plain-text Kafka outside `production`, which always refuses it"),

    set("store.kind", "STREAMING_HUB_STORE", "embedded", "`embedded`, or `scylla`: a cluster of ScyllaDB or Apache Cassandra, which `migrate` prepares"),
    set("store.data_dir", "STREAMING_HUB_DATA_DIR", "data", "directory of the embedded store"),
    unset("store.scylla_nodes", "STREAMING_HUB_SCYLLA_NODES", "`host:port` list of nodes of the cluster; needed with `store.kind = scylla` and for `migrate`"),
    set("store.scylla_keyspace", "STREAMING_HUB_SCYLLA_KEYSPACE", "streaming_hub", "the hub's keyspace: lower-case letters, digits and `_`, beginning with a letter"),
    unset("store.scylla_datacenter", "STREAMING_HUB_SCYLLA_DATACENTER", "datacenter whose nodes are asked; unset: all nodes are"),
    unset("store.scylla_ca_file", "STREAMING_HUB_SCYLLA_CA_FILE", "PEM file of the authority of the cluster's certificates: then TLS, and no other authority is trusted; names are not compared; unset: plain text"),
    unset("store.scylla_username", "STREAMING_HUB_SCYLLA_USERNAME", "user of the cluster"),
    secret("store.scylla_password", "STREAMING_HUB_SCYLLA_PASSWORD", "its password"),

    set("delivery.dispatch_workers", "STREAMING_HUB_DISPATCH_WORKERS", "256", "attempts in flight per shard, 1 to 4096"),
    set("delivery.poison_threshold", "STREAMING_HUB_POISON_THRESHOLD", "5", "reclaims after which a crashing job is poison, 1 to 100"),
    set("delivery.autodisable_enabled", "STREAMING_HUB_AUTODISABLE_ENABLED", "true", "disable subscriptions whose destination keeps failing"),
    set("delivery.autodisable_failure_window", "STREAMING_HUB_AUTODISABLE_FAILURE_WINDOW", "120h", "how long a failure span must last"),
    set("delivery.autodisable_failure_spread", "STREAMING_HUB_AUTODISABLE_FAILURE_SPREAD", "12h", "how far its first and last failure must lie apart"),
    set("delivery.secret_overlap", "STREAMING_HUB_SECRET_OVERLAP", "24h", "how long a rotated-out secret keeps signing, up to 168h"),

    set("retention.payload", "STREAMING_HUB_PAYLOAD_RETENTION", "168h", "how long payloads are kept; longer than the default retry schedule by a day"),
    set("retention.event", "STREAMING_HUB_EVENT_RETENTION", "720h", "how long ids and outcomes are kept; no shorter than payloads"),
    set("retention.dead_letter", "STREAMING_HUB_DEAD_LETTER_RETENTION", "720h", "how long dead letters are kept"),
    set("retention.dlq", "STREAMING_HUB_DLQ_RETENTION", "168h", "how long the producers' Kafka dead letters are kept"),
    set("retention.idempotency", "STREAMING_HUB_IDEMPOTENCY_TTL", "24h", "how long an `Idempotency-Key` is remembered; a restart forgets it"),

    set("limits.max_payload", "STREAMING_HUB_MAX_PAYLOAD", "1MiB", "largest payload, up to 10MiB"),
    set("limits.pull_rate", "STREAMING_HUB_PULL_RATE", "100", "`GET /v1/events` per second and tenant"),
    set("limits.pull_burst", "STREAMING_HUB_PULL_BURST", "200", "burst of the same"),
    set("limits.subscriptions_per_tenant", "STREAMING_HUB_SUBSCRIPTIONS_PER_TENANT", "1000", "subscriptions of one tenant"),
    set("limits.destinations_per_tenant", "STREAMING_HUB_DESTINATIONS_PER_TENANT", "1000", "destinations of one tenant"),
    set("limits.sources_per_tenant", "STREAMING_HUB_SOURCES_PER_TENANT", "100", "HTTP sources of one tenant"),

    secret("security.admin_key", "STREAMING_HUB_ADMIN_KEY", "the operator's API key; in `production` at least 16 characters"),
    unset("security.kek_source", "STREAMING_HUB_KEK_SOURCE", "where the key-encryption key is: `env` or `secretsmanager` (an environment variable), or `file`"),
    unset("security.kek_ref", "STREAMING_HUB_KEK_REF", "the variable's or file's name; it holds base64 of 32 bytes"),
    secret("security.dev_kek", "STREAMING_HUB_DEV_KEK", "key-encryption key for `local`, base64 of 32 bytes"),
    set("security.allow_private_sinks", "STREAMING_HUB_ALLOW_PRIVATE_SINKS", "false", "deliver to loopback, private and unique-local addresses"),
    local("security.allow_unverified", "STREAMING_HUB_ALLOW_UNVERIFIED", "admit destinations with `verification: none`"),
    unset("security.egress_allow", "STREAMING_HUB_EGRESS_ALLOW", "addresses and CIDRs that the outbound guard admits"),
    unset("security.ca_file", "STREAMING_HUB_CA_FILE", "PEM file of authorities beside the public roots, for destinations"),

    set("shutdown.timeout", "STREAMING_HUB_SHUTDOWN_TIMEOUT", "30s", "time for attempts in flight after SIGTERM"),
    set("shutdown.pre_stop_drain_timeout", "STREAMING_HUB_PRE_STOP_DRAIN_TIMEOUT", "5s", "time of 503 readiness while still serving, before that"),

    set("telemetry.log_level", "STREAMING_HUB_LOG_LEVEL", "info", "`error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,streaming_hub::source=debug`"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_variables_are_unique_and_well_formed() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            assert!(setting.variable.starts_with(VARIABLE_PREFIX), "{}", setting.variable);
            let twice = SETTINGS[..index].iter().any(|o| o.key == setting.key || o.variable == setting.variable);
            assert!(!twice, "{} stands twice", setting.key);
        }
    }
}
