//! Batches out and back: what is sent, what follows once it is durable, and what a refusal means.

use std::rc::Rc;

use super::pipeline::{Durable, Effect, Pipeline, Rejected};
use super::rows::{BatchNumber, Row, Unit};
use super::shard::Shard;
use super::{LaneNumber, Output, Refusal, Settled, SettledItem, Ticket};
use crate::types::{Event, Sequence, Slot, Time};

impl Shard {
    /// Sends every batch that is ready, and settles what waits for nothing. Says whether anything followed.
    pub(super) fn flush(&mut self, now: Time) -> bool {
        let mut followed = false;
        loop {
            while let Some(unit) = self.dirty_units.pop_first() {
                followed |= self.line_up(unit, now);
            }
            let sent = self.send_in_turn(now);
            // What lingers goes along, where all share a sync.
            if !sent || self.is_on_lease() || self.lingering.is_empty() {
                return followed;
            }
            for unit in std::mem::take(&mut self.lingering) {
                self.pipeline(unit).stop_lingering();
                self.dirty_units.insert(unit);
            }
        }
    }

    /// Lets a unit whose batch is ready wait for its turn, and settles what waits for nothing. Says whether anything
    /// followed.
    fn line_up(&mut self, unit: Unit, now: Time) -> bool {
        if matches!(unit, Unit::Slot(slot) if !self.slots[&slot].taken) {
            return false;
        }
        let pipeline = self.pipeline(unit);
        let settled = pipeline.settle_without_rows();
        let lines_up = pipeline.lines_up(now);
        let (wake_at, lingers) = (pipeline.wake_at(), pipeline.lingers());
        self.waiting_units.extend(wake_at.map(|at| (at, unit)));
        if lingers {
            self.lingering.insert(unit);
        }
        if lines_up {
            self.window.line_up(unit);
        }
        let followed = !settled.is_empty();
        self.take_effects(unit, settled, now);
        followed
    }

    /// Sends the batches whose turn it is; whether there was one.
    fn send_in_turn(&mut self, now: Time) -> bool {
        let mut sent = false;
        while let Some(unit) = self.window.admit(now) {
            let batch = self.pipeline(unit).next_batch();
            sent = true;
            self.counters.commit_batches += 1;
            self.counters.commit_rows += batch.rows.len() as u64;
            self.outputs.push_back(Output::Commit(batch));
        }
        sent
    }

    fn pipeline(&mut self, unit: Unit) -> &mut Pipeline {
        match unit {
            Unit::Slot(slot) => &mut self.slot(slot).pipeline,
            Unit::Lanes => &mut self.intake.pipeline,
        }
    }

    /// A batch is durable.
    pub(super) fn committed(&mut self, unit: Unit, number: BatchNumber, now: Time) {
        let durable = match unit {
            Unit::Slot(slot) => self.slot_committed(slot, number),
            Unit::Lanes => self.intake.pipeline.committed(number),
        };
        let Some(durable) = durable else { return };
        self.window.leave(unit);
        self.dirty_units.insert(unit);
        self.take_effects(unit, durable.effects, now);
        if let Unit::Slot(slot) = unit {
            self.refill_durable(slot);
            self.cancel_next(slot);
            self.unpark(slot, now);
        }
    }

    fn slot_committed(&mut self, slot: Slot, number: BatchNumber) -> Option<Durable> {
        let state = self.slots.get_mut(&slot)?;
        let durable = state.pipeline.committed(number)?;
        if let Some(highest) = durable.highest.filter(|_| state.lane.is_none()) {
            assert!(highest > state.durable, "a slot's events become durable in order");
            state.durable = highest;
        }
        Some(durable)
    }

    /// A batch was refused.
    pub(super) fn refused(&mut self, unit: Unit, number: BatchNumber, refusal: Refusal, now: Time) {
        self.counters.commit_refusals += 1;
        let pipeline = match unit {
            Unit::Slot(slot) => match self.slots.get_mut(&slot) {
                Some(state) => &mut state.pipeline,
                None => return,
            },
            Unit::Lanes => &mut self.intake.pipeline,
        };
        let rejected = pipeline.refused(number, refusal, now);
        self.window.leave(unit);
        self.dirty_units.insert(unit);
        match (unit, rejected) {
            (_, Rejected::Again) => {}
            (Unit::Slot(slot), Rejected::Unstorable { rows, effects }) => self.unstorable(slot, &rows, effects, now),
            (Unit::Lanes, Rejected::Unstorable { .. }) => unreachable!("the lanes' rows are no arrivals"),
        }
    }

    /// An arrival that the store rejects by itself goes to quarantine; what depends on it is undone. The rows beside
    /// its events, such as a cursor, stand: later events rely on them.
    fn unstorable(&mut self, slot: Slot, rows: &[Row], effects: Vec<Effect>, now: Time) {
        let events: Vec<&Rc<Event>> = rows.iter().filter_map(Row::new_event).collect();
        let record = |event: &&Rc<Event>| super::intake::unstorable(event, offset_of(event.sequence, &effects), now);
        let quarantine = events.iter().map(|event| Row::Quarantine(Box::new(record(event))));
        let beside = rows.iter().filter(|row| row.new_event().is_none()).cloned();
        let instead: Vec<Row> = quarantine.chain(beside).collect();
        for row in rows {
            if let Row::Event { event, jobs } = row {
                let jobs = u16::try_from(jobs.len()).expect("a tenant's subscriptions are far below 2^16");
                self.forget_event(slot, event, jobs, now);
            }
        }
        let gone: Vec<Sequence> = events.iter().map(|event| event.sequence).collect();
        self.counters.events_quarantined.add("unstorable", gone.len() as u64);
        let effects = effects.into_iter().map(|effect| mark_unstorable(effect, &gone)).collect();
        let state = self.slot(slot);
        state.refused.extend(gone);
        state.pipeline.replace_front(instead, effects);
    }

    /// What follows, in order.
    fn take_effects(&mut self, unit: Unit, effects: Vec<Effect>, now: Time) {
        for effect in effects {
            match effect {
                Effect::Settle { ticket, items, again } => self.settle(unit, ticket, items, again, now),
                Effect::Start(job) => self.start(job, now),
                Effect::DueWritten(at) => {
                    if let Unit::Slot(slot) = unit {
                        self.slot(slot).due.durable(at);
                    }
                }
                Effect::Departed(key) => self.slot(key.slot).departed.durable(key),
                Effect::Command(asker, result) => self.command_done(asker, result),
                Effect::Unlock(sequence) => self.unlock(unit, sequence, now),
                Effect::IdsWritten => self.ids_written(unit),
                Effect::LaneSettled(lane, offset) => self.intake.settle(lane, offset),
            }
        }
    }

    /// Answers an arrival, unless it counted on a copy that the store then refused: then it takes its place.
    fn settle(&mut self, unit: Unit, ticket: Ticket, items: Vec<SettledItem>, again: Option<Vec<Event>>, now: Time) {
        if let (Some(events), Unit::Slot(slot)) = (again, unit) {
            let state = self.slot(slot);
            let lost = items
                .iter()
                .any(|item| matches!(item, SettledItem::Duplicate(sequence) if state.refused.contains(sequence)));
            if lost {
                self.arrive(super::Arrival { events, ticket }, now);
                return;
            }
        }
        self.answer(Settled { ticket, items });
    }

    /// A record of a lane is settled: if it is a slot's own, so is what it numbers.
    pub(super) fn slot_settled(&mut self, lane: LaneNumber) {
        let Some(slot) = self.intake.slot_of(lane) else { return };
        let settled = Sequence(self.intake.position(lane));
        let state = self.slot(slot);
        state.durable = state.durable.max(settled);
    }

    /// Tells a request, a lane of another shard, or a lane of this one.
    pub(super) fn answer(&mut self, settled: Settled) {
        match settled.ticket {
            Ticket::Lane { shard, lane, offset } if shard == self.settings.shard => {
                self.intake.settle(lane, offset);
                self.slot_settled(lane);
            }
            Ticket::Lane { .. } | Ticket::Request(_) => self.outputs.push_back(Output::Settled(settled)),
        }
    }
}

/// The offset of the lane's record that was stored under `sequence`; absent for a request's event.
fn offset_of(sequence: Sequence, effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::Settle { ticket: Ticket::Lane { offset, .. }, items, .. } => {
            items.contains(&SettledItem::Stored(sequence)).then_some(*offset)
        }
        Effect::Settle { ticket: Ticket::Request(_), .. }
        | Effect::Start(_)
        | Effect::DueWritten(_)
        | Effect::Departed(_)
        | Effect::Command(..)
        | Effect::Unlock(_)
        | Effect::IdsWritten
        | Effect::LaneSettled(..) => None,
    })
}

fn mark_unstorable(effect: Effect, gone: &[Sequence]) -> Effect {
    match effect {
        Effect::Settle { ticket, items, again } => {
            let own = |sequence| gone.contains(&sequence) && items.contains(&SettledItem::Stored(sequence));
            let mark = |item: &SettledItem| match *item {
                SettledItem::Stored(sequence) | SettledItem::Duplicate(sequence) if own(sequence) => {
                    SettledItem::Unstorable
                }
                SettledItem::Stored(_)
                | SettledItem::Duplicate(_)
                | SettledItem::Unstorable
                | SettledItem::Overloaded => *item,
            };
            Effect::Settle { ticket, items: items.iter().map(mark).collect(), again }
        }
        Effect::Start(_)
        | Effect::Departed(_)
        | Effect::DueWritten(_)
        | Effect::Command(..)
        | Effect::Unlock(_)
        | Effect::IdsWritten
        | Effect::LaneSettled(..) => effect,
    }
}
