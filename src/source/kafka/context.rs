//! What the client calls back with, gathered for the consumer's loop to take up in its own time.
//!
//! A rebalance is not carried out inside the callback: the loop needs the consumer itself for that, and must wait
//! for the shards. Only while closing, when no loop is left, is it answered on the spot.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, TopicPartitionList};

/// Topic and partition.
pub(super) type Partition = (String, i32);

/// What happened since the loop last looked, in order.
#[derive(Debug)]
pub(super) enum Happening {
    /// The group gives these partitions to this process.
    Assign(Vec<Partition>),
    /// The group takes these partitions away: all of them, unless it is cooperative.
    Revoke(Vec<Partition>),
    /// A commit ended: each partition's position, or the error.
    Committed(Vec<(Partition, Result<u64, String>)>),
    /// The client reports an error, in its own words; it goes on trying by itself.
    Failed(RDKafkaErrorCode, String),
}

/// The context of one client.
#[derive(Debug, Default)]
pub(super) struct Context {
    happenings: Mutex<Vec<Happening>>,
    closing: AtomicBool,
}

impl Context {
    /// What happened since the last call.
    pub(super) fn take(&self) -> Vec<Happening> {
        std::mem::take(&mut *self.happenings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on rebalances are agreed to at once: nobody will look.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    fn note(&self, happening: Happening) {
        self.happenings.lock().unwrap_or_else(PoisonError::into_inner).push(happening);
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::warn!(facility, message, "kafka client");
            }
            RDKafkaLogLevel::Warning | RDKafkaLogLevel::Notice => tracing::info!(facility, message, "kafka client"),
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => tracing::debug!(facility, message, "kafka client"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::info!(%error, reason, "kafka client error");
        if let Some(code) = error.rdkafka_error_code() {
            self.note(Happening::Failed(code, reason.to_owned()));
        }
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, code: RDKafkaRespErr, list: &mut TopicPartitionList) {
        if self.closing.load(Ordering::Acquire) {
            if let Err(error) = consumer.unassign() {
                tracing::info!(%error, "kafka unassign while closing");
            }
            return;
        }
        let is_assignment = code == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        let partitions = partitions(list);
        self.note(if is_assignment { Happening::Assign(partitions) } else { Happening::Revoke(partitions) });
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        let whole = result.map_err(|error| error.to_string());
        let outcome = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            whole.clone()?;
            element.error().map_err(|error| error.to_string())?;
            element.offset().to_raw().and_then(|raw| u64::try_from(raw).ok()).ok_or_else(|| "no offset".to_owned())
        };
        let elements = offsets.elements();
        let each = elements.iter().map(|element| ((element.topic().to_owned(), element.partition()), outcome(element)));
        self.note(Happening::Committed(each.collect()));
    }
}

/// The topics and partitions of a list.
fn partitions(list: &TopicPartitionList) -> Vec<Partition> {
    list.elements().iter().map(|element| (element.topic().to_owned(), element.partition())).collect()
}
