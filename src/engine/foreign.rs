//! Attempts of a former owner that may still be under way.
//!
//! On a lease a claim found open in the log proves nothing before it runs out: whoever made it may be sending. Until
//! then its job counts as in flight, in its order, among its destination's attempts and as its circuit's probe, whether
//! the job is in memory or not ([`Flight`]). The log is looked at again each second: either the outcome has come, or the
//! claim had run out when the log was asked, and is a reclaim. What was read before that proves nothing, for this process
//! may have stalled since.

use super::arena::Handle;
use super::job::{Class, Job, Phase};
use super::rows::{LoggedEvent, Read};
use super::shard::{Asked, Shard};
use super::subscriber::Subscriber;
use super::target::Target;
use crate::types::{ClaimRecord, End, EndReason, Event, JobKey, JobRecord, Slot, TenantId, Time, limits};

/// An attempt of a former owner, of a job that is not in memory.
#[derive(Debug)]
pub(super) struct Flight {
    tenant: TenantId,
    subscriber: Handle<Subscriber>,
    target: Handle<Target>,
    group: u64,
    claim: ClaimRecord,
    probe: bool,
}

/// Why the log is asked about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The slot is being loaded.
    First,
    /// To see whether the outcome has come.
    Again,
}

impl Shard {
    /// Asks the log about claims that a former owner left for jobs which are not in the tail.
    pub(super) fn look_for_flights(&mut self, slot: Slot, claimed: Vec<(TenantId, JobKey)>, now: Time) {
        if !self.is_on_lease() {
            return;
        }
        self.slot(slot).claims_unread = claimed.len();
        for (tenant, key) in claimed {
            self.ask(Asked::Claim(key, Look::First, now), Read::Event { slot, tenant, sequence: key.sequence });
        }
    }

    /// Lets a job wait for what becomes of a former owner's attempt.
    pub(super) fn await_outcome(&mut self, handle: Handle<Job>, claim: ClaimRecord, now: Time) {
        let (key, subscriber) = (self.jobs[handle].key, self.jobs[handle].subscriber);
        let known = self.end_flight(key, now);
        let target = self.subscribers[subscriber].target;
        let probe = self.take_off(target);
        let destination = std::rc::Rc::clone(&self.targets[target].destination);
        let queue = &mut self.subscribers[subscriber].queue;
        let one_at_a_time = queue.is_one_at_a_time();
        queue.occupy(self.jobs[handle].group);
        let job = &mut self.jobs[handle];
        job.phase = Phase::Foreign(claim);
        job.out = one_at_a_time;
        job.probe = probe;
        job.sent_to = Some((target, destination));
        if !known {
            self.foreign.push_back(key);
        }
    }

    /// The attempt of a job that was not in memory is over, or the job is in memory now. False when there was none.
    pub(super) fn end_flight(&mut self, key: JobKey, now: Time) -> bool {
        let flight = self.slot(key.slot).flights.remove(&key);
        if let Some(flight) = &flight {
            self.land(flight, now);
        }
        flight.is_some()
    }

    /// One attempt more at a destination. Says whether it counts as its circuit's probe.
    fn take_off(&mut self, target: Handle<Target>) -> bool {
        let state = &mut self.targets[target];
        state.in_flight += 1;
        let probe = state.circuit.next_probe_at().is_some();
        state.circuit.begin_probe();
        probe
    }

    /// One attempt fewer at its destination, and its place in the order is free.
    fn land(&mut self, flight: &Flight, now: Time) {
        self.touch_down(flight.target, flight.probe, flight.claim, now);
        if let Some(subscriber) = self.subscribers.get_mut(flight.subscriber) {
            subscriber.queue.release(flight.group);
            self.list_subscriber(flight.subscriber);
        }
        self.drop_target_if_spent(flight.target);
    }

    fn touch_down(&mut self, target: Handle<Target>, probe: bool, claim: ClaimRecord, now: Time) {
        let Some(state) = self.targets.get_mut(target) else { return };
        state.in_flight -= 1;
        if probe {
            let since = state.circuit.last_transition_at();
            self.return_probe(target, claim.claimed_at.max(since), now);
        }
        self.list_target(target);
    }

    /// A queue was laid anew: those of its attempts that a former owner made hold their places.
    pub(super) fn occupy_for_flights(&mut self, handle: Handle<Subscriber>) {
        let slot = self.tenants[self.subscribers[handle].tenant].slot;
        let groups: Vec<u64> = self
            .slot(slot)
            .flights
            .values()
            .filter(|flight| flight.subscriber == handle)
            .map(|flight| flight.group)
            .collect();
        for group in groups {
            self.subscribers[handle].queue.occupy(group);
        }
    }

    /// Looks at the next of them in the log.
    pub(super) fn look_at_foreign(&mut self, now: Time) {
        for _ in 0..self.foreign.len().min(limits::FOREIGN_READS_PER_TICK) {
            let Some(key) = self.foreign.pop_front() else { return };
            let in_memory = self.job_of.get(&key).map(|job| self.tenants[self.jobs[*job].tenant].id.clone());
            let flight = self.slot(key.slot).flights.get(&key).map(|flight| flight.tenant.clone());
            if let Some(tenant) = in_memory.or(flight) {
                let read = Read::Event { slot: key.slot, tenant, sequence: key.sequence };
                self.ask(Asked::Claim(key, Look::Again, now), read);
            }
        }
    }

    /// What the log says of one of them, asked at `asked_at`.
    pub(super) fn claim_read(
        &mut self,
        key: JobKey,
        (look, asked_at): (Look, Time),
        event: Option<LoggedEvent>,
        now: Time,
    ) {
        match self.job_of.get(&key).copied() {
            Some(handle) if !self.slot(key.slot).flights.contains_key(&key) => {
                self.job_s_claim_read(handle, event, asked_at, now);
            }
            Some(_) | None => self.flight_s_claim_read(key, event, asked_at, now),
        }
        if look == Look::First {
            self.slot(key.slot).claims_unread -= 1;
            self.loaded_so_far(key.slot, now);
        }
    }

    /// Counts the attempt of a job that is not taken into memory.
    pub(super) fn note_flight(
        &mut self,
        key: JobKey,
        event: &Event,
        subscriber: Handle<Subscriber>,
        claim: ClaimRecord,
    ) {
        if self.slot(key.slot).flights.contains_key(&key) {
            return;
        }
        let target = self.subscribers[subscriber].target;
        let group = self.subscribers[subscriber].group_of(event, &self.targets[target].destination);
        let probe = self.take_off(target);
        self.subscribers[subscriber].queue.occupy(group);
        let flight = Flight { tenant: event.tenant.clone(), subscriber, target, group, claim, probe };
        self.slot(key.slot).flights.insert(key, flight);
        self.foreign.push_back(key);
    }

    fn flight_s_claim_read(&mut self, key: JobKey, event: Option<LoggedEvent>, asked_at: Time, now: Time) {
        let record = event.as_ref().and_then(|event| event.jobs.iter().find(|record| record.key == key));
        let open = record.and_then(|record| Some((record.subscription, record.open_claim?)));
        let open = open.filter(|(_, claim)| asked_at < claim.until);
        match (event, open) {
            (Some(_), Some(_)) if self.slot(key.slot).flights.contains_key(&key) => self.foreign.push_back(key),
            (Some(event), Some((subscription, claim))) => {
                if let Some(subscriber) = self.subscriber_of.get(&subscription).copied() {
                    self.note_flight(key, &event.event, subscriber, claim);
                }
            }
            (_, None) | (None, Some(_)) => {
                self.end_flight(key, now);
            }
        }
    }

    fn job_s_claim_read(&mut self, handle: Handle<Job>, event: Option<LoggedEvent>, asked_at: Time, now: Time) {
        let Some(job) = self.jobs.get(handle) else { return };
        let Phase::Foreign(claim) = job.phase else { return };
        let key = job.key;
        let Some(logged) = event else {
            self.release_foreign(handle, claim, now);
            return self.end_job(handle, End::DeadLettered(EndReason::Expired), now);
        };
        let record = logged.jobs.into_iter().find(|record| record.key == key);
        match &record {
            Some(record) if record.open_claim.is_none() => {
                self.release_foreign(handle, claim, now);
                self.outcome_found(handle, claim, record, now);
            }
            Some(_) | None if asked_at < claim.until => self.foreign.push_back(key),
            // Of two former owners' claims one came late, and the attempt of the other has ended the job.
            Some(record) if record.end.is_some() => {
                self.release_foreign(handle, claim, now);
                self.outcome_found(handle, claim, record, now);
            }
            Some(_) | None => {
                self.release_foreign(handle, claim, now);
                let open = record.and_then(|record| record.open_claim).unwrap_or(claim);
                if self.reclaim(handle, open, now) {
                    self.go_on(handle, now);
                }
            }
        }
    }

    /// The former owner has written the outcome down: the job goes on from there.
    fn outcome_found(&mut self, handle: Handle<Job>, claim: ClaimRecord, record: &JobRecord, now: Time) {
        let (key, subscriber) = (self.jobs[handle].key, self.jobs[handle].subscriber);
        if let Some((end, _)) = record.end {
            if end == End::Delivered {
                let target = self.subscribers[subscriber].target;
                let state = &mut self.targets[target];
                state.span.succeeded();
                let transition = state.circuit.succeeded(claim.claimed_at, false, now);
                self.circuit_moved(target, transition, now);
            }
            self.release_group(handle);
            self.forget_job(handle);
            self.depart(key);
            self.touch(key.slot);
            self.refill_if_low(subscriber);
            return self.drop_if_spent(subscriber);
        }
        let class = self.class_of(record, subscriber);
        let job = &mut self.jobs[handle];
        job.class = class;
        job.attempts = record.attempts;
        job.counted = record.counted;
        job.reclaims = record.reclaims;
        job.next_at = record.next_at.unwrap_or(Time::ZERO);
        job.last_status = record.last_status;
        job.last_error_kind = record.last_error_kind;
        self.go_on(handle, now);
    }

    /// Lets a job wait again that counts as in flight no longer: before others, if it is the first of its order.
    fn go_on(&mut self, handle: Handle<Job>, now: Time) {
        let subscriber = self.jobs[handle].subscriber;
        if self.subscribers[subscriber].deleted {
            return self.end_job(handle, End::Cancelled, now);
        }
        if let Some(reason) = self.past_its_time(handle, now) {
            return self.end_job(handle, End::DeadLettered(reason), now);
        }
        let job = &mut self.jobs[handle];
        job.rested_at = now;
        let (at, class) = (job.next_at, job.class);
        if class == Class::First || at <= now {
            self.requeue_first(handle);
        } else {
            self.release_group(handle);
            self.sleep_or_leave(handle, at, now);
        }
    }

    /// The job counts as in flight no longer.
    fn release_foreign(&mut self, handle: Handle<Job>, claim: ClaimRecord, now: Time) {
        let job = &mut self.jobs[handle];
        let (target, _) = job.sent_to.take().expect("an attempt goes somewhere");
        job.phase = Phase::Queued;
        let probe = std::mem::take(&mut job.probe);
        self.touch_down(target, probe, claim, now);
    }
}
