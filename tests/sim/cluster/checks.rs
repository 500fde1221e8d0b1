//! The promises of a cluster, watched.

use std::collections::BTreeMap;

use streaming_hub::engine::rows::{Batch, NewJob, Row};
use streaming_hub::engine::{Dispatch, Unit};
use streaming_hub::types::destination::Ordering;
use streaming_hub::types::{
    AttemptId, DestinationId, End, JobKey, JobRecord, RunId, Sequence, Slot, SubscriptionId, TenantId, Time,
};
use uuid::Uuid;

use super::commands::Commands;
use super::scenario::SKEW_MAX;
use crate::events::EventPlan;
use crate::order::{order_lane, ordering};

/// A promise that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One event per tenant and id.
    Dedup,
    /// An attempt is for the job that the log has.
    Jobs,
    /// A second 2xx that nothing explains, or two attempts of one job at once.
    SecondSuccess,
    /// Within one order one attempt at a time, first attempts in order of arrival.
    Order,
    /// A command makes one run, durable before it is told.
    Runs,
    /// More attempts at a destination than it allows.
    InFlight,
    /// Something accepted is gone.
    Lost,
    /// Something never ends.
    Stuck,
    /// The engine panicked, or breaks its terms.
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

/// A request that a receiver may be working on, whoever sent it.
#[derive(Clone, Debug)]
struct Flight {
    attempt: AttemptId,
    job: JobPlace,
    subscription: SubscriptionId,
    destination: DestinationId,
    lane: String,
    until: Time,
}

/// All that the checks know.
#[derive(Default)]
pub struct Checks {
    pub violation: Option<Violation>,
    pub now: Time,
    pub plans: BTreeMap<(TenantId, Uuid), EventPlan>,
    /// Where each event stands in the log.
    pub events: BTreeMap<(TenantId, Uuid), (Slot, Sequence)>,
    /// The job and number of each attempt that was claimed.
    pub claims: BTreeMap<AttemptId, (JobPlace, u32)>,
    pub commands: Commands,
    /// Attempts whose success was written down while its claim still held, by whatever clock.
    recorded: BTreeMap<JobPlace, AttemptId>,
    flights: Vec<Flight>,
    firsts: BTreeMap<(SubscriptionId, String), Sequence>,
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

    /// An engine asks for a batch to be written: the claims in it are known from now on.
    pub fn commit(&mut self, batch: &Batch) {
        for row in batch.rows.iter() {
            match (row, batch.unit) {
                (Row::Claim { tenant, key, number, claim }, _) => {
                    self.claims.insert(claim.attempt, ((tenant.clone(), *key), *number));
                }
                (Row::Event { event, jobs }, Unit::Slot(slot)) => {
                    for (ordinal, job) in (0_u16..).zip(jobs) {
                        let key = JobKey { slot, sequence: event.sequence, ordinal };
                        self.claimed_at_once((event.tenant.clone(), key), job);
                    }
                }
                (_, _) => {}
            }
        }
    }

    fn claimed_at_once(&mut self, place: JobPlace, job: &NewJob) {
        if let Some(claim) = job.claim {
            self.claims.insert(claim.attempt, (place, 1));
        }
    }

    /// Rows are durable.
    pub fn durable(&mut self, unit: Unit, rows: &[Row]) {
        let Unit::Slot(slot) = unit else { return };
        for row in rows {
            if let Row::Attempt { tenant, key, record, end: Some(End::Delivered) } = row
                && self.now + SKEW_MAX < record.claim.until
            {
                self.recorded.insert((tenant.clone(), *key), record.claim.attempt);
            }
            if let Row::Run { tenant, key, run, .. } = row {
                self.run_made(tenant, *key, *run);
            }
        }
        for event in rows.iter().filter_map(Row::new_event) {
            let name = (event.tenant.clone(), event.id);
            let place = (slot, event.sequence);
            let known = *self.events.entry(name.clone()).or_insert(place);
            self.expect(known == place, Rule::Dedup, || format!("{name:?} is stored at {known:?} and at {place:?}"));
        }
    }

    /// An attempt goes out; it may be under way until `until`. `logged` is the job as the log has it.
    pub fn dispatched(&mut self, dispatch: &Dispatch, until: Time, logged: Option<&JobRecord>) {
        let Some((job, number)) = self.claims.get(&dispatch.attempt).cloned() else {
            return self.fail(Rule::Panic, format!("{} was never claimed", dispatch.attempt));
        };
        let now = self.now;
        self.flights.retain(|flight| flight.until > now);
        let (subscription, destination) = (&dispatch.subscription, &dispatch.destination);
        let of_log = logged.is_some_and(|logged| logged.subscription == subscription.id);
        self.expect(of_log, Rule::Jobs, || {
            format!("{job:?} is for {logged:?} in the log, sent for {}", subscription.id)
        });
        let known = self.recorded.get(&job).copied();
        self.expect(known.is_none(), Rule::SecondSuccess, || {
            format!("{job:?} is attempted again, though the log said in time that {known:?} succeeded")
        });
        let twin = self.flights.iter().find(|flight| flight.job == job).map(|flight| flight.attempt);
        self.expect(twin.is_none(), Rule::SecondSuccess, || format!("{job:?} is attempted beside {twin:?}"));
        let there = self.flights.iter().filter(|flight| flight.destination == destination.id).count();
        let most = usize::try_from(destination.max_in_flight).unwrap_or(usize::MAX);
        self.expect(there < most, Rule::InFlight, || {
            format!("{} has {there} attempts, {most} allowed", destination.id)
        });
        let lane = order_lane(subscription, destination, dispatch.event.subject().unwrap_or_default());
        if ordering(subscription, destination) != Ordering::Parallel {
            let first = number == 1 && logged.is_some_and(|logged| logged.run == RunId::MATCH);
            self.check_order(subscription.id, &lane, dispatch.event.sequence, first);
        }
        self.flights.push(Flight {
            attempt: dispatch.attempt,
            job,
            subscription: subscription.id,
            destination: destination.id,
            lane,
            until,
        });
    }

    fn check_order(&mut self, subscription: SubscriptionId, lane: &str, sequence: Sequence, first: bool) {
        let same = |flight: &&Flight| flight.subscription == subscription && flight.lane == lane;
        let beside = self.flights.iter().find(same).map(|flight| flight.job.clone());
        self.expect(beside.is_none(), Rule::Order, || format!("{sequence:?} of {subscription} goes beside {beside:?}"));
        if first {
            let latest = self.firsts.entry((subscription, lane.to_owned())).or_default();
            let before = *latest;
            *latest = before.max(sequence);
            self.expect(sequence >= before, Rule::Order, || {
                format!("the first attempt of {sequence:?} for {subscription} comes after that of {before:?}")
            });
        }
    }

    /// A receiver has answered.
    pub fn answered(&mut self, attempt: AttemptId) {
        self.flights.retain(|flight| flight.attempt != attempt);
    }
}
