//! Deadlines of jobs that wait in the log behind their subscription's cursor: they end on time, whether or not
//! there is room to read them into memory.
//!
//! What lies behind a cursor lies there in order of arrival, and so of deadlines. A queue that is held, or whose
//! circuit is not closed, is looked at from its cursor on once its first deadline may have come: what is overdue
//! ends, and the first that is not says when to look again. One page of a slot at a time, queue by queue.

use std::collections::VecDeque;
use std::rc::Rc;

use super::arena::Handle;
use super::circuit::CircuitState;
use super::rows::{LoggedEvent, Read, Row, Wanted};
use super::shard::{Asked, Shard};
use super::slot::SlotPhase;
use super::subscriber::Subscriber;
use super::{Notice, Output, retry};
use crate::types::destination::Ordering;
use crate::types::{Duration, End, EndReason, JobRecord, RunId, Sequence, Slot, Time, limits};

/// A sweep looks at every subscription in so many ticks.
const SWEEP_TICKS: u32 = 60;

/// The queues of one slot that are looked at.
#[derive(Debug, Default)]
pub(super) struct OverdueLine {
    queues: VecDeque<Handle<Subscriber>>,
    reading: bool,
}

/// Whether a job of the log must end.
enum Due {
    Now(EndReason),
    /// Not before then.
    NotBefore(Time),
}

impl Shard {
    /// Looks at a part of the subscriptions: those with something overdue behind their cursor stand in line.
    pub(super) fn sweep_overdue(&mut self, now: Time) {
        let places = self.subscribers.places();
        for _ in 0..(places / SWEEP_TICKS + 1).min(places) {
            self.subscriber_sweep_from = (self.subscriber_sweep_from + 1) % places;
            let Some(handle) = self.subscribers.handle_at(self.subscriber_sweep_from) else { continue };
            let subscriber = &mut self.subscribers[handle];
            let due = subscriber.overdue_at.is_none_or(|at| at <= now);
            if due && subscriber.overflow.is_some() && !subscriber.deleted && !subscriber.in_overdue_line {
                subscriber.in_overdue_line = true;
                let slot = self.tenants[subscriber.tenant].slot;
                self.slot(slot).overdue.queues.push_back(handle);
            }
        }
        for slot in self.own_slots() {
            self.read_overdue(slot);
        }
    }

    /// Reads a page of the first queue in line that can be read now.
    pub(super) fn read_overdue(&mut self, slot: Slot) {
        let bounds = self.settings.bounds;
        for _ in 0..self.slot(slot).overdue.queues.len() {
            let state = self.slot(slot);
            let busy = state.overdue.reading || state.phase == SlotPhase::Loading;
            if busy || state.pipeline.is_full(bounds.batch_rows, bounds.batch_bytes) {
                return;
            }
            let Some(handle) = state.overdue.queues.pop_front() else { return };
            let durable = state.durable;
            let Some(subscriber) = self.subscribers.get_mut(handle) else { continue };
            subscriber.in_overdue_line = false;
            let tenant = subscriber.tenant;
            let Some(overflow) = subscriber.overflow.filter(|_| !subscriber.deleted && !subscriber.refilling) else {
                continue;
            };
            let to = overflow.last_spilled.min(durable);
            if to < overflow.next_read || self.waiting_ends_as(handle).is_none() {
                continue;
            }
            self.subscribers[handle].refilling = true;
            self.slot(slot).overdue.reading = true;
            let tenant = self.tenants[tenant].id.clone();
            let (from, wanted) = (overflow.next_read, Wanted::from([self.wanted(handle)]));
            let read = Read::Queue { slot, tenant, from, to, wanted, bytes_max: limits::LOG_PAGE_BYTES };
            self.ask(Asked::Overdue(slot, handle), read);
            return;
        }
    }

    /// A page came: what is overdue of it ends.
    pub(super) fn overdue_page(
        &mut self,
        slot: Slot,
        handle: Handle<Subscriber>,
        events: Vec<LoggedEvent>,
        scanned_to: Sequence,
        now: Time,
    ) {
        self.slot(slot).overdue.reading = false;
        if let Some(subscriber) = self.subscribers.get_mut(handle) {
            subscriber.refilling = false;
            if !subscriber.deleted {
                let next_read = self.end_overdue(handle, events, now).unwrap_or_else(|| scanned_to.next());
                self.advance(handle, next_read);
                self.refill_if_low(handle);
            }
        }
        self.read_overdue(slot);
    }

    /// Ends what is overdue, in order, up to the first that is not: its sequence, if there is one.
    fn end_overdue(&mut self, handle: Handle<Subscriber>, events: Vec<LoggedEvent>, now: Time) -> Option<Sequence> {
        let subscription = self.subscribers[handle].subscription.id;
        self.subscribers[handle].overdue_at = None;
        for mut logged in events {
            let sequence = logged.event.sequence;
            let ours = |job: &JobRecord| job.subscription == subscription && job.run == RunId::MATCH;
            let jobs: Vec<JobRecord> = std::mem::take(&mut logged.jobs).into_iter().filter(ours).collect();
            for job in jobs {
                if job.end.is_some() || self.job_of.contains_key(&job.key) || self.is_outdated(&job.key) {
                    continue;
                }
                match self.is_due(handle, &job, now) {
                    Due::Now(reason) => self.end_logged(&logged, &job, reason, now),
                    Due::NotBefore(at) => {
                        self.subscribers[handle].overdue_at = Some(at);
                        return Some(sequence);
                    }
                }
            }
        }
        let subscriber = &mut self.subscribers[handle];
        subscriber.in_overdue_line = true;
        let slot = self.tenants[subscriber.tenant].slot;
        self.slot(slot).overdue.queues.push_back(handle);
        None
    }

    /// As what a job of this queue ends when its deadline comes; absent while it would go on waiting.
    fn waiting_ends_as(&self, handle: Handle<Subscriber>) -> Option<EndReason> {
        let subscriber = &self.subscribers[handle];
        if !subscriber.is_live() || self.tenants[subscriber.tenant].paused {
            return Some(EndReason::Expired);
        }
        let open = self.targets[subscriber.target].circuit.state() != CircuitState::Closed;
        open.then_some(EndReason::CircuitOpen)
    }

    fn is_due(&self, handle: Handle<Subscriber>, job: &JobRecord, now: Time) -> Due {
        let kept = Duration(self.settings.payload_retention.0.saturating_sub(limits::EXPIRY_MARGIN.0));
        let expires_at = job.created_at + kept;
        if now >= expires_at {
            return Due::Now(EndReason::Expired);
        }
        if self.ordering_of(handle) == Ordering::Strict {
            return Due::NotBefore(expires_at);
        }
        let destination = self.destination_of(handle);
        let deadline = retry::deadline(self.subscribers[handle].retry(&destination), job.created_at);
        match self.waiting_ends_as(handle) {
            Some(reason) if now >= deadline => Due::Now(reason),
            Some(_) | None => Due::NotBefore(deadline),
        }
    }

    fn end_logged(&mut self, logged: &LoggedEvent, job: &JobRecord, reason: EndReason, now: Time) {
        let (tenant, key, end) = (logged.event.tenant.clone(), job.key, End::DeadLettered(reason));
        self.write_end(&tenant, key, end, now);
        if !logged.payload_expired {
            let job = JobRecord { open_claim: None, next_at: None, end: Some((end, now)), ..*job };
            let event = Rc::new(logged.event.clone());
            self.slot(key.slot).pipeline.push(Row::DeadLetter { event, job: Box::new(job) });
        }
        self.outputs.push_back(Output::Notice(Notice::DeadLettered { tenant, key, reason }));
    }
}
