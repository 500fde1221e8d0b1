//! An independent opinion on which subscriptions an event is for, and which a shard could have known of.

use std::collections::BTreeMap;

use serde_json::Value;
use streaming_hub::types::subscription::{EventPattern, FilterOp, FilterRule, Subscription};
use streaming_hub::types::{ConfigChange, SubscriptionId};

use crate::config::{Config, SubscriptionPlace};
use crate::events::EventPlan;

/// Counts the inputs of the whole run.
pub type Step = u64;

/// What the shard knew of a subscription from a step on.
#[derive(Clone)]
enum Known {
    Put(Box<Subscription>),
    Deleted,
    /// The engine itself has disabled it, and may or may not act on it yet.
    Unclear,
}

/// Whether an event has to get a job for a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Yes,
    No,
    /// The configuration changed while the event was being admitted.
    Either,
}

/// The history of all subscriptions in one life of a node.
#[derive(Default)]
pub struct Oracle {
    history: BTreeMap<SubscriptionPlace, Vec<(Step, Known)>>,
}

impl Oracle {
    /// The shard has handled `change`; `after` is the configuration with it.
    pub fn learn(&mut self, change: &ConfigChange, after: &Config, step: Step) {
        match change {
            ConfigChange::PutSubscription(subscription) => {
                let place = (subscription.tenant.clone(), subscription.id);
                self.push(place, step, Known::Put(subscription.clone()));
            }
            ConfigChange::DeleteSubscription(tenant, id) => self.push((tenant.clone(), *id), step, Known::Deleted),
            ConfigChange::DeleteDestination(tenant, _) => self.push_deletions(tenant, after, step),
            ConfigChange::PutDestination(_) | ConfigChange::PauseTenant(_) | ConfigChange::ResumeTenant(_) => {}
        }
    }

    /// The engine has disabled a subscription on its own.
    pub fn doubt(&mut self, place: SubscriptionPlace, step: Step) {
        self.push(place, step, Known::Unclear);
    }

    fn push_deletions(&mut self, tenant: &streaming_hub::types::TenantId, after: &Config, step: Step) {
        let places =
            self.history.keys().filter(|place| place.0 == *tenant && !after.subscriptions.contains_key(*place));
        for place in places.cloned().collect::<Vec<_>>() {
            self.push(place, step, Known::Deleted);
        }
    }

    fn push(&mut self, place: SubscriptionPlace, step: Step, known: Known) {
        self.history.entry(place).or_default().push((step, known));
    }

    /// For each subscription of the event's tenant, whether an event admitted between two steps is for it.
    pub fn wanted(&self, plan: &EventPlan, from: Step, to: Step) -> BTreeMap<SubscriptionId, Wanted> {
        let of_tenant = self.history.iter().filter(|((tenant, _), _)| *tenant == plan.tenant);
        of_tenant.map(|((_, id), versions)| (*id, wanted_in(versions, plan, from, to))).collect()
    }
}

fn wanted_in(versions: &[(Step, Known)], plan: &EventPlan, from: Step, to: Step) -> Wanted {
    let in_force = versions.partition_point(|(step, _)| *step <= from).saturating_sub(1);
    let mut opinions = Vec::new();
    if versions.first().is_some_and(|(step, _)| *step > from) {
        opinions.push(Wanted::No);
    }
    for (_, known) in versions.iter().skip(in_force).take_while(|(step, _)| *step <= to) {
        opinions.push(match known {
            Known::Put(subscription) if matches(subscription, plan) => Wanted::Yes,
            Known::Put(_) | Known::Deleted => Wanted::No,
            Known::Unclear => Wanted::Either,
        });
    }
    let first = opinions.first().copied().unwrap_or(Wanted::No);
    if opinions.iter().all(|opinion| *opinion == first) { first } else { Wanted::Either }
}

/// Whether `plan` is for `subscription`: contracts.md, sections 4 and 5.
pub fn matches(subscription: &Subscription, plan: &EventPlan) -> bool {
    subscription.is_live()
        && subscription.origin.as_deref().is_none_or(|origin| origin == plan.origin)
        && subscription.source_id.is_none_or(|source| Some(source) == plan.source_id)
        && subscription.schema_major.is_none_or(|major| major == plan.schema_major)
        && names(&subscription.event_types, plan.key)
        && subscription.filter_rules.iter().all(|rule| holds(rule, plan))
}

fn names(patterns: &[EventPattern], key: &str) -> bool {
    patterns.is_empty()
        || patterns.iter().any(|pattern| match pattern {
            EventPattern::Any => true,
            EventPattern::Resource(resource) => key.split('.').next() == Some(resource),
            EventPattern::Exact(exact) => exact == key,
        })
}

/// The three rules that the simulation's subscriptions have.
fn holds(rule: &FilterRule, plan: &EventPlan) -> bool {
    let n = plan.n.map(Value::from);
    match (rule.field.as_str(), rule.op) {
        ("payload.n", FilterOp::Gte) => n.and_then(|n| n.as_u64()) >= rule.value.as_u64() && plan.n.is_some(),
        ("payload.n", FilterOp::Neq) => n.as_ref() != Some(&rule.value),
        ("ce.subject", FilterOp::Exists) => plan.subject.is_some(),
        (field, op) => panic!("no subscription of the simulation has a rule {field} {op:?}"),
    }
}
