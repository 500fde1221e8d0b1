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
    self, DeadLetterTap, KafkaConsumer, KafkaSettings, LaneBoard, Links, StoredUnavailable, TappedLetter, outlived,
    topic_retentions,
};
use crate::store::Embedded;
use crate::types::{Duration, limits};

/// Alarms waiting; beyond, they are only logged.
const ALARMS: usize = 64;
/// How often the topics' retention is compared with that of ids.
const COMPARE: std::time::Duration = std::time::Duration::from_secs(600);
/// How soon again while the brokers do not tell.
const COMPARE_AGAIN: std::time::Duration = std::time::Duration::from_secs(30);

/// The running consumers.
pub(super) struct Intake {
    consumer: KafkaConsumer,
    tap: DeadLetterTap,
    letters: JoinHandle<()>,
    /// Ends the comparing thread when it goes.
    _compared: Sender<()>,
}

impl Intake {
    /// Starts both consumers. Brokers that are down are waited for.
    pub(super) fn start(kafka: &KafkaConfig, config: &Config, hub: &Hub) -> Result<Self, HubError> {
        let store = hub.store().clone();
        let (alarms, raised) = bounded(ALARMS);
        // Every alarm is logged where it is raised; here nobody waits for them.
        drop(raised);
        let hub_id = store.record().directory_id.to_string();
        let settings = settings_of(kafka, ("kafka.group", &kafka.group), hub_id.clone());
        let compared = compare_retention(settings.clone(), config.retention.event)?;
        let positions = store.clone();
        let links = Links {
            shards: hub.kafka(),
            alarms: alarms.clone(),
            stored: Some(Box::new(move |lane| {
                let lanes = positions.load_lanes().map_err(|_| StoredUnavailable)?;
                Ok(lanes.into_iter().find(|(name, _)| name == lane).map(|(_, position)| position))
            })),
            clock: process_time,
            rules: rules_of(kafka, config),
        };
        let consumer = KafkaConsumer::start(settings, links)?;
        let settings = settings_of(kafka, ("kafka.dlq_group", &kafka.dlq_group), hub_id);
        let (tap, received) = DeadLetterTap::start(settings, alarms, process_time)?;
        let letters = std::thread::Builder::new()
            .name("dlq-store".to_owned())
            .spawn(move || store_letters(&store, &received))
            .map_err(kafka::StartError::Thread)?;
        Ok(Self { consumer, tap, letters, _compared: compared })
    }

    /// What is known of the lanes.
    pub(super) fn lanes(&self) -> LaneBoard {
        self.consumer.board()
    }

    /// Whether both groups are this hub's.
    ///
    /// # Errors
    /// [`HubError::Group`]: the hub must end.
    pub(super) fn check(&self) -> Result<(), HubError> {
        self.consumer.check()?;
        Ok(self.tap.check()?)
    }

    /// Gives all partitions back and leaves the groups, within `limit`.
    pub(super) fn stop(self, limit: std::time::Duration) {
        let limit = Duration::from_millis(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let consumer = self.consumer.begin_close();
        if !self.tap.close(limit) | !consumer.wait(limit) {
            tracing::warn!("the broker did not answer in time; what is not committed comes again");
        }
        if self.letters.join().is_err() {
            tracing::warn!("the thread that stores producers' dead letters had panicked");
        }
    }
}

fn rules_of(kafka: &KafkaConfig, config: &Config) -> DecodeRules {
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
fn store_letters(store: &Embedded, letters: &Receiver<TappedLetter>) {
    let queries = store.queries();
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
