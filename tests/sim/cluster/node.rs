//! A node: its engines, the one at work and those that only see their attempts out, and the lanes it reads.

use std::collections::{BTreeMap, VecDeque};

use streaming_hub::engine::{AutoDisable, JobToken, LaneNumber, Shard, ShardSettings, Tenure, Unit};
use streaming_hub::types::{Duration, ShardId, Slot, Time, limits};

use super::scenario::Scenario;
use super::world::Happening;
use crate::config::Config;

/// One life of one node: what is meant for a former life reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    pub node: usize,
    pub generation: u32,
}

/// One engine of one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub life: Life,
    pub engine: u32,
}

/// An engine, and what of it is on its way.
pub struct Engine {
    pub shard: Shard,
    /// It lost a slot: another engine has taken its place.
    pub retired: bool,
    pub wake: Option<Time>,
    /// Wake-ups since it last did or was told anything.
    pub idle_wakes: u32,
    /// The epochs in which it owns its slots.
    pub epochs: BTreeMap<Slot, u64>,
    /// Batches on their way, by the number of their write.
    pub writes: BTreeMap<Unit, u64>,
    pub reads: u32,
}

/// A slot's lane as this node reads it.
pub struct Lane {
    pub slot: Slot,
    pub engine: u32,
    /// The next offset to read.
    pub next: u64,
    /// What may be committed.
    pub position: u64,
    pub paused: bool,
    pub fetching: bool,
}

/// A process, up or down.
#[derive(Default)]
pub struct Node {
    pub generation: u32,
    pub up: bool,
    pub leaving: bool,
    /// It does nothing until then.
    pub stalled_until: Time,
    /// What comes meanwhile.
    pub deferred: VecDeque<Happening>,
    pub engines: BTreeMap<u32, Engine>,
    /// The engine that new slots go to.
    pub current: u32,
    pub lanes: BTreeMap<LaneNumber, Lane>,
    /// In the time of its own clock.
    pub lease_until: Time,
    /// The configuration as far as this node has heard of it.
    pub config: Config,
    /// Attempts in flight: the number of their request.
    pub attempts: BTreeMap<(u32, JobToken), usize>,
}

/// How long payloads are kept.
const PAYLOAD_RETENTION: Duration = Duration::from_hours(96);
/// Attempts in flight per node.
const ATTEMPTS_MAX: u32 = 16;
/// How much later than durable a position may be committed.
const SYNC_GRACE: Duration = Duration::from_secs(3);

impl Node {
    /// Puts a fresh engine to work.
    pub fn begin_engine(&mut self, scenario: &Scenario, life: Life, now: Time) -> Place {
        self.current += 1;
        let settings = ShardSettings {
            shard: ShardId(0),
            shards: 1,
            slots: scenario.slots,
            dedup_salt: [7; 16],
            seed: scenario.seed
                ^ u64::from(life.generation) << 32
                ^ u64::try_from(life.node).unwrap_or(0) << 48
                ^ u64::from(self.current),
            attempts_max: ATTEMPTS_MAX,
            auto_disable: AutoDisable::default(),
            payload_retention: PAYLOAD_RETENTION,
            poison_threshold: limits::POISON_THRESHOLD,
            tenure: Tenure::Leased { sync_grace: SYNC_GRACE },
            bounds: scenario.bounds,
        };
        let engine = Engine {
            shard: Shard::new(settings, now),
            retired: false,
            wake: None,
            idle_wakes: 0,
            epochs: BTreeMap::new(),
            writes: BTreeMap::new(),
            reads: 0,
        };
        self.engines.insert(self.current, engine);
        Place { life, engine: self.current }
    }

    /// The lane that reads a slot.
    pub fn lane_of(&self, slot: Slot) -> Option<(LaneNumber, &Lane)> {
        self.lanes.iter().find(|(_, lane)| lane.slot == slot).map(|(number, lane)| (*number, lane))
    }

    /// Whether nothing of it is on its way anywhere.
    pub fn is_idle(&self) -> bool {
        self.attempts.is_empty() && self.engines.values().all(|engine| engine.writes.is_empty() && engine.reads == 0)
    }
}
