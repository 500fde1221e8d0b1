//! The configuration: raw texts from file, environment and flags become one checked [`Config`].
//!
//! All faults are found at once, each naming key, value, rule and origin ([`ConfigFault`]); a setting that is
//! wrong never hides another. Secrets are redacted wherever a configuration is shown. Files that settings name
//! (configuration, key-encryption key, certificates) are looked at; nothing else of the world is.

pub mod checked;
pub mod fault;
pub mod raw;
pub mod setting;
pub mod value;

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;

use crate::types::{Duration, Secret};

pub use fault::{ConfigFault, Origin};
pub use setting::{SETTINGS, Setting};

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the hub runs.
    pub environment: Environment,
    /// What a cluster's node does.
    pub role: Role,
    /// Delivery shards, 1 to 64; absent: decided by the number of cores.
    pub shards: Option<u16>,
    /// What `ce-type` begins with, without a dot at its end.
    pub type_prefix: String,
    /// The HTTP listener.
    pub http: HttpConfig,
    /// The Kafka cluster; absent: HTTP alone.
    pub kafka: Option<KafkaConfig>,
    /// The store.
    pub store: StoreConfig,
    /// Attempts, poison, auto-disable.
    pub delivery: DeliveryConfig,
    /// How long things are kept.
    pub retention: RetentionConfig,
    /// Bounds that an operator may set.
    pub limits: LimitsConfig,
    /// Keys and the outbound guard.
    pub security: SecurityConfig,
    /// The way down.
    pub shutdown: ShutdownConfig,
    /// Logs.
    pub telemetry: TelemetryConfig,
    listing: Vec<Listed>,
}

/// Where the hub runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Environment {
    /// A developer's machine: convenient defaults, text logs.
    Local,
    /// For real: safe or not at all, JSON logs.
    Production,
}

/// The HTTP listener.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
}

/// The Kafka cluster.
#[derive(Clone, Debug)]
pub struct KafkaConfig {
    /// `host:port`, at least one.
    pub brokers: Vec<String>,
    /// Consumer group of the event topics.
    pub group: String,
    /// Consumer group of the producers' dead-letter topics.
    pub dlq_group: String,
    /// The hub's own topic, whose partitions are a cluster's slots.
    pub slot_topic: String,
    /// Consumer group of the nodes that own slots.
    pub slot_group: String,
    /// Records that are not settled, beyond which nothing more is taken in.
    pub slot_lag_max: u32,
    /// A data directory that is gone, whose groups this one takes over.
    pub take_over: Option<String>,
    /// How the group shares its partitions out.
    pub assignment: KafkaAssignment,
    /// After so long without a sign of life the group gives this process's partitions to others.
    pub session_timeout: Duration,
    /// Topics `<prefix>.<source>` are followed; without a dot at its end.
    pub topic_prefix: String,
    /// `ce_<name>` headers are read too.
    pub accept_underscore_headers: bool,
    /// TLS to the brokers.
    pub tls: bool,
    /// The brokers' authority; the system's when absent.
    pub ca_cert: Option<CaCertificate>,
    /// SASL/SCRAM; none when absent.
    pub scram: Option<ScramConfig>,
}

/// What a node of a cluster does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Both.
    All,
    /// It reads producers' topics into the slots, and owns none.
    Ingest,
    /// It owns slots, and reads no producers' topics.
    Delivery,
}

impl Role {
    /// Whether it reads producers' topics.
    #[must_use]
    pub const fn takes_in(self) -> bool {
        matches!(self, Self::All | Self::Ingest)
    }

    /// Whether it owns slots.
    #[must_use]
    pub const fn delivers(self) -> bool {
        matches!(self, Self::All | Self::Delivery)
    }
}

/// How a consumer group shares its partitions out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaAssignment {
    /// `range`.
    Range,
    /// `cooperative-sticky`.
    CooperativeSticky,
}

/// A certificate authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaCertificate {
    /// A PEM file.
    File(PathBuf),
    /// PEM text.
    Pem(String),
}

/// SASL/SCRAM credentials.
#[derive(Clone, Debug)]
pub struct ScramConfig {
    /// `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    pub mechanism: ScramMechanism,
    /// The user.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// The SCRAM mechanisms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScramMechanism {
    /// `SCRAM-SHA-256`.
    Sha256,
    /// `SCRAM-SHA-512`.
    Sha512,
}

impl ScramMechanism {
    /// The name as SASL knows it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }
}

/// The store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Which one.
    pub kind: StoreKind,
    /// The embedded store's directory.
    pub data_dir: PathBuf,
    /// The cluster; there whenever its nodes are named.
    pub scylla: Option<ScyllaConfig>,
}

/// The stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// One directory of this machine.
    Embedded,
    /// A cluster of `ScyllaDB` or Apache Cassandra.
    Scylla,
}

/// A cluster.
#[derive(Clone, Debug)]
pub struct ScyllaConfig {
    /// `host:port`, at least one.
    pub nodes: Vec<String>,
    /// The hub's keyspace.
    pub keyspace: String,
    /// Only its nodes are asked; absent: all.
    pub datacenter: Option<String>,
    /// User and password, where the cluster wants one.
    pub login: Option<(String, Secret)>,
    /// A PEM file of the nodes' authority; absent: no TLS.
    pub authority: Option<PathBuf>,
}

/// Attempts, poison, auto-disable, secrets.
#[derive(Clone, Debug)]
pub struct DeliveryConfig {
    /// Attempts in flight per shard, 1 to 4 096.
    pub attempts_per_shard: u32,
    /// More reclaims than this, the last one alone, are poison.
    pub poison_threshold: u32,
    /// Window and spread of a failure span that disables; absent: never.
    pub autodisable: Option<AutodisableConfig>,
    /// How long a rotated-out secret keeps signing.
    pub secret_overlap: Duration,
}

/// When a failing destination's subscriptions are disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutodisableConfig {
    /// The failure span must have lasted this long.
    pub window: Duration,
    /// Its first and last failure must lie this far apart; at most the window.
    pub spread: Duration,
}

/// How long things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionConfig {
    /// Payloads.
    pub payload: Duration,
    /// Ids and outcomes; no shorter than payloads.
    pub event: Duration,
    /// Dead letters.
    pub dead_letter: Duration,
    /// The producers' Kafka dead letters.
    pub dlq: Duration,
    /// Idempotency keys.
    pub idempotency: Duration,
}

/// Bounds that an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsConfig {
    /// The largest payload, in bytes.
    pub max_payload: usize,
    /// Pulls a second and tenant.
    pub pull_rate: u32,
    /// Burst of the same.
    pub pull_burst: u32,
    /// Subscriptions of one tenant.
    pub subscriptions_per_tenant: usize,
    /// Destinations of one tenant.
    pub destinations_per_tenant: usize,
    /// Sources of one tenant.
    pub sources_per_tenant: usize,
}

/// Keys and the outbound guard.
#[derive(Clone, Debug)]
pub struct SecurityConfig {
    /// The operator's API key; without one the operator's API answers nobody.
    pub admin_key: Option<Secret>,
    /// 32 bytes that wrap the keys of stored secrets; present in `production`.
    pub key_encryption_key: Option<Secret>,
    /// Loopback, private and unique-local addresses may be delivered to.
    pub allow_private_sinks: bool,
    /// Destinations may be `verification: none`.
    pub allow_unverified: bool,
    /// Networks that the outbound guard admits.
    pub egress_allow: Vec<IpNet>,
    /// Authorities beside the public roots.
    pub ca_file: Option<PathBuf>,
}

/// The way down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownConfig {
    /// For attempts in flight.
    pub timeout: Duration,
    /// 503 readiness while still serving, before that.
    pub pre_stop_drain: Duration,
}

/// Logs.
#[derive(Clone, Debug)]
pub struct TelemetryConfig {
    /// A level, or a filter by module.
    pub log_level: String,
}

/// One setting as it stands, safe to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The setting's key.
    pub key: &'static str,
    /// Its value; absent when nothing is set, redacted when secret.
    pub value: Option<String>,
    /// Where it came from.
    pub origin: Origin,
}

impl Config {
    /// Gathers and checks: the file, then the environment, then the flags (key and value).
    ///
    /// # Errors
    /// Every fault that was found, in the order file, environment, flags, values.
    pub fn load<N: Into<OsString>, V: Into<OsString>>(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (N, V)>,
        flags: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Vec<ConfigFault>> {
        let environment = environment.into_iter().map(|(name, value)| (name.into(), value.into()));
        checked::check(raw::RawSettings::gather(file, environment, flags.into_iter()))
    }

    /// The fault of a setting that is good by itself, but not for what is to be done.
    #[must_use]
    pub fn fault(&self, key: &str, rule: &str) -> ConfigFault {
        let listed = self.listing.iter().find(|listed| listed.key == key).expect("every setting is listed");
        ConfigFault {
            key: key.to_owned(),
            value: listed.value.clone(),
            rule: rule.to_owned(),
            origin: listed.origin.clone(),
        }
    }

    /// Every setting with its value and origin, one a line, secrets redacted.
    #[must_use]
    pub fn listing(&self) -> String {
        self.listing.iter().map(|listed| format!("{listed}\n")).collect()
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.as_deref().unwrap_or("(not set)");
        write!(f, "{} = {value}  # {}", self.key, self.origin)
    }
}

#[cfg(test)]
mod tests;
