//! The second consumer: reads the producers' `.dlq` topics, for observation only.
//!
//! It stands on the first one: its own group, one "shard" that is a thread of its own, and a bounded channel of
//! letters. While the channel is full the partitions are not polled. A position is committed once what lies before
//! it has been stored.

use std::collections::BTreeMap;

use super::consumer::{KafkaConsumer, Links, StartError};
use super::{GroupTaken, KafkaAlarm, KafkaEvent, KafkaSettings, LaneWatermark, PartitionReader, Polled};
use crate::engine::LaneNumber;
use crate::source::dead_letter::dead_letter;
use crate::types::{Duration, ProducerDeadLetter, Time, limits};

/// A producer's dead letter to be stored.
#[derive(Debug)]
pub struct TappedLetter {
    /// What it says.
    pub letter: ProducerDeadLetter,
    watermark: LaneWatermark,
}

impl TappedLetter {
    /// It is durable: its position may be committed. To be called in the order in which letters came.
    pub fn stored(self) {
        self.watermark.advance(self.letter.offset + 1);
    }
}

/// The handle on the tap.
#[derive(Debug)]
pub struct DeadLetterTap {
    consumer: KafkaConsumer,
}

impl DeadLetterTap {
    /// Starts it. `settings.group` is the tap's own group (`streaming-hub-dlq` by default). Letters come over the
    /// receiver, which holds at most 256.
    ///
    /// # Errors
    /// When the client refuses its configuration, or there is no thread.
    pub fn start(
        settings: KafkaSettings,
        alarms: flume::Sender<KafkaAlarm>,
        clock: fn() -> Time,
    ) -> Result<(Self, flume::Receiver<TappedLetter>), StartError> {
        let (letters, received) = flume::bounded(limits::TAP_LETTERS_MAX);
        let (events, incoming) = flume::bounded(limits::TAP_LETTERS_MAX);
        let links = Links { shards: vec![events], alarms, stored: None, clock };
        let tap = Tap { incoming, letters, clock, lanes: BTreeMap::new() };
        std::thread::Builder::new()
            .name("kafka-dlq".to_owned())
            .spawn(move || tap.run())
            .map_err(StartError::Thread)?;
        let consumer = KafkaConsumer::start(settings, links)?;
        Ok((Self { consumer }, received))
    }

    /// As [`KafkaConsumer::check`].
    ///
    /// # Errors
    /// [`GroupTaken`] once.
    pub fn check(&self) -> Result<(), GroupTaken> {
        self.consumer.check()
    }

    /// Commits what was stored and leaves the group; whether that was done within `limit`.
    #[must_use]
    pub fn close(self, limit: Duration) -> bool {
        self.consumer.begin_close().wait(limit)
    }
}

struct Tap {
    incoming: flume::Receiver<KafkaEvent>,
    letters: flume::Sender<TappedLetter>,
    clock: fn() -> Time,
    lanes: BTreeMap<LaneNumber, (PartitionReader, LaneWatermark)>,
}

impl Tap {
    /// Ends with its consumer, which drops the channel, or with the reader of the letters.
    fn run(mut self) {
        while !self.letters.is_disconnected() {
            match self.incoming.recv_timeout(limits::KAFKA_TURN.to_std()) {
                Ok(event) => self.take(event),
                Err(flume::RecvTimeoutError::Timeout) => {}
                Err(flume::RecvTimeoutError::Disconnected) => return,
            }
            self.read();
        }
    }

    fn take(&mut self, event: KafkaEvent) {
        match event {
            KafkaEvent::Assigned(assigned) => {
                self.lanes.insert(assigned.lane, (assigned.reader, assigned.watermark));
            }
            KafkaEvent::Revoked { lane, acknowledge } => {
                self.lanes.remove(&lane);
                let _consumer_may_have_given_up = acknowledge.try_send(lane);
            }
            KafkaEvent::Lease(_) => {}
        }
    }

    /// Reads what there is while there is room, in turns over the partitions. Only this thread sends letters, so
    /// room seen is room left.
    fn read(&mut self) {
        let mut has_more = true;
        while has_more {
            has_more = false;
            for (reader, watermark) in self.lanes.values_mut() {
                if self.letters.is_full() {
                    return;
                }
                let now = (self.clock)();
                match reader.poll(|record| dead_letter(record, now)) {
                    Some(Polled::Record(_, letter)) => {
                        has_more = true;
                        let tapped = TappedLetter { letter, watermark: watermark.clone() };
                        let _reader_may_have_ended = self.letters.try_send(tapped);
                    }
                    Some(Polled::Fault(error)) => tracing::info!(error, "kafka dead letters"),
                    None => {}
                }
            }
        }
    }
}
