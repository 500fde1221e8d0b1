//! One attempt: claimed durably, started, ended, and what its outcome means for job, destination and log.

use std::rc::Rc;

use super::arena::Handle;
use super::circuit::Transition;
use super::job::{Class, Cover, Job, Phase};
use super::outcome::{hold_until, verdict};
use super::pipeline::Effect;
use super::rows::Row;
use super::shard::Shard;
use super::target::Target;
use super::{Dispatch, JobToken, Notice, Output, retry};
use crate::types::destination::Ordering;
use crate::types::ids::uuid_v7;
use crate::types::subscription::DisabledReason;
use crate::types::{
    AttemptId, AttemptOutcome, ClaimRecord, Destination, End, ErrorKind, SubscriptionId, Time, Verdict, limits,
};

impl Shard {
    /// Claims a job: the claim is made durable, then the attempt starts.
    pub(super) fn claim(&mut self, handle: Handle<Job>, probe: bool, alone: bool, now: Time) {
        let leased = self.is_on_lease();
        let job = &self.jobs[handle];
        let (key, class, target) = (job.key, job.class, self.subscribers[job.subscriber].target);
        let number = job.attempts + 1;
        let attempt = AttemptId(uuid_v7(now, self.rng.u128(..)));
        let until = now + self.targets[target].destination.timeout() + limits::CLAIM_GRACE;
        let claim = ClaimRecord { attempt, claimed_at: now, until, alone };
        self.count_in(target, class);
        if probe {
            self.targets[target].circuit.begin_probe();
        }
        if let Some(bucket) = &mut self.targets[target].bucket {
            bucket.take(now);
        }
        let tenant = self.jobs[handle].tenant;
        self.tenants[tenant].in_flight += 1;
        self.begin_strict_deadline(handle, now);
        let destination = Rc::clone(&self.targets[target].destination);
        let job = &mut self.jobs[handle];
        job.phase = Phase::Claimed(claim);
        job.sent_to = Some((target, destination));
        job.probe = probe;
        // On a lease a job that low-water may pass has its claim where a taker finds it.
        let first = job.attempts == 0 && (!leased || job.cover == Cover::Tail);
        let tenant = self.tenants[tenant].id.clone();
        let pipeline = &mut self.slot(key.slot).pipeline;
        let riding = if first { pipeline.gathering_jobs(key.sequence) } else { None };
        match riding.and_then(|jobs| jobs.get_mut(usize::from(key.ordinal))) {
            Some(new_job) => new_job.claim = Some(claim),
            None => pipeline.push(Row::Claim { tenant, key, number, claim }),
        }
        pipeline.follow(Effect::Start(handle));
        self.touch(key.slot);
    }

    /// Under `strict` the deadline begins when the job is first.
    fn begin_strict_deadline(&mut self, handle: Handle<Job>, now: Time) {
        let subscriber = self.jobs[handle].subscriber;
        if self.jobs[handle].attempts == 0 && self.ordering_of(subscriber) == Ordering::Strict {
            let destination = self.destination_of(subscriber);
            self.jobs[handle].deadline = retry::deadline(self.subscribers[subscriber].retry(&destination), now);
        }
    }

    fn count_in(&mut self, target: Handle<Target>, class: Class) {
        self.in_flight += 1;
        let target = &mut self.targets[target];
        target.in_flight += 1;
        if target.slow {
            self.slow_in_flight += 1;
        }
        if class == Class::Retry {
            self.retries_in_flight += 1;
        }
    }

    /// The attempt is over or never was: shares and permits come back, and whoever waited for them is listed.
    fn count_out(&mut self, handle: Handle<Job>) {
        let (target, _) = self.sent_to(handle);
        let job = &self.jobs[handle];
        let (tenant, class) = (job.tenant, job.class);
        self.in_flight -= 1;
        self.alone = false;
        if class == Class::Retry {
            self.retries_in_flight -= 1;
        }
        self.tenants[tenant].in_flight -= 1;
        let state = &mut self.targets[target];
        state.in_flight -= 1;
        if state.slow {
            self.slow_in_flight -= 1;
        }
        self.list_target(target);
        self.list_tenant(tenant);
    }

    /// Where the attempt under way goes.
    fn sent_to(&self, handle: Handle<Job>) -> (Handle<Target>, Rc<Destination>) {
        self.jobs[handle].sent_to.clone().expect("a claimed job goes somewhere")
    }

    /// A claim is durable: the attempt starts, unless something has changed since.
    pub(super) fn start(&mut self, handle: Handle<Job>, now: Time) {
        let Some(job) = self.jobs.get(handle) else { return };
        let Phase::Claimed(claim) = job.phase else { return };
        let (subscriber, tenant) = (job.subscriber, job.tenant);
        let target = self.subscribers[subscriber].target;
        if self.subscribers[subscriber].deleted || self.targets[target].deleted {
            self.withdraw_claim(handle, now);
            self.end_job(handle, End::Cancelled, now);
            return;
        }
        let moved = self.sent_to(handle).0 != target;
        let late = now + self.targets[target].destination.timeout() > claim.until;
        let held = moved || late || !self.subscribers[subscriber].is_live() || self.tenants[tenant].paused;
        if held || self.draining || !self.holds_lease(now) || !self.circuit_lets_through(handle, now) {
            self.withdraw_claim(handle, now);
            self.write_not_started(handle, claim, now);
            self.requeue_first(handle);
            return;
        }
        self.dispatch(handle, claim, now);
    }

    fn circuit_lets_through(&self, handle: Handle<Job>, now: Time) -> bool {
        use super::circuit::Permit;
        let job = &self.jobs[handle];
        let target = &self.targets[self.subscribers[job.subscriber].target];
        let open = matches!(target.circuit.permit(now), Permit::Free | Permit::AtMost(_));
        job.probe || open
    }

    fn dispatch(&mut self, handle: Handle<Job>, claim: ClaimRecord, now: Time) {
        let subscriber = self.jobs[handle].subscriber;
        let destination = self.destination_of(subscriber);
        let job = &mut self.jobs[handle];
        job.phase = Phase::Started(claim, now);
        job.sent_to = job.sent_to.take().map(|(target, _)| (target, Rc::clone(&destination)));
        let dispatch = Dispatch {
            token: JobToken(handle.to_bits()),
            attempt: claim.attempt,
            number: job.attempts + 1,
            started_at: now,
            deadline: now + destination.timeout(),
            event: Rc::clone(&self.held[job.held].event),
            subscription: Rc::clone(&self.subscribers[subscriber].subscription),
            fresh_connection: job.fresh_connection,
            destination,
        };
        self.started.push_back((now, handle));
        self.outputs.push_back(Output::Dispatch(Box::new(dispatch)));
    }

    /// Takes a claim back whose attempt never started.
    pub(super) fn withdraw_claim(&mut self, handle: Handle<Job>, now: Time) {
        let job = &self.jobs[handle];
        let Phase::Claimed(claim) = job.phase else { return };
        let probe = job.probe;
        if probe {
            self.return_probe(self.sent_to(handle).0, claim.claimed_at, now);
        }
        self.count_out(handle);
        let job = &mut self.jobs[handle];
        job.probe = false;
        job.phase = Phase::Queued;
    }

    /// The log says that a claimed attempt never started: a crash would take the open claim for a reclaim, and enough
    /// of those make a job poison that was never sent.
    fn write_not_started(&mut self, handle: Handle<Job>, claim: ClaimRecord, now: Time) {
        let outcome = AttemptOutcome {
            ended_at: now,
            error_kind: Some(ErrorKind::Interrupted),
            error: Some("not started: it was held back meanwhile".into()),
            ..AttemptOutcome::default()
        };
        self.write_attempt(handle, claim, outcome, (false, Some(now), None));
    }

    pub(super) fn return_probe(&mut self, target: Handle<Target>, began_at: Time, now: Time) {
        let state = &mut self.targets[target];
        if began_at < state.circuit.last_transition_at() {
            return;
        }
        state.circuit.probe_returned(now, &mut self.rng);
        if let Some(at) = state.circuit.next_probe_at() {
            self.wake_target_at(target, at);
        }
    }

    /// An attempt ended. An answer to an attempt that is not under way is ignored.
    pub(super) fn attempt_ended(&mut self, token: JobToken, outcome: AttemptOutcome, now: Time) {
        let handle = Handle::from_bits(token.0);
        let Some(job) = self.jobs.get(handle) else { return };
        let Phase::Started(claim, started_at) = job.phase else { return };
        let (stale_used, alone) = (job.stale_used, claim.alone);
        let (_, destination) = self.sent_to(handle);
        let verdict = verdict(&outcome, destination.on_410, stale_used);
        if alone {
            let since = self.held_back_since.take().unwrap_or(started_at);
            self.next_suspect_at = now + now.since(since);
        }
        let probe = self.learn(handle, started_at, verdict, &outcome, now);
        self.count_out(handle);
        self.jobs[handle].last_status = outcome.status;
        self.jobs[handle].last_error_kind = outcome.error_kind;
        self.counters.attempts.count(outcome.error_kind.map_or("delivered", ErrorKind::as_str));
        self.counters.attempt_latencies.observe(now.since(started_at));
        let step = self.step(handle, verdict, probe, &outcome, now);
        if verdict == Verdict::Gone {
            self.gone(handle, now);
        }
        self.take_step(handle, claim, outcome, step, now);
    }

    /// What the outcome teaches of the destination. Says whether the attempt was the circuit's probe.
    fn learn(
        &mut self,
        handle: Handle<Job>,
        started_at: Time,
        verdict: Verdict,
        outcome: &AttemptOutcome,
        now: Time,
    ) -> bool {
        let (target, _) = self.sent_to(handle);
        let probe = std::mem::take(&mut self.jobs[handle].probe);
        let state = &mut self.targets[target];
        let transition = match verdict {
            Verdict::Delivered => {
                state.span.succeeded();
                state.circuit.succeeded(started_at, probe, now)
            }
            Verdict::Failed => {
                state.span.failed(now);
                state.circuit.failed(started_at, probe, now, &mut self.rng)
            }
            Verdict::Gone | Verdict::Throttled | Verdict::HubFault | Verdict::Interrupted | Verdict::Stale => {
                if probe {
                    self.return_probe(target, started_at, now);
                }
                None
            }
        };
        let state = &mut self.targets[target];
        if !matches!(verdict, Verdict::HubFault | Verdict::Interrupted) {
            state.took(now.since(started_at));
        }
        if let Some(until) = hold_until(outcome, now) {
            state.hold_until = Some(state.hold_until.map_or(until, |hold| hold.max(until)));
            self.write_target(target);
        }
        self.judge_speed(target);
        self.circuit_moved(target, transition, now);
        self.auto_disable(target, verdict, now);
        probe
    }

    /// Whether a destination is slow follows its mean duration.
    fn judge_speed(&mut self, target: Handle<Target>) {
        let state = &mut self.targets[target];
        let slow = state.is_slow_in_the_mean();
        if slow == state.slow {
            return;
        }
        state.slow = slow;
        if slow { self.slow_in_flight += state.in_flight } else { self.slow_in_flight -= state.in_flight }
    }

    /// A destination whose attempts hang counts as slow before the first of them ends.
    pub(super) fn notice_slow(&mut self, now: Time) {
        while let Some((started_at, handle)) = self.started.front().copied() {
            let under_way =
                self.jobs.get(handle).is_some_and(|job| matches!(job.phase, Phase::Started(_, at) if at == started_at));
            if under_way && now.since(started_at) < limits::SLOW_MEAN {
                return;
            }
            self.started.pop_front();
            if under_way {
                let (target, _) = self.sent_to(handle);
                let state = &mut self.targets[target];
                state.took(limits::SLOW_MEAN.times(16));
                self.judge_speed(target);
            }
        }
    }

    /// Remembers a destination's circuit and tells of its transition.
    pub(super) fn circuit_moved(&mut self, handle: Handle<Target>, transition: Option<Transition>, now: Time) {
        self.remember_target(handle);
        let state = &self.targets[handle];
        if let Some(at) = state.circuit.next_probe_at() {
            self.wake_target_at(handle, at.max(now));
        }
        let Some(transition) = transition else { return };
        self.write_target(handle);
        let state = &self.targets[handle];
        let open = match transition {
            Transition::Opened => {
                self.counters.circuits_opened += 1;
                true
            }
            Transition::Reopened => true,
            Transition::Closed => false,
        };
        let (tenant, destination) = (self.tenants[state.tenant].id.clone(), state.destination.id);
        self.outputs.push_back(Output::Notice(Notice::Circuit { tenant, destination, open }));
        self.list_target(handle);
    }

    fn auto_disable(&mut self, handle: Handle<Target>, verdict: Verdict, now: Time) {
        let state = &self.targets[handle];
        if verdict != Verdict::Failed || !state.span.trips(&self.settings.auto_disable, now) {
            return;
        }
        let mut subscriptions = Vec::new();
        for subscriber in state.subscribers.clone() {
            if self.disable(subscriber, DisabledReason::AutoDisabled, now) {
                subscriptions.push(self.subscribers[subscriber].subscription.id);
            }
        }
        self.tell_disabled(handle, subscriptions, DisabledReason::AutoDisabled);
    }

    /// Disables a subscription here and now; `false` when it was not enabled.
    fn disable(&mut self, handle: Handle<super::subscriber::Subscriber>, reason: DisabledReason, now: Time) -> bool {
        let subscriber = &mut self.subscribers[handle];
        if !subscriber.subscription.enabled || subscriber.deleted {
            return false;
        }
        let subscription = Rc::make_mut(&mut subscriber.subscription);
        subscription.enabled = false;
        subscription.disabled_reason = Some(reason);
        subscription.disabled_at = Some(now);
        let (id, tenant) = (subscription.id, subscriber.tenant);
        self.tenants[tenant].matcher.remove(id);
        true
    }

    fn tell_disabled(&mut self, target: Handle<Target>, subscriptions: Vec<SubscriptionId>, reason: DisabledReason) {
        if !subscriptions.is_empty() {
            self.counters.subscriptions_disabled.add(reason.as_str(), subscriptions.len() as u64);
            let tenant = self.tenants[self.targets[target].tenant].id.clone();
            self.outputs.push_back(Output::Disable { tenant, subscriptions, reason });
        }
    }

    /// The destination wants no more of this subscription.
    fn gone(&mut self, handle: Handle<Job>, now: Time) {
        let subscriber = self.jobs[handle].subscriber;
        let target = self.subscribers[subscriber].target;
        if self.disable(subscriber, DisabledReason::Gone, now) {
            let id = self.subscribers[subscriber].subscription.id;
            self.tell_disabled(target, vec![id], DisabledReason::Gone);
        }
    }
}
