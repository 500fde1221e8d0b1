//! Starting and stopping the hub's threads, in order.
//!
//! Up: store, resolver, shards (each told all stored configuration before its first read is answered). Down:
//! intake has stopped before; shards drain within the grace, attempts still under way are cut, the store closes
//! last. A shard that panics or stalls, and a store that can't go on, end the process.

use std::path::PathBuf;

use super::handle::{Disabled, Message, Shards};
use super::outbox::Outbox;
use super::pump::{Pump, Wiring};
use super::watch::{LastWord, Pulse, Watch};
use crate::deliver::{Client, ClientSettings};
use crate::engine::{Bounds, Input, Shard, ShardSettings, Tenure};
use crate::runtime::boot::{processors, spawn_pinned};
use crate::runtime::channel::{Receiver, Sender, bounded};
use crate::runtime::{BootError, Clock, ExecutorThread};
use crate::source::kafka::KafkaEvent;
use crate::store::{ConfigRecord, Embedded, ObjectId, StoreError, StoreFault};
use crate::types::{ConfigChange, Duration, ShardId, Slot, TenantId};

/// Messages waiting for one shard: a few turns' worth. Beyond, ingest answers 503 and handovers wait.
const INBOX: usize = 8_192;
/// Lanes assigned or revoked, waiting for one shard: the consumer waits when it is full.
const LANE_EVENTS: usize = 256;
/// Disabled subscriptions waiting to be written down.
const DISABLED: usize = 1_024;

/// What the shards are made with.
#[derive(Clone, Debug)]
pub struct BootSettings {
    /// How many shards.
    pub shards: u16,
    /// As in [`ShardSettings`].
    pub attempts_max: u32,
    /// As in [`ShardSettings`].
    pub poison_threshold: u32,
    /// As in [`ShardSettings`].
    pub auto_disable: crate::engine::AutoDisable,
    /// As in [`ShardSettings`].
    pub payload_retention: Duration,
    /// The way out.
    pub client: ClientSettings,
    /// Time.
    pub clock: Clock,
    /// Seeds the engines.
    pub seed: u64,
}

/// Why the hub can't start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The machine does not let it.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The data directory can't be opened.
    #[error(transparent)]
    Open(#[from] crate::store::OpenError),
    /// The store does not answer.
    #[error("the store does not answer: {0}")]
    StoreAnswer(#[from] StoreError),
    /// The store has failed.
    #[error(transparent)]
    Store(#[from] StoreFault),
    /// A thread has ended unasked.
    #[error("the thread `{0}` ended unexpectedly; nothing acknowledged is lost: restart the process")]
    ThreadEnded(String),
    /// A shard makes no progress.
    #[error("the shard `{0}` has made no progress for 30 s; nothing acknowledged is lost: restart the process")]
    Stalled(String),
    /// The Kafka client can't be made.
    #[error(transparent)]
    Kafka(#[from] crate::source::kafka::StartError),
    /// The Kafka group is another hub's.
    #[error(transparent)]
    Group(#[from] crate::source::kafka::GroupTaken),
    /// The resolver can't be made.
    #[error(transparent)]
    Resolver(#[from] crate::deliver::dns::ResolverError),
    /// The trust anchors can't be used.
    #[error(transparent)]
    Trust(#[from] crate::deliver::tls::TlsError),
    /// The address can't be listened on.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// Which.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A file could not be read.
    #[error("{path} can't be read: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// The running shards.
pub struct Hub {
    shards: Shards,
    store: Embedded,
    threads: Vec<ExecutorThread<()>>,
    watch: Watch,
    ended: Receiver<String>,
    /// Where the Kafka consumer tells each shard of its lanes; held so that a hub without Kafka has silent ones.
    kafka: Vec<Sender<KafkaEvent>>,
    clock: Clock,
}

impl Hub {
    /// Starts the shards on an open store that has as many.
    ///
    /// # Errors
    /// [`HubError`] when a thread can't be made or the stored configuration can't be read.
    pub fn start(settings: &BootSettings, store: Embedded, configuration: &[ConfigRecord]) -> Result<Self, HubError> {
        let count = settings.shards;
        let (inboxes, receivers): (Vec<Sender<Message>>, Vec<Receiver<Message>>) =
            (0..count).map(|_| bounded(INBOX)).unzip();
        let (kafka, lanes): (Vec<Sender<KafkaEvent>>, Vec<Receiver<KafkaEvent>>) =
            (0..count).map(|_| bounded(LANE_EVENTS)).unzip();
        let (disabled_sender, disabled) = bounded::<Disabled>(DISABLED);
        let (ended_sender, ended) = bounded(usize::from(count));
        let cpus = processors();
        let slots = store.record().slots;
        let mut threads = Vec::new();
        let mut pulses = Vec::new();
        for ((number, inbox), kafka) in (0..count).zip(receivers).zip(lanes) {
            let shard = ShardId(number);
            let name = format!("shard-{number}");
            let pulse = Pulse::default();
            pulse.beat(settings.clock.now());
            pulses.push((name.clone(), pulse.clone()));
            let word = LastWord::new(name.clone(), ended_sender.clone());
            let (settings, store, inboxes) = (settings.clone(), store.clone(), inboxes.clone());
            let disabled = disabled_sender.clone();
            let changes = changes_for(shard, count, slots, configuration);
            let cpu = cpus[usize::from(number) % cpus.len()];
            threads.push(spawn_pinned(&name, cpu, move || async move {
                let _word = word;
                let engine = make_engine(shard, &settings, &store, changes);
                let client = Client::new(settings.client);
                let outbox = Outbox::new(inboxes);
                let clock = settings.clock;
                let wiring = Wiring { shard, clock, store, client, inbox, outbox, kafka, disabled, pulse };
                Pump::new(engine, wiring).run().await;
            })?);
        }
        let shards = Shards::new(slots, inboxes, disabled);
        let watch = Watch::new(pulses, settings.clock.now());
        Ok(Self { shards, store, threads, watch, ended, kafka, clock: settings.clock })
    }

    /// What the API holds.
    #[must_use]
    pub fn shards(&self) -> Shards {
        self.shards.clone()
    }

    /// Where a Kafka consumer tells each shard of its lanes.
    #[must_use]
    pub fn kafka(&self) -> Vec<Sender<KafkaEvent>> {
        self.kafka.clone()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Embedded {
        &self.store
    }

    /// Whether all is well with the threads and the store; asked about once a second.
    ///
    /// # Errors
    /// [`HubError`] says what is not, and the process must end.
    pub fn check(&self) -> Result<(), HubError> {
        if let Ok(fault) = self.store.faults().try_recv() {
            return Err(fault.into());
        }
        if let Ok(name) = self.ended.try_recv() {
            return Err(HubError::ThreadEnded(name));
        }
        let stalled = self.watch.stalled(self.clock.now());
        stalled.into_iter().next().map_or(Ok(()), |name| Err(HubError::Stalled(name)))
    }

    /// Drains the shards: attempts under way get `grace` to end and are cut then. Intake has stopped before.
    ///
    /// # Errors
    /// [`HubError`] when a shard or the store fails on the way; nothing acknowledged is lost then either.
    pub fn stop(self, grace: std::time::Duration) -> Result<(), HubError> {
        self.shards.tell_all(|| Message::Drain);
        let deadline = self.clock.now() + Duration::from_millis(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        let mut left = self.threads.len();
        let mut cut = false;
        while left > 0 {
            if let Ok(fault) = self.store.faults().try_recv() {
                return Err(fault.into());
            }
            let pause = std::time::Duration::from_millis(100);
            if self.ended.recv_timeout(pause).is_ok() {
                left -= 1;
            } else if !cut && self.clock.now() >= deadline {
                cut = true;
                self.shards.tell_all(|| Message::Interrupt);
            }
        }
        for thread in self.threads {
            thread.join()?;
        }
        Ok(())
    }
}

fn make_engine(shard: ShardId, settings: &BootSettings, store: &Embedded, changes: Vec<ConfigChange>) -> Shard {
    let record = store.record();
    let now = settings.clock.now();
    let engine_settings = ShardSettings {
        shard,
        shards: settings.shards,
        slots: record.slots,
        dedup_salt: record.dedup_salt,
        seed: settings.seed ^ (u64::from(shard.0) << 48),
        attempts_max: settings.attempts_max,
        auto_disable: settings.auto_disable,
        payload_retention: settings.payload_retention,
        poison_threshold: settings.poison_threshold,
        tenure: Tenure::Sole,
        bounds: Bounds::default(),
    };
    let mut engine = Shard::new(engine_settings, now);
    for change in changes {
        engine.handle(Input::Config(change), now);
    }
    engine
}

/// What this shard must know of the stored configuration, destinations before subscriptions.
fn changes_for(shard: ShardId, shards: u16, slots: u16, records: &[ConfigRecord]) -> Vec<ConfigChange> {
    let ours = |tenant: &TenantId| Slot::of(tenant, slots).shard(shards) == shard;
    let mut destinations = Vec::new();
    let mut rest = Vec::new();
    for record in records {
        match record {
            ConfigRecord::Destination(destination) => {
                destinations.push(ConfigChange::PutDestination(destination.clone()));
            }
            ConfigRecord::Subscription(subscription) => rest.push(ConfigChange::PutSubscription(subscription.clone())),
            ConfigRecord::PausedTenant { tenant, .. } => rest.push(ConfigChange::PauseTenant(tenant.clone())),
            ConfigRecord::Deleted { tenant, object: ObjectId::Subscription(id), .. } => {
                rest.push(ConfigChange::DeleteSubscription(tenant.clone(), *id));
            }
            ConfigRecord::Deleted { object: ObjectId::Source(_) | ObjectId::Destination(_), .. }
            | ConfigRecord::Source(_)
            | ConfigRecord::ErasingTenant { .. }
            | ConfigRecord::ApiKey(_) => {}
        }
    }
    destinations.append(&mut rest);
    destinations.retain(|change| ours(change.tenant()));
    destinations
}
