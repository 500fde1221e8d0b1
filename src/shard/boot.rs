//! Starting and stopping the hub's threads, in order.
//!
//! Up: store, resolver, shards (each told all stored configuration before its first read is answered). Down:
//! intake has stopped before; shards drain within the grace, attempts still under way are cut, the store closes
//! last. A shard that panics or stalls, and a store that can't go on, end the process.

use std::path::PathBuf;

use futures_lite::future::zip;

use super::handle::{Disabled, Message, Shards};
use super::inlet::Inlet;
use super::seat::Seat;
use super::watch::{LastWord, Pulse, Watch};
use crate::deliver::ClientSettings;
use crate::runtime::boot::{processors, spawn_pinned};
use crate::runtime::channel::{Receiver, Sender, bounded};
use crate::runtime::{BootError, Clock, ExecutorThread};
use crate::source::decode::DecodeRules;
use crate::source::kafka::KafkaEvent;
use crate::store::{ConfigRecord, ObjectId, Store, StoreError, StoreFault};
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
    /// As in [`ShardSettings`](crate::engine::ShardSettings).
    pub attempts_max: u32,
    /// As in [`ShardSettings`](crate::engine::ShardSettings).
    pub poison_threshold: u32,
    /// As in [`ShardSettings`](crate::engine::ShardSettings).
    pub auto_disable: crate::engine::AutoDisable,
    /// As in [`ShardSettings`](crate::engine::ShardSettings).
    pub payload_retention: Duration,
    /// The way out.
    pub client: ClientSettings,
    /// Time.
    pub clock: Clock,
    /// Seeds the engines.
    pub seed: u64,
    /// How producers' records are judged.
    pub rules: DecodeRules,
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
    /// The cluster does not take this node in.
    #[error(transparent)]
    Cluster(#[from] crate::store::scylla::ClusterError),
    /// The slot topic is not what it must be.
    #[error(transparent)]
    SlotTopic(#[from] crate::source::kafka::TopicError),
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
    store: Store,
    threads: Vec<ExecutorThread<()>>,
    watch: Watch,
    ended: Receiver<String>,
    /// Where the consumer of the producers' topics tells each shard of its lanes; held so that a hub without Kafka has
    /// silent ones.
    kafka: Vec<Sender<KafkaEvent>>,
    /// Where a cluster's node is told of its slots.
    slots: Vec<Sender<KafkaEvent>>,
    clock: Clock,
}

/// Both ends of what each shard is told over.
struct Lines {
    inboxes: (Vec<Sender<Message>>, Vec<Receiver<Message>>),
    kafka: (Vec<Sender<KafkaEvent>>, Vec<Receiver<KafkaEvent>>),
}

impl Hub {
    /// Starts the shards on an open store that has as many; `inlet` is the way into the slots of a cluster.
    ///
    /// # Errors
    /// [`HubError`] when a thread can't be made.
    pub fn start(
        settings: &BootSettings,
        store: impl Into<Store>,
        inlet: Option<Inlet>,
        configuration: &[ConfigRecord],
    ) -> Result<Self, HubError> {
        let (store, count) = (store.into(), settings.shards);
        let own = Lines { inboxes: (0..count).map(|_| bounded(INBOX)).unzip(), kafka: lane_events(count) };
        // Each message is about one record that a lane keeps open.
        let relay = Lines { inboxes: (0..count).map(|_| flume::unbounded()).unzip(), kafka: lane_events(count) };
        let (disabled_sender, disabled) = bounded::<Disabled>(DISABLED);
        let (ended_sender, ended) = bounded(usize::from(count));
        let cpus = processors();
        let slots = store.deployment().slots;
        let mut threads = Vec::new();
        let mut pulses = Vec::new();
        for number in 0..count {
            let (shard, index) = (ShardId(number), usize::from(number));
            let name = format!("shard-{number}");
            let pulse = Pulse::default();
            pulse.beat(settings.clock.now());
            pulses.push((name.clone(), pulse.clone()));
            let word = LastWord::new(name.clone(), ended_sender.clone());
            let seat = Seat {
                shard,
                settings: settings.clone(),
                store: store.clone(),
                changes: changes_for(shard, count, slots, configuration),
                own: (own.inboxes.1[index].clone(), own.kafka.1[index].clone()),
                inboxes: own.inboxes.0.clone(),
                relay: (relay.inboxes.0[index].clone(), relay.inboxes.1[index].clone(), relay.kafka.1[index].clone()),
                disabled: disabled_sender.clone(),
                pulse,
            };
            let inlet = inlet.clone();
            threads.push(spawn_pinned(&name, cpus[index % cpus.len()], move || async move {
                let _word = word;
                match inlet {
                    None => seat.alone().run().await,
                    Some(inlet) => drop(zip(seat.on_lease(&inlet).run(), seat.relay(inlet).run()).await),
                }
            })?);
        }
        let (kafka, slot_events) = match &inlet {
            None => (own.kafka.0, Vec::new()),
            Some(_) => (relay.kafka.0, own.kafka.0),
        };
        let shards = match inlet {
            None => Shards::new(slots, own.inboxes.0, disabled),
            Some(inlet) => Shards::of_node(slots, (own.inboxes.0, relay.inboxes.0), inlet, disabled),
        };
        let watch = Watch::new(pulses, settings.clock.now());
        Ok(Self { shards, store, threads, watch, ended, kafka, slots: slot_events, clock: settings.clock })
    }

    /// What the API holds.
    #[must_use]
    pub fn shards(&self) -> Shards {
        self.shards.clone()
    }

    /// Where the consumer of the producers' topics tells each shard of its lanes.
    #[must_use]
    pub fn kafka(&self) -> Vec<Sender<KafkaEvent>> {
        self.kafka.clone()
    }

    /// Where the consumer of a cluster's slot topic tells each shard of its slots.
    #[must_use]
    pub fn slots(&self) -> Vec<Sender<KafkaEvent>> {
        self.slots.clone()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
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

fn lane_events(count: u16) -> (Vec<Sender<KafkaEvent>>, Vec<Receiver<KafkaEvent>>) {
    (0..count).map(|_| bounded(LANE_EVENTS)).unzip()
}
