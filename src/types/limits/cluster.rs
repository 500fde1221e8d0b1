//! The bounds of a cluster: its slots and its shared configuration (this engine).

use super::{MIB, PAYLOAD_CEILING_BYTES};
use crate::types::Duration;

/// Slots of a cluster by default, which are the slot topic's partitions: enough for a hundred nodes, few enough that
/// an idle slot's heartbeat costs nothing.
pub const CLUSTER_SLOTS: u16 = 256;
/// Slots of a cluster, at most: each is a partition in Kafka with files and memory of its own.
pub const CLUSTER_SLOTS_MAX: u16 = 4_096;
/// A record of the slot topic, in bytes: the largest payload, and attributes and headers with room to spare.
pub const SLOT_RECORD_MAX_BYTES: usize = PAYLOAD_CEILING_BYTES + MIB;
/// Copies of each of the slot topic's partitions by default: a broker may be lost while another is being restarted.
pub const SLOT_TOPIC_COPIES: u16 = 3;
/// Copies of each of the slot topic's partitions that may be asked for.
pub const SLOT_TOPIC_COPIES_MAX: u16 = 16;
/// Making the slot topic may take the brokers so long: they make hundreds of partitions.
pub const KAFKA_TOPIC_TIMEOUT: Duration = Duration::from_secs(60);
/// Looks for a slot topic that was made just now, a second apart: brokers learn of it from their controller.
pub const KAFKA_TOPIC_LOOKS: u32 = 30;
/// One change of a cluster's configuration, in bytes: a tenant with all objects that the limits allow by default can be
/// deleted in one, and servers take it in one row.
pub const CQL_CHANGE_BYTES: usize = 2 * MIB;
/// Partitions that a cluster's configuration is spread over: a start reads them all.
pub const CQL_CONFIG_BUCKETS: u16 = 256;
/// Changes of the configuration in one partition of their feed, and in one step of a follower.
pub const CQL_FEED_CHUNK: u64 = 64;
/// How long changes stay in the feed: a node away for longer reads all configuration anew.
pub const CQL_FEED_KEPT: Duration = Duration::from_hours(24);
/// Tries to make a change whose fate is unknown before that is said: each may wait for an answer twice.
pub const CQL_CHANGE_TRIES: u32 = 3;
/// Between two of them: a broken connection is made anew within that.
pub const CQL_CHANGE_PAUSE: Duration = Duration::from_millis(500);
/// How long it is kept how a command ended: who asked reads it within seconds, or asks again.
pub const COMMAND_RESULT_KEPT: Duration = Duration::from_hours(1);
/// How often a node of a cluster looks for changes of the configuration: they are in force everywhere within a second.
pub const CONFIG_FOLLOW: Duration = Duration::from_millis(250);
/// Times that a change is decided anew because another node's came first.
pub const CONFIG_DECISIONS: u32 = 16;
