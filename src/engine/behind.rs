//! What is derived is written behind, once a second and in order: ids, cursors, destinations, the slot's own
//! record, lanes' positions. And the sweep: a look at every job in memory once a minute.

use super::arena::Handle;
use super::circuit::CircuitState;
use super::job::{Class, Cover, Job, Phase};
use super::pipeline::Effect;
use super::rows::{Row, SlotRecord};
use super::shard::Shard;
use super::slot::SlotPhase;
use super::target::Target;
use crate::types::destination::Ordering;
use crate::types::{Duration, End, EndReason, Slot, Time, limits};

/// A sweep looks at every job in so many ticks.
const SWEEP_TICKS: u32 = 60;
/// How exactly the age of a bucket of ids is known.
const DEDUP_MARK_PAUSE: Duration = Duration::from_secs(60);
/// A due row that covers a job in memory is renewed when it is this old, so that the bound moves on.
const DUE_ROW_AGE: Duration = Duration::from_secs(600);

impl Shard {
    /// Writes behind what has changed.
    pub(super) fn write_behind(&mut self, now: Time) {
        for (asked, read) in std::mem::take(&mut self.failed_reads) {
            self.bucket_reads += usize::from(matches!(asked, super::shard::Asked::Ids(..)));
            self.ask(asked, read);
        }
        for slot in self.own_slots() {
            if self.slot(slot).phase == SlotPhase::Active {
                self.write_slot(slot);
                self.refill_durable(slot);
                self.read_ahead(slot, now);
                self.search_on(slot);
                self.read_buckets_ahead(slot, now);
            }
        }
        self.drop_idle_buckets(now);
        self.tell_positions(now);
        self.look_at_foreign(now);
        self.resume_lanes();
        self.notice_slow(now);
        self.refill_next();
        self.sweep_tenants();
        self.sweep_overdue(now);
    }

    /// Lets go of buckets of ids that nobody has asked for in a while.
    fn drop_idle_buckets(&mut self, now: Time) {
        if self.dedup_marks.back().is_none_or(|(at, _)| now.since(*at) >= DEDUP_MARK_PAUSE) {
            self.dedup_marks.push_back((now, self.dedup.uses()));
        }
        while let Some((_, uses)) = self.dedup_marks.pop_front_if(|(at, _)| now.since(*at) >= limits::DEDUP_IDLE) {
            self.dedup.drop_unused_since(uses);
        }
    }

    /// Looks at a part of the tenants: nothing is kept of one that has neither configuration nor work.
    fn sweep_tenants(&mut self) {
        let places = self.tenants.places();
        for _ in 0..(places / SWEEP_TICKS + 1).min(places) {
            self.tenant_sweep_from = (self.tenant_sweep_from + 1) % places;
            if let Some(handle) = self.tenants.handle_at(self.tenant_sweep_from) {
                self.drop_if_unknown(handle);
            }
        }
    }

    fn write_slot(&mut self, slot: Slot) {
        self.write_cursors(slot);
        for handle in std::mem::take(&mut self.slot(slot).dirty_targets) {
            if self.targets.get(handle).is_some() {
                self.targets[handle].dirty = false;
                self.write_target(handle);
            }
        }
        self.write_ids(slot);
        let state = self.slot(slot);
        if state.pipeline.is_idle() {
            state.refused.clear();
        }
        let record = SlotRecord {
            low_water: state.tail.low_water(state.durable.next()),
            flushed: state.flushed,
            due_bound: state.due.bound().max(state.written.due_bound),
        };
        if record != state.written {
            state.written = record;
            state.pipeline.push(Row::Slot(record));
            self.touch(slot);
        }
    }

    /// Writes the ids of durable events, packed by the minute they carry.
    fn write_ids(&mut self, slot: Slot) {
        let state = self.slot(slot);
        let below = state.durable.next();
        if state.ids_on_their_way || below <= state.flushed {
            return;
        }
        state.flushed = below;
        state.ids_on_their_way = true;
        for (minute, entries) in self.dedup.take_unwritten(slot, below) {
            for pack in entries.chunks(limits::IDS_PACK) {
                self.slot(slot).pipeline.push(Row::Ids { minute, entries: pack.to_vec() });
            }
        }
        self.slot(slot).pipeline.follow(Effect::IdsWritten);
        self.touch(slot);
    }

    /// The buckets that ids made now and soon fall into are read before they are asked for.
    fn read_buckets_ahead(&mut self, slot: Slot, now: Time) {
        if self.slot(slot).durable.0 == 0 {
            return;
        }
        for minute in [now.as_minutes(), (now + Duration::from_secs(60)).as_minutes()] {
            self.read_bucket_ahead(slot, minute);
        }
    }

    /// Has a destination's record written behind.
    pub(super) fn remember_target(&mut self, handle: Handle<Target>) {
        let target = &mut self.targets[handle];
        if !target.dirty && target.record() != target.written {
            target.dirty = true;
            let slot = self.tenants[target.tenant].slot;
            self.slot(slot).dirty_targets.push(handle);
        }
    }

    /// Writes a destination's record, if it says anything new.
    pub(super) fn write_target(&mut self, handle: Handle<Target>) {
        let target = &mut self.targets[handle];
        let record = target.record();
        if target.deleted || record == target.written {
            return;
        }
        target.written = record;
        let (tenant, destination) = (target.tenant, target.destination.id);
        let record = Target::is_worth_remembering(&record).then_some(record);
        let (slot, tenant) = (self.tenants[tenant].slot, self.tenants[tenant].id.clone());
        self.slot(slot).pipeline.push(Row::Destination { tenant, destination, record });
        self.touch(slot);
    }

    /// Looks at a part of the jobs in memory: ends those past their time, covers those that rest.
    pub(super) fn sweep(&mut self, now: Time) {
        let places = self.jobs.places();
        let part = places / SWEEP_TICKS + 1;
        for _ in 0..part.min(places) {
            if self.sweep_from >= self.jobs.places() {
                self.sweep_from = 0;
            }
            if let Some(handle) = self.jobs.handle_at(self.sweep_from) {
                self.look_at(handle, now);
            }
            self.sweep_from += 1;
        }
    }

    fn look_at(&mut self, handle: Handle<Job>, now: Time) {
        if self.jobs[handle].in_flight() {
            return;
        }
        if let Some(reason) = self.past_its_time(handle, now) {
            self.end_job(handle, End::DeadLettered(reason), now);
            return;
        }
        let job = &self.jobs[handle];
        if now.since(job.rested_at) < self.settings.bounds.tail_max {
            return;
        }
        let at = job.next_at.max(now);
        match (job.cover, job.class) {
            (Cover::Tail, Class::First) => self.cover_by_cursor(handle),
            (Cover::Tail | Cover::Cursor, Class::Retry) => self.cover_by_due(handle, at),
            (Cover::Due(row), _) if now.since(row) > DUE_ROW_AGE => self.cover_by_due(handle, at),
            (Cover::Due(_), _) | (Cover::Cursor, Class::First) => {}
        }
    }

    /// Why a waiting job must end now, if it must.
    pub(super) fn past_its_time(&self, handle: Handle<Job>, now: Time) -> Option<EndReason> {
        let job = &self.jobs[handle];
        let kept = Duration(self.settings.payload_retention.0.saturating_sub(limits::EXPIRY_MARGIN.0));
        if now.since(job.created_at) >= kept {
            return Some(EndReason::Expired);
        }
        let never_first = job.class == Class::First && job.attempts == 0 && !job.out;
        if never_first && self.ordering_of(job.subscriber) == Ordering::Strict {
            return None;
        }
        if now < job.deadline || matches!(job.phase, Phase::Sleeping(_)) && job.next_at > now {
            return None;
        }
        let subscriber = &self.subscribers[job.subscriber];
        let target = &self.targets[subscriber.target];
        if !subscriber.is_live() || self.tenants[job.tenant].paused || job.faults > 0 {
            Some(EndReason::Expired)
        } else if target.circuit.state() != CircuitState::Closed {
            Some(EndReason::CircuitOpen)
        } else {
            None
        }
    }

    /// Covers a job that waits for its first attempt by its subscription's cursor row.
    fn cover_by_cursor(&mut self, handle: Handle<Job>) {
        let subscriber = self.jobs[handle].subscriber;
        let place = self.jobs[handle].place();
        self.subscribers[subscriber].covered.insert(place);
        self.write_cursor(subscriber);
        self.change_cover(handle, Cover::Cursor);
    }
}
