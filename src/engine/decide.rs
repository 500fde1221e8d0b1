//! Which subscriptions want an arrival's events: decided at once where that is cheap, else slice by slice.
//!
//! An arrival that is more work than its tenant's allowance waits, and its tenant stands in line with the others
//! that have such work. The first in line does one slice at each wake-up of the shard, and makes way for the next
//! after its turn. So whatever a tenant's filters cost, everybody else waits for one slice at a time.

use std::collections::VecDeque;

use super::Arrival;
use super::arena::Handle;
use super::dedup::Look;
use super::filter::PayloadView;
use super::matching::Matching;
use super::parked::Parked;
use super::shard::Shard;
use super::tenant::Tenant;
use super::work::{SLICE, Work};
use crate::types::{Duration, Time};

/// Between two slices, so that the shard takes in what has come.
const PAUSE: Duration = Duration::from_micros(100);
/// Slices of a turn at least; and so much work for each byte of the events, lest a turn go by with parsing.
const TURN_SLICES: i64 = 8;
const TURN_PER_BYTE: i64 = 8;

/// The decisions on one arrival, some of them made: one per event, in order.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    events: Vec<Option<Matching>>,
    /// The event under way.
    current: Matching,
    /// Its payload, kept while its tenant is first in line.
    view: PayloadView,
}

impl Decisions {
    /// Takes the decision on an event out; an event that was not new when the others were decided has none.
    pub(super) fn take(&mut self, event: usize) -> Matching {
        self.events.get_mut(event).and_then(Option::take).unwrap_or_default()
    }
}

/// Tenants with work beyond their allowance.
#[derive(Debug, Default)]
pub(super) struct DecisionLine {
    tenants: VecDeque<Handle<Tenant>>,
    /// What the first may do before the next one's turn.
    turn_left: i64,
    next_at: Time,
}

impl DecisionLine {
    /// When the next slice is due.
    pub(super) fn next_at(&self) -> Option<Time> {
        (!self.tenants.is_empty()).then_some(self.next_at)
    }
}

impl Shard {
    /// Decides on the new events of an arrival as far as `work` reaches: `None` when some are left undecided.
    /// What is decided of the arrival is kept with its tenant until it is admitted.
    pub(super) fn decide(
        &mut self,
        tenant: Handle<Tenant>,
        arrival: &Arrival,
        looks: &[Look],
        work: &mut Work,
    ) -> Option<Decisions> {
        let tenant = &mut self.tenants[tenant];
        let mut decisions = tenant.decisions.take().map_or_else(Decisions::default, |begun| *begun);
        decisions.events.resize_with(arrival.events.len(), || None);
        let before = work.left();
        let mut complete = true;
        for (index, (event, look)) in arrival.events.iter().zip(looks).enumerate() {
            if *look != Look::Fresh || decisions.events[index].is_some() {
                continue;
            }
            complete = tenant.matcher.go_on(event, &mut decisions.view, &mut decisions.current, work);
            if !complete {
                break;
            }
            decisions.events[index] = Some(std::mem::take(&mut decisions.current));
            decisions.view = PayloadView::new();
        }
        self.counters.filter_work_bytes += u64::try_from(before.saturating_sub(work.left())).unwrap_or(0);
        if complete {
            return Some(decisions);
        }
        tenant.decisions = Some(Box::new(decisions));
        None
    }

    /// A tenant's first arrival waits for its turn to be decided on.
    pub(super) fn wait_for_decision(&mut self, handle: Handle<Tenant>, now: Time) {
        if self.line.tenants.contains(&handle) {
            return;
        }
        if let Some(decisions) = &mut self.tenants[handle].decisions {
            decisions.view = PayloadView::new();
        }
        if self.line.tenants.is_empty() {
            self.line.next_at = now;
            self.line.turn_left = 0;
        }
        self.line.tenants.push_back(handle);
    }

    /// Does one slice of the work that waits, if it is time.
    pub(super) fn decide_slice(&mut self, now: Time) {
        if self.line.next_at().is_none_or(|at| at > now) {
            return;
        }
        self.line.next_at = now + PAUSE;
        let Some(handle) = self.line.tenants.front().copied() else { return };
        if self.draining || self.tenants.get(handle).is_none_or(|tenant| tenant.parked.is_empty()) {
            self.leave_line();
            return;
        }
        if self.line.turn_left <= 0 {
            let bytes = self.tenants[handle].parked.front().map_or(0, payload_bytes);
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            self.line.turn_left = bytes.saturating_mul(TURN_PER_BYTE).max(SLICE * TURN_SLICES);
        }
        let mut work = Work::new(SLICE);
        let undecided = self.admit_parked_within(handle, &mut work, now);
        self.line.turn_left -= SLICE - work.left();
        if !undecided {
            self.leave_line();
        } else if self.line.turn_left <= 0 && self.line.tenants.len() > 1 {
            self.leave_line();
            self.wait_for_decision(handle, now + PAUSE);
        }
        self.resume_lanes();
    }

    /// The first in line makes way for the next.
    fn leave_line(&mut self) {
        self.line.tenants.pop_front();
        self.line.turn_left = 0;
    }
}

fn payload_bytes(parked: &Parked) -> usize {
    parked.events().iter().map(|event| event.payload.len()).sum()
}
