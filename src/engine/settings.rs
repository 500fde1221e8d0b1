//! What a shard is told when it is made.

use crate::engine::autodisable::AutoDisable;
use crate::types::{Duration, ShardId, limits};

/// Fixed for the life of a shard.
#[derive(Clone, Debug)]
pub struct ShardSettings {
    /// Which shard this is.
    pub shard: ShardId,
    /// How many shards the process has.
    pub shards: u16,
    /// How many slots the deployment has.
    pub slots: u16,
    /// The deployment's salt for dedup keys.
    pub dedup_salt: [u8; 16],
    /// Seeds all randomness of the engine.
    pub seed: u64,
    /// Attempts in flight at most, 1 to [`limits::ATTEMPTS_PER_SHARD_MAX`].
    pub attempts_max: u32,
    /// When failing destinations are disabled.
    pub auto_disable: AutoDisable,
    /// How long payloads are kept.
    pub payload_retention: Duration,
    /// Reclaims beyond which a job that ran alone is poison.
    pub poison_threshold: u32,
    /// How it holds its slots.
    pub tenure: Tenure,
    /// Bounds of memory.
    pub bounds: Bounds,
}

/// How a shard holds its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenure {
    /// All that fall to it, from its beginning, and nobody else is at work on them: the store's lock proves every
    /// former owner dead. The shard numbers events itself.
    Sole,
    /// Slot by slot, each a lane of its own whose offsets number the events, and only while [`super::Input::Lease`]
    /// says so. A former owner's attempts may still be under way, and its last rows on their way.
    Leased {
        /// A lane's position is told this long after all before it became durable: a server that acknowledges before
        /// it syncs may lose that much with all its replicas.
        sync_grace: Duration,
    },
}

/// The bounds of a shard's memory; tests make them small.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Jobs of one subscription in memory.
    pub queue_head_jobs: usize,
    /// A queue below this many jobs is filled again from the log.
    pub queue_refill_below: usize,
    /// Jobs in memory.
    pub shard_jobs: usize,
    /// Jobs of one tenant in memory.
    pub tenant_jobs: usize,
    /// Bytes of events in memory.
    pub event_bytes: usize,
    /// Arrivals that wait for admission, in events.
    pub admission_events: usize,
    /// Arrivals that wait for admission, in bytes.
    pub admission_bytes: usize,
    /// Records of one lane that are read and not settled.
    pub lane_open_records: usize,
    /// A paused lane resumes below this many.
    pub lane_resume_below: usize,
    /// Bytes of the dedup window.
    pub dedup_bytes: usize,
    /// Rows of one slot's batch.
    pub batch_rows: usize,
    /// Bytes of one slot's batch.
    pub batch_bytes: usize,
    /// Retries nearer than this stay in memory.
    pub near_future: Duration,
    /// A job open longer than this is covered by a row.
    pub tail_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            queue_head_jobs: limits::QUEUE_HEAD_JOBS,
            queue_refill_below: limits::QUEUE_REFILL_BELOW,
            shard_jobs: limits::SHARD_JOBS_MAX,
            tenant_jobs: limits::TENANT_JOBS_MAX,
            event_bytes: limits::SHARD_EVENT_BYTES,
            admission_events: limits::ADMISSION_MAX_EVENTS,
            admission_bytes: limits::ADMISSION_MAX_BYTES,
            lane_open_records: limits::LANE_OPEN_RECORDS,
            lane_resume_below: limits::LANE_RESUME_BELOW,
            dedup_bytes: limits::DEDUP_BYTES,
            batch_rows: limits::BATCH_MAX_ROWS,
            batch_bytes: limits::BATCH_MAX_BYTES,
            near_future: limits::NEAR_FUTURE,
            tail_max: limits::TAIL_MAX,
        }
    }
}
