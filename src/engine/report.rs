//! What a shard tells of itself: counters, circuits, lanes, slots. Read only; nothing is decided from it.

use super::circuit::CircuitState;
use super::dedup::{bucket_minute, dedup_key};
use super::intake::LaneReport;
use super::shard::Shard;
use crate::types::counters::{Counters, Levels};
use crate::types::{DestinationId, End, Sequence, ShardId, Slot, TenantId, Time};

/// A circuit as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitReport {
    /// Whose.
    pub tenant: TenantId,
    /// Which destination.
    pub destination: DestinationId,
    /// Its state.
    pub state: CircuitState,
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// When it changed last.
    pub last_transition_at: Time,
    /// When the next probe may go out.
    pub next_probe_at: Option<Time>,
    /// Jobs in memory that wait for it.
    pub waiting: usize,
}

/// A slot as an operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotReport {
    /// Which.
    pub slot: Slot,
    /// It takes events.
    pub active: bool,
    /// The last event that is durable.
    pub durable: Sequence,
    /// What a restart would replay from.
    pub low_water: Sequence,
}

/// A shard as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardReport {
    /// Which.
    pub shard: ShardId,
    /// Its counters.
    pub counters: Counters,
    /// Its slots.
    pub slots: Vec<SlotReport>,
    /// Its lanes.
    pub lanes: Vec<LaneReport>,
    /// Circuits that are not closed, or have failures to remember.
    pub circuits: Vec<CircuitReport>,
    /// What goes up and down.
    pub levels: Levels,
    /// Jobs in memory, in whatever phase.
    pub jobs: usize,
    /// Arrivals that wait for admission.
    pub parked: usize,
    /// Bytes of the dedup window's memory.
    pub dedup_bytes: usize,
}

impl Shard {
    pub(super) fn count_end(&mut self, end: End) {
        let reason = match end {
            End::Delivered | End::Cancelled => "",
            End::DeadLettered(reason) => reason.as_str(),
        };
        self.counters.jobs_ended.count((end.as_str(), reason));
    }

    /// The shard as it stands.
    #[must_use]
    pub fn report(&self) -> ShardReport {
        ShardReport {
            shard: self.settings.shard,
            counters: self.counters.clone(),
            slots: self.slots.values().map(super::slot::SlotState::report).collect(),
            lanes: self.intake.report(),
            circuits: self.circuits(),
            levels: self.levels(),
            jobs: self.jobs.len(),
            parked: self.parked_events,
            dedup_bytes: self.dedup.bytes(),
        }
    }

    fn levels(&self) -> Levels {
        let overflowing = self.subscribers.iter().filter(|(_, subscriber)| subscriber.overflow.is_some());
        let open = self.targets.iter().filter(|(_, target)| target.circuit.state() != CircuitState::Closed);
        Levels {
            jobs_waiting: self.jobs.len() as u64 - u64::from(self.in_flight),
            attempts_in_flight: u64::from(self.in_flight),
            circuits_open: open.count() as u64,
            subscriptions_overflowing: overflowing.count() as u64,
            event_bytes: self.held_bytes as u64,
            dedup_entries: self.dedup.entries() as u64,
        }
    }

    /// The number of a tenant's event, if its id is in memory: from its admission until it is written behind, and
    /// perhaps longer. The event need not be durable yet.
    #[must_use]
    pub fn sequence_of(&self, tenant: &TenantId, id: uuid::Uuid) -> Option<Sequence> {
        let tenant = &self.tenants[*self.tenant_of.get(tenant)?];
        self.dedup.sequence_of(tenant.slot, bucket_minute(id), dedup_key(tenant.mask, id))
    }

    /// One destination's circuit.
    #[must_use]
    pub fn circuit(&self, tenant: &TenantId, destination: DestinationId) -> Option<CircuitReport> {
        let handle = self.target_of.get(&destination)?;
        let report = self.circuit_report(&self.targets[*handle]);
        (report.tenant == *tenant).then_some(report)
    }

    fn circuits(&self) -> Vec<CircuitReport> {
        let reports = self.target_of.values().map(|handle| self.circuit_report(&self.targets[*handle]));
        reports.filter(|report| report.state != CircuitState::Closed || report.consecutive_failures > 0).collect()
    }

    fn circuit_report(&self, target: &super::target::Target) -> CircuitReport {
        let waiting = target.subscribers.iter().map(|subscriber| self.subscribers[*subscriber].jobs.len()).sum();
        CircuitReport {
            tenant: self.tenants[target.tenant].id.clone(),
            destination: target.destination.id,
            state: target.circuit.state(),
            consecutive_failures: target.circuit.consecutive_failures(),
            last_transition_at: target.circuit.last_transition_at(),
            next_probe_at: target.circuit.next_probe_at(),
            waiting,
        }
    }
}
