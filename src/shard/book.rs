//! A shard's tenants as configured, for engines that come after the first: whatever slots one of them is given, it is
//! told all that stands here of their tenants.

use std::collections::BTreeMap;

use crate::types::{ConfigChange, DestinationId, Slot, SubscriptionId, TenantId};

/// What stands of a shard's tenants: for each object the last change.
#[derive(Debug)]
pub(super) struct Book {
    slots: u16,
    tenants: BTreeMap<TenantId, BTreeMap<Entry, ConfigChange>>,
}

/// What a change is about, destinations before subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Destination(DestinationId),
    Subscription(SubscriptionId),
    Pause,
}

impl Book {
    /// A book of these changes, of a deployment with so many slots.
    pub(super) fn new(slots: u16, changes: impl IntoIterator<Item = ConfigChange>) -> Self {
        let mut book = Self { slots, tenants: BTreeMap::new() };
        changes.into_iter().for_each(|change| book.note(change));
        book
    }

    /// Notes a change.
    pub(super) fn note(&mut self, change: ConfigChange) {
        let entries = self.tenants.entry(change.tenant().clone()).or_default();
        match &change {
            // A deleted destination has no more jobs than its subscriptions have, whose deletions are noted.
            ConfigChange::DeleteDestination(_, id) => drop(entries.remove(&Entry::Destination(*id))),
            ConfigChange::ResumeTenant(_) => drop(entries.remove(&Entry::Pause)),
            ConfigChange::PutDestination(destination) => {
                drop(entries.insert(Entry::Destination(destination.id), change));
            }
            ConfigChange::PutSubscription(subscription) => {
                drop(entries.insert(Entry::Subscription(subscription.id), change));
            }
            ConfigChange::DeleteSubscription(_, id) => drop(entries.insert(Entry::Subscription(*id), change)),
            ConfigChange::PauseTenant(_) => drop(entries.insert(Entry::Pause, change)),
        }
    }

    /// The slot of a tenant.
    pub(super) fn slot_of(&self, tenant: &TenantId) -> Slot {
        Slot::of(tenant, self.slots)
    }

    /// All that stands of the tenants of `slot`.
    pub(super) fn of(&self, slot: Slot) -> impl Iterator<Item = ConfigChange> {
        let tenants = self.tenants.iter().filter(move |(tenant, _)| self.slot_of(tenant) == slot);
        tenants.flat_map(|(_, entries)| entries.values().cloned())
    }
}
