//! How to reach Kafka, as checked values, and the client's configuration made of them.

use rdkafka::ClientConfig;

use crate::source::topic::Followed;
use crate::types::{Duration, Secret, limits};

/// Everything a consumer needs to know.
#[derive(Clone, Debug)]
pub struct KafkaSettings {
    /// `host:port`, comma-separated.
    pub brokers: String,
    /// The consumer group.
    pub group: String,
    /// Which topics it follows.
    pub followed: Followed,
    /// Which setting names it, for errors.
    pub group_setting: &'static str,
    /// The id of the data directory or of the cluster's deployment: written into the metadata of each commit, to tell
    /// two hubs in one group apart.
    pub hub_id: String,
    /// Who may be in the group.
    pub membership: Membership,
    /// The id of a directory that is gone, whose group this hub may take over.
    pub take_over: Option<String>,
    /// TLS, if any.
    pub tls: Option<Tls>,
    /// SCRAM credentials, if any.
    pub scram: Option<Scram>,
    /// Bytes fetched ahead, of all partitions together.
    pub prefetch_bytes: usize,
    /// By how many partitions that is divided.
    pub expected_partitions: usize,
    /// Whether the brokers tell who is in the group.
    pub member_list: MemberList,
    /// How the group shares its partitions out.
    pub assignment: Assignment,
    /// After so long without a sign of life the group gives this process's partitions to others; 45 s by default.
    pub session_timeout: Duration,
}

/// Who may be in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// One process: its data directory is no other's.
    One,
    /// All nodes of one deployment.
    Nodes,
}

/// Whether the brokers tell who is in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberList {
    /// Any Kafka does.
    Told,
    /// The client's mock brokers do not, and drop the connection when asked.
    Untold,
}

/// How a group shares its partitions out among its members; all of them must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// Ranges of each topic: partitions of one number are together. A rebalance stops all lanes.
    Range,
    /// Each keeps what it has; a rebalance stops only the lanes that move.
    CooperativeSticky,
}

impl Assignment {
    /// As the client knows it.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }
}

/// TLS settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The authorities to trust; the system's when absent.
    pub authority: Option<Authority>,
}

/// Certificate authorities, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A file of them.
    File(String),
    /// Their text.
    Pem(String),
}

/// SCRAM credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scram {
    /// Which hash.
    pub mechanism: ScramMechanism,
    /// The user.
    pub username: String,
    /// UTF-8.
    pub password: Secret,
}

/// The SCRAM mechanisms of Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScramMechanism {
    /// `SCRAM-SHA-256`.
    Sha256,
    /// `SCRAM-SHA-512`.
    Sha512,
}

impl KafkaSettings {
    /// The client's configuration.
    pub(super) fn client_config(&self, client_id: &str) -> ClientConfig {
        let mut config = self.connection();
        for (key, value) in FIXED {
            config.set(*key, *value);
        }
        config.set("group.id", &self.group).set("client.id", client_id);
        config.set("partition.assignment.strategy", self.assignment.as_str());
        config.set("session.timeout.ms", self.session_timeout.as_millis().to_string());
        if matches!(self.followed, Followed::Slots(_)) {
            // A rebalance is heard of with a heartbeat, and until then slots stand still.
            config.set("heartbeat.interval.ms", limits::SLOT_HEARTBEAT.as_millis().to_string());
        }
        self.set_prefetch(&mut config);
        config
    }

    /// What any client needs to reach the brokers.
    pub(super) fn connection(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        self.set_security(&mut config);
        config
    }

    /// Once partitions have queues of their own, the client's limits hold for each of them.
    fn set_prefetch(&self, config: &mut ClientConfig) {
        let share = self.prefetch_bytes / self.expected_partitions.max(1);
        let share_kib = (share / 1024).clamp(limits::KAFKA_PREFETCH_MIN_KIB, limits::KAFKA_PREFETCH_MAX_KIB);
        config.set("queued.max.messages.kbytes", share_kib.to_string());
        let response = self.prefetch_bytes.clamp(limits::KAFKA_RESPONSE_MIN_BYTES, limits::KAFKA_RESPONSE_MAX_BYTES);
        config.set("fetch.max.bytes", response.to_string());
        config.set("fetch.message.max.bytes", (share_kib * 1024).min(1024 * 1024).to_string());
    }

    fn set_security(&self, config: &mut ClientConfig) {
        let protocol = match (&self.tls, &self.scram) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        match self.tls.as_ref().and_then(|tls| tls.authority.as_ref()) {
            Some(Authority::File(path)) => {
                config.set("ssl.ca.location", path);
            }
            Some(Authority::Pem(text)) => {
                config.set("ssl.ca.pem", text);
            }
            None => {}
        }
        if let Some(scram) = &self.scram {
            let mechanism = match scram.mechanism {
                ScramMechanism::Sha256 => "SCRAM-SHA-256",
                ScramMechanism::Sha512 => "SCRAM-SHA-512",
            };
            config.set("sasl.mechanism", mechanism).set("sasl.username", &scram.username);
            config.set("sasl.password", String::from_utf8_lossy(scram.password.expose()));
        }
    }
}

/// What is not up to the operator.
const FIXED: &[(&str, &str)] = &[
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    // The hub decides where to begin; an offset out of range comes back as an error.
    ("auto.offset.reset", "error"),
    ("isolation.level", "read_committed"),
    // New topics are found within this.
    ("topic.metadata.refresh.interval.ms", "10000"),
    ("allow.auto.create.topics", "false"),
    ("check.crcs", "true"),
    ("socket.keepalive.enable", "true"),
    ("reconnect.backoff.max.ms", "5000"),
    // A full queue is looked at again soon: by default only after a second, which shows as steps in latency.
    ("fetch.queue.backoff.ms", "20"),
    ("fetch.wait.max.ms", "100"),
    ("fetch.error.backoff.ms", "200"),
    ("queued.min.messages", "10000"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> KafkaSettings {
        KafkaSettings {
            brokers: "a:9092".to_owned(),
            group: "streaming-hub".to_owned(),
            followed: Followed::Events(crate::source::topic::Topics::new("lerian.streaming")),
            membership: Membership::One,
            group_setting: "kafka.group",
            hub_id: "hub".to_owned(),
            take_over: None,
            tls: None,
            scram: None,
            prefetch_bytes: 64 * 1024 * 1024,
            expected_partitions: 64,
            member_list: MemberList::Told,
            assignment: Assignment::Range,
            session_timeout: limits::KAFKA_SESSION_TIMEOUT,
        }
    }

    #[test]
    fn the_prefetch_budget_is_divided_by_the_partitions() {
        let config = settings().client_config("hub");
        assert_eq!(config.get("queued.max.messages.kbytes"), Some("1024"));
        assert_eq!(config.get("fetch.max.bytes"), Some("52428800"));
        assert_eq!(config.get("auto.offset.reset"), Some("error"));
        let crowded = KafkaSettings { expected_partitions: 1_000_000, ..settings() }.client_config("hub");
        assert_eq!(crowded.get("queued.max.messages.kbytes"), Some("64"));
    }

    #[test]
    fn security_follows_what_is_given() {
        let scram = Scram {
            mechanism: ScramMechanism::Sha512,
            username: "hub".to_owned(),
            password: Secret::new(b"secret".to_vec()),
        };
        let both = KafkaSettings {
            tls: Some(Tls { authority: Some(Authority::File("/ca.pem".to_owned())) }),
            scram: Some(scram),
            ..settings()
        };
        let config = both.client_config("hub");
        assert_eq!(config.get("security.protocol"), Some("sasl_ssl"));
        assert_eq!(config.get("sasl.mechanism"), Some("SCRAM-SHA-512"));
        assert_eq!(config.get("ssl.ca.location"), Some("/ca.pem"));
        assert_eq!(settings().client_config("hub").get("security.protocol"), Some("plaintext"));
    }
}
