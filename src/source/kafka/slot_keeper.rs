//! Looks after the slot topic: how far the slots' owners are behind what came in, and what may be deleted.
//!
//! Nodes that take events in ask how far the owners are: above a bound nothing more comes in, so that a cluster whose store is
//! away does not fill its brokers' disks. Nothing in the topic expires by itself; what the owners have committed is deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use super::consumer::StartError;
use super::inquiry::{administrator, patience};
use super::settings::KafkaSettings;
use super::topic::SlotTopic;
use crate::types::limits;

/// The handle on the keeper's thread, which ends with it.
#[derive(Debug)]
pub struct SlotKeeper {
    _stop: flume::Sender<()>,
    lag: SlotLag,
}

/// Records that came into the slots and are not settled by their owners, as last heard. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SlotLag(Arc<AtomicU64>);

impl SlotLag {
    /// In all slots together; 0 until it is known.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether the keeper deletes what is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletes {
    /// It does: its node owns slots.
    Committed,
    /// It only looks.
    Nothing,
}

impl SlotKeeper {
    /// Starts it. `settings.group` is the group of the slots' owners. Brokers that are down are waited for.
    ///
    /// # Errors
    /// When the client refuses its configuration, or there is no thread.
    pub fn start(settings: KafkaSettings, topic: SlotTopic<'_>, deletes: Deletes) -> Result<Self, StartError> {
        let mut config = settings.connection();
        config.set("group.id", &settings.group).set("client.id", "streaming-hub.keep");
        let client: BaseConsumer = config.create()?;
        let (stop, stopped) = flume::bounded(1);
        let lag = SlotLag::default();
        let (name, slots) = (topic.name.to_owned(), topic.slots);
        let keeping = Keeping { settings, client, name, slots, deletes, lag: lag.clone() };
        let run = move || keeping.run(&stopped);
        std::thread::Builder::new().name("kafka-slots".to_owned()).spawn(run).map_err(StartError::Thread)?;
        Ok(Self { _stop: stop, lag })
    }

    /// How far the owners are behind.
    #[must_use]
    pub fn lag(&self) -> SlotLag {
        self.lag.clone()
    }
}

struct Keeping {
    settings: KafkaSettings,
    client: BaseConsumer,
    name: String,
    slots: u16,
    deletes: Deletes,
    lag: SlotLag,
}

impl Keeping {
    fn run(self, stopped: &flume::Receiver<()>) {
        let mut looks: u32 = 0;
        loop {
            match self.look() {
                Ok(committed) if self.deletes == Deletes::Committed && looks >= limits::SLOT_DELETE_LOOKS => {
                    looks = 0;
                    if let Err(error) = self.delete_before(&committed) {
                        tracing::warn!(error, "committed records of the slot topic are not deleted; it is tried again");
                    }
                }
                Ok(_) => looks += 1,
                Err(error) => tracing::debug!(%error, "how far the slots' owners are is not known"),
            }
            if stopped.recv_timeout(limits::SLOT_LAG_LOOK.to_std()) != Err(flume::RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// Notes the lag; the committed offsets.
    fn look(&self) -> Result<TopicPartitionList, KafkaError> {
        let timeout = limits::KAFKA_REQUEST_TIMEOUT.to_std();
        let committed = self.client.committed_offsets(self.partitions(Offset::Invalid)?, timeout)?;
        let ends = self.client.offsets_for_times(self.partitions(Offset::End)?, timeout)?;
        let mut lag = 0;
        for element in committed.elements() {
            let end = ends.find_partition(element.topic(), element.partition()).map(|end| number(end.offset()));
            lag += end.unwrap_or(0).saturating_sub(number(element.offset()));
        }
        self.lag.0.store(lag, Ordering::Relaxed);
        Ok(committed)
    }

    fn partitions(&self, offset: Offset) -> Result<TopicPartitionList, KafkaError> {
        let mut list = TopicPartitionList::with_capacity(self.slots.into());
        for slot in 0..self.slots {
            list.add_partition_offset(&self.name, slot.into(), offset)?;
        }
        Ok(list)
    }

    fn delete_before(&self, committed: &TopicPartitionList) -> Result<(), String> {
        let mut list = TopicPartitionList::new();
        for element in committed.elements().iter().filter(|element| number(element.offset()) > 0) {
            let added = list.add_partition_offset(element.topic(), element.partition(), element.offset());
            added.map_err(|error| error.to_string())?;
        }
        if list.count() == 0 {
            return Ok(());
        }
        let client = administrator(&self.settings).map_err(|error| error.to_string())?;
        let options = patience(limits::KAFKA_REQUEST_TIMEOUT);
        let deleted = futures_lite::future::block_on(client.delete_records(&list, &options));
        deleted.map(drop).map_err(|error| error.to_string())
    }
}

/// An offset that is one; 0 where nothing was committed.
fn number(offset: Offset) -> u64 {
    match offset {
        Offset::Offset(offset) => u64::try_from(offset).unwrap_or(0),
        Offset::Beginning | Offset::End | Offset::Stored | Offset::Invalid | Offset::OffsetTail(_) => 0,
    }
}
