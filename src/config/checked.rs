//! Raw settings → [`Config`]: every value by its own rule, then the rules between settings.

use std::path::{Path, PathBuf};

use super::fault::{ConfigFault, Origin, shown};
use super::raw::{RawSettings, fallback_text};
use super::setting::{SETTINGS, Setting, by_key};
use super::value::{self, Parsed};
use super::{
    AutodisableConfig, CaCertificate, Config, DeliveryConfig, Environment, HttpConfig, KafkaAssignment, KafkaConfig,
    LimitsConfig, Listed, RetentionConfig, Role, ScramConfig, ScramMechanism, ScyllaConfig, SecurityConfig,
    ShutdownConfig, StoreConfig, StoreKind, TelemetryConfig,
};
use crate::types::{Duration, RetryPolicy, Secret, limits};

/// Nothing is kept longer than this: ten years.
const RETENTION_MAX: Duration = Duration::from_hours(10 * 365 * 24);
/// A tenant's configuration objects of one kind, at most: they are held in memory.
const OBJECTS_MAX: u32 = 1_000_000;
/// An admin key shorter than this can be guessed; `production` refuses it.
const ADMIN_KEY_MIN_CHARS: usize = 16;

/// Checks all settings.
///
/// # Errors
/// Every fault that was found.
pub fn check(mut raw: RawSettings) -> Result<Config, Vec<ConfigFault>> {
    let faults = raw.take_faults();
    let mut reader = Reader { raw, faults, production: false };
    let environment = reader.value("env", environment);
    reader.production = environment == Environment::Production;
    let config = reader.config(environment);
    reader.relate(&config);
    if reader.faults.is_empty() { Ok(config) } else { Err(reader.faults) }
}

/// Reads typed values and remembers what is wrong. A wrong value reads as its fallback, so that all others are
/// still judged.
struct Reader {
    raw: RawSettings,
    faults: Vec<ConfigFault>,
    production: bool,
}

impl Reader {
    fn config(&mut self, environment: Environment) -> Config {
        Config {
            environment,
            role: self.value("role", role),
            shards: self.optional("shards", shards),
            type_prefix: self.value("type_prefix", value::dotted_prefix),
            http: self.http(),
            kafka: self.kafka(),
            store: self.store(),
            delivery: self.delivery(),
            retention: self.retention(),
            limits: self.limits(),
            security: self.security(),
            shutdown: ShutdownConfig {
                timeout: self.value("shutdown.timeout", |text| pause(text, Duration::from_secs(1))),
                pre_stop_drain: self.value("shutdown.pre_stop_drain_timeout", |text| pause(text, Duration::ZERO)),
            },
            telemetry: TelemetryConfig { log_level: self.value("telemetry.log_level", log_level) },
            listing: SETTINGS.iter().map(|setting| self.listed(setting)).collect(),
        }
    }

    fn http(&mut self) -> HttpConfig {
        HttpConfig {
            listen: self.value("http.listen_addr", value::listen_address),
            trusted_proxies: self.optional("http.trusted_proxies", value::networks).unwrap_or_default(),
        }
    }

    /// All of Kafka's settings are judged, whether or not brokers are named.
    fn kafka(&mut self) -> Option<KafkaConfig> {
        let brokers = self.optional("kafka.brokers", value::brokers);
        let kafka = KafkaConfig {
            brokers: brokers.clone().unwrap_or_default(),
            group: self.value("kafka.group", value::name),
            dlq_group: self.value("kafka.dlq_group", value::name),
            slot_topic: self.value("kafka.slot_topic", value::topic),
            slot_group: self.value("kafka.slot_group", value::name),
            slot_lag_max: self.value("kafka.slot_lag_max", |text| value::number(text, 1..=u32::MAX)),
            take_over: self.optional("kafka.take_over", directory_id),
            assignment: self.value("kafka.assignment", assignment),
            session_timeout: self.value("kafka.session_timeout", session_timeout),
            topic_prefix: self.value("kafka.topic_prefix", value::dotted_prefix),
            accept_underscore_headers: self.value("kafka.accept_underscore_headers", value::boolean),
            tls: self.value("kafka.tls_enabled", value::boolean),
            ca_cert: self.optional("kafka.ca_cert", ca_certificate),
            scram: self.scram(),
        };
        brokers.map(|_| kafka)
    }

    fn scram(&mut self) -> Option<ScramConfig> {
        let mechanism = self.optional("kafka.scram_mechanism", scram_mechanism);
        let username = self.optional("kafka.scram_username", value::name);
        let password = self.optional("kafka.scram_password", secret);
        if self.is_set("kafka.scram_mechanism") {
            self.require("kafka.scram_username", "must be set with `kafka.scram_mechanism`");
            self.require("kafka.scram_password", "must be set with `kafka.scram_mechanism`");
        } else if self.is_set("kafka.scram_username") || self.is_set("kafka.scram_password") {
            self.require("kafka.scram_mechanism", "must be set with SCRAM user and password");
        }
        Some(ScramConfig { mechanism: mechanism?, username: username?, password: password? })
    }

    /// All of the cluster's settings are judged, whichever store is used.
    fn store(&mut self) -> StoreConfig {
        let kind = self.value("store.kind", store_kind);
        if kind == StoreKind::Scylla {
            self.require("store.scylla_nodes", "must be set with `store.kind = scylla`");
        }
        let nodes = self.optional("store.scylla_nodes", value::nodes);
        let keyspace = self.value("store.scylla_keyspace", value::keyspace);
        let datacenter = self.optional("store.scylla_datacenter", value::name);
        let login = self.login();
        let authority = self.optional("store.scylla_ca_file", readable_file);
        let scylla = nodes.map(|nodes| ScyllaConfig { nodes, keyspace, datacenter, login, authority });
        StoreConfig { kind, data_dir: self.value("store.data_dir", path), scylla }
    }

    fn login(&mut self) -> Option<(String, Secret)> {
        let username = self.optional("store.scylla_username", value::name);
        let password = self.optional("store.scylla_password", secret);
        if self.is_set("store.scylla_username") {
            self.require("store.scylla_password", "must be set with `store.scylla_username`");
        } else if self.is_set("store.scylla_password") {
            self.require("store.scylla_username", "must be set with `store.scylla_password`");
        }
        username.zip(password)
    }

    fn delivery(&mut self) -> DeliveryConfig {
        let enabled = self.value("delivery.autodisable_enabled", value::boolean);
        let autodisable = AutodisableConfig {
            window: self.value("delivery.autodisable_failure_window", retention),
            spread: self.value("delivery.autodisable_failure_spread", retention),
        };
        let attempts = 1..=limits::ATTEMPTS_PER_SHARD_MAX;
        let overlap = Duration::ZERO..=Duration::from_hours(168);
        DeliveryConfig {
            attempts_per_shard: self.value("delivery.dispatch_workers", |text| value::number(text, attempts.clone())),
            poison_threshold: self.value("delivery.poison_threshold", |text| value::number(text, 1..=100)),
            autodisable: enabled.then_some(autodisable),
            secret_overlap: self.value("delivery.secret_overlap", |text| value::duration(text, overlap.clone())),
        }
    }

    fn retention(&mut self) -> RetentionConfig {
        RetentionConfig {
            payload: self.value("retention.payload", payload_retention),
            event: self.value("retention.event", retention),
            dead_letter: self.value("retention.dead_letter", retention),
            dlq: self.value("retention.dlq", retention),
            idempotency: self.value("retention.idempotency", retention),
        }
    }

    fn limits(&mut self) -> LimitsConfig {
        let payload = |text: &str| value::size(text, limits::PAYLOAD_CEILING_BYTES);
        let rate = |text: &str| value::number(text, 1..=limits::RATE_LIMIT_MAX);
        let objects = |text: &str| value::number(text, 1..=OBJECTS_MAX).map(|number| number as usize);
        LimitsConfig {
            max_payload: self.value("limits.max_payload", payload),
            pull_rate: self.value("limits.pull_rate", rate),
            pull_burst: self.value("limits.pull_burst", rate),
            subscriptions_per_tenant: self.value("limits.subscriptions_per_tenant", objects),
            destinations_per_tenant: self.value("limits.destinations_per_tenant", objects),
            sources_per_tenant: self.value("limits.sources_per_tenant", objects),
        }
    }

    fn security(&mut self) -> SecurityConfig {
        SecurityConfig {
            admin_key: self.optional("security.admin_key", secret),
            key_encryption_key: self.key_encryption_key(),
            allow_private_sinks: self.value("security.allow_private_sinks", value::boolean),
            allow_unverified: self.value("security.allow_unverified", value::boolean),
            egress_allow: self.optional("security.egress_allow", value::networks).unwrap_or_default(),
            ca_file: self.optional("security.ca_file", readable_file),
        }
    }

    /// The key itself, from where the settings say it is.
    fn key_encryption_key(&mut self) -> Option<Secret> {
        let development = self.optional("security.dev_kek", value::encryption_key);
        let Some(source) = self.optional("security.kek_source", kek_source) else { return development };
        self.require("security.kek_ref", "must name where the key is when `security.kek_source` is set");
        let reference = self.raw.value("security.kek_ref")?.text.clone();
        let text = match source {
            KekSource::Variable => self
                .raw
                .variable(&reference)
                .map(str::to_owned)
                .ok_or("must name an environment variable that is set".to_owned()),
            KekSource::File => {
                std::fs::read_to_string(&reference).map_err(|error| format!("must name a readable file: {error}"))
            }
        };
        let key = text.and_then(|text| value::encryption_key(&text).map_err(|rule| format!("what it names {rule}")));
        key.map_err(|rule| self.fault("security.kek_ref", rule)).ok()
    }

    /// The rules between settings. A key that is at fault already is not judged again.
    fn relate(&mut self, config: &Config) {
        self.relate_nodes(config);
        if config.retention.event < config.retention.payload {
            self.fault_once("retention.event", "must be no shorter than `retention.payload`");
        }
        if config.delivery.autodisable.is_some_and(|auto| auto.spread > auto.window) {
            self.fault_once("delivery.autodisable_failure_spread", "must be no longer than the failure window");
        }
        let followed = |kafka: &KafkaConfig| kafka.slot_topic.starts_with(&format!("{}.", kafka.topic_prefix));
        if config.kafka.as_ref().is_some_and(followed) {
            self.fault_once("kafka.slot_topic", "must not begin with `kafka.topic_prefix`: producers' topics do");
        }
        let plain_text = config.kafka.as_ref().is_some_and(|kafka| !kafka.tls);
        let allowed = self.value("kafka.allow_insecure", value::boolean);
        if plain_text && !self.production && !allowed {
            self.fault_once("kafka.tls_enabled", "must be `true`, or `kafka.allow_insecure` must be");
        }
        if self.production {
            self.relate_in_production(config, plain_text);
        }
    }

    /// What a cluster needs beside its store, and what only a cluster has.
    fn relate_nodes(&mut self, config: &Config) {
        let is_cluster = config.store.kind == StoreKind::Scylla;
        if config.role != Role::All && !is_cluster {
            self.fault_once("role", "must be `all` unless `store.kind = scylla`");
        }
        let is_short = |kafka: &KafkaConfig| kafka.session_timeout < limits::LEASE_SESSION_TIMEOUT_MIN;
        if is_cluster && config.kafka.as_ref().is_some_and(is_short) {
            self.fault_once("kafka.session_timeout", "must be at least 10s with `store.kind = scylla`");
        }
    }

    fn relate_in_production(&mut self, config: &Config, plain_text: bool) {
        if plain_text {
            self.fault_once("kafka.tls_enabled", "must be `true` in `production`: plain-text Kafka is refused");
        }
        let admin_key = config.security.admin_key.as_ref();
        if admin_key.is_none_or(|key| key.expose().len() < ADMIN_KEY_MIN_CHARS) {
            self.fault_once("security.admin_key", "must be set in `production`, to at least 16 characters");
        }
        if self.is_set("security.dev_kek") {
            self.fault_once("security.dev_kek", "must not be set in `production`: use `security.kek_source`");
        }
        if !self.is_set("security.kek_source") {
            self.fault_once("security.kek_source", "must be set in `production`: a key-encryption key is needed");
        }
    }

    /// The value of a setting that has a fallback.
    fn value<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Parsed<T>) -> T {
        let fallback = fallback_text(declared(key).default, self.production).expect("the setting has a fallback");
        let read = self.optional(key, &parse);
        read.unwrap_or_else(|| parse(fallback).expect("fallbacks obey their own rules"))
    }

    /// The value of a setting, if it is set and obeys its rule.
    fn optional<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Parsed<T>) -> Option<T> {
        let parsed = parse(&self.raw.value(key)?.text);
        parsed.map_err(|rule| self.fault(key, rule)).ok()
    }

    fn is_set(&self, key: &str) -> bool {
        self.raw.value(key).is_some()
    }

    fn require(&mut self, key: &'static str, rule: &str) {
        if !self.is_set(key) {
            self.fault(key, rule);
        }
    }

    fn fault_once(&mut self, key: &'static str, rule: &str) {
        if !self.faults.iter().any(|fault| fault.key == key) {
            self.fault(key, rule);
        }
    }

    fn fault(&mut self, key: &'static str, rule: impl Into<String>) {
        let setting = declared(key);
        let raw = self.raw.value(key);
        let fallback = fallback_text(setting.default, self.production);
        let text = raw.map(|raw| raw.text.as_str()).or(fallback);
        let origin = raw.map_or(Origin::Default, |raw| raw.origin.clone());
        self.faults.push(ConfigFault::of(setting, text, rule, origin));
    }

    fn listed(&self, setting: &'static Setting) -> Listed {
        let raw = self.raw.value(setting.key);
        let text = raw.map(|raw| raw.text.as_str()).or(fallback_text(setting.default, self.production));
        let origin = raw.map_or(Origin::Default, |raw| raw.origin.clone());
        Listed { key: setting.key, value: text.map(|text| shown(setting, text)), origin }
    }
}

fn declared(key: &str) -> &'static Setting {
    by_key(key).expect("every key read here stands in SETTINGS")
}

/// Where a key-encryption key is.
#[derive(Clone, Copy)]
enum KekSource {
    Variable,
    File,
}

fn kek_source(text: &str) -> Parsed<KekSource> {
    match text {
        "env" | "secretsmanager" => Ok(KekSource::Variable),
        "file" => Ok(KekSource::File),
        _ => Err("must be `env`, `secretsmanager` or `file`".to_owned()),
    }
}

fn environment(text: &str) -> Parsed<Environment> {
    match text {
        "local" => Ok(Environment::Local),
        "production" => Ok(Environment::Production),
        _ => Err("must be `local` or `production`".to_owned()),
    }
}

fn store_kind(text: &str) -> Parsed<StoreKind> {
    match text {
        "embedded" => Ok(StoreKind::Embedded),
        "scylla" => Ok(StoreKind::Scylla),
        _ => Err("must be `embedded` or `scylla`".to_owned()),
    }
}

fn role(text: &str) -> Parsed<Role> {
    match text {
        "all" => Ok(Role::All),
        "ingest" => Ok(Role::Ingest),
        "delivery" => Ok(Role::Delivery),
        _ => Err("must be `all`, `ingest` or `delivery`".to_owned()),
    }
}

fn directory_id(text: &str) -> Parsed<String> {
    let rule = "must be the id of a data directory, as the refusal names it";
    uuid::Uuid::try_parse(text).map(|id| id.to_string()).map_err(|_| rule.to_owned())
}

fn assignment(text: &str) -> Parsed<KafkaAssignment> {
    match text {
        "range" => Ok(KafkaAssignment::Range),
        "cooperative-sticky" => Ok(KafkaAssignment::CooperativeSticky),
        _ => Err("must be `range` or `cooperative-sticky`".to_owned()),
    }
}

fn scram_mechanism(text: &str) -> Parsed<ScramMechanism> {
    match text {
        "SCRAM-SHA-256" => Ok(ScramMechanism::Sha256),
        "SCRAM-SHA-512" => Ok(ScramMechanism::Sha512),
        _ => Err("must be `SCRAM-SHA-256` or `SCRAM-SHA-512`".to_owned()),
    }
}

fn shards(text: &str) -> Parsed<u16> {
    let number = value::number(text, 1..=u32::from(limits::SLOTS_SINGLE_NODE))?;
    Ok(u16::try_from(number).expect("a number of at most 64 fits"))
}

fn pause(text: &str, least: Duration) -> Parsed<Duration> {
    value::duration(text, least..=Duration::from_hours(24))
}

/// The broker's own bounds by default are 6 s and 30 min; the client's longest is 5 min.
fn session_timeout(text: &str) -> Parsed<Duration> {
    value::duration(text, Duration::from_secs(6)..=Duration::from_secs(300))
}

fn retention(text: &str) -> Parsed<Duration> {
    value::duration(text, Duration::from_secs(60)..=RETENTION_MAX)
}

/// Long enough for every job of the default schedule to end a day before its payload.
fn payload_retention(text: &str) -> Parsed<Duration> {
    let longest = Duration::from_secs(RetryPolicy::default().longest_s()).max(limits::DEADLINE_MIN);
    value::duration(text, longest + limits::EXPIRY_MARGIN..=RETENTION_MAX)
}

fn secret(text: &str) -> Parsed<Secret> {
    let valid = (1..=1024).contains(&text.len()) && !text.chars().any(char::is_control);
    let rule = "must be 1 to 1024 bytes without control characters";
    valid.then(|| Secret::new(text.as_bytes().to_vec())).ok_or_else(|| rule.to_owned())
}

fn path(text: &str) -> Parsed<PathBuf> {
    let valid = !text.is_empty() && !text.contains('\0');
    valid.then(|| PathBuf::from(text)).ok_or_else(|| "must be a path".to_owned())
}

fn readable_file(text: &str) -> Parsed<PathBuf> {
    match std::fs::File::open(text).and_then(|file| file.metadata()) {
        Ok(metadata) if metadata.is_file() => Ok(Path::new(text).to_owned()),
        Ok(_) => Err("must name a file".to_owned()),
        Err(error) => Err(format!("must name a readable file: {error}")),
    }
}

fn ca_certificate(text: &str) -> Parsed<CaCertificate> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    if text.trim_start().starts_with(BEGIN) {
        return Ok(CaCertificate::Pem(text.to_owned()));
    }
    let path = readable_file(text)?;
    let bytes = std::fs::read(&path).map_err(|error| format!("must name a readable file: {error}"))?;
    let is_pem = bytes.windows(BEGIN.len()).any(|window| window == BEGIN.as_bytes());
    let rule = "must name a file with a PEM certificate, or be one";
    is_pem.then_some(CaCertificate::File(path)).ok_or_else(|| rule.to_owned())
}

/// Levels and `module=level` pairs, separated by commas.
fn log_level(text: &str) -> Parsed<String> {
    let level = |text: &str| ["off", "error", "warn", "info", "debug", "trace"].contains(&text);
    let module = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
    let directive = |text: &str| match text.split_once('=') {
        Some((name, wanted)) => module(name) && level(wanted),
        None => level(text),
    };
    let rule = "must be `error`, `warn`, `info`, `debug` or `trace`, or a filter such as `info,hyper=warn`";
    text.split(',').all(directive).then(|| text.to_owned()).ok_or_else(|| rule.to_owned())
}
