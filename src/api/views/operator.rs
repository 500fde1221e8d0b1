//! The operator's tables: quarantine, circuits, lanes, shards.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use uuid::Uuid;

use crate::api::shards::LaneStatus;
use crate::engine::{CircuitReport, QuarantineRecord, ShardReport};
use crate::types::Time;

use super::HeaderView;

/// A malformed record.
#[derive(Debug, Serialize)]
pub struct QuarantineView<'a> {
    id: String,
    topic: &'a str,
    partition: i32,
    offset: u64,
    received_at: String,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<&'a str>,
    headers: Vec<HeaderView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    size: u64,
    sha256: String,
}

impl<'a> QuarantineView<'a> {
    /// The view; a header without a value is shown with an empty one.
    #[must_use]
    pub fn of(id: Uuid, record: &'a QuarantineRecord) -> Self {
        let value = |value: &'a Option<bytes::Bytes>| value.as_deref().unwrap_or_default();
        Self {
            id: id.to_string(),
            topic: &record.topic,
            partition: record.partition,
            offset: record.offset,
            received_at: record.received_at.to_rfc3339(),
            reason: record.reason,
            header: record.header.as_deref(),
            headers: record.headers.iter().map(|(name, bytes)| HeaderView::of(name, value(bytes))).collect(),
            body_base64: (!record.body.is_empty()).then(|| STANDARD.encode(&record.body)),
            size: record.size,
            sha256: record.sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// A circuit.
#[derive(Debug, Serialize)]
pub struct CircuitView {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    destination_id: String,
    state: &'static str,
    consecutive_failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_transition_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_probe_at: Option<String>,
    waiting: usize,
}

impl CircuitView {
    /// The view, as its tenant sees it.
    #[must_use]
    pub fn of(circuit: &CircuitReport) -> Self {
        Self {
            tenant: None,
            destination_id: circuit.destination.to_string(),
            state: circuit.state.as_str(),
            consecutive_failures: circuit.consecutive_failures,
            last_transition_at: Some(circuit.last_transition_at)
                .filter(|at| *at > Time::ZERO)
                .map(|at| at.to_rfc3339()),
            next_probe_at: circuit.next_probe_at.map(|at| at.to_rfc3339()),
            waiting: circuit.waiting,
        }
    }

    /// The same with its tenant, as operators see it.
    #[must_use]
    pub fn with_tenant(mut self, circuit: &CircuitReport) -> Self {
        self.tenant = Some(circuit.tenant.to_string());
        self
    }
}

/// A lane.
#[derive(Debug, Serialize)]
pub struct LaneView<'a> {
    lane: &'a str,
    node: &'a str,
    shard: u16,
    position: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    committed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<u64>,
    paused: bool,
    stalled: bool,
    open_jobs: usize,
}

impl<'a> LaneView<'a> {
    /// The view of a lane that `node` reads.
    #[must_use]
    pub fn of(lane: &'a LaneStatus, node: &'a str) -> Self {
        Self {
            lane: &lane.report.name.0,
            node,
            shard: lane.shard.0,
            position: lane.report.position,
            committed: lane.committed,
            lag: lane.lag,
            paused: lane.report.paused,
            stalled: lane.stalled,
            open_jobs: lane.report.open,
        }
    }
}

/// A shard.
#[derive(Debug, Serialize)]
pub struct ShardView<'a> {
    shard: u16,
    node: &'a str,
    slots: usize,
    slots_active: usize,
    lanes: usize,
    jobs: usize,
    event_bytes: u64,
    in_flight: u64,
    parked: usize,
    dedup_entries: u64,
    dedup_bytes: usize,
}

impl<'a> ShardView<'a> {
    /// The view of a shard on `node`.
    #[must_use]
    pub fn of(shard: &ShardReport, node: &'a str) -> Self {
        Self {
            shard: shard.shard.0,
            node,
            slots: shard.slots.len(),
            slots_active: shard.slots.iter().filter(|slot| slot.active).count(),
            lanes: shard.lanes.len(),
            jobs: shard.jobs,
            event_bytes: shard.levels.event_bytes,
            in_flight: shard.levels.attempts_in_flight,
            parked: shard.parked,
            dedup_entries: shard.levels.dedup_entries,
            dedup_bytes: shard.dedup_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::AT;
    use super::*;
    use crate::engine::LaneReport;
    use crate::engine::circuit::CircuitState;
    use crate::types::{DestinationId, LaneName, ShardId, TenantId};
    use serde_json::json;

    #[test]
    fn a_quarantined_record_has_the_contracts_members() {
        let record = QuarantineRecord {
            topic: "lerian.streaming.loans".into(),
            partition: 3,
            offset: 9,
            received_at: AT,
            reason: "bad_id",
            header: Some("ce-id".into()),
            headers: vec![("ce-id".into(), Some("7".into())), ("ce-x".into(), None)],
            body: vec![0xff].into(),
            size: 1,
            sha256: [0xab; 32],
        };
        let view = serde_json::to_value(QuarantineView::of(Uuid::nil(), &record)).expect("JSON");
        let expected = json!({
            "id": "00000000-0000-0000-0000-000000000000", "topic": "lerian.streaming.loans", "partition": 3, "offset": 9,
            "received_at": "2022-02-22T19:22:22.000Z", "reason": "bad_id", "header": "ce-id", "size": 1,
            "headers": [{"name": "ce-id", "value": "7"}, {"name": "ce-x", "value": ""}], "body_base64": "/w==",
            "sha256": "ab".repeat(32),
        });
        assert_eq!(view, expected);
    }

    #[test]
    fn circuits_and_lanes_have_the_contracts_members() {
        let circuit = CircuitReport {
            tenant: TenantId::new("acme").expect("a tenant"),
            destination: DestinationId(uuid::Uuid::nil()),
            state: CircuitState::Open,
            consecutive_failures: 5,
            last_transition_at: AT,
            next_probe_at: None,
            waiting: 2,
        };
        let view = serde_json::to_value(CircuitView::of(&circuit).with_tenant(&circuit)).expect("JSON");
        let expected = json!({
            "tenant": "acme", "destination_id": "dst_00000000000000000000000000000000", "state": "open",
            "consecutive_failures": 5, "last_transition_at": "2022-02-22T19:22:22.000Z", "waiting": 2,
        });
        assert_eq!(view, expected);
        let report = LaneReport { name: LaneName::kafka("t", 1), position: 5, open: 1, paused: false };
        let lane = LaneStatus { report, shard: ShardId(2), committed: Some(4), lag: Some(1), stalled: true };
        let view = serde_json::to_value(LaneView::of(&lane, "n1")).expect("JSON");
        let expected = json!({
            "lane": "kafka/t/1", "node": "n1", "shard": 2, "position": 5, "committed": 4, "lag": 1,
            "paused": false, "stalled": true, "open_jobs": 1,
        });
        assert_eq!(view, expected);
    }
}
