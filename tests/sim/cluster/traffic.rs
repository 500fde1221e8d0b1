//! What producers and clients do to a cluster.

use streaming_hub::engine::Input;
use streaming_hub::types::subscription::{DisabledReason, VerificationState};
use streaming_hub::types::{ConfigChange, Duration, RetryPolicy, Slot, SubscriptionId, TenantId};

use super::node::{Life, Place};
use super::world::{Happening, Way, World};
use crate::config::draw_tenant;
use crate::events::{EventPlan, tenant};
use crate::log::Written;
use crate::scenario::{START, chance};

impl World {
    /// Tenants with their destinations; retries come within minutes.
    pub fn draw_configuration(&mut self) {
        for index in 0..self.scenario.tenants {
            for mut change in draw_tenant(&mut self.rng, &tenant(index), START) {
                let soon = RetryPolicy::Curve { steps_s: vec![0, 1, 5, 30, 90] };
                match &mut change {
                    ConfigChange::PutDestination(destination) => {
                        destination.retry = soon;
                        destination.rate_limit = None;
                    }
                    ConfigChange::PutSubscription(subscription) => subscription.retry = None,
                    ConfigChange::DeleteDestination(..)
                    | ConfigChange::DeleteSubscription(..)
                    | ConfigChange::PauseTenant(_)
                    | ConfigChange::ResumeTenant(_) => {}
                }
                self.take_configuration(&change);
            }
        }
    }

    fn take_configuration(&mut self, change: &ConfigChange) {
        if let ConfigChange::PutDestination(destination) = change {
            let end = START + self.scenario.span;
            self.receivers.add(destination.url.as_str(), &mut self.rng, self.now, end);
        }
        self.config.apply(change);
    }

    /// A client changes the configuration.
    pub fn reconfigure(&mut self) {
        if let Some(change) = self.config.draw_change(&mut self.rng, self.now) {
            self.change(&change);
        }
    }

    pub fn change(&mut self, change: &ConfigChange) {
        self.take_configuration(change);
        for node in 0..self.nodes.len() {
            if let Some(life) = self.life(node) {
                let lag = Duration::from_micros(self.rng.u64(0..900_000));
                self.in_order(life, Way::Configuration, lag, Happening::Configured(life, change.clone()));
            }
        }
    }

    /// A node hears of a change.
    pub fn configured(&mut self, life: Life, change: &ConfigChange) {
        self.nodes[life.node].config.apply(change);
        let engines: Vec<u32> = self.nodes[life.node].engines.keys().copied().collect();
        for engine in engines {
            self.input(Place { life, engine }, Input::Config(change.clone()));
        }
    }

    /// Enables and resumes whatever is held.
    pub fn enable_everything(&mut self) {
        let paused = self.config.paused.clone();
        for tenant in paused {
            self.change(&ConfigChange::ResumeTenant(tenant));
        }
        let held: Vec<_> = self.config.subscriptions.values().filter(|held| !held.is_live()).cloned().collect();
        for mut subscription in held {
            subscription.enabled = true;
            subscription.verification_state = VerificationState::Active;
            subscription.version += 1;
            self.change(&ConfigChange::PutSubscription(Box::new(subscription)));
        }
    }

    pub fn disable(&mut self, tenant: &TenantId, subscriptions: &[SubscriptionId], reason: DisabledReason) {
        for id in subscriptions {
            let Some(mut subscription) = self.config.subscriptions.get(&(tenant.clone(), *id)).cloned() else {
                continue;
            };
            subscription.enabled = self.healed;
            subscription.disabled_reason = Some(reason).filter(|_| !self.healed);
            subscription.disabled_at = Some(self.now).filter(|_| !self.healed);
            subscription.version += 1;
            self.change(&ConfigChange::PutSubscription(Box::new(subscription)));
        }
    }

    /// Ingest nodes append a burst of records to the slots' topic.
    pub fn produce(&mut self) {
        for _ in 0..self.rng.u32(1..=self.scenario.burst_records) {
            let plan = self.draw_event();
            let slot = Slot::of(&plan.tenant, self.scenario.slots);
            self.say(format_args!("{slot:?}: {plan:?}"));
            self.append(slot, Written::Event(plan));
        }
    }

    /// A record is in a slot's partition: its offset. Whoever reads the lane looks soon.
    pub fn append(&mut self, slot: Slot, written: Written) -> u64 {
        let offset = self.topic[usize::from(slot.0)].append(written, &mut self.rng);
        self.produced_at.insert((slot, offset), self.now);
        for node in 0..self.nodes.len() {
            let lane = self.nodes[node].lane_of(slot).map(|(number, _)| number);
            if let (Some(life), Some(lane)) = (self.life(node), lane) {
                self.fetch_soon(life, lane);
            }
        }
        offset
    }

    fn draw_event(&mut self) -> EventPlan {
        let known: Vec<&EventPlan> = self.checks.plans.values().collect();
        if !known.is_empty() && chance(&mut self.rng, self.scenario.duplicate_percent) {
            return known[self.rng.usize(0..known.len())].clone();
        }
        let mut plan = EventPlan::of_tenant(&mut self.rng, self.scenario.tenants, self.now);
        plan.lethal = self.scenario.lethal && self.checks.plans.is_empty();
        plan.unstorable =
            self.scenario.unstorable_percent > 0 && chance(&mut self.rng, self.scenario.unstorable_percent);
        self.checks.plans.insert((plan.tenant.clone(), plan.id), plan.clone());
        plan
    }
}
