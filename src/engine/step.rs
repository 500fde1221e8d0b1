//! What comes next for a job whose attempt has ended: its end, or when and where it waits for the next one.

use super::arena::Handle;
use super::job::{Class, Cover, Job, Phase};
use super::retry;
use super::rows::Row;
use super::shard::Shard;
use crate::types::destination::Ordering;
use crate::types::{AttemptOutcome, AttemptRecord, ClaimRecord, End, EndReason, RunId, Time, Verdict};

/// What comes next for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: it has ended.
    End { end: End, counted: bool },
    /// Another attempt at this time.
    Again { at: Time, counted: bool },
}

impl Shard {
    /// What an outcome means for its job. The failure of a circuit's probe uses no step.
    pub(super) fn step(
        &mut self,
        handle: Handle<Job>,
        verdict: Verdict,
        probe: bool,
        outcome: &AttemptOutcome,
        now: Time,
    ) -> Step {
        let job = &mut self.jobs[handle];
        job.fresh_connection = verdict == Verdict::Stale;
        job.stale_used = verdict == Verdict::Stale;
        job.faults = if verdict == Verdict::HubFault { job.faults + 1 } else { 0 };
        let subscriber = job.subscriber;
        match verdict {
            Verdict::Delivered => Step::End { end: End::Delivered, counted: true },
            Verdict::Gone => Step::End { end: End::DeadLettered(EndReason::Gone), counted: true },
            Verdict::Failed | Verdict::Throttled | Verdict::HubFault | Verdict::Interrupted | Verdict::Stale
                if self.subscribers[subscriber].deleted =>
            {
                Step::End { end: End::Cancelled, counted: false }
            }
            Verdict::Failed if probe => Step::Again { at: now, counted: false },
            Verdict::Failed | Verdict::Throttled => self.next_step(handle, outcome, now),
            Verdict::HubFault => self.after_hub_fault(handle, now),
            Verdict::Interrupted | Verdict::Stale => Step::Again { at: now, counted: false },
        }
    }

    fn next_step(&mut self, handle: Handle<Job>, outcome: &AttemptOutcome, now: Time) -> Step {
        let job = &self.jobs[handle];
        let destination = self.destination_of(job.subscriber);
        let policy = self.subscribers[job.subscriber].retry(&destination);
        let Some(at) = retry::next_attempt_at(policy, job.counted + 1, now, &mut self.rng) else {
            return Step::End { end: End::DeadLettered(EndReason::Exhausted), counted: true };
        };
        let hint = super::outcome::hold_until(outcome, now).unwrap_or(now);
        Step::Again { at: at.max(hint), counted: true }
    }

    fn after_hub_fault(&mut self, handle: Handle<Job>, now: Time) -> Step {
        let job = &self.jobs[handle];
        if now >= job.deadline {
            return Step::End { end: End::DeadLettered(EndReason::Expired), counted: false };
        }
        Step::Again { at: retry::hub_fault_at(job.faults, now, &mut self.rng), counted: false }
    }

    /// Writes the attempt down and lets the job end or wait.
    pub(super) fn take_step(
        &mut self,
        handle: Handle<Job>,
        claim: ClaimRecord,
        outcome: AttemptOutcome,
        step: Step,
        now: Time,
    ) {
        match step {
            Step::End { end, counted } => {
                self.write_attempt(handle, claim, outcome, (counted, None, Some(end)));
                self.finish(handle, end, now);
            }
            Step::Again { at, counted } => {
                self.counters.retries += 1;
                self.write_attempt(handle, claim, outcome, (counted, Some(at), None));
                self.wait_for_retry(handle, at, now);
            }
        }
    }

    /// Writes an attempt's row: whether it counted, when the job is due again, how it ended.
    pub(super) fn write_attempt(
        &mut self,
        handle: Handle<Job>,
        claim: ClaimRecord,
        outcome: AttemptOutcome,
        (counted, next_at, end): (bool, Option<Time>, Option<End>),
    ) {
        let job = &mut self.jobs[handle];
        let (_, destination) = job.sent_to.take().expect("an attempt went somewhere");
        job.attempts += 1;
        job.counted += u32::from(counted);
        let record = AttemptRecord {
            number: job.attempts,
            claim,
            destination: destination.id,
            url: destination.url.as_str().into(),
            outcome,
            counted,
            reclaim: false,
            next_at,
        };
        let (key, tenant) = (job.key, job.tenant);
        let tenant = self.tenants[tenant].id.clone();
        self.slot(key.slot).pipeline.push(Row::Attempt { tenant, key, record: Box::new(record), end });
        self.touch(key.slot);
    }

    /// Lets a job that has been tried wait for its next attempt: at the head of its queue, asleep, or in the log.
    fn wait_for_retry(&mut self, handle: Handle<Job>, at: Time, now: Time) {
        let subscriber = self.jobs[handle].subscriber;
        let strict = self.jobs[handle].run == RunId::MATCH && self.ordering_of(subscriber) == Ordering::Strict;
        let job = &mut self.jobs[handle];
        job.phase = Phase::Queued;
        job.next_at = at;
        job.rested_at = now;
        job.class = if strict { Class::First } else { Class::Retry };
        if at <= now {
            self.requeue_first(handle);
        } else if strict {
            self.sleep(handle, at);
        } else {
            self.release_group(handle);
            self.sleep_or_leave(handle, at, now);
        }
    }

    /// A near retry sleeps in memory; a far one, or one too many, is left to the log. While a circuit is not
    /// closed its destination keeps one job to probe with.
    pub(super) fn sleep_or_leave(&mut self, handle: Handle<Job>, at: Time, now: Time) {
        let bounds = &self.settings.bounds;
        let crowded = self.is_crowded(self.jobs[handle].tenant);
        let near = now + bounds.near_future;
        if at <= near && !crowded {
            self.sleep(handle, at);
            return;
        }
        let target = &self.targets[self.subscribers[self.jobs[handle].subscriber].target];
        let needed = target.circuit.next_probe_at().is_some() && target.sleeping.is_empty();
        if !needed {
            self.leave_until(handle, at);
            return;
        }
        if !matches!(self.jobs[handle].cover, Cover::Due(_)) {
            self.cover_by_due(handle, at);
        }
        self.sleep(handle, at);
    }
}
