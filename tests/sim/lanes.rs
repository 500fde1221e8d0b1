//! The log's consumer, as a model: lanes come and go, records are read, positions committed.

use streaming_hub::engine::{Input, LaneNumber};
use streaming_hub::types::{Duration, ShardId, TenantId};
use uuid::Uuid;

use crate::checks::Rule;
use crate::faults::Fault;
use crate::happening::{Happening, Life, Place};
use crate::log::{Written, decode, lane_name};
use crate::node::Lane;
use crate::world::World;

impl World {
    /// A lane is assigned to its shard: from the smaller of committed and stored position, or the one known.
    pub fn assign(&mut self, life: Life, partition: u16) {
        if !self.lives(life) || self.nodes[life.node].draining || self.nodes[life.node].lane_of(partition).is_some() {
            return;
        }
        self.lanes_numbered += 1;
        let number = LaneNumber(self.lanes_numbered);
        let committed = self.partitions[usize::from(partition)].committed;
        let stored = self.store.lane(&lane_name(partition));
        let position = committed.into_iter().chain(stored).min().unwrap_or(0);
        let shard = ShardId(partition % self.scenario.shards);
        let lane = Lane { partition, shard, next: position, position, paused: false, fetching: false };
        self.nodes[life.node].lanes.insert(number, lane);
        let name = lane_name(partition);
        self.input(Place { life, shard }, Input::LaneAssigned { lane: number, name, position });
        self.fetch_soon(life, number);
    }

    /// A lane leaves, its position committed, and comes back later.
    pub fn rebalance(&mut self) {
        let Some(life) = self.life(0).filter(|_| !self.healed && !self.nodes[0].draining) else { return };
        let partition = self.rng.u16(0..self.scenario.partitions);
        let Some((number, lane)) = self.nodes[0].lane_of(partition) else { return };
        let shard = lane.shard;
        let place = Place { life, shard };
        if let Some(position) = self.nodes[0].shards[usize::from(shard.0)].lane_position(number) {
            self.position(place, number, position);
        }
        self.commit_all_positions(life);
        self.nodes[0].lanes.remove(&number);
        self.input(Place { life, shard }, Input::LaneRevoked(number));
        let away = Duration::from_millis(self.rng.u64(0..5_000));
        self.after(away, Happening::Assign(life, partition));
    }

    /// Lets the lane's reader look soon, unless it already will.
    pub fn fetch_soon(&mut self, life: Life, number: LaneNumber) {
        let delay = Duration::from_micros(self.rng.u64(0..30_000));
        let Some(lane) = self.nodes[life.node].lanes.get_mut(&number) else { return };
        let waits = self.partitions[usize::from(lane.partition)].next(lane.next).is_some();
        if waits && !lane.paused && !lane.fetching {
            lane.fetching = true;
            self.after(delay, Happening::Fetch(life, number));
        }
    }

    /// The reader hands a few records to the engine.
    pub fn fetch(&mut self, life: Life, number: LaneNumber) {
        if !self.lives(life) {
            return;
        }
        if let Some(lane) = self.nodes[life.node].lanes.get_mut(&number) {
            lane.fetching = false;
        }
        for _ in 0..self.rng.u32(1..=6) {
            if !self.fetch_one(life, number) {
                return;
            }
        }
        self.fetch_soon(life, number);
    }

    fn fetch_one(&mut self, life: Life, number: LaneNumber) -> bool {
        if !self.lives(life) {
            return false;
        }
        let now = self.now;
        let Some(lane) = self.nodes[life.node].lanes.get_mut(&number).filter(|lane| !lane.paused) else { return false };
        let (partition, shard) = (lane.partition, lane.shard);
        let Some((offset, written)) = self.partitions[usize::from(partition)].next(lane.next) else { return false };
        lane.next = offset + 1;
        let record = decode(written, partition, *offset, now);
        let offset = *offset;
        self.input(Place { life, shard }, Input::Record { lane: number, offset, record });
        true
    }

    /// The engine stops or resumes a lane.
    pub fn pause(&mut self, place: Place, number: LaneNumber, paused: bool) {
        if let Some(lane) = self.nodes[place.life.node].lanes.get_mut(&number) {
            lane.paused = paused;
            self.fetch_soon(place.life, number);
        }
    }

    /// The engine says how far a lane may be committed.
    pub fn position(&mut self, place: Place, number: LaneNumber, said: u64) {
        let leaps = self.fault == Some(Fault::Leapfrog) && said % 5 == 3;
        let position = if leaps { said + 3 } else { said };
        let Some(lane) = self.nodes[place.life.node].lanes.get_mut(&number) else {
            return self.checks.fail(Rule::Terms, format!("{number:?} is not assigned, but has a position"));
        };
        let rises = position >= lane.position && lane.shard == place.shard;
        let from = lane.position;
        lane.position = position;
        let partition = lane.partition;
        self.checks.expect(rises, Rule::Terms, || format!("{number:?} falls from {from} to {position}"));
        self.check_position(partition, from, position);
    }

    /// All records of a partition between two positions are durable, dropped or quarantined.
    pub fn check_position(&mut self, partition: u16, from: u64, to: u64) {
        let index = usize::from(partition);
        let passed = self.partitions[index].records.iter().filter(|(offset, _)| (from..to).contains(offset));
        let unsafe_ones = passed.filter(|(offset, written)| match written {
            Written::Nothing | Written::Command(_) => false,
            Written::Malformed => !self.checks.quarantined.contains(&(i32::from(partition), *offset)),
            Written::Event(plan) => {
                let quarantined = self.checks.quarantined.contains(&(i32::from(partition), *offset));
                !(self.checks.is_durable(&plan.tenant, plan.id) || plan.unstorable && quarantined)
            }
        });
        let first = unsafe_ones.map(|(offset, _)| *offset).next();
        let beyond = to > self.partitions[index].end();
        self.checks.expect(first.is_none() && !beyond, Rule::Position, || {
            format!("partition {partition} may be committed up to {to}, but {first:?} is not durable")
        });
    }

    /// The group's positions are committed, now and then.
    pub fn commit_positions(&mut self, life: Life) {
        if !self.lives(life) {
            return;
        }
        self.commit_all_positions(life);
        let pause = Duration::from_millis(self.rng.u64(500..3_000));
        // Nothing changes by itself after healing: a look at the end of the run suffices.
        let pause = if self.healed { pause.times(600) } else { pause };
        self.after(pause, Happening::CommitPositions(life));
    }

    /// Commits what the engine allows.
    pub fn commit_all_positions(&mut self, life: Life) {
        for lane in self.nodes[life.node].lanes.values() {
            self.partitions[usize::from(lane.partition)].committed = Some(lane.position);
        }
    }

    /// Tenant and id of the event at a lane's offset; absent when the lane is not assigned any more.
    pub fn events_at(&self, number: LaneNumber, offset: u64) -> Option<Vec<(TenantId, Uuid)>> {
        let partition = self.nodes.iter().find_map(|node| node.lanes.get(&number))?.partition;
        Some(match self.partitions[usize::from(partition)].next(offset) {
            Some((_, Written::Event(plan))) => vec![(plan.tenant.clone(), plan.id)],
            Some((_, Written::Nothing | Written::Malformed | Written::Command(_))) | None => Vec::new(),
        })
    }
}
