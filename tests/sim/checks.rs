//! The promises, watched: each check sees an input, an output or a durable batch and knows nothing of the engine.

use std::collections::{BTreeMap, BTreeSet};

use streaming_hub::engine::rows::{Batch, NewJob, Row};
use streaming_hub::engine::{Settled, SettledItem};
use streaming_hub::types::{
    AttemptId, AttemptRecord, ClaimRecord, ConfigChange, End, EndReason, Event, JobKey, RunId, Sequence, Slot,
    SubscriptionId, TenantId, Time,
};
use uuid::Uuid;

use crate::circuits::Circuits;
use crate::config::Config;
use crate::events::EventPlan;
use crate::oracle::{Oracle, Step, Wanted};
use crate::order::Order;
use crate::rates::Rates;

/// A promise that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Accepted is durable before it is said so (invariant 1).
    Durable,
    /// A lane's position never passes what is not durable, dropped or quarantined (2).
    Position,
    /// One job per event, subscription and run, as matching has it (3).
    Jobs,
    /// One end per job, and the right one (3).
    End,
    /// A job, a request, a record or a command that never ends (3).
    Stuck,
    /// Something accepted is gone (4).
    Lost,
    /// A second 2xx that no crash explains (4).
    SecondSuccess,
    /// Something is larger than its bound (6).
    Bound,
    /// One probe at a time, not before its time (8).
    Probe,
    /// First attempts in order, one at a time (8).
    Order,
    /// An attempt is claimed durably, once, for an open job.
    Claim,
    /// One event per tenant and id.
    Dedup,
    /// Nothing is sent for what is deleted, disabled or paused.
    Deleted,
    /// An attempt is made with the configuration in force.
    Stale,
    /// No tenant delays another (5).
    Delay,
    /// A tenant's event went to another tenant's destination (5).
    Tenancy,
    /// A retry comes before its time.
    Early,
    /// Rate limits hold.
    Rate,
    /// `Retry-After` holds the destination.
    Hold,
    /// What a slot's record says of its log is true.
    SlotRecord,
    /// The engine keeps the terms it has with its shell.
    Terms,
    /// The engine panicked.
    Panic,
}

/// A promise seen broken.
#[derive(Clone, Debug)]
pub struct Violation {
    pub rule: Rule,
    pub at: Time,
    pub text: String,
}

/// A job's name across tenants.
pub type JobPlace = (TenantId, JobKey);

/// What the checks know of a job.
#[derive(Clone, Debug)]
pub struct JobView {
    pub subscription: SubscriptionId,
    pub run: RunId,
    pub subject: String,
    pub end: Option<End>,
    pub durable_at: Time,
    pub due: BTreeSet<Time>,
    /// A command has touched it: it may be out of order and early.
    pub commanded: bool,
    pub attempts: BTreeMap<u32, AttemptRecord>,
    /// Attempts that the receiver answered with 2xx, each with the generation it was made in.
    pub successes: Vec<(AttemptId, u32)>,
}

/// What the checks know of a claim.
#[derive(Clone, Debug)]
pub struct ClaimView {
    pub job: JobPlace,
    pub number: u32,
    pub claim: ClaimRecord,
    pub durable: bool,
    pub dispatched: bool,
}

/// All that the checks know.
#[derive(Default)]
pub struct Checks {
    pub violation: Option<Violation>,
    pub now: Time,
    pub step: Step,
    pub generation: u32,
    /// Tenant 0 is a bad neighbour; the others' first attempts must come at once.
    pub quarrel: bool,
    // What was meant to happen.
    pub plans: BTreeMap<(TenantId, Uuid), EventPlan>,
    pub admitted: BTreeMap<(TenantId, Uuid), Step>,
    pub applied: Config,
    pub oracle: Oracle,
    pub allowed_runs: BTreeSet<RunId>,
    // What is durable.
    pub events: BTreeMap<(TenantId, Uuid), (Slot, Sequence)>,
    pub sequences: BTreeMap<(Slot, Sequence), (TenantId, Uuid)>,
    pub jobs: BTreeMap<JobPlace, JobView>,
    pub open: BTreeSet<JobPlace>,
    pub quarantined: BTreeSet<(i32, u64)>,
    /// The ids of events in quarantine because the store refuses them.
    pub unstorable: BTreeSet<bytes::Bytes>,
    pub overflow: BTreeMap<SubscriptionId, Sequence>,
    pub due_bounds: BTreeMap<Slot, Time>,
    pub flushed_ids: BTreeSet<(Slot, Sequence)>,
    // What is going on.
    pub claims: BTreeMap<AttemptId, ClaimView>,
    pub order: Order,
    pub circuits: Circuits,
    pub rates: Rates,
}

impl Checks {
    /// Notes the first broken promise.
    pub fn fail(&mut self, rule: Rule, text: String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { rule, at: self.now, text });
        }
    }

    /// Notes a broken promise unless `holds`.
    pub fn expect(&mut self, holds: bool, rule: Rule, text: impl FnOnce() -> String) {
        if !holds {
            self.fail(rule, text());
        }
    }

    /// A new life begins: what only memory knew is gone.
    pub fn begin_life(&mut self, generation: u32) {
        self.generation = generation;
        self.admitted.clear();
        self.applied = Config::default();
        self.oracle = Oracle::default();
        self.order.begin_life();
        self.rates = Rates::default();
    }

    /// An event goes to an engine for admission.
    pub fn admit(&mut self, tenant: &TenantId, id: Uuid) {
        let step = self.step;
        self.admitted.entry((tenant.clone(), id)).or_insert(step);
    }

    /// A shard has handled a configuration change.
    pub fn configured(&mut self, change: &ConfigChange) {
        self.applied.apply(change);
        self.oracle.learn(change, &self.applied, self.step);
        self.order.configured(change, &self.applied, self.now);
    }

    /// The engine asks for a batch to be made durable.
    pub fn commit(&mut self, batch: &Batch) {
        // A claim may ride in an event's row and so stand before an earlier one.
        let mut claims = Vec::new();
        for row in batch.rows.iter() {
            match row {
                Row::Event { event, jobs } => {
                    self.check_match(event, jobs);
                    let slot = Slot(match batch.unit {
                        streaming_hub::engine::Unit::Slot(slot) => slot.0,
                        streaming_hub::engine::Unit::Lanes => u16::MAX,
                    });
                    for (ordinal, job) in (0_u16..).zip(jobs) {
                        let key = JobKey { slot, sequence: event.sequence, ordinal };
                        if let Some(claim) = job.claim {
                            claims.push(((event.tenant.clone(), key), 1, claim, job.subscription));
                        }
                    }
                }
                Row::Claim { tenant, key, number, claim } => {
                    let place = (tenant.clone(), *key);
                    let subscription = self.jobs.get(&place).map(|job| job.subscription);
                    let in_batch = || subscription_in(batch, key);
                    if let Some(subscription) = subscription.or_else(in_batch) {
                        claims.push((place, *number, *claim, subscription));
                    } else {
                        // Left over from an event that the store refused meanwhile; nothing may come of it.
                        let refused = !self.unstorable.is_empty();
                        self.expect(refused, Rule::Claim, || format!("a claim for {key:?}, which is no job"));
                    }
                }
                Row::Run { .. }
                | Row::Attempt { .. }
                | Row::End { .. }
                | Row::DeadLetter { .. }
                | Row::Due { .. }
                | Row::Overflow { .. }
                | Row::Destination { .. }
                | Row::Ids { .. }
                | Row::Slot(_)
                | Row::Lane { .. }
                | Row::Quarantine(_) => {}
            }
        }
        claims.sort_by_key(|(_, _, claim, _)| claim.claimed_at);
        for (place, number, claim, subscription) in claims {
            self.claimed(place, number, claim, subscription);
        }
    }

    fn claimed(&mut self, job: JobPlace, number: u32, claim: ClaimRecord, subscription: SubscriptionId) {
        if let Some(known) = self.claims.get(&claim.attempt) {
            let same = known.job == job && known.number == number;
            return self.expect(same, Rule::Claim, || format!("{} claims two attempts", claim.attempt));
        }
        let tenant = job.0.clone();
        if let Some(subscription) = self.applied.subscriptions.get(&(tenant.clone(), subscription)) {
            let destination = (tenant, subscription.destination_id);
            let limit = self.applied.destinations.get(&destination).and_then(|d| d.rate_limit);
            let affordable = limit.is_none_or(|limit| self.rates.take(destination.1, limit, claim.claimed_at));
            self.expect(affordable, Rule::Rate, || format!("{} exceeds {limit:?}", claim.attempt));
        }
        let dispatched = false;
        self.claims.insert(claim.attempt, ClaimView { job, number, claim, durable: false, dispatched });
    }

    fn check_match(&mut self, event: &Event, jobs: &[NewJob]) {
        let place = (event.tenant.clone(), event.id);
        let (Some(plan), Some(from)) = (self.plans.get(&place), self.admitted.get(&place)) else {
            return self.fail(Rule::Jobs, format!("an event {} that nobody sent", event.id));
        };
        let wanted = self.oracle.wanted(plan, *from, self.step);
        let made: BTreeSet<SubscriptionId> = jobs.iter().map(|job| job.subscription).collect();
        let ordered = jobs.is_sorted_by(|a, b| a.subscription < b.subscription);
        self.expect(ordered, Rule::Jobs, || format!("jobs of {} are not in order of subscription", place.1));
        for (subscription, wanted) in &wanted {
            let fits = match wanted {
                Wanted::Yes => made.contains(subscription),
                Wanted::No => !made.contains(subscription),
                Wanted::Either => true,
            };
            self.expect(fits, Rule::Jobs, || format!("{subscription} and event {}: wanted {wanted:?}", place.1));
        }
        let known = made.iter().all(|subscription| wanted.contains_key(subscription));
        self.expect(known, Rule::Jobs, || format!("event {} has a job for an unknown subscription", place.1));
    }

    /// An arrival is answered.
    pub fn settled(&mut self, settled: &Settled, events: &[(TenantId, Uuid)]) {
        let whole = settled.items.len() == events.len();
        self.expect(whole, Rule::Terms, || format!("{:?} has {} items", settled.ticket, settled.items.len()));
        // What arrives together is stored together or not at all.
        let unstorable = events.iter().any(|place| self.plans.get(place).is_some_and(|plan| plan.unstorable));
        for (item, place) in settled.items.iter().zip(events) {
            let stored = self.events.get(place).map(|(_, sequence)| *sequence);
            let holds = match item {
                SettledItem::Stored(sequence) | SettledItem::Duplicate(sequence) => stored == Some(*sequence),
                SettledItem::Unstorable => unstorable,
                SettledItem::Overloaded => true,
            };
            self.expect(holds, Rule::Durable, || format!("{item:?} is said of {place:?}, stored as {stored:?}"));
        }
    }

    /// A receiver has taken a request and answers 2xx.
    pub fn succeeded(&mut self, attempt: AttemptId, generation: u32) {
        let Some(place) = self.claims.get(&attempt).map(|view| view.job.clone()) else { return };
        let Some(job) = self.jobs.get_mut(&place) else { return };
        let hidden = |(earlier, made): &(AttemptId, u32)| {
            let recorded = |record: &AttemptRecord| {
                record.claim.attempt == *earlier && record.outcome.status.is_some_and(|s| (200..300).contains(&s))
            };
            *made < generation && !job.attempts.values().any(recorded)
        };
        let explained = job.successes.iter().all(hidden);
        let text = format!("{place:?} succeeded before as {:?}, now as {attempt}", job.successes);
        job.successes.push((attempt, generation));
        self.expect(explained, Rule::SecondSuccess, || text);
    }

    /// Why a job may be dead-lettered for `reason`, as far as its rows tell.
    pub fn end_is_right(&self, place: &JobPlace, job: &JobView, end: End, at: Time) -> bool {
        let tenant_place = (place.0.clone(), job.subscription);
        let statuses = || job.attempts.values().filter_map(|attempt| attempt.outcome.status);
        match end {
            End::Delivered => !job.successes.is_empty(),
            End::Cancelled => self.applied.deleted_subscriptions.contains(&tenant_place),
            End::DeadLettered(EndReason::Gone) => statuses().any(|status| status == 410),
            End::DeadLettered(EndReason::Exhausted) => job.attempts.values().any(|attempt| attempt.counted),
            End::DeadLettered(EndReason::Poison) => job.attempts.values().filter(|attempt| attempt.reclaim).count() > 5,
            End::DeadLettered(EndReason::CircuitOpen | EndReason::Expired) => {
                let begun = job.attempts.values().map(|attempt| attempt.claim.claimed_at).min();
                let day = streaming_hub::types::limits::DEADLINE_MIN;
                begun.is_none_or(|begun| at >= begun) && at.since(crate::scenario::START) >= day
            }
        }
    }
}

fn subscription_in(batch: &Batch, key: &JobKey) -> Option<SubscriptionId> {
    batch.rows.iter().find_map(|row| match row {
        Row::Event { event, jobs } if event.sequence == key.sequence => {
            jobs.get(usize::from(key.ordinal)).map(|job| job.subscription)
        }
        Row::Run { key: made, subscription, .. } if made == key => Some(*subscription),
        Row::Event { .. }
        | Row::Run { .. }
        | Row::Claim { .. }
        | Row::Attempt { .. }
        | Row::End { .. }
        | Row::DeadLetter { .. }
        | Row::Due { .. }
        | Row::Overflow { .. }
        | Row::Destination { .. }
        | Row::Ids { .. }
        | Row::Slot(_)
        | Row::Lane { .. }
        | Row::Quarantine(_) => None,
    })
}
