//! The rows of one job and how they fold into its record.

use std::collections::BTreeMap;

use crate::types::{
    AttemptId, AttemptRecord, ClaimRecord, DestinationId, End, EndReason, JobKey, JobRecord, RunId, SubscriptionId,
    Time, Trigger,
};

/// An attempt's number and id. Two owners of a slot, one after the other, may give one number twice.
type AttemptName = (u32, AttemptId);

/// One job; its claims and attempts by number and id, each kind of end apart.
#[derive(Clone, Debug, Default)]
pub(super) struct JobRows {
    pub(super) made: Option<Made>,
    claims: BTreeMap<AttemptName, ClaimRecord>,
    attempts: BTreeMap<AttemptName, AttemptRecord>,
    delivered_at: Option<Time>,
    cancelled_at: Option<Time>,
    dead_lettered: Option<(EndReason, Time)>,
}

/// What the row that made the job says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) subscription: SubscriptionId,
    pub(super) destination: DestinationId,
    pub(super) run: RunId,
    pub(super) trigger: Trigger,
    pub(super) created_at: Time,
}

impl JobRows {
    pub(super) fn claim(&mut self, number: u32, claim: ClaimRecord) {
        self.claims.insert((number, claim.attempt), claim);
    }

    pub(super) fn attempt(&mut self, record: &AttemptRecord) {
        self.attempts.insert((record.number, record.claim.attempt), record.clone());
    }

    /// The attempts that have ended, by number.
    pub(super) fn attempts(&self) -> impl DoubleEndedIterator<Item = &AttemptRecord> {
        self.attempts.values()
    }

    /// Of two ends the stronger stands; of two of one kind, the first.
    pub(super) fn end(&mut self, end: End, at: Time) {
        match end {
            End::Delivered => {
                self.delivered_at.get_or_insert(at);
            }
            End::Cancelled => {
                self.cancelled_at.get_or_insert(at);
            }
            End::DeadLettered(reason) => {
                self.dead_lettered.get_or_insert((reason, at));
            }
        }
    }

    fn strongest_end(&self) -> Option<(End, Time)> {
        let delivered = self.delivered_at.map(|at| (End::Delivered, at));
        let cancelled = self.cancelled_at.map(|at| (End::Cancelled, at));
        let dead = self.dead_lettered.map(|(reason, at)| (End::DeadLettered(reason), at));
        delivered.or(cancelled).or(dead)
    }

    /// The job as its rows fold; absent while no row has made it.
    pub(super) fn record(&self, key: JobKey) -> Option<JobRecord> {
        let made = self.made?;
        let attempts = || self.attempts();
        let last = attempts().next_back();
        let open = self.claims.iter().rev().find(|(name, _)| !self.attempts.contains_key(name));
        Some(JobRecord {
            key,
            subscription: made.subscription,
            destination: made.destination,
            run: made.run,
            trigger: made.trigger,
            created_at: made.created_at,
            attempts: count(attempts()),
            counted: count(attempts().filter(|attempt| attempt.counted)),
            reclaims: count(attempts().filter(|attempt| attempt.reclaim)),
            open_claim: open.map(|(_, claim)| *claim),
            next_at: last.and_then(|attempt| attempt.next_at),
            last_status: last.and_then(|attempt| attempt.outcome.status),
            last_error_kind: last.and_then(|attempt| attempt.outcome.error_kind),
            end: self.strongest_end(),
        })
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}
