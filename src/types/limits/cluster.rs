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
/// Records that wait for the slot topic's acknowledgement, in all; beyond, ingest answers 503 and lanes wait.
pub const SLOT_WRITER_RECORDS: usize = 100_000;
/// The same in bytes.
pub const SLOT_WRITER_BYTES: usize = 128 * MIB;
/// An ingest request is answered 503 when its events are not acknowledged by then; they may be stored nevertheless, and
/// sent again they are found by their ids.
pub const SLOT_WRITER_PATIENCE: Duration = Duration::from_secs(10);
/// Ingest answers 503 at once when the slot topic has acknowledged nothing for so long though records wait.
pub const SLOT_WRITER_SILENCE: Duration = Duration::from_secs(3);
/// The first look for the result of a command that another node executes comes after this.
pub const COMMAND_LOOK_MIN: Duration = Duration::from_millis(20);
/// The pause between looks doubles up to this.
pub const COMMAND_LOOK_MAX: Duration = Duration::from_millis(250);
/// Looks for a command's result, about ten seconds in all; then the API answers 503.
pub const COMMAND_LOOKS: u32 = 43;
/// A position in a slot is told to the group this long after all before it became durable: the servers of a cluster
/// sync their commit log every 10 s by default, and may lose what came after with all replicas at once.
pub const SYNC_GRACE: Duration = Duration::from_secs(15);
/// A slot that is to go back to the group is given back when its attempts have ended, at the latest after this: the whole
/// group waits for it. The rest of them run on as claims, whose outcomes the next owner looks for each second.
pub const SLOT_RELEASE_PATIENCE: Duration = Duration::from_secs(1);
/// Nodes that hold slots on a lease have no shorter session timeout: a lease is that less a margin, told each second.
pub const LEASE_SESSION_TIMEOUT_MIN: Duration = Duration::from_secs(10);
/// A lease on slots ends this much before the group's session timeout: for clocks that do not run alike, and for what
/// was decided a moment before.
pub const KAFKA_LEASE_MARGIN: Duration = Duration::from_secs(5);
/// How often a node asks how far the slots' owners are behind what came in.
pub const SLOT_LAG_LOOK: Duration = Duration::from_secs(2);
/// What the owners have committed is deleted after so many looks: once a minute.
pub const SLOT_DELETE_LOOKS: u32 = 30;
/// Records in all slots that are not settled, beyond which nothing more is taken in, by default.
pub const SLOT_LAG_MAX: u64 = 1_000_000;
/// How often the owner of slots is heard of by its group.
pub const SLOT_HEARTBEAT: Duration = Duration::from_secs(1);
/// A shard has a batch on its way for one in so many of its slots, the others' rows gather: under full load each request
/// then carries the rows of several events.
pub const SLOTS_PER_BATCH: usize = 8;
/// The least number of batches on their way at once: while one is answered, another is worked on.
pub const BATCHES_AT_ONCE_MIN: usize = 2;
/// A batch that is on its way for longer holds back no other slot's.
pub const BATCH_SLOW: Duration = Duration::from_millis(100);
/// Copies of each row that may be asked for: more nodes than a datacenter has are refused, too.
pub const CQL_REPLICATION_MAX: u32 = 16;
