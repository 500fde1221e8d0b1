//! A change of a tenant's configuration, as it travels from the API to the shards.

use super::destination::Destination;
use super::ids::{DestinationId, SubscriptionId, TenantId};
use super::subscription::Subscription;

/// One change, already durable when a shard sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    /// A destination was made or changed.
    PutDestination(Box<Destination>),
    /// A subscription was made or changed. Its destination has been put before.
    PutSubscription(Box<Subscription>),
    /// A destination was deleted: its jobs end `cancelled`. Its subscriptions are deleted with it.
    DeleteDestination(TenantId, DestinationId),
    /// A subscription was deleted: its jobs end `cancelled`.
    DeleteSubscription(TenantId, SubscriptionId),
    /// An operator paused the tenant's deliveries; its events are still stored and matched.
    PauseTenant(TenantId),
    /// An operator resumed them.
    ResumeTenant(TenantId),
}

impl ConfigChange {
    /// Whose configuration it changes.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        match self {
            Self::PutDestination(destination) => &destination.tenant,
            Self::PutSubscription(subscription) => &subscription.tenant,
            Self::DeleteDestination(tenant, _)
            | Self::DeleteSubscription(tenant, _)
            | Self::PauseTenant(tenant)
            | Self::ResumeTenant(tenant) => tenant,
        }
    }
}
