//! The group and its members: who owns a slot, how its lane is read, and how far it is committed.

use streaming_hub::engine::{Input, LaneNumber};
use streaming_hub::types::{Duration, Slot, Time};

use super::faults::Fault;
use super::group::Order;
use super::node::{Lane, Life, Node, Place};
use super::world::{Happening, Way, World};
use crate::log::{decode, lane_name};
use crate::scenario::chance;

impl World {
    /// A process becomes a member.
    pub fn joins(&mut self, life: Life) {
        self.group.join(life, self.now);
        self.group.shift = self.rng.usize(0..4);
        self.rebalance();
    }

    /// A member's positions are committed.
    pub fn heard(&mut self, life: Life, sent_at: Time, positions: &[(Slot, u64)]) {
        if !self.group.knows(life) {
            return self.message(life, Way::FromGroup, Happening::Expelled(life));
        }
        self.group.heard(life, self.now);
        self.commit_positions(life, positions);
        self.message(life, Way::FromGroup, Happening::Acknowledged(life, sent_at));
    }

    fn commit_positions(&mut self, life: Life, positions: &[(Slot, u64)]) {
        for (slot, position) in positions {
            if self.group.owner(*slot) == Some(life) {
                self.topic[usize::from(slot.0)].committed = Some(*position);
            }
        }
    }

    /// A member gives slots back.
    pub fn given_back(&mut self, life: Life, positions: &[(Slot, u64)]) {
        self.commit_positions(life, positions);
        for (slot, _) in positions {
            self.group.give_back(life, *slot);
        }
        self.rebalance();
    }

    /// A member goes.
    pub fn left(&mut self, life: Life, positions: &[(Slot, u64)]) {
        self.commit_positions(life, positions);
        self.group.leave(life);
        self.rebalance();
    }

    /// Looks for members that are gone.
    pub fn sessions(&mut self) {
        for life in self.group.silent(self.now) {
            if !self.healed || !self.lives(life) {
                self.say(format_args!("the group has not heard of {life:?}"));
                self.group.leave(life);
            }
        }
        self.rebalance();
        let pause = if self.healed { Duration::from_secs(5) } else { Duration::from_millis(500) };
        self.after(pause, Happening::Sessions);
    }

    fn rebalance(&mut self) {
        for (life, order) in self.group.rebalance(self.scenario.slots) {
            let happening = match order {
                Order::Assign(slot) => {
                    let position = self.topic[usize::from(slot.0)].committed.unwrap_or(0);
                    Happening::Assigned(life, slot, position)
                }
                Order::Revoke(slots) => Happening::Revoked(life, slots),
            };
            self.message(life, Way::FromGroup, happening);
        }
    }

    /// A second has passed: positions are committed, and that is the sign of life.
    pub fn heartbeat(&mut self, life: Life) {
        let node = &self.nodes[life.node];
        let positions: Vec<(Slot, u64)> = node.lanes.values().map(|lane| (lane.slot, lane.position)).collect();
        let sent_at = self.now;
        if self.healed || !chance(&mut self.rng, 5) {
            self.message(life, Way::ToGroup, Happening::Heard(life, sent_at, positions));
        }
        let pause = if self.healed && node_is_leased_for_ever(&self.nodes[life.node]) { 60 } else { 1 };
        if !self.nodes[life.node].leaving {
            self.after(Duration::from_secs(pause), Happening::Heartbeat(life));
        }
    }

    /// The group has heard: the lease holds longer.
    pub fn acknowledged(&mut self, life: Life, sent_at: Time) {
        let until = self.lease(life.node, sent_at);
        let node = &mut self.nodes[life.node];
        node.lease_until = node.lease_until.max(until);
        let place = Place { life, engine: node.current };
        self.input(place, Input::Lease(until));
    }

    /// The group does not know the node any more: it begins anew.
    pub fn expelled(&mut self, life: Life) {
        if self.nodes[life.node].leaving {
            return;
        }
        self.say(format_args!("{life:?} was expelled"));
        self.retire(life);
        self.begin_engine(life);
        self.message(life, Way::ToGroup, Happening::Joins(life));
    }

    /// Slots are to be given back: another engine takes over what is left.
    pub fn revoked(&mut self, life: Life, slots: &[Slot]) {
        if self.nodes[life.node].leaving {
            return;
        }
        let positions = self.retire(life);
        self.begin_engine(life);
        let (gone, left): (Vec<_>, Vec<_>) = positions.into_iter().partition(|(slot, _)| slots.contains(slot));
        for (slot, position) in left {
            self.assigned(life, slot, position);
        }
        self.message(life, Way::ToGroup, Happening::GivenBack(life, gone));
    }

    /// A slot comes.
    pub fn assigned(&mut self, life: Life, slot: Slot, position: u64) {
        let node = &self.nodes[life.node];
        if node.leaving || node.lane_of(slot).is_some() {
            return;
        }
        let engine = node.current;
        self.lanes_numbered += 1;
        let number = LaneNumber(self.lanes_numbered);
        let lane = Lane { slot, engine, next: position, position, paused: false, fetching: false };
        self.nodes[life.node].lanes.insert(number, lane);
        let place = Place { life, engine };
        self.input(place, Input::SlotAssigned { slot, lane: number, name: lane_name(slot.0), position });
        for change in self.nodes[life.node].config.changes() {
            if Slot::of(change.tenant(), self.scenario.slots) == slot {
                self.input(place, Input::Config(change));
            }
        }
        self.fetch_soon(life, number);
    }

    /// Lets the lane's reader look soon, unless it already will.
    pub fn fetch_soon(&mut self, life: Life, number: LaneNumber) {
        let delay = Duration::from_micros(self.rng.u64(0..30_000));
        let Some(lane) = self.nodes[life.node].lanes.get_mut(&number) else { return };
        let waits = self.topic[usize::from(lane.slot.0)].next(lane.next).is_some();
        if waits && !lane.paused && !lane.fetching {
            lane.fetching = true;
            self.after(delay, Happening::Fetch(life, number));
        }
    }

    /// The reader hands a few records to the engine.
    pub fn fetch(&mut self, life: Life, number: LaneNumber) {
        if let Some(lane) = self.nodes[life.node].lanes.get_mut(&number) {
            lane.fetching = false;
        }
        for _ in 0..self.rng.u32(1..=6) {
            if !self.lives(life) {
                return;
            }
            let Some(lane) = self.nodes[life.node].lanes.get_mut(&number).filter(|lane| !lane.paused) else { return };
            let (slot, engine) = (lane.slot, lane.engine);
            let Some((offset, written)) = self.topic[usize::from(slot.0)].next(lane.next) else { return };
            let offset = *offset;
            lane.next = offset + 1;
            if self.fault == Some(Fault::PositionRunsAhead) {
                lane.position = offset + 1;
            }
            let record = decode(written, slot.0, offset, self.produced_at[&(slot, offset)]);
            let place = Place { life, engine };
            let record = self.tamper(place, record);
            self.input(place, Input::Record { lane: number, offset, record });
        }
        self.fetch_soon(life, number);
    }
}

fn node_is_leased_for_ever(node: &Node) -> bool {
    node.lease_until == Time::MAX
}
