//! What waits in a tenant's line for its turn: arrivals and commands, in the order they came.

use super::arena::Handle;
use super::command::Errand;
use super::shard::Shard;
use super::slot::SlotPhase;
use super::tenant::Tenant;
use super::{Arrival, Ticket};
use crate::types::{Event, Time};

/// What a command weighs while it waits, in bytes, roughly.
const COMMAND_BYTES: usize = 256;

/// One of those who wait.
#[derive(Debug)]
pub(super) enum Parked {
    /// Events.
    Arrival(Arrival),
    /// A command of the slot's lane.
    Command(Errand),
}

impl Parked {
    /// The events that it brings.
    pub(super) fn events(&self) -> &[Event] {
        match self {
            Self::Arrival(arrival) => &arrival.events,
            Self::Command(_) => &[],
        }
    }

    /// Its part of the admission: events, a command counting as one, and bytes.
    fn weight(&self) -> (usize, usize) {
        match self {
            Self::Arrival(arrival) => (arrival.events.len(), arrival.events.iter().map(Event::weight).sum()),
            Self::Command(_) => (1, COMMAND_BYTES),
        }
    }
}

impl Shard {
    /// Lets what comes wait where it can't go on at once: behind what its tenant sent before, until the slot is loaded and
    /// while there is no lease. Gives it back where it can.
    pub(super) fn stand_in_line(&mut self, tenant: Handle<Tenant>, parked: Parked, now: Time) -> Option<Parked> {
        let slot = self.tenants[tenant].slot;
        let in_line = !self.tenants[tenant].parked.is_empty();
        if !in_line && self.slots[&slot].phase != SlotPhase::Loading && self.holds_lease(now) {
            return Some(parked);
        }
        self.park(tenant, parked);
        if !in_line {
            self.slot(slot).parked.push_back(tenant);
        }
        None
    }

    pub(super) fn park(&mut self, tenant: Handle<Tenant>, parked: Parked) {
        self.count_parked(tenant, &parked);
        self.tenants[tenant].parked.push_back(parked);
    }

    pub(super) fn park_front(&mut self, tenant: Handle<Tenant>, parked: Parked) {
        self.count_parked(tenant, &parked);
        self.tenants[tenant].parked.push_front(parked);
    }

    fn count_parked(&mut self, tenant: Handle<Tenant>, parked: &Parked) {
        let (events, bytes) = parked.weight();
        self.parked_events += events;
        self.parked_bytes += bytes;
        let tenant = &mut self.tenants[tenant];
        tenant.parked_events += events;
        tenant.parked_bytes += bytes;
    }

    pub(super) fn unpark_one(&mut self, tenant: Handle<Tenant>) -> Option<Parked> {
        let tenant = self.tenants.get_mut(tenant)?;
        let parked = tenant.parked.pop_front()?;
        let (events, bytes) = parked.weight();
        tenant.parked_events -= events;
        tenant.parked_bytes -= bytes;
        self.parked_events -= events;
        self.parked_bytes -= bytes;
        Some(parked)
    }

    /// Answers the requests that still wait: the shard is draining, nothing of them was stored. A lane's records stay open.
    pub(super) fn refuse_parked_requests(&mut self) {
        let tenants: Vec<Handle<Tenant>> = self.tenants.iter().map(|(handle, _)| handle).collect();
        for tenant in tenants {
            self.tenants[tenant].decisions = None;
            while let Some(parked) = self.unpark_one(tenant) {
                if let Parked::Arrival(arrival @ Arrival { ticket: Ticket::Request(_), .. }) = parked {
                    self.refuse(&arrival);
                }
            }
        }
    }
}
