//! The shard's lanes: what was read, what is settled, how far each may commit, and when one must pause.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::command::Asker;
use super::lane::Lane;
use super::pipeline::{Effect, Pipeline};
use super::rows::{Row, Unit};
use super::settings::Tenure;
use super::shard::Shard;
use super::{Arrival, LaneNumber, LaneRecord, Output, QuarantineRecord, Ticket};
use crate::types::{Duration, Event, LaneName, Sequence, Slot, Time, limits};

struct LaneState {
    lane: Lane,
    /// The slot whose events its offsets number.
    slot: Option<Slot>,
    paused: bool,
    /// The position as last written and told.
    told: u64,
    /// Positions to be told, each when its time has come.
    telling: VecDeque<(Time, u64)>,
}

/// The lanes of a shard.
pub(super) struct Intake {
    lanes: BTreeMap<LaneNumber, LaneState>,
    pub(super) pipeline: Pipeline,
    /// Quarantined records kept whole in this minute, per topic and reason.
    whole: BTreeMap<(Box<str>, &'static str), u32>,
    whole_minute: u64,
}

/// A lane as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneReport {
    /// Its name.
    pub name: LaneName,
    /// All before this offset is settled.
    pub position: u64,
    /// Records read and not settled.
    pub open: usize,
    /// It is paused, for the shard is full.
    pub paused: bool,
}

impl Intake {
    pub(super) fn new() -> Self {
        Self { lanes: BTreeMap::new(), pipeline: Pipeline::new(Unit::Lanes), whole: BTreeMap::new(), whole_minute: 0 }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pipeline.is_idle()
    }

    /// A record of a lane is durable, dropped or in quarantine. Records of a lane that is gone are nobody's.
    pub(super) fn settle(&mut self, lane: LaneNumber, offset: u64) {
        if let Some(state) = self.lanes.get_mut(&lane) {
            state.lane.settle(offset);
        }
    }

    /// A lane comes, perhaps as a slot's own.
    pub(super) fn take_lane(&mut self, lane: LaneNumber, name: LaneName, position: u64, slot: Option<Slot>) {
        let lane_state = Lane::new(name, position);
        let state = LaneState { lane: lane_state, slot, paused: false, told: position, telling: VecDeque::new() };
        self.lanes.insert(lane, state);
    }

    /// All before this offset is settled; 0 for a lane that is gone.
    pub(super) fn position(&self, lane: LaneNumber) -> u64 {
        self.lanes.get(&lane).map_or(0, |state| state.lane.position())
    }

    /// The slot whose own this lane is.
    pub(super) fn slot_of(&self, lane: LaneNumber) -> Option<Slot> {
        self.lanes.get(&lane)?.slot
    }

    pub(super) fn report(&self) -> Vec<LaneReport> {
        self.lanes
            .values()
            .map(|state| LaneReport {
                name: state.lane.name().clone(),
                position: state.lane.position(),
                open: state.lane.open(),
                paused: state.paused,
            })
            .collect()
    }

    /// Keeps the first hundred of a topic, reason and minute whole; of the rest, hash and size.
    fn thin_out(&mut self, record: &mut QuarantineRecord) {
        let minute = record.received_at.as_minutes();
        if minute != self.whole_minute {
            self.whole.clear();
            self.whole_minute = minute;
        }
        let count = self.whole.entry((record.topic.clone(), record.reason)).or_insert(0);
        *count += 1;
        if *count > limits::QUARANTINE_WHOLE_PER_MINUTE {
            record.body = Bytes::new();
            record.headers = Vec::new();
        }
    }
}

impl Shard {
    /// The offset that a lane may commit up to, for the moment when it is about to be taken away.
    #[must_use]
    pub fn lane_position(&self, lane: LaneNumber) -> Option<u64> {
        let state = self.intake.lanes.get(&lane)?;
        Some(if state.slot.is_some() { state.told } else { state.lane.position() })
    }

    pub(super) fn lane_revoked(&mut self, lane: LaneNumber) {
        self.intake.lanes.remove(&lane);
    }

    pub(super) fn lane_settled(&mut self, ticket: Ticket) {
        if let Ticket::Lane { lane, offset, .. } = ticket {
            self.intake.settle(lane, offset);
        }
    }

    /// Takes a record of a lane: an event goes to its slot's owner, here or on another shard.
    pub(super) fn lane_record(&mut self, lane: LaneNumber, offset: u64, record: LaneRecord, now: Time) {
        let Some(state) = self.intake.lanes.get_mut(&lane) else { return };
        if !state.lane.read(offset) {
            return;
        }
        match record {
            LaneRecord::Drop => self.intake.settle(lane, offset),
            LaneRecord::Quarantine(record) => self.quarantine(lane, offset, record),
            LaneRecord::Command(id, command) => {
                let slot = state.slot;
                self.lane_command(slot, Asker { id, record: Some((lane, offset)) }, *command, now);
            }
            LaneRecord::Accept(mut event) => {
                let is_own = state.slot.is_some() || self.settings.tenure == Tenure::Sole;
                if state.slot.is_some() {
                    event.sequence = Sequence(offset + 1);
                }
                let ticket = Ticket::Lane { shard: self.settings.shard, lane, offset };
                let owner = Slot::of(&event.tenant, self.settings.slots).shard(self.settings.shards);
                let arrival = Arrival { events: vec![*event], ticket };
                if owner == self.settings.shard && is_own {
                    let tenant = self.tenant(&arrival.events[0].tenant.clone());
                    self.arrive(arrival, now);
                    self.pause_if(lane, self.has_parked_its_share(tenant));
                } else {
                    self.outputs.push_back(Output::Handover(owner, arrival));
                }
            }
        }
        self.pause_if_full(lane);
    }

    fn quarantine(&mut self, lane: LaneNumber, offset: u64, mut record: Box<QuarantineRecord>) {
        self.counters.events_quarantined.count(record.reason);
        self.intake.thin_out(&mut record);
        self.intake.pipeline.push(Row::Quarantine(record));
        self.intake.pipeline.follow(Effect::LaneSettled(lane, offset));
        self.dirty_units.insert(Unit::Lanes);
    }

    fn pause_if_full(&mut self, lane: LaneNumber) {
        self.pause_if(lane, self.admission_is_full());
    }

    pub(super) fn pause_if(&mut self, lane: LaneNumber, full: bool) {
        let Some(state) = self.intake.lanes.get_mut(&lane) else { return };
        if !state.paused && (full || state.lane.open() >= self.settings.bounds.lane_open_records) {
            state.paused = true;
            self.outputs.push_back(Output::PauseLane(lane));
        }
    }

    /// Lets paused lanes go on once there is room again.
    pub(super) fn resume_lanes(&mut self) {
        if self.admission_is_full() {
            return;
        }
        for (lane, state) in &mut self.intake.lanes {
            if state.paused && state.lane.open() < self.settings.bounds.lane_resume_below.max(1) {
                state.paused = false;
                self.outputs.push_back(Output::ResumeLane(*lane));
            }
        }
    }

    /// Writes and tells the positions that moved: all before them is durable already. A slot's own lane is told later,
    /// and not written: the group's committed offset is what counts.
    pub(super) fn tell_positions(&mut self, now: Time) {
        let grace = match self.settings.tenure {
            Tenure::Sole => Duration::ZERO,
            Tenure::Leased { sync_grace } => sync_grace,
        };
        for (lane, state) in &mut self.intake.lanes {
            let reached = state.lane.position();
            if state.telling.back().map_or(state.told, |(_, position)| *position) != reached {
                let grace = if state.slot.is_some() { grace } else { Duration::ZERO };
                state.telling.push_back((now + grace, reached));
            }
            while let Some((_, position)) = state.telling.pop_front_if(|(at, _)| *at <= now) {
                state.told = position;
                self.outputs.push_back(Output::LanePosition { lane: *lane, position });
                if self.settings.tenure == Tenure::Sole {
                    self.intake.pipeline.push(Row::Lane { name: state.lane.name().clone(), position });
                    self.dirty_units.insert(Unit::Lanes);
                }
            }
        }
    }
}

/// The quarantine record of an event that the store rejects by itself: where it came from, and what is left of its
/// headers. A request's event has no offset and no partition; its sequence stands for the offset.
pub(super) fn unstorable(event: &Event, offset: Option<u64>, now: Time) -> QuarantineRecord {
    use sha2::Digest as _;
    let place = event.lane.0.strip_prefix("kafka/").and_then(|rest| rest.rsplit_once('/'));
    let (topic, partition) = place.map_or((&*event.lane.0, None), |(topic, number)| (topic, number.parse().ok()));
    QuarantineRecord {
        topic: topic.into(),
        partition: partition.unwrap_or(-1),
        offset: offset.unwrap_or(event.sequence.0),
        received_at: now,
        reason: "unstorable",
        header: None,
        headers: headers_of(event),
        body: event.payload.slice(..event.payload.len().min(limits::QUARANTINE_BODY_BYTES)),
        size: event.payload.len() as u64,
        sha256: sha2::Sha256::digest(&event.payload).into(),
    }
}

/// The headers that an event was made of, as a producer writes them.
fn headers_of(event: &Event) -> Vec<(Box<str>, Option<Bytes>)> {
    let attributes = event.attributes.iter().map(|(name, value)| (format!("ce-{name}"), value));
    let tenant = std::iter::once(("ce-tenantid".to_owned(), event.tenant.as_str()));
    let beside = [
        ("traceparent", &event.traceparent),
        ("tracestate", &event.tracestate),
        ("content-encoding", &event.content_encoding),
    ];
    let beside = beside.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.as_deref()?)));
    let all = attributes.chain(tenant).chain(beside);
    all.map(|(name, value)| (name.into_boxed_str(), Some(Bytes::copy_from_slice(value.as_bytes())))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Attributes, TenantId};

    fn event(lane: LaneName) -> Event {
        Event {
            tenant: TenantId::new("acme").expect("a tenant id"),
            id: uuid::Uuid::from_u128(1),
            sequence: Sequence(77),
            received_at: Time::ZERO,
            key: "loan.approved".into(),
            schema_major: 1,
            attributes: Attributes::pack([("id", "42"), ("source", "loans")]),
            traceparent: Some("00-1-2-01".into()),
            tracestate: None,
            content_encoding: None,
            source_id: None,
            request: None,
            lane,
            payload: Bytes::from_static(b"{}"),
        }
    }

    #[test]
    fn an_unstorable_record_is_kept_with_its_place_and_headers() {
        let record = unstorable(&event(LaneName::kafka("lerian.streaming.loans", 3)), Some(1_234), Time(5));
        assert_eq!((&*record.topic, record.partition, record.offset), ("lerian.streaming.loans", 3, 1_234));
        let text = |value: &Option<Bytes>| String::from_utf8_lossy(value.as_deref().unwrap_or_default()).into_owned();
        let headers: Vec<String> =
            record.headers.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
        assert_eq!(headers, ["ce-id=42", "ce-source=loans", "ce-tenantid=acme", "traceparent=00-1-2-01"]);
    }

    #[test]
    fn an_unstorable_request_has_no_partition() {
        let record = unstorable(&event(LaneName("http/0".into())), None, Time(5));
        assert_eq!((&*record.topic, record.partition, record.offset), ("http/0", -1, 77));
    }
}
