//! `serve`: runs the hub until it is told to stop.
//!
//! Up: the machine is probed, the store opened, the shards started, the HTTP endpoint last. Down, in the order of
//! the contract: readiness turns 503 while all is still served, intake stops, what is in flight ends or is cut,
//! the store closes. A second signal exits at once; nothing acknowledged is lost either way.

use std::net::SocketAddr;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::intake::Intake;
use super::settings::ConfigArguments;
use super::{CommandError, Surroundings};
use crate::api::thread::{ServerThread, ServerWiring};
use crate::config::{Config, Environment, StoreKind};
use crate::deliver::dns::Resolver;
use crate::deliver::tls::Tls;
use crate::deliver::{ClientSettings, Guard};
use crate::engine::AutoDisable;
use crate::runtime::Clock;
use crate::runtime::boot::{probe, processors};
use crate::shard::{BootSettings, Hub, HubError};
use crate::store::{Embedded, EmbeddedSettings, Kek, Retention};
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
    if config.store.kind == StoreKind::Scylla {
        let rule = "must be `embedded`: `serve` does not use a cluster in this version";
        return Err(CommandError::Config(vec![config.fault("store.kind", rule)]));
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
    grace: std::time::Duration,
}

/// Starts a hub; returns once its HTTP endpoint listens.
///
/// # Errors
/// [`HubError`] says what the machine, the data directory or the address does not allow.
pub fn start(config: &Config, clock: Clock) -> Result<Running, HubError> {
    let cpus = processors();
    let shards = config.shards.unwrap_or_else(|| u16::try_from(cpus.len()).unwrap_or(u16::MAX));
    probe(usize::from(shards) + 1)?;
    let client = client_settings(config, clock)?;
    let store = open_store(config, shards, clock)?;
    let configuration = store.load_configuration()?;
    let seed = random_seed();
    let settings = BootSettings {
        shards,
        attempts_max: config.delivery.attempts_per_shard,
        poison_threshold: config.delivery.poison_threshold,
        auto_disable: auto_disable(config),
        payload_retention: config.retention.payload,
        client: client.clone(),
        clock,
        seed,
    };
    let hub = Hub::start(&settings, store, &configuration)?;
    let kafka = config.kafka.as_ref().map(|kafka| Intake::start(kafka, config, &hub)).transpose()?;
    let wiring = ServerWiring {
        config: config.clone(),
        store: hub.store().clone(),
        configuration,
        shards: hub.shards(),
        lanes: kafka.as_ref().map(Intake::lanes),
        client,
        clock,
        seed: seed.rotate_left(17),
        cpu: cpus[cpus.len() - 1],
    };
    let server = ServerThread::start(wiring)?;
    Ok(Running { hub, server, kafka, grace: config.shutdown.timeout.to_std() })
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

fn open_store(config: &Config, shards: u16, clock: Clock) -> Result<Embedded, HubError> {
    let key = config.security.key_encryption_key.as_ref();
    let kek = key.and_then(|key| key.expose().try_into().ok()).map(Kek::new);
    Ok(Embedded::open(EmbeddedSettings {
        dir: config.store.data_dir.clone(),
        shards,
        slots: limits::SLOTS_SINGLE_NODE,
        kek,
        clock,
        retention: Retention {
            payloads: config.retention.payload,
            events: config.retention.event,
            dead_letters: config.retention.dead_letter,
            quarantine: config.retention.dlq,
        },
    })?)
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
    fn a_cluster_is_refused_by_name() {
        let environment = [("STREAMING_HUB_STORE", "scylla"), ("STREAMING_HUB_SCYLLA_NODES", "127.0.0.1:9")];
        let (code, _, errors) = ran(&["serve"], &environment, b"");
        assert_eq!(code, MISUSED);
        assert!(errors.contains("store.kind = \"scylla\": must be `embedded`"), "{errors}");
    }
}
