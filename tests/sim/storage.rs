//! The store behind a model of its faults: latency, refusals, ambiguous answers, and loss when a process dies.

use std::rc::Rc;

use streaming_hub::engine::rows::{Batch, Row};
use streaming_hub::engine::{Input, Read, ReadAnswer, ReadId, Refusal, Unit};
use streaming_hub::types::Duration;

use crate::checks::Rule;
use crate::events::is_unstorable;
use crate::faults::Fault;
use crate::happening::{Happening, Place};
use crate::scenario::chance;
use crate::world::World;

impl World {
    /// A batch leaves for the store.
    pub fn commit(&mut self, place: Place, batch: Batch) {
        self.checks.commit(&batch);
        let unit = batch.unit;
        let number = batch.number;
        let delay = self.latency();
        let early = self.nodes[place.life.node].commits.insert((place.shard, unit), batch);
        self.checks.expect(early.is_none(), Rule::Terms, || format!("{unit:?} has two batches on their way"));
        self.after(delay, Happening::Stored(place, unit));
        if self.fault == Some(Fault::CommitBeforeDurable) {
            self.after(Duration::ZERO, Happening::Early(place, unit, number));
        }
    }

    /// A batch has reached the store.
    pub fn stored(&mut self, place: Place, unit: Unit) {
        if !self.lives(place.life) {
            return;
        }
        let Some(batch) = self.nodes[place.life.node].commits.remove(&(place.shard, unit)) else { return };
        let temper = &self.store_temper;
        let refused = temper.is_down(self.now) || chance(&mut self.rng, temper.refused_percent);
        let ambiguous = chance(&mut self.rng, temper.ambiguous_percent);
        if self.is_rejected(&batch) {
            return self.input(place, Input::Refused(unit, batch.number, Refusal::Rejected));
        }
        if !refused {
            self.make_durable(&batch);
        }
        if self.fault == Some(Fault::CommitBeforeDurable) {
            return;
        }
        let answer = if refused || ambiguous {
            Input::Refused(unit, batch.number, Refusal::Unavailable)
        } else {
            Input::Committed(unit, batch.number)
        };
        self.input(place, answer);
    }

    /// Whether the store will never take this batch.
    pub fn is_rejected(&self, batch: &Batch) -> bool {
        batch.rows.iter().any(|row| row.new_event().is_some_and(|event| is_unstorable(event)))
    }

    /// The rows are durable from now on.
    pub fn make_durable(&mut self, batch: &Batch) {
        self.checks.durable(batch);
        for row in batch.rows.iter() {
            if let Row::Lane { name, position } = row {
                self.check_stored_position(name, *position);
            }
        }
        if self.fault == Some(Fault::ForgottenIds) {
            let kept = batch.rows.iter().filter(|row| !matches!(row, Row::Ids { .. })).cloned().collect();
            self.store.apply(&Batch { rows: Rc::new(kept), ..batch.clone() });
        } else {
            self.store.apply(batch);
        }
    }

    fn check_stored_position(&mut self, name: &streaming_hub::types::LaneName, position: u64) {
        let partition = (0..self.scenario.partitions).find(|partition| crate::log::lane_name(*partition) == *name);
        let before = self.store.lane(name).unwrap_or(0);
        match partition {
            Some(partition) => self.check_position(partition, before, position),
            None => self.checks.fail(Rule::Terms, format!("a position of {name}, which is no lane")),
        }
    }

    /// A read leaves for the store; it is answered as of now or as of its answer.
    pub fn read(&mut self, place: Place, id: ReadId, read: Read) {
        let delay = self.latency();
        self.nodes[place.life.node].reads += 1;
        let failed =
            self.store_temper.is_down(self.now) || chance(&mut self.rng, self.store_temper.failed_read_percent);
        let happening = if failed {
            Happening::Answered(place, id, ReadAnswer::Failed)
        } else if self.rng.bool() {
            Happening::Answered(place, id, self.store.answer(&read))
        } else {
            Happening::Answers(place, id, read)
        };
        self.after(delay, happening);
    }

    /// A read comes back.
    pub fn loaded(&mut self, place: Place, id: ReadId, answer: ReadAnswer) {
        if self.lives(place.life) {
            let node = &mut self.nodes[place.life.node];
            node.reads = node.reads.saturating_sub(1);
            self.input(place, Input::Loaded(id, answer));
        }
    }

    fn latency(&mut self) -> Duration {
        let most = self.store_temper.latency_max.0;
        let typical = Duration(self.rng.u64(100..=most.max(200) / 4 + 100));
        if chance(&mut self.rng, 10) { Duration(self.rng.u64(100..=most.max(200))) } else { typical }
    }
}
