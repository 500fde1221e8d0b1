//! The consumer group of the slots' topic: who is a member, and who owns which slot.
//!
//! A member that is not heard of for a session is gone, and its slots go to others. One that is alive gives a slot back
//! when it is asked to, and only then the slot goes on.

use std::collections::{BTreeMap, BTreeSet};

use streaming_hub::types::{Slot, Time};

use super::node::Life;
use super::scenario::SESSION;

/// What the group asks of a member.
#[derive(Clone, Debug)]
pub enum Order {
    /// The slot is yours.
    Assign(Slot),
    /// Give these back.
    Revoke(Vec<Slot>),
}

/// The group's coordinator.
#[derive(Default)]
pub struct Group {
    members: BTreeMap<Life, Time>,
    owners: BTreeMap<Slot, Life>,
    /// Slots whose owner has been asked to give them back.
    moving: BTreeSet<Slot>,
    /// Shifts who gets what.
    pub shift: usize,
}

impl Group {
    /// Whether `life` is a member.
    pub fn knows(&self, life: Life) -> bool {
        self.members.contains_key(&life)
    }

    /// The slot's owner.
    pub fn owner(&self, slot: Slot) -> Option<Life> {
        self.owners.get(&slot).copied()
    }

    /// A member is alive.
    pub fn heard(&mut self, life: Life, now: Time) {
        if let Some(heard) = self.members.get_mut(&life) {
            *heard = now;
        }
    }

    /// A process wants to be a member.
    pub fn join(&mut self, life: Life, now: Time) {
        self.members.insert(life, now);
    }

    /// A member goes; its slots are free.
    pub fn leave(&mut self, life: Life) {
        self.members.remove(&life);
        let owned: Vec<Slot> = self.owners.iter().filter(|(_, owner)| **owner == life).map(|(slot, _)| *slot).collect();
        for slot in owned {
            self.free(slot);
        }
    }

    /// Members that were not heard of for a session.
    pub fn silent(&self, now: Time) -> Vec<Life> {
        self.members.iter().filter(|(_, heard)| now.since(**heard) >= SESSION).map(|(life, _)| *life).collect()
    }

    /// An owner gives a slot back. Whether it was its own.
    pub fn give_back(&mut self, life: Life, slot: Slot) -> bool {
        let own = self.owner(slot) == Some(life);
        if own {
            self.free(slot);
        }
        own
    }

    fn free(&mut self, slot: Slot) {
        self.owners.remove(&slot);
        self.moving.remove(&slot);
    }

    /// Moves slots to where they belong: whom to tell what.
    pub fn rebalance(&mut self, slots: u16) -> Vec<(Life, Order)> {
        let members: Vec<Life> = self.members.keys().copied().collect();
        if members.is_empty() {
            return Vec::new();
        }
        let mut orders = Vec::new();
        let mut revoked: BTreeMap<Life, Vec<Slot>> = BTreeMap::new();
        for slot in (0..slots).map(Slot) {
            let wanted = members[(usize::from(slot.0) + self.shift) % members.len()];
            match self.owner(slot) {
                None => {
                    self.owners.insert(slot, wanted);
                    orders.push((wanted, Order::Assign(slot)));
                }
                Some(owner) if owner != wanted && self.moving.insert(slot) => {
                    revoked.entry(owner).or_default().push(slot);
                }
                Some(_) => {}
            }
        }
        orders.extend(revoked.into_iter().map(|(life, slots)| (life, Order::Revoke(slots))));
        orders
    }
}
