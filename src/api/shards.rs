//! What the API asks of the shards, as one trait.
//!
//! The process gives the API [`ProcessShards`]; the tests of the handlers give it some that only take notes.

use std::future::Future;
use std::pin::Pin;

use uuid::Uuid;

use crate::engine::{
    CircuitReport, Command, CommandResult, JobQuestion, LaneReport, SettledItem, ShardReport, Standing,
};
use crate::shard;
use crate::source::kafka::LaneBoard;
use crate::telemetry::metrics::Snapshot;
use crate::types::counters::{LaneLevel, StoreCounters};
use crate::types::{ConfigChange, DestinationId, Event, Sequence, ShardId, TenantId};

/// A future that stays on the API's thread.
pub type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// All shards of the process.
pub trait Shards {
    /// Hands events of one tenant to their shard, whole or not at all; returns once each is settled.
    fn arrive<'a>(&'a self, tenant: &'a TenantId, events: Vec<Event>) -> Local<'a, Vec<SettledItem>>;
    /// Tells the owning shard of a change that is durable; returns once it is applied.
    fn configure(&self, change: ConfigChange) -> Local<'_, ()>;
    /// Gives a command to the tenant's shard.
    fn command<'a>(&'a self, tenant: &'a TenantId, command: Command) -> Local<'a, CommandResult>;
    /// Asks a destination's shard for its circuit.
    fn circuit<'a>(&'a self, tenant: &'a TenantId, destination: DestinationId) -> Local<'a, Option<CircuitReport>>;
    /// Asks a tenant's shard how jobs that have not ended stand, in the order asked.
    fn standings<'a>(&'a self, tenant: &'a TenantId, jobs: Vec<JobQuestion>) -> Local<'a, Vec<Standing>>;
    /// Asks a tenant's shard for the number of an event whose id may not be written behind yet.
    fn sequence_of<'a>(&'a self, tenant: &'a TenantId, id: Uuid) -> Local<'a, Option<Sequence>>;
    /// Asks every shard for its report.
    fn report(&self) -> Local<'_, Vec<ShardReport>>;
    /// Why no event can come in now; `None` when it can.
    fn closed(&self) -> Option<&'static str>;
    /// Every lane of this process.
    fn lanes(&self) -> Local<'_, Vec<LaneStatus>>;
    /// The metrics of the process, in Prometheus' text format; what the store counts comes from whoever has it.
    fn metrics(&self, store: StoreCounters) -> Local<'_, String>;
}

/// A lane as the process that reads it sees it.
#[derive(Clone, Debug)]
pub struct LaneStatus {
    /// What its shard tells.
    pub report: LaneReport,
    /// Which shard that is.
    pub shard: ShardId,
    /// The committed offset.
    pub committed: Option<u64>,
    /// Records between the position and the end of the input.
    pub lag: Option<u64>,
    /// It has records and makes no progress.
    pub stalled: bool,
}

/// The shards of this process and its inputs.
pub struct ProcessShards {
    shards: shard::Shards,
    /// What is known of their lanes, one of each consumer.
    lanes: Vec<LaneBoard>,
}

impl ProcessShards {
    /// Adapts the process' shards and what its consumers know of their lanes.
    #[must_use]
    pub fn new(shards: shard::Shards, lanes: Vec<LaneBoard>) -> Self {
        Self { shards, lanes }
    }

    fn lane(&self, shard: ShardId, report: LaneReport) -> LaneStatus {
        let progress = self.lanes.iter().find_map(|lanes| lanes.progress(&report.name.0));
        LaneStatus {
            report,
            shard,
            committed: progress.and_then(|progress| progress.committed),
            lag: progress.and_then(|progress| progress.lag),
            stalled: progress.is_some_and(|progress| progress.stalled),
        }
    }

    fn all_lanes(&self, reports: Vec<ShardReport>) -> Vec<LaneStatus> {
        let lanes = reports.into_iter().flat_map(|shard| shard.lanes.into_iter().map(move |lane| (shard.shard, lane)));
        lanes.map(|(shard, lane)| self.lane(shard, lane)).collect()
    }
}

impl Shards for ProcessShards {
    fn arrive<'a>(&'a self, tenant: &'a TenantId, events: Vec<Event>) -> Local<'a, Vec<SettledItem>> {
        Box::pin(self.shards.arrive(tenant, events))
    }

    fn configure(&self, change: ConfigChange) -> Local<'_, ()> {
        Box::pin(self.shards.configure(change))
    }

    fn command<'a>(&'a self, tenant: &'a TenantId, command: Command) -> Local<'a, CommandResult> {
        Box::pin(self.shards.command(tenant, command))
    }

    fn circuit<'a>(&'a self, tenant: &'a TenantId, destination: DestinationId) -> Local<'a, Option<CircuitReport>> {
        Box::pin(self.shards.circuit(tenant, destination))
    }

    fn standings<'a>(&'a self, tenant: &'a TenantId, jobs: Vec<JobQuestion>) -> Local<'a, Vec<Standing>> {
        Box::pin(self.shards.standings(tenant, jobs))
    }

    fn sequence_of<'a>(&'a self, tenant: &'a TenantId, id: Uuid) -> Local<'a, Option<Sequence>> {
        Box::pin(self.shards.sequence_of(tenant, id))
    }

    fn report(&self) -> Local<'_, Vec<ShardReport>> {
        Box::pin(self.shards.report())
    }

    fn closed(&self) -> Option<&'static str> {
        self.shards.closed()
    }

    fn lanes(&self) -> Local<'_, Vec<LaneStatus>> {
        Box::pin(async { self.all_lanes(self.shards.report().await) })
    }

    fn metrics(&self, store: StoreCounters) -> Local<'_, String> {
        Box::pin(async move {
            let reports = self.shards.report().await;
            let mut snapshot = Snapshot::default();
            for report in &reports {
                snapshot.counters.merge(&report.counters);
                snapshot.levels.merge(&report.levels);
            }
            snapshot.store = store;
            snapshot.lanes = self.all_lanes(reports).iter().map(lane_level).collect();
            snapshot.to_text()
        })
    }
}

fn lane_level(lane: &LaneStatus) -> LaneLevel {
    LaneLevel {
        lane: lane.report.name.to_string(),
        lag: lane.lag.unwrap_or(0),
        paused: lane.report.paused,
        stalled: lane.stalled,
    }
}
