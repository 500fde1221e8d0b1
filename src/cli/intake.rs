//! Kafka in, as `serve` starts and stops it: the consumer whose partitions the shards poll, and the tap of the
//! producers' dead-letter topics, whose letters are stored by a thread of their own.

use std::collections::BTreeSet;
use std::thread::JoinHandle;

use super::kafka::settings_of;
use crate::config::{Config, KafkaConfig};
use crate::runtime::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use crate::runtime::clock::process_time;
use crate::shard::{Hub, HubError};
use crate::source::decode::DecodeRules;
use crate::source::kafka::{
    self, Assignment, DeadLetterTap, KafkaAlarm, KafkaConsumer, KafkaSettings, LaneBoard, Links, Membership,
    StoredPosition, StoredUnavailable, TappedLetter, outlived, topic_retentions,
};
use crate::source::topic::{Followed, Topics};
use crate::store::{Queries, Store};
use crate::types::{Duration, limits};

/// Alarms waiting; beyond, they are only logged.
const ALARMS: usize = 64;
/// How often the topics' retention is compared with that of ids.
const COMPARE: std::time::Duration = std::time::Duration::from_secs(600);
/// How soon again while the brokers do not tell.
const COMPARE_AGAIN: std::time::Duration = std::time::Duration::from_secs(30);

/// The running consumers.
pub(super) struct Intake {
    /// Producers' events, and a cluster's slots: whichever this process is to read.
    consumers: Vec<KafkaConsumer>,
    letters: Option<Letters>,
    /// Ends the comparing thread when it goes.
    compared: Option<Sender<()>>,
}

/// Producers' dead letters, and the thread that stores them.
struct Letters {
    tap: DeadLetterTap,
    stored: JoinHandle<()>,
}

impl Intake {
    /// Starts the consumers that this process is to have. Brokers that are down are waited for.
    pub(super) fn start(kafka: &KafkaConfig, config: &Config, hub: &Hub) -> Result<Self, HubError> {
        let mut intake = Self { consumers: Vec::new(), letters: None, compared: None };
        let (alarms, raised) = bounded(ALARMS);
        // Every alarm is logged where it is raised; here nobody waits for them.
        drop(raised);
        if config.role.delivers() && matches!(hub.store(), Store::Scylla(_)) {
            intake.follow_slots(kafka, hub, alarms.clone())?;
        }
        if config.role.takes_in() {
            intake.follow_producers(kafka, config, hub, alarms)?;
        }
        Ok(intake)
    }

    /// The slots of a cluster. A shard that loses one gives all of its slots back, so nothing is gained where the group
    /// would leave it some.
    fn follow_slots(&mut self, kafka: &KafkaConfig, hub: &Hub, alarms: Sender<KafkaAlarm>) -> Result<(), HubError> {
        let followed = Followed::Slots(kafka.slot_topic.as_str().into());
        let group = ("kafka.slot_group", kafka.slot_group.as_str());
        let settings = settings_of(kafka, group, followed, identity(hub));
        let settings = KafkaSettings { assignment: Assignment::Range, ..settings };
        let links = Links { shards: hub.slots(), alarms, stored: None, clock: process_time };
        self.consumers.push(KafkaConsumer::start(settings, links)?);
        Ok(())
    }

    fn follow_producers(
        &mut self,
        kafka: &KafkaConfig,
        config: &Config,
        hub: &Hub,
        alarms: Sender<KafkaAlarm>,
    ) -> Result<(), HubError> {
        let topics = || Topics::new(&kafka.topic_prefix);
        let group = ("kafka.group", kafka.group.as_str());
        let settings = settings_of(kafka, group, Followed::Events(topics()), identity(hub));
        self.compared = Some(compare_retention(settings.clone(), config.retention.event)?);
        let (shards, stored) = (hub.kafka(), stored_positions(hub.store()));
        let links = Links { shards, alarms: alarms.clone(), stored, clock: process_time };
        self.consumers.push(KafkaConsumer::start(settings, links)?);
        let group = ("kafka.dlq_group", kafka.dlq_group.as_str());
        let settings = settings_of(kafka, group, Followed::DeadLetters(topics()), identity(hub));
        let (tap, received) = DeadLetterTap::start(settings, alarms, process_time)?;
        let queries = hub.store().queries();
        let stored = std::thread::Builder::new()
            .name("dlq-store".to_owned())
            .spawn(move || store_letters(&queries, &received))
            .map_err(kafka::StartError::Thread)?;
        self.letters = Some(Letters { tap, stored });
        Ok(())
    }

    /// What is known of the lanes, those of each consumer.
    pub(super) fn lanes(&self) -> Vec<LaneBoard> {
        self.consumers.iter().map(KafkaConsumer::board).collect()
    }

    /// Whether all groups are this hub's.
    ///
    /// # Errors
    /// [`HubError::Group`]: the hub must end.
    pub(super) fn check(&self) -> Result<(), HubError> {
        self.consumers.iter().try_for_each(KafkaConsumer::check)?;
        Ok(self.letters.as_ref().map_or(Ok(()), |letters| letters.tap.check())?)
    }

    /// Gives all partitions back and leaves the groups, within `limit`.
    pub(super) fn stop(self, limit: std::time::Duration) {
        let limit = Duration::from_millis(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let closing: Vec<_> = self.consumers.into_iter().map(KafkaConsumer::begin_close).collect();
        let told = self.letters.is_none_or(|letters| letters.end(limit));
        let closed = closing.iter().filter(|closing| closing.wait(limit)).count();
        if !told || closed < closing.len() {
            tracing::warn!("the broker did not answer in time; what is not committed comes again");
        }
    }
}

impl Letters {
    /// Whether what was stored is committed within `limit`.
    fn end(self, limit: Duration) -> bool {
        let closed = self.tap.close(limit);
        if self.stored.join().is_err() {
            tracing::warn!("the thread that stores producers' dead letters had panicked");
        }
        closed
    }
}

/// Who this process is to its groups.
fn identity(hub: &Hub) -> (String, Membership) {
    let membership = match hub.store() {
        Store::Embedded(_) => Membership::One,
        Store::Scylla(_) => Membership::Nodes,
    };
    (hub.store().deployment().id.to_string(), membership)
}

/// The positions that the store keeps; on a cluster the group keeps them alone.
fn stored_positions(store: &Store) -> Option<StoredPosition> {
    let Store::Embedded(store) = store else { return None };
    let store = store.clone();
    Some(Box::new(move |lane| {
        let lanes = store.load_lanes().map_err(|_| StoredUnavailable)?;
        Ok(lanes.into_iter().find(|(name, _)| name == lane).map(|(_, position)| position))
    }))
}

/// How producers' records are judged.
pub(super) fn rules_of(kafka: &KafkaConfig, config: &Config) -> DecodeRules {
    let rules = DecodeRules::new(&kafka.topic_prefix, &config.type_prefix).with_max_payload(config.limits.max_payload);
    if kafka.accept_underscore_headers { rules.accept_underscore_headers() } else { rules }
}

/// Warns of each topic whose records outlive the ids of their events, once, until the sender goes.
fn compare_retention(settings: KafkaSettings, ids: Duration) -> Result<Sender<()>, HubError> {
    let (stop, stopped) = bounded::<()>(1);
    let compare = move || {
        let mut told = BTreeSet::new();
        loop {
            let pause = match topic_retentions(&settings) {
                Ok(topics) => {
                    for topic in outlived(&topics, ids) {
                        if told.insert(topic.topic.clone()) {
                            tracing::warn!(topic = topic.topic, "{topic}");
                        }
                    }
                    COMPARE
                }
                Err(error) => {
                    tracing::debug!(%error, "the topics' retention is not known");
                    COMPARE_AGAIN
                }
            };
            if !matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                return;
            }
        }
    };
    let spawned = std::thread::Builder::new().name("kafka-retention".to_owned()).spawn(compare);
    spawned.map_err(kafka::StartError::Thread)?;
    Ok(stop)
}

/// Stores letters as they come, those that wait together in one commit; ends with the tap.
fn store_letters(queries: &Queries, letters: &Receiver<TappedLetter>) {
    while let Ok(first) = letters.recv() {
        let batch: Vec<TappedLetter> = std::iter::once(first).chain(letters.try_iter()).collect();
        let records: Vec<_> = batch.iter().map(|tapped| tapped.letter.clone()).collect();
        while futures_lite::future::block_on(queries.put_producer_dead_letters(&records, None)).is_err() {
            std::thread::sleep(limits::STORE_RETRY_MAX.to_std());
            if letters.is_disconnected() {
                return;
            }
        }
        batch.into_iter().for_each(TappedLetter::stored);
    }
}
