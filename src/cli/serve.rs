//! `serve`: runs the hub until it is told to stop.
//!
//! Up: the machine is probed, the store opened, the shards started, the HTTP endpoint last. Down, in the order of
//! the contract: readiness turns 503 while all is still served, intake stops, what is in flight ends or is cut,
//! the store closes. A second signal exits at once; nothing acknowledged is lost either way.

use std::net::SocketAddr;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::intake::{Intake, rules_of};
use super::kafka::settings_of;
use super::migrate::{cluster_settings, key_encryption_key};
use super::settings::ConfigArguments;
use super::{CommandError, Surroundings};
use crate::api::thread::{ServerThread, ServerWiring};
use crate::config::{Config, Environment, KafkaConfig, ScyllaConfig, StoreKind};
use crate::deliver::dns::Resolver;
use crate::deliver::tls::Tls;
use crate::deliver::{ClientSettings, Guard};
use crate::engine::AutoDisable;
use crate::runtime::Clock;
use crate::runtime::boot::{probe, processors};
use crate::runtime::clock::process_time;
use crate::shard::{BootSettings, Hub, HubError, Inlet};
use crate::source::decode::DecodeRules;
use crate::source::kafka::{Deletes, Membership, SlotKeeper, SlotTopic, SlotWriter, check_slot_topic};
use crate::source::topic::Followed;
use crate::store::{ConfigRecord, Embedded, EmbeddedSettings, FeedNumber, Retention, Scylla, ScyllaSettings, Store};
use crate::telemetry::log::{self, LogFormat};
use crate::types::limits;

/// How often the threads are looked after, and signals waited for.
const WATCH: std::time::Duration = std::time::Duration::from_millis(100);
/// What a process exits with at a second signal.
const EXIT_AT_ONCE: i32 = 1;

/// Run the hub
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    config: ConfigArguments,
}

/// Runs until SIGTERM or SIGINT.
pub(super) fn run(arguments: Arguments, surroundings: &mut Surroundings<'_>) -> Result<(), CommandError> {
    let config = arguments.config.load(surroundings)?;
    if config.store.kind == StoreKind::Scylla && config.kafka.is_none() {
        let rule = "must be set with `store.kind = scylla`: events reach a cluster's slots through Kafka";
        return Err(CommandError::Config(vec![config.fault("kafka.brokers", rule)]));
    }
    let format = match config.environment {
        Environment::Local => LogFormat::Text,
        Environment::Production => LogFormat::Json,
    };
    log::start(format, &config.telemetry.log_level).map_err(|error| CommandError::Failed(error.to_string()))?;
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let running = start(&config, surroundings.clock)?;
    writeln!(surroundings.output, "streaming-hub listens on http://{}", running.address())?;
    surroundings.output.flush()?;
    Ok(running.run_until_told(&config, &mut signals)?)
}

impl From<HubError> for CommandError {
    fn from(error: HubError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A hub that runs in this process.
pub struct Running {
    hub: Hub,
    server: ServerThread,
    kafka: Option<Intake>,
    _keeper: Option<SlotKeeper>,
    grace: std::time::Duration,
}

/// Starts a hub; returns once its HTTP endpoint listens.
///
/// # Errors
/// [`HubError`] says what the machine, the data directory, the cluster or the address does not allow.
pub fn start(config: &Config, clock: Clock) -> Result<Running, HubError> {
    let cpus = processors();
    let shards = config.shards.unwrap_or_else(|| u16::try_from(cpus.len()).unwrap_or(u16::MAX));
    probe(usize::from(shards) + 1)?;
    let client = client_settings(config, clock)?;
    let seed = random_seed();
    let Opened { store, inlet, keeper, configuration, feed_number, node } = open(config, shards, (clock, seed))?;
    let settings = BootSettings {
        shards,
        attempts_max: config.delivery.attempts_per_shard,
        poison_threshold: config.delivery.poison_threshold,
        auto_disable: auto_disable(config),
        payload_retention: config.retention.payload,
        client: client.clone(),
        clock,
        seed,
        rules: config.kafka.as_ref().map_or_else(DecodeRules::default, |kafka| rules_of(kafka, config)),
    };
    let hub = Hub::start(&settings, store, inlet, &configuration)?;
    let kafka = config.kafka.as_ref().map(|kafka| Intake::start(kafka, config, &hub)).transpose()?;
    let wiring = ServerWiring {
        config: config.clone(),
        node,
        store: hub.store().clone(),
        configuration,
        feed_number,
        shards: hub.shards(),
        lanes: kafka.as_ref().map(Intake::lanes).unwrap_or_default(),
        client,
        clock,
        seed: seed.rotate_left(17),
        cpu: cpus[cpus.len() - 1],
    };
    let server = ServerThread::start(wiring)?;
    Ok(Running { hub, server, kafka, _keeper: keeper, grace: config.shutdown.timeout.to_std() })
}

impl Running {
    /// Where it listens for HTTP.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Stops intake, drains and closes.
    ///
    /// # Errors
    /// [`HubError`] when a thread or the store fails on the way; nothing acknowledged is lost then either.
    pub fn stop(self) -> Result<(), HubError> {
        self.server.drain();
        if let Some(kafka) = self.kafka {
            kafka.stop(self.grace);
        }
        self.hub.stop(self.grace)?;
        self.server.stop()
    }

    fn run_until_told(self, config: &Config, signals: &mut Signals) -> Result<(), HubError> {
        while signals.pending().next().is_none() {
            self.hub.check()?;
            if let Some(Err(taken)) = self.kafka.as_ref().map(Intake::check) {
                tracing::warn!(error = %taken, "stopping: the kafka group is another's");
                self.stop()?;
                return Err(taken);
            }
            std::thread::sleep(WATCH);
        }
        tracing::info!("stopping: not ready any more, still serving");
        exit_at_a_second_signal(signals);
        self.server.not_ready();
        std::thread::sleep(config.shutdown.pre_stop_drain.to_std());
        tracing::info!("stopping: intake has ended, draining");
        self.stop()?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// A second signal ends the process at once.
fn exit_at_a_second_signal(signals: &mut Signals) {
    let handle = signals.handle();
    handle.close();
    for signal in [SIGTERM, SIGINT] {
        // Registering can fail only for signals that can't be caught.
        let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let _ = signal_hook::flag::register_conditional_shutdown(signal, EXIT_AT_ONCE, flag);
    }
}

fn client_settings(config: &Config, clock: Clock) -> Result<ClientSettings, HubError> {
    let security = &config.security;
    let bundle = security
        .ca_file
        .as_ref()
        .map(|path| std::fs::read(path).map_err(|source| HubError::File { path: path.clone(), source }));
    let bundle = bundle.transpose()?;
    Ok(ClientSettings {
        guard: Guard::new(security.allow_private_sinks, security.egress_allow.clone()),
        tls: Tls::new(bundle.as_deref())?,
        resolver: Resolver::system()?,
        clock,
    })
}

/// What a hub stands on.
struct Opened {
    store: Store,
    /// The way into the slots of a cluster.
    inlet: Option<Inlet>,
    /// What looks after a cluster's slot topic.
    keeper: Option<SlotKeeper>,
    configuration: Vec<ConfigRecord>,
    /// The number of the last change in it.
    feed_number: FeedNumber,
    /// What this process is called.
    node: String,
}

fn open(config: &Config, shards: u16, (clock, seed): (Clock, u64)) -> Result<Opened, HubError> {
    match (&config.store.scylla, &config.kafka, config.store.kind) {
        (Some(scylla), Some(kafka), StoreKind::Scylla) => open_cluster(config, (scylla, kafka), (clock, seed)),
        (_, _, StoreKind::Embedded | StoreKind::Scylla) => {
            let store = open_directory(config, shards, clock)?;
            let configuration = store.load_configuration()?;
            let node = store.record().directory_id.to_string();
            Ok(Opened {
                store: store.into(),
                inlet: None,
                keeper: None,
                configuration,
                feed_number: FeedNumber::default(),
                node,
            })
        }
    }
}

fn open_cluster(
    config: &Config,
    (scylla, kafka): (&ScyllaConfig, &KafkaConfig),
    (clock, seed): (Clock, u64),
) -> Result<Opened, HubError> {
    let node = format!("{}-{:08x}", host_name(), seed >> 32);
    let store = Scylla::connect(ScyllaSettings {
        cluster: cluster_settings(scylla),
        owner: node.clone(),
        kek: key_encryption_key(config),
        clock,
        retention: retention(config),
    })?;
    let slots = store.deployment().slots;
    let settings = settings_of(
        kafka,
        ("kafka.slot_group", &kafka.slot_group),
        Followed::Slots(kafka.slot_topic.as_str().into()),
        (store.deployment().id.to_string(), Membership::Nodes),
    );
    let topic = SlotTopic { name: &kafka.slot_topic, slots };
    check_slot_topic(&settings, topic)?;
    let writer = SlotWriter::start(&settings, &kafka.slot_topic, process_time)?;
    let deletes = if config.role.delivers() { Deletes::Committed } else { Deletes::Nothing };
    let keeper = SlotKeeper::start(settings, topic, deletes)?;
    let (configuration, feed_number) = futures_lite::future::block_on(store.load_configuration())?;
    let inlet = Some(Inlet::new(writer, store.clone(), (keeper.lag(), kafka.slot_lag_max.into())));
    Ok(Opened { store: store.into(), inlet, keeper: Some(keeper), configuration, feed_number, node })
}

/// What the machine is called, as far as it says.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "node".to_owned() } else { name.to_owned() }
}

fn open_directory(config: &Config, shards: u16, clock: Clock) -> Result<Embedded, HubError> {
    Ok(Embedded::open(EmbeddedSettings {
        dir: config.store.data_dir.clone(),
        shards,
        slots: limits::SLOTS_SINGLE_NODE,
        kek: key_encryption_key(config),
        clock,
        retention: retention(config),
    })?)
}

fn retention(config: &Config) -> Retention {
    Retention {
        payloads: config.retention.payload,
        events: config.retention.event,
        dead_letters: config.retention.dead_letter,
        quarantine: config.retention.dlq,
    }
}

fn auto_disable(config: &Config) -> AutoDisable {
    config.delivery.autodisable.map_or_else(
        || AutoDisable { enabled: false, ..AutoDisable::default() },
        |auto| AutoDisable { enabled: true, window: auto.window, spread: auto.spread },
    )
}

fn random_seed() -> u64 {
    getrandom::u64().unwrap_or(0x5eed)
}

#[cfg(test)]
mod tests {
    use crate::cli::MISUSED;
    use crate::cli::tests::ran;

    #[test]
    fn a_cluster_without_kafka_is_refused_by_name() {
        let environment = [("STREAMING_HUB_STORE", "scylla"), ("STREAMING_HUB_SCYLLA_NODES", "127.0.0.1:9")];
        let (code, _, errors) = ran(&["serve"], &environment, b"");
        assert_eq!(code, MISUSED);
        assert!(errors.contains("kafka.brokers: must be set with `store.kind = scylla`"), "{errors}");
    }
}
