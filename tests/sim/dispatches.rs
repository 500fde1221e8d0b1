//! Checks of attempts: when one begins, and when its outcome goes to the engine.

use streaming_hub::engine::{Dispatch, JobToken};
use streaming_hub::types::destination::{Destination, Ordering};
use streaming_hub::types::{AttemptOutcome, Duration, ShardId, Subscription};

use crate::checks::{Checks, ClaimView, JobView, Rule};
use crate::circuits::Fault;
use crate::events::tenant;
use crate::order::{Flight, order_lane, ordering};

impl Checks {
    /// The engine starts an attempt.
    pub fn dispatched(&mut self, shard: ShardId, dispatch: &Dispatch, attempts_max: u32) {
        let attempt = dispatch.attempt;
        let Some(claim) = self.claims.get(&attempt).cloned() else {
            return self.fail(Rule::Claim, format!("attempt {attempt} was never claimed"));
        };
        let Some(job) = self.jobs.get(&claim.job).cloned() else {
            return self.fail(Rule::Claim, format!("attempt {attempt} is for no durable job"));
        };
        self.check_claim(dispatch, &claim, &job);
        self.check_configuration(dispatch, &claim, &job);
        self.check_time(dispatch, &claim, &job);
        if let Some(view) = self.claims.get_mut(&attempt) {
            view.dispatched = true;
        }
        let (subscription, destination) = (&*dispatch.subscription, &*dispatch.destination);
        self.check_order(&claim, &job, subscription, destination);
        self.check_circuit(&claim, destination);
        self.fly(shard, dispatch.token, &claim, &job, (subscription, destination));
        let in_flight = self.order.flights.len();
        let on_shard = self.order.flights.keys().filter(|(other, _)| *other == shard).count();
        let most = usize::try_from(attempts_max).unwrap_or(usize::MAX);
        self.expect(on_shard <= most, Rule::Bound, || format!("{on_shard} of {in_flight} attempts on one shard"));
    }

    fn check_claim(&mut self, dispatch: &Dispatch, claim: &ClaimView, job: &JobView) {
        let attempt = dispatch.attempt;
        self.expect(claim.durable, Rule::Claim, || format!("{attempt} begins before its claim is durable"));
        self.expect(!claim.dispatched, Rule::Claim, || format!("{attempt} begins twice"));
        self.expect(claim.number == dispatch.number, Rule::Claim, || format!("{attempt} has two numbers"));
        let same = claim.job.1.sequence == dispatch.event.sequence && job.subscription == dispatch.subscription.id;
        self.expect(same, Rule::Claim, || format!("{attempt} was claimed for another job"));
        let tenant = &claim.job.0;
        let owned = dispatch.event.tenant == *tenant
            && dispatch.subscription.tenant == *tenant
            && dispatch.destination.tenant == *tenant;
        self.expect(owned, Rule::Tenancy, || format!("{attempt} crosses tenants"));
        self.expect(job.end.is_none(), Rule::End, || format!("{attempt} is for a job that ended {:?}", job.end));
        let later = job.attempts.keys().all(|number| *number < dispatch.number);
        self.expect(later, Rule::Claim, || format!("{attempt} has the number of an attempt that ended"));
        let deadline = dispatch.started_at + dispatch.destination.timeout();
        let bounded = dispatch.deadline <= deadline && dispatch.deadline <= claim.claim.until;
        self.expect(bounded, Rule::Claim, || format!("{attempt} may outlast its claim"));
    }

    fn check_circuit(&mut self, claim: &ClaimView, to: &Destination) {
        let attempt = claim.claim.attempt;
        match self.circuits.dispatched(to.id, claim.claim) {
            None => {}
            Some(Fault::Held) => self.fail(Rule::Hold, format!("{attempt} goes out before Retry-After ends")),
            Some(fault) => self.fail(Rule::Probe, format!("{attempt} to {}: {fault:?}", to.id)),
        }
    }

    /// As if the engine had sent a second attempt beside a probe: a deliberate fault.
    pub fn dispatched_beside(&mut self, dispatch: &Dispatch) {
        if let Some(claim) = self.claims.get(&dispatch.attempt).cloned() {
            self.check_circuit(&claim, &dispatch.destination);
        }
    }

    /// Neither before its time nor long after it.
    fn check_time(&mut self, dispatch: &Dispatch, claim: &ClaimView, job: &JobView) {
        let attempt = dispatch.attempt;
        let next_at = job.attempts.values().next_back().and_then(|attempt| attempt.next_at);
        let may_probe = job.commanded || self.circuits.was_open_since(dispatch.destination.id, claim.claim.claimed_at);
        let early = next_at.filter(|next_at| claim.claim.claimed_at < *next_at && !may_probe);
        self.expect(early.is_none(), Rule::Early, || format!("{attempt} was to wait until {early:?}"));
        let waited = self.now.since(job.durable_at);
        let neighbour = self.quarrel && claim.number == 1 && claim.job.0 != tenant(0);
        let delayed = neighbour && waited > Duration::from_millis(1_000);
        self.expect(!delayed, Rule::Delay, || format!("{attempt} comes {} ms late", waited.as_millis()));
    }

    fn check_configuration(&mut self, dispatch: &Dispatch, claim: &ClaimView, job: &JobView) {
        let attempt = dispatch.attempt;
        let place = (claim.job.0.clone(), job.subscription);
        let Some(subscription) = self.applied.subscriptions.get(&place).cloned() else {
            return self.fail(Rule::Deleted, format!("{attempt} is for {}, which is deleted", place.1));
        };
        let held = self.order.held_since(&place).is_some_and(|since| claim.claim.claimed_at > since);
        self.expect(!held, Rule::Deleted, || format!("{attempt} is for {}, which is held", place.1));
        let destination = self.applied.destinations.get(&(place.0, subscription.destination_id));
        let current = destination.map(|d| (d.id, d.version))
            == Some((dispatch.destination.id, dispatch.destination.version))
            && subscription.version == dispatch.subscription.version;
        self.expect(current, Rule::Stale, || format!("{attempt} is made with an old configuration"));
    }

    fn check_order(&mut self, claim: &ClaimView, job: &JobView, subscription: &Subscription, to: &Destination) {
        let attempt = claim.claim.attempt;
        let in_flight = self.order.to_destination(to.id);
        let most = usize::try_from(to.max_in_flight).unwrap_or(usize::MAX);
        self.expect(in_flight < most, Rule::Order, || format!("{attempt} exceeds max_in_flight {most}"));
        let mode = ordering(subscription, to);
        if mode == Ordering::Parallel {
            return;
        }
        let lane = order_lane(subscription, to, &job.subject);
        let beside = self.order.in_lane(subscription.id, &lane);
        self.expect(beside == 0, Rule::Order, || format!("{attempt} goes out beside another of its order"));
        if job.commanded {
            return;
        }
        let sequence = claim.job.1.sequence;
        if claim.number == 1 {
            let in_order = self.order.begin_first(subscription.id, &lane, sequence);
            self.expect(in_order, Rule::Order, || format!("{attempt} of {sequence:?} comes after a later event's"));
        }
        if mode == Ordering::Strict {
            let before = self.open_before(claim, subscription, to, &lane);
            self.expect(before.is_none(), Rule::Order, || format!("{attempt} begins before {before:?} has ended"));
        }
    }

    /// An open job that `claim`'s has to wait for under strict order.
    fn open_before(
        &self,
        claim: &ClaimView,
        subscription: &Subscription,
        to: &Destination,
        lane: &str,
    ) -> Option<crate::checks::JobPlace> {
        let earlier = self.open.iter().filter(|place| {
            place.0 == claim.job.0 && place.1.slot == claim.job.1.slot && place.1.sequence < claim.job.1.sequence
        });
        let blocks = |place: &&crate::checks::JobPlace| {
            self.jobs.get(*place).is_some_and(|job| {
                job.subscription == subscription.id
                    && !job.commanded
                    && order_lane(subscription, to, &job.subject) == lane
            })
        };
        earlier.clone().find(blocks).cloned()
    }

    fn fly(
        &mut self,
        shard: ShardId,
        token: JobToken,
        claim: &ClaimView,
        job: &JobView,
        (subscription, destination): (&Subscription, &Destination),
    ) {
        let flight = Flight {
            job: claim.job.clone(),
            subscription: subscription.id,
            destination: destination.id,
            lane: order_lane(subscription, destination, &job.subject),
            claim: claim.claim,
        };
        let again = self.order.flights.insert((shard, token), flight);
        self.expect(again.is_none(), Rule::Terms, || format!("{token:?} is used twice"));
    }

    /// An attempt's outcome goes to the engine.
    pub fn ended(&mut self, shard: ShardId, token: JobToken, outcome: &AttemptOutcome) {
        let Some(flight) = self.order.flights.remove(&(shard, token)) else { return };
        let place = (flight.job.0.clone(), flight.destination);
        if let Some(destination) = self.applied.destinations.get(&place) {
            self.circuits.ended(destination, flight.claim, outcome, self.now);
        }
    }
}
