//! Kafka in: one consumer per process, on a thread of its own, whose partitions are polled by the shards.
//!
//! ```text
//! consumer thread ── Assigned{reader, watermark} / Revoked{acknowledge} ──▶ shard p mod N
//!        ▲                                                                    │ reader.poll(now)
//!        └───────── watermark.advance(position), reader's "out of range" ◀────┘
//! ```
//!
//! - A record is copied out of the client's buffer once, by the decoder, on the shard's thread.
//! - What is committed is the shard's own watermark, never the client's position; once a second, again until it
//!   holds, and within bounds when a partition is taken away.
//! - To pause a lane is not to poll its reader: the client stops fetching when its bounded queue is full. Nothing
//!   is sought or resumed, so nothing can be skipped.
//! - The hub decides where to begin ([`start`]); the client never resets an offset by itself.
//! - A lane number is used for one assignment and never again; what a shard says of a revoked lane is ignored.
//! - Errors are waited out for ever; a fatal one makes a new client.
//! - A group has one embedded hub (`ownership`): one that finds another there ends before it reads anything.

mod board;
mod client;
mod consumer;
mod context;
mod group;
mod inquiry;
mod lanes;
mod native;
mod ownership;
mod plan;
mod pump;
mod reader;
mod refusal;
mod retention;
mod settings;
mod slot_keeper;
mod slot_writer;
pub mod start;
mod tap;
mod topic;
mod watermark;

use crate::engine::LaneNumber;
use crate::types::{LaneName, Slot, Time};

pub use board::{LaneBoard, LaneProgress};
pub use consumer::{Closing, KafkaConsumer, Links, StartError, StoredPosition, StoredUnavailable};
pub use inquiry::Unanswered;
pub use ownership::{By, GroupTaken};
pub use reader::{PartitionReader, Polled};
pub use retention::{OutlivedTopic, TopicRetention, outlived, topic_retentions};
pub use settings::{Assignment, Authority, KafkaSettings, MemberList, Membership, Scram, ScramMechanism, Tls};
pub use slot_keeper::{Deletes, SlotKeeper, SlotLag};
pub use slot_writer::{Full, Receipt, SlotWriter, Unwritable};
pub use tap::{DeadLetterTap, TappedLetter};
pub use topic::{SlotTopic, TopicError, TopicMade, check_slot_topic, make_slot_topic};
pub use watermark::LaneWatermark;

/// What the consumer tells the shard that owns a partition.
#[derive(Debug)]
pub enum KafkaEvent {
    /// A partition is this shard's. Poll its reader at once, then whenever it wakes.
    Assigned(AssignedLane),
    /// A partition is taken away: drop its reader, give the watermark its last position, then acknowledge.
    Revoked {
        /// Which.
        lane: LaneNumber,
        /// Takes the lane's number within 10 s; never full.
        acknowledge: flume::Sender<LaneNumber>,
    },
    /// The group has heard of this process: until then nobody else is given what it holds. Told of slots only.
    Lease(Time),
}

/// An assigned partition.
#[derive(Debug)]
pub struct AssignedLane {
    /// This assignment's number.
    pub lane: LaneNumber,
    /// The lane's lasting name.
    pub name: LaneName,
    /// The slot whose own it is.
    pub slot: Option<Slot>,
    /// The first offset that will come.
    pub position: u64,
    /// Its records.
    pub reader: PartitionReader,
    /// What may be committed of it.
    pub watermark: LaneWatermark,
}

/// Something an operator must know. Also logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaAlarm {
    /// Only one of committed and stored position is known.
    OnePositionKnown {
        /// Of which lane.
        lane: LaneName,
        /// Where it begins.
        position: u64,
    },
    /// The position is out of the topic's range: the lane goes on at the nearest record.
    Gap {
        /// Of which lane.
        lane: LaneName,
        /// Where it should have gone on.
        expected: u64,
        /// Where it goes on.
        resumed: u64,
    },
    /// A lane is taken over from the data directory that `kafka.take_over` names.
    TakenOver {
        /// Which lane.
        lane: LaneName,
        /// From which directory.
        hub: String,
    },
    /// Another member is in the group, which is this hub's; until it has given way its partitions are not read here.
    GroupShared {
        /// Who.
        with: String,
    },
    /// More partitions are assigned than the prefetch budget was divided by.
    PrefetchOverBudget {
        /// How many.
        partitions: usize,
    },
    /// The brokers turn this hub away; it goes on trying.
    Refused {
        /// The settings to look at.
        settings: &'static str,
        /// The client's words.
        error: String,
    },
    /// A step failed and is tried again.
    Retrying {
        /// Which.
        step: &'static str,
        /// The client's words.
        error: String,
    },
    /// The client had a fatal error and is made anew.
    Rebuilding {
        /// The client's words.
        error: String,
    },
}

#[cfg(test)]
mod tests;
