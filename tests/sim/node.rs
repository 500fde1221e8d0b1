//! One node: a process with its shards, as far as the world models it.

use std::collections::BTreeMap;

use streaming_hub::engine::{AutoDisable, Shard, ShardSettings, Tenure};
use streaming_hub::engine::{Batch, JobToken, LaneNumber, Unit};
use streaming_hub::types::{Duration, ShardId, Time};

use crate::scenario::Scenario;

/// How long payloads are kept in the simulation.
pub const PAYLOAD_RETENTION: Duration = Duration::from_hours(72 + 24);

/// A process, up or down.
#[derive(Default)]
pub struct Node {
    pub generation: u32,
    pub up: bool,
    pub draining: bool,
    pub shards: Vec<Shard>,
    pub wakes: Vec<Option<Time>>,
    /// Wake-ups since a shard last did or was told anything: after healing, its clock is slow to wake it again.
    pub idle_wakes: Vec<u32>,
    /// Lanes assigned now.
    pub lanes: BTreeMap<LaneNumber, Lane>,
    /// Batches on their way; at most one of a unit.
    pub commits: BTreeMap<(ShardId, Unit), Batch>,
    /// Reads on their way.
    pub reads: u32,
    /// Attempts in flight: the number of their request.
    pub attempts: BTreeMap<(ShardId, JobToken), usize>,
    /// Dies after so many outputs more.
    pub dies_after: Option<u32>,
    /// Wake-ups at one instant, to notice a loop.
    pub wakes_now: (Time, u32),
}

/// A lane that this node reads.
pub struct Lane {
    pub partition: u16,
    pub shard: ShardId,
    /// The next offset to read.
    pub next: u64,
    /// What the engine allows to be committed.
    pub position: u64,
    pub paused: bool,
    /// A fetch is in the heap.
    pub fetching: bool,
}

impl Node {
    /// Starts a new life with fresh shards.
    pub fn boot(&mut self, scenario: &Scenario, now: Time) {
        let generation = self.generation + 1;
        *self = Self { generation, up: true, ..Self::default() };
        let shards = (0..scenario.shards).map(|shard| Shard::new(settings(scenario, ShardId(shard), generation), now));
        self.shards = shards.collect();
        self.wakes = vec![None; self.shards.len()];
        self.idle_wakes = vec![0; self.shards.len()];
    }

    /// The lane that reads `partition`, if one does.
    pub fn lane_of(&self, partition: u16) -> Option<(LaneNumber, &Lane)> {
        self.lanes.iter().find(|(_, lane)| lane.partition == partition).map(|(number, lane)| (*number, lane))
    }
}

/// Attempts in flight per shard.
pub const ATTEMPTS_MAX: u32 = 16;

fn settings(scenario: &Scenario, shard: ShardId, generation: u32) -> ShardSettings {
    ShardSettings {
        shard,
        shards: scenario.shards,
        slots: scenario.slots,
        dedup_salt: [7; 16],
        seed: scenario.seed ^ (u64::from(generation) << 32) ^ u64::from(shard.0),
        attempts_max: ATTEMPTS_MAX,
        auto_disable: AutoDisable::default(),
        payload_retention: PAYLOAD_RETENTION,
        poison_threshold: streaming_hub::types::limits::POISON_THRESHOLD,
        tenure: Tenure::Sole,
        bounds: scenario.bounds,
    }
}
