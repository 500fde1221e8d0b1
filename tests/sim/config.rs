//! The configuration: what is stored, what a shard has been told, and how it changes during a run.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use serde_json::json;
use streaming_hub::types::destination::{
    Auth, CircuitSettings, Destination, Method, On410, Ordering, OrderingKey, RateLimit, Verification,
};
use streaming_hub::types::subscription::{EventPattern, FilterOp, FilterRule, Subscription, VerificationState};
use streaming_hub::types::{ConfigChange, DestinationId, RetryPolicy, SubscriptionId, TenantId, Time};
use uuid::Uuid;

use crate::events::source_of;
use crate::scenario::{chance, pick};

/// A tenant's object.
pub type DestinationPlace = (TenantId, DestinationId);
/// A tenant's object.
pub type SubscriptionPlace = (TenantId, SubscriptionId);

/// All tenants' configuration, deletions included.
#[derive(Clone, Default)]
pub struct Config {
    pub destinations: BTreeMap<DestinationPlace, Destination>,
    pub subscriptions: BTreeMap<SubscriptionPlace, Subscription>,
    pub deleted_destinations: BTreeSet<DestinationPlace>,
    pub deleted_subscriptions: BTreeSet<SubscriptionPlace>,
    pub paused: BTreeSet<TenantId>,
}

impl Config {
    /// Takes one change in.
    pub fn apply(&mut self, change: &ConfigChange) {
        match change {
            ConfigChange::PutDestination(destination) => {
                let place = (destination.tenant.clone(), destination.id);
                self.destinations.insert(place, (**destination).clone());
            }
            ConfigChange::PutSubscription(subscription) => {
                let place = (subscription.tenant.clone(), subscription.id);
                self.subscriptions.insert(place, (**subscription).clone());
            }
            ConfigChange::DeleteDestination(tenant, id) => self.delete_destination(tenant, *id),
            ConfigChange::DeleteSubscription(tenant, id) => self.delete_subscription((tenant.clone(), *id)),
            ConfigChange::PauseTenant(tenant) => {
                self.paused.insert(tenant.clone());
            }
            ConfigChange::ResumeTenant(tenant) => {
                self.paused.remove(tenant);
            }
        }
    }

    fn delete_destination(&mut self, tenant: &TenantId, id: DestinationId) {
        self.destinations.remove(&(tenant.clone(), id));
        self.deleted_destinations.insert((tenant.clone(), id));
        let owned = self.subscriptions.iter().filter(|((owner, _), s)| owner == tenant && s.destination_id == id);
        for place in owned.map(|(place, _)| place.clone()).collect::<Vec<_>>() {
            self.delete_subscription(place);
        }
    }

    fn delete_subscription(&mut self, place: SubscriptionPlace) {
        self.subscriptions.remove(&place);
        self.deleted_subscriptions.insert(place);
    }

    /// All of it as changes, in an order in which it can be told.
    pub fn changes(&self) -> Vec<ConfigChange> {
        let puts = self.destinations.values().map(|d| ConfigChange::PutDestination(Box::new(d.clone())));
        let subscriptions = self.subscriptions.values().map(|s| ConfigChange::PutSubscription(Box::new(s.clone())));
        let gone = self.deleted_destinations.iter().map(|(t, id)| ConfigChange::DeleteDestination(t.clone(), *id));
        let ended = self.deleted_subscriptions.iter().map(|(t, id)| ConfigChange::DeleteSubscription(t.clone(), *id));
        let paused = self.paused.iter().map(|tenant| ConfigChange::PauseTenant(tenant.clone()));
        puts.chain(subscriptions).chain(gone).chain(ended).chain(paused).collect()
    }

    /// Whether jobs of this subscription may be attempted.
    pub fn lets_through(&self, place: &SubscriptionPlace) -> bool {
        !self.paused.contains(&place.0) && self.subscriptions.get(place).is_some_and(Subscription::is_live)
    }

    /// A change that an API client might make; absent when there is nothing to change.
    pub fn draw_change(&self, rng: &mut Rng, now: Time) -> Option<ConfigChange> {
        let (place, subscription) = self.subscriptions.iter().nth(rng.usize(0..self.subscriptions.len().max(1)))?;
        let mut changed = subscription.clone();
        changed.version += 1;
        changed.updated_at = now;
        let tenant = place.0.clone();
        Some(match rng.u32(0..12) {
            0 => ConfigChange::DeleteSubscription(tenant, place.1),
            1 if rng.bool() => ConfigChange::DeleteDestination(tenant, subscription.destination_id),
            1 | 2 => ConfigChange::PauseTenant(tenant),
            3 | 4 => ConfigChange::ResumeTenant(tenant),
            5 | 6 => self.with_new_url(&tenant, subscription.destination_id, rng, now)?,
            7 => {
                changed.event_types = draw_patterns(rng);
                ConfigChange::PutSubscription(Box::new(changed))
            }
            _ => {
                changed.enabled = !changed.enabled;
                changed.disabled_reason = None;
                changed.disabled_at = None;
                ConfigChange::PutSubscription(Box::new(changed))
            }
        })
    }

    fn with_new_url(&self, tenant: &TenantId, id: DestinationId, rng: &mut Rng, now: Time) -> Option<ConfigChange> {
        let mut changed = self.destinations.get(&(tenant.clone(), id))?.clone();
        changed.url = draw_url(rng);
        changed.version += 1;
        changed.updated_at = now;
        Some(ConfigChange::PutDestination(Box::new(changed)))
    }
}

/// A tenant's destinations and their subscriptions.
pub fn draw_tenant(rng: &mut Rng, tenant: &TenantId, now: Time) -> Vec<ConfigChange> {
    let mut changes = Vec::new();
    for _ in 0..rng.u32(1..=2) {
        let destination = draw_destination(rng, tenant, now);
        let id = destination.id;
        changes.push(ConfigChange::PutDestination(Box::new(destination)));
        for _ in 0..rng.u32(1..=2) {
            changes.push(ConfigChange::PutSubscription(Box::new(draw_subscription(rng, tenant, id, now))));
        }
    }
    changes
}

fn draw_url(rng: &mut Rng) -> url::Url {
    format!("http://receiver-{}.test/hook", rng.u64(..)).parse().expect("a plain URL")
}

fn draw_destination(rng: &mut Rng, tenant: &TenantId, now: Time) -> Destination {
    Destination {
        id: DestinationId(Uuid::from_u128(rng.u128(..))),
        tenant: tenant.clone(),
        name: None,
        description: None,
        url: draw_url(rng),
        method: Method::Post,
        headers: Vec::new(),
        on_410: if rng.bool() { On410::Disable } else { On410::Retry },
        auth: Auth::None,
        secrets: Vec::new(),
        timeout_ms: rng.u32(1_000..=4_000),
        max_in_flight: *pick(rng, &[1, 2, 4, 16]),
        rate_limit: chance(rng, 20).then(|| RateLimit { per_second: rng.u32(1..=5), burst: rng.u32(1..=5) }),
        retry: draw_retry(rng),
        ordering: *pick(rng, &[Ordering::Fifo, Ordering::Strict, Ordering::Parallel]),
        ordering_key: *pick(rng, &[OrderingKey::Subscription, OrderingKey::Subject]),
        circuit: CircuitSettings {
            enabled: chance(rng, 85),
            threshold: rng.u32(2..=5),
            cooldown_ms: *pick(rng, &[1_000, 5_000, 60_000]),
        },
        verification: Verification::None,
        created_at: now,
        updated_at: now,
        version: 1,
    }
}

fn draw_retry(rng: &mut Rng) -> RetryPolicy {
    match rng.u32(0..6) {
        0 => RetryPolicy::default(),
        1 => RetryPolicy::Exponential { intervals_s: vec![1, 10, 300], max_retries: 6 },
        2 => RetryPolicy::Linear { intervals_s: vec![20], max_retries: 4 },
        3 => RetryPolicy::Fixed { intervals_s: vec![90], max_retries: 3 },
        4 => RetryPolicy::Curve { steps_s: vec![0] },
        _ => RetryPolicy::Curve { steps_s: vec![0, 1, 5, 30, 90] },
    }
}

fn draw_subscription(rng: &mut Rng, tenant: &TenantId, destination_id: DestinationId, now: Time) -> Subscription {
    Subscription {
        id: SubscriptionId(Uuid::from_u128(rng.u128(..))),
        tenant: tenant.clone(),
        name: None,
        description: None,
        origin: chance(rng, 15).then(|| "loans".to_owned()),
        source_id: chance(rng, 10).then(|| source_of(tenant)),
        event_types: draw_patterns(rng),
        schema_major: chance(rng, 15).then_some(1),
        filter_rules: draw_rules(rng),
        destination_id,
        enabled: chance(rng, 95),
        disabled_reason: None,
        disabled_at: None,
        verification_state: if chance(rng, 95) { VerificationState::Active } else { VerificationState::Pending },
        retry: chance(rng, 20).then(|| draw_retry(rng)),
        ordering: chance(rng, 20).then(|| *pick(rng, &[Ordering::Fifo, Ordering::Strict, Ordering::Parallel])),
        ordering_key: None,
        created_at: now,
        updated_at: now,
        version: 1,
    }
}

fn draw_patterns(rng: &mut Rng) -> Vec<EventPattern> {
    match rng.u32(0..6) {
        0 => vec![EventPattern::Resource("loan".to_owned())],
        1 => vec![EventPattern::Exact("card.issued".to_owned()), EventPattern::Exact("loan.approved".to_owned())],
        2 => vec![EventPattern::Any],
        _ => Vec::new(),
    }
}

fn draw_rules(rng: &mut Rng) -> Vec<FilterRule> {
    let rule = |field: &str, op, value| vec![FilterRule { field: field.to_owned(), op, value }];
    match rng.u32(0..10) {
        0 => rule("payload.n", FilterOp::Gte, json!(5)),
        1 => rule("ce.subject", FilterOp::Exists, json!(true)),
        2 => rule("payload.n", FilterOp::Neq, json!(3)),
        _ => Vec::new(),
    }
}
