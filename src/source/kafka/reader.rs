//! A partition's records, as its shard polls them.

use std::time::Duration;

use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};

use super::context::Context;
use super::native;
use crate::engine::LaneNumber;
use crate::source::decode::RawRecord;
use crate::types::LaneName;

/// What one poll brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Polled<T> {
    /// The record at `offset`, and what was made of it.
    Record(u64, T),
    /// The client could not fetch; it goes on trying by itself. The position has not moved.
    Fault(String),
}

/// Reads one assigned partition. Sent to its shard and dropped there when the partition is revoked.
pub struct PartitionReader {
    // Configuration.
    name: LaneName,
    topic: Box<str>,
    partition: i32,
    // Links.
    queue: PartitionQueue<Context>,
    out_of_range: flume::Sender<LaneNumber>,
    // State.
    lane: LaneNumber,
    next: u64,
    /// The position is out of range; the consumer has to be told, and will revoke the lane.
    is_lost: bool,
}

/// What a reader is made of, beside the client's queue.
pub(super) struct ReaderParts {
    pub(super) lane: LaneNumber,
    pub(super) name: LaneName,
    pub(super) topic: Box<str>,
    pub(super) partition: i32,
    pub(super) position: u64,
    pub(super) out_of_range: flume::Sender<LaneNumber>,
}

impl std::fmt::Debug for PartitionReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartitionReader").field("name", &self.name).field("next", &self.next).finish_non_exhaustive()
    }
}

impl PartitionReader {
    pub(super) fn new(queue: PartitionQueue<Context>, parts: ReaderParts) -> Self {
        Self {
            name: parts.name,
            topic: parts.topic,
            partition: parts.partition,
            queue,
            out_of_range: parts.out_of_range,
            lane: parts.lane,
            next: parts.position,
            is_lost: false,
        }
    }

    /// Calls `wake`, on a thread of the client, when records come after [`PartitionReader::poll`] has found none.
    /// It must not block. Poll once after setting it: records may have come before.
    pub fn set_wake(&mut self, wake: impl Fn() + Send + Sync + 'static) {
        self.queue.set_nonempty_callback(wake);
    }

    /// The next record, as `judge` sees it, or `None` when nothing has been fetched yet. Never blocks.
    pub fn poll<T>(&mut self, judge: impl FnOnce(&RawRecord<'_>) -> T) -> Option<Polled<T>> {
        if self.is_lost {
            self.tell_out_of_range();
            return None;
        }
        loop {
            match self.queue.poll(Duration::ZERO)? {
                Ok(message) => {
                    let offset = u64::try_from(message.offset()).unwrap_or_default();
                    if offset < self.next {
                        continue;
                    }
                    let judged = judge_message(&self.name, &self.topic, self.partition, &message, judge);
                    drop(message);
                    self.next = offset + 1;
                    return Some(Polled::Record(offset, judged));
                }
                Err(error) => return self.fault(&error),
            }
        }
    }

    /// The position never moves on an error.
    fn fault<T>(&mut self, error: &KafkaError) -> Option<Polled<T>> {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) {
            self.is_lost = true;
            self.tell_out_of_range();
        }
        Some(Polled::Fault(error.to_string()))
    }

    /// A full channel is tried again at the next poll; one report is enough, more do no harm.
    fn tell_out_of_range(&self) {
        let _told_or_again_later = self.out_of_range.try_send(self.lane);
    }
}

fn judge_message<T>(
    name: &LaneName,
    topic: &str,
    partition: i32,
    message: &BorrowedMessage<'_>,
    judge: impl FnOnce(&RawRecord<'_>) -> T,
) -> T {
    let headers = native::headers(message);
    let offset = u64::try_from(message.offset()).unwrap_or_default();
    judge(&RawRecord {
        lane: name,
        topic,
        partition,
        offset,
        headers: &headers,
        key: message.key(),
        payload: message.payload(),
    })
}
