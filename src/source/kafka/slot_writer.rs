//! Into the hub's own topic, whose partitions are the slots: acknowledged by all in-sync replicas is durable.
//!
//! One idempotent producer a process. Records of one slot keep their order, also where the client sends again; it does so
//! until they are acknowledged, however long that takes. A full queue is told at once, and nothing is kept here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};

use super::consumer::StartError;
use super::settings::KafkaSettings;
use crate::types::{Duration, Slot, Time, limits};

/// Told once what became of a record: its offset, or why it can never be written.
pub type Receipt = Box<dyn FnOnce(Result<u64, Unwritable>) + Send + Sync>;

/// The brokers will not take this record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the slot topic does not take the record: {0}")]
pub struct Unwritable(pub String);

/// A record that was not taken in: the queue is full.
pub struct Full(pub Receipt);

/// The producer. Cheap to clone.
#[derive(Clone)]
pub struct SlotWriter(Arc<Inner>);

struct Inner {
    producer: ThreadedProducer<Deliveries>,
    topic: String,
    clock: fn() -> Time,
}

/// What the client calls back with, on a thread of its own.
struct Deliveries {
    /// Records sent and not acknowledged.
    open: AtomicU64,
    /// Since when no record has been acknowledged though some were open, in microseconds.
    silent_since: AtomicU64,
    clock: fn() -> Time,
}

impl ClientContext for Deliveries {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::info!(%error, reason, "kafka producer error");
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Receipt>;

    fn delivery(&self, result: &DeliveryResult<'_>, receipt: Box<Receipt>) {
        self.open.fetch_sub(1, Ordering::AcqRel);
        self.silent_since.store((self.clock)().0, Ordering::Release);
        let told = match result {
            Ok(message) => Ok(u64::try_from(message.offset()).unwrap_or_default()),
            Err((error, _)) => Err(Unwritable(error.to_string())),
        };
        receipt(told);
    }
}

impl SlotWriter {
    /// Starts the producer. Brokers that are down are no error.
    ///
    /// # Errors
    /// When the client refuses its configuration.
    pub fn start(settings: &KafkaSettings, topic: &str, clock: fn() -> Time) -> Result<Self, StartError> {
        let mut config = settings.connection();
        for (key, value) in FIXED {
            config.set(*key, *value);
        }
        config.set("queue.buffering.max.messages", limits::SLOT_WRITER_RECORDS.to_string());
        config.set("queue.buffering.max.kbytes", (limits::SLOT_WRITER_BYTES / 1024).to_string());
        config.set("message.max.bytes", limits::SLOT_RECORD_MAX_BYTES.to_string());
        let deliveries = Deliveries { open: AtomicU64::new(0), silent_since: AtomicU64::new(clock().0), clock };
        let producer = config.create_with_context(deliveries)?;
        Ok(Self(Arc::new(Inner { producer, topic: topic.to_owned(), clock })))
    }

    /// Sends a record of `slot`, keyed by its tenant. Never waits; `receipt` is called on a thread of the client, and
    /// must not block.
    ///
    /// # Errors
    /// [`Full`] gives the receipt back: nothing was sent.
    pub fn send(&self, slot: Slot, tenant: &str, value: &[u8], receipt: Receipt) -> Result<(), Full> {
        let deliveries = self.0.producer.context();
        if deliveries.open.fetch_add(1, Ordering::AcqRel) == 0 {
            deliveries.silent_since.store((self.0.clock)().0, Ordering::Release);
        }
        let record = BaseRecord::with_opaque_to(&self.0.topic, Box::new(receipt))
            .partition(i32::from(slot.0))
            .key(tenant)
            .payload(value);
        let Err((error, record)) = self.0.producer.send(record) else { return Ok(()) };
        deliveries.open.fetch_sub(1, Ordering::AcqRel);
        let receipt = *record.delivery_opaque;
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageSizeTooLarge) => receipt(Err(Unwritable(error.to_string()))),
            _ => return Err(Full(receipt)),
        }
        Ok(())
    }

    /// How long records have waited with none acknowledged; zero while none waits.
    #[must_use]
    pub fn silent_for(&self) -> Duration {
        let deliveries = self.0.producer.context();
        if deliveries.open.load(Ordering::Acquire) == 0 {
            return Duration::ZERO;
        }
        (self.0.clock)().since(Time(deliveries.silent_since.load(Ordering::Acquire)))
    }

    /// Waits until all is acknowledged, at most `limit`; whether it is.
    #[must_use]
    pub fn flush(&self, limit: Duration) -> bool {
        self.0.producer.flush(limit.to_std()).is_ok()
    }
}

/// What is not up to the operator.
const FIXED: &[(&str, &str)] = &[
    ("acks", "all"),
    ("enable.idempotence", "true"),
    // The client tries for ever: whoever cannot wait answers 503, and a lane stands still.
    ("message.timeout.ms", "0"),
    ("linger.ms", "1"),
    ("batch.num.messages", "10000"),
    ("compression.type", "none"),
    ("socket.keepalive.enable", "true"),
    ("reconnect.backoff.max.ms", "5000"),
    ("allow.auto.create.topics", "false"),
];
