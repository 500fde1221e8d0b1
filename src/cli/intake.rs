//! Kafka in, as `serve` starts and stops it: the consumer whose partitions the shards poll, and the tap of the
//! producers' dead-letter topics, whose letters are stored by a thread of their own.

use std::thread::JoinHandle;

use crate::config::{CaCertificate, Config, KafkaConfig, ScramMechanism};
use crate::runtime::channel::{Receiver, bounded};
use crate::runtime::clock::process_time;
use crate::shard::{Hub, HubError};
use crate::source::decode::DecodeRules;
use crate::source::kafka::{
    self, DeadLetterTap, KafkaConsumer, KafkaSettings, LaneBoard, Links, Scram, StoredUnavailable, TappedLetter, Tls,
};
use crate::source::topic::Topics;
use crate::store::Embedded;
use crate::types::{Duration, limits};

/// Alarms waiting; beyond, they are only logged.
const ALARMS: usize = 64;
/// Bytes that the client fetches ahead, of all partitions together.
const PREFETCH_BYTES: usize = 64 * 1024 * 1024;
/// By how many partitions that is divided.
const EXPECTED_PARTITIONS: usize = 64;

/// The running consumers.
pub(super) struct Intake {
    consumer: KafkaConsumer,
    tap: DeadLetterTap,
    letters: JoinHandle<()>,
}

impl Intake {
    /// Starts both consumers. Brokers that are down are waited for.
    pub(super) fn start(kafka: &KafkaConfig, config: &Config, hub: &Hub) -> Result<Self, HubError> {
        let store = hub.store().clone();
        let (alarms, raised) = bounded(ALARMS);
        // Every alarm is logged where it is raised; here nobody waits for them.
        drop(raised);
        let settings = settings_of(kafka, &kafka.group, &store)?;
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
        let settings = settings_of(kafka, &kafka.dlq_group, &store)?;
        let (tap, received) = DeadLetterTap::start(settings, alarms, process_time)?;
        let letters = std::thread::Builder::new()
            .name("dlq-store".to_owned())
            .spawn(move || store_letters(&store, &received))
            .map_err(kafka::StartError::Thread)?;
        Ok(Self { consumer, tap, letters })
    }

    /// What is known of the lanes.
    pub(super) fn lanes(&self) -> LaneBoard {
        self.consumer.board()
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

fn settings_of(kafka: &KafkaConfig, group: &str, store: &Embedded) -> Result<KafkaSettings, HubError> {
    Ok(KafkaSettings {
        brokers: kafka.brokers.join(","),
        group: group.to_owned(),
        topics: Topics::new(&kafka.topic_prefix),
        hub_id: store.record().directory_id.to_string(),
        tls: tls_of(kafka, store)?,
        scram: kafka.scram.as_ref().map(|scram| Scram {
            mechanism: match scram.mechanism {
                ScramMechanism::Sha256 => kafka::ScramMechanism::Sha256,
                ScramMechanism::Sha512 => kafka::ScramMechanism::Sha512,
            },
            username: scram.username.clone(),
            password: scram.password.clone(),
        }),
        prefetch_bytes: PREFETCH_BYTES,
        expected_partitions: EXPECTED_PARTITIONS,
        session_timeout: kafka.session_timeout,
    })
}

/// The client reads authorities from a file: one given as text is laid into the data directory.
fn tls_of(kafka: &KafkaConfig, store: &Embedded) -> Result<Option<Tls>, HubError> {
    if !kafka.tls {
        return Ok(None);
    }
    let path = match &kafka.ca_cert {
        None => return Ok(Some(Tls { ca_file: None })),
        Some(CaCertificate::File(path)) => path.clone(),
        Some(CaCertificate::Pem(pem)) => {
            let path = store.dir().join("kafka-ca.pem");
            std::fs::write(&path, pem).map_err(|source| HubError::File { path: path.clone(), source })?;
            path
        }
    };
    Ok(Some(Tls { ca_file: Some(path.to_string_lossy().into_owned()) }))
}

fn rules_of(kafka: &KafkaConfig, config: &Config) -> DecodeRules {
    let rules = DecodeRules::new(&kafka.topic_prefix, &config.type_prefix).with_max_payload(config.limits.max_payload);
    if kafka.accept_underscore_headers { rules.accept_underscore_headers() } else { rules }
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
