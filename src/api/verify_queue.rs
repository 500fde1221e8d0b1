//! Which subscriptions wait to be verified, so that a tenant with many slow destinations delays only itself.
//!
//! Pure. A tenant has a few workers at most; what they have no time for waits, once each, in order of making.

use std::collections::{BTreeMap, BTreeSet};

use crate::types::{SubscriptionId, TenantId, limits};

/// The queue of all tenants. A tenant without workers has no entry.
#[derive(Debug, Default)]
pub struct VerifyQueue {
    tenants: BTreeMap<TenantId, Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    workers: usize,
    subscriptions: BTreeSet<SubscriptionId>,
}

/// What a caller of [`VerifyQueue::push`] has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// Start a worker with this subscription.
    StartWorker,
    /// A worker will come to it.
    Waits,
}

impl VerifyQueue {
    /// Adds a subscription.
    pub fn push(&mut self, tenant: &TenantId, id: SubscriptionId) -> Pushed {
        let waiting = self.tenants.entry(tenant.clone()).or_default();
        if waiting.workers < limits::VERIFICATIONS_PER_TENANT {
            waiting.workers += 1;
            return Pushed::StartWorker;
        }
        waiting.subscriptions.insert(id);
        Pushed::Waits
    }

    /// What a tenant's worker does next; `None` ends the worker.
    pub fn next(&mut self, tenant: &TenantId) -> Option<SubscriptionId> {
        let waiting = self.tenants.get_mut(tenant)?;
        let next = waiting.subscriptions.pop_first();
        if next.is_none() {
            waiting.workers -= 1;
        }
        if waiting.workers == 0 {
            self.tenants.remove(tenant);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_tenant_has_a_few_workers_and_each_subscription_waits_once() {
        let [acme, other] = ["acme", "other"].map(|name| TenantId::new(name).expect("a tenant"));
        let id = |number: u128| SubscriptionId(Uuid::from_u128(number));
        let mut queue = VerifyQueue::default();
        for number in 0..limits::VERIFICATIONS_PER_TENANT {
            assert_eq!(queue.push(&acme, id(number as u128)), Pushed::StartWorker);
        }
        for number in [91, 90, 91] {
            assert_eq!(queue.push(&acme, id(number)), Pushed::Waits);
        }
        assert_eq!(queue.push(&other, id(1)), Pushed::StartWorker);
        assert_eq!([queue.next(&acme), queue.next(&acme)], [Some(id(90)), Some(id(91))]);
        for _ in 0..limits::VERIFICATIONS_PER_TENANT {
            assert_eq!(queue.next(&acme), None);
        }
        assert_eq!(queue.next(&other), None);
        assert!(queue.tenants.is_empty());
        assert_eq!(queue.push(&acme, id(1)), Pushed::StartWorker);
    }
}
