//! The store of a cluster, as a model: a batch is written partition by partition, each whole or not at all, in phases; each
//! write may fail, or stand without being acknowledged, now or much later.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use streaming_hub::engine::rows::{Batch, LoggedEvent, Row};
use streaming_hub::engine::{BatchNumber, Input, Read, ReadAnswer, ReadId, Refusal, Unit};
use streaming_hub::types::{Duration, Sequence, Slot, Time};

use super::faults::Fault;
use super::node::Place;
use super::world::{Happening, World};
use crate::events::is_unstorable;
use crate::scenario::chance;

/// Events whose rows share a partition of the log.
const CHUNK: u64 = 3;
/// How late a write may arrive that nobody was told of.
const LATE_MAX_MS: u64 = 25_000;

/// A batch on its way.
pub struct Write {
    pub place: Place,
    pub batch: Batch,
    pub epoch: u64,
    /// What is still to be written, phase by phase, each a list of partitions' rows.
    phases: VecDeque<Vec<Vec<Row>>>,
    /// Parts of this phase that are not answered.
    open: usize,
    refusal: Option<Refusal>,
}

/// What becomes of one partition's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Stored,
    Refused,
    /// Refused, as far as the node is told; stored later.
    Late,
    /// Not taken now or later: one of the rows is to blame.
    Rejected,
}

/// Rows by table and partition.
type Partitions = BTreeMap<(u8, u64), Vec<Row>>;

/// A batch as phases of partitions. A dead letter's copy comes before the end that it belongs to. What covers a job, be
/// it an end, a due row or a cursor, comes before the cursor or the slot's record that passes it. Within a phase anything
/// may stand and anything may be missing.
fn phases(batch: &Batch) -> VecDeque<Vec<Vec<Row>>> {
    let of_log = |sequence: Sequence| (2, (1, sequence.0 / CHUNK));
    let mut phases: BTreeMap<u8, Partitions> = BTreeMap::new();
    for (index, row) in (0_u64..).zip(batch.rows.iter()) {
        let (phase, partition) = match row {
            Row::DeadLetter { .. } | Row::Quarantine(_) => (1, (0, index)),
            Row::Event { event, .. } => of_log(event.sequence),
            Row::Run { key, .. } | Row::Claim { key, .. } | Row::Attempt { key, .. } | Row::End { key, .. } => {
                of_log(key.sequence)
            }
            Row::Due { at, .. } => (3, (2, at.as_minutes())),
            Row::Ids { minute, .. } => (3, (3, *minute)),
            Row::Overflow { .. } => (4, (4, 0)),
            Row::Destination { .. } => (4, (5, 0)),
            Row::Slot(_) => (5, (6, 0)),
            Row::Lane { .. } => (5, (7, 0)),
        };
        phases.entry(phase).or_default().entry(partition).or_default().push(row.clone());
    }
    phases.into_values().map(|parts| parts.into_values().collect()).collect()
}

impl World {
    /// A batch leaves for the store.
    pub fn commit(&mut self, place: Place, batch: Batch) {
        self.checks.commit(&batch);
        let Unit::Slot(slot) = batch.unit else { return };
        let engine = self.nodes[place.life.node].engines.get_mut(&place.engine).expect("an engine that asks");
        let epoch = engine.epochs.get(&slot).copied().unwrap_or(0);
        self.numbered_writes += 1;
        engine.writes.insert(batch.unit, self.numbered_writes);
        let phases = phases(&batch);
        let write = Write { place, batch, epoch, phases, open: 0, refusal: None };
        self.writes.insert(self.numbered_writes, write);
        self.write_phase(self.numbered_writes);
    }

    fn write_phase(&mut self, number: u64) {
        let Some(parts) = self.writes.get_mut(&number).and_then(|write| write.phases.pop_front()) else {
            return self.written(number, None);
        };
        if let Some(write) = self.writes.get_mut(&number) {
            write.open = parts.len();
        }
        for rows in parts {
            let down = self.scenario.store.is_down(self.now) && !self.healed;
            let temper = &self.scenario.store;
            let fate = if rows.iter().filter_map(Row::new_event).any(|event| is_unstorable(event)) {
                Fate::Rejected
            } else if self.healed {
                Fate::Stored
            } else if down || chance(&mut self.rng, temper.refused_percent) {
                if self.rng.u32(0..4) == 0 { Fate::Late } else { Fate::Refused }
            } else if chance(&mut self.rng, temper.ambiguous_percent) {
                Fate::Late
            } else {
                Fate::Stored
            };
            let delay = self.latency();
            self.after(delay, Happening::Part(number, rows, fate));
        }
    }

    /// A partition's rows have reached the store, or not.
    pub fn part(&mut self, number: u64, rows: Vec<Row>, fate: Fate) {
        let Some(write) = self.writes.get(&number) else { return };
        let (place, batch, epoch) = (write.place, (write.batch.unit, write.batch.number), write.epoch);
        let alive = self.lives(place.life);
        // A process that died may have sent it or not.
        if fate == Fate::Stored && (alive || self.rng.bool()) {
            self.apply(batch, &rows, epoch);
        }
        if fate == Fate::Late {
            let late = Duration::from_millis(self.rng.u64(0..LATE_MAX_MS));
            self.after(late, Happening::Late(batch, rows, epoch));
        }
        if let Some(write) = self.writes.get_mut(&number) {
            write.open -= 1;
            write.refusal = match (fate, write.refusal) {
                // What became of a part is not known: the whole must be tried again.
                (Fate::Refused | Fate::Late, _) => Some(Refusal::Unavailable),
                (Fate::Rejected, None) => Some(Refusal::Rejected),
                (Fate::Stored | Fate::Rejected, known) => known,
            };
            if write.open == 0 {
                let refusal = write.refusal;
                self.after(Duration::ZERO, Happening::PhaseAnswered(place.life, number, refusal));
            }
        }
    }

    /// Rows become durable.
    pub fn apply(&mut self, (unit, number): (Unit, BatchNumber), rows: &[Row], epoch: u64) {
        self.checks.durable(unit, rows);
        let lost = |row: &Row| match self.fault {
            Some(Fault::DedupByMemoryAlone) => matches!(row, Row::Ids { .. }),
            Some(Fault::CursorNotDurable) => matches!(row, Row::Overflow { cursor: Some(_), .. }),
            _ => false,
        };
        let mut rows: Vec<Row> = rows.iter().filter(|row| !lost(row)).cloned().collect();
        for row in &mut rows {
            match (row, self.fault) {
                (Row::Slot(record), Some(Fault::DueBoundRunsAhead)) => {
                    record.due_bound = record.due_bound.max(self.now) + Duration::from_hours(1);
                }
                (Row::Slot(record), Some(Fault::LowWaterRunsAhead)) => record.low_water.0 += 2,
                (_, _) => {}
            }
        }
        let (epoch, number) = match (self.fault, unit) {
            // As if it were the present owner's latest.
            (Some(Fault::NoEpoch), Unit::Slot(slot)) => {
                (self.epochs.get(&slot).copied().unwrap_or(epoch), BatchNumber(self.now.0))
            }
            (_, _) => (epoch, number),
        };
        self.store.apply_as(&Batch { unit, number, rows: Rc::new(rows) }, epoch);
    }

    /// The node hears of a phase.
    pub fn phase_answered(&mut self, number: u64, refusal: Option<Refusal>) {
        if refusal.is_none() { self.write_phase(number) } else { self.written(number, refusal) }
    }

    fn written(&mut self, number: u64, refusal: Option<Refusal>) {
        let Some(write) = self.writes.remove(&number) else { return };
        let (unit, batch) = (write.batch.unit, write.batch.number);
        let Some(engine) = self.engine(write.place) else { return };
        engine.writes.remove(&unit);
        let input = match refusal {
            None => Input::Committed(unit, batch),
            Some(refusal) => Input::Refused(unit, batch, refusal),
        };
        self.input(write.place, input);
    }

    /// A read leaves for the store. The first of a slot takes it.
    pub fn read(&mut self, place: Place, id: ReadId, read: Read) {
        if let Some(engine) = self.engine(place) {
            engine.reads += 1;
        }
        let delay = self.latency();
        let failed = !self.healed
            && (self.scenario.store.is_down(self.now)
                || chance(&mut self.rng, self.scenario.store.failed_read_percent));
        self.after(delay, Happening::Reads(place, id, read, failed));
    }

    /// A read has reached the store.
    pub fn reads(&mut self, place: Place, id: ReadId, read: &Read, failed: bool) {
        if let Read::Slot(slot) = read {
            self.take(place, *slot);
        }
        let mut answer = if failed { ReadAnswer::Failed } else { self.store.answer(read) };
        if self.fault == Some(Fault::NoClaimWait) {
            run_claims_out(&mut answer);
        }
        let delay = self.latency();
        self.after(delay, Happening::Answered(place, id, answer));
    }

    fn take(&mut self, place: Place, slot: Slot) {
        let epoch = self.store.take(slot);
        self.takes += 1;
        self.epochs.insert(slot, epoch);
        self.say(format_args!("{place:?} takes {slot:?} in epoch {epoch}"));
        if let Some(engine) = self.engine(place) {
            engine.epochs.insert(slot, epoch);
        }
    }

    /// A read comes back.
    pub fn answered(&mut self, place: Place, id: ReadId, answer: ReadAnswer) {
        if let Some(engine) = self.engine(place) {
            engine.reads -= 1;
            self.input(place, Input::Loaded(id, answer));
        }
    }

    fn latency(&mut self) -> Duration {
        let most = if self.healed { 2_000 } else { self.scenario.store.latency_max.0.max(200) };
        let typical = Duration(self.rng.u64(100..=most / 4 + 100));
        if chance(&mut self.rng, 10) { Duration(self.rng.u64(100..=most)) } else { typical }
    }
}

/// Every open claim of the answer has run out.
fn run_claims_out(answer: &mut ReadAnswer) {
    let events: Vec<&mut LoggedEvent> = match answer {
        ReadAnswer::Log { events, .. } | ReadAnswer::Queue { events, .. } => events.iter_mut().collect(),
        ReadAnswer::Due { rows, .. } => rows.iter_mut().filter_map(|row| row.event.as_mut()).collect(),
        ReadAnswer::Event(event) => event.iter_mut().collect(),
        ReadAnswer::Slot { .. } | ReadAnswer::Ids { .. } | ReadAnswer::Failed => Vec::new(),
    };
    for claim in events.into_iter().flat_map(|event| &mut event.jobs).filter_map(|job| job.open_claim.as_mut()) {
        claim.until = Time::ZERO;
    }
}
