//! Configuration records as the store keeps them: what tenants and operators set, and what was deleted.

use serde::{Deserialize, Serialize};

use crate::types::ids::KeyId;
use crate::types::{
    ConfigChange, Destination, DestinationId, Source, SourceId, Subscription, SubscriptionId, TenantId, Time,
};

/// One record. Put again under its key, it takes the former one's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigRecord {
    /// A source.
    Source(Box<Source>),
    /// A destination; sealed, since it holds secrets.
    Destination(Box<Destination>),
    /// A subscription.
    Subscription(Box<Subscription>),
    /// An API key of a tenant.
    ApiKey(ApiKey),
    /// The tenant's deliveries are paused.
    PausedTenant {
        /// Whose.
        tenant: TenantId,
        /// Since when.
        since: Time,
    },
    /// The tenant is being erased; the mark goes last, so that a restart goes on.
    ErasingTenant {
        /// Whose everything goes.
        tenant: TenantId,
        /// Since when.
        since: Time,
    },
    /// A stored deletion: only this, never absence, lets jobs end as cancelled.
    Deleted {
        /// Whose.
        tenant: TenantId,
        /// What.
        object: ObjectId,
        /// When.
        at: Time,
    },
}

/// What a configuration record is found by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigKey {
    /// A source.
    Source(TenantId, SourceId),
    /// A destination.
    Destination(TenantId, DestinationId),
    /// A subscription.
    Subscription(TenantId, SubscriptionId),
    /// An API key.
    ApiKey(TenantId, KeyId),
    /// The mark of a paused tenant.
    PausedTenant(TenantId),
    /// The mark of a tenant that is being erased.
    ErasingTenant(TenantId),
    /// The mark of a deletion.
    Deleted(TenantId, ObjectId),
}

/// An object that can be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// A source.
    Source(SourceId),
    /// A destination.
    Destination(DestinationId),
    /// A subscription.
    Subscription(SubscriptionId),
}

/// An API key: only the hash of its text is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Its public id.
    pub id: KeyId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Free text, at most 256 bytes.
    pub name: Option<String>,
    /// SHA-256 of the key's text.
    pub sha256: [u8; 32],
    /// When it was made.
    pub created_at: Time,
}

/// Counts the changes of a cluster's configuration, from 1; 0 is that of none. A store of one machine counts nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeedNumber(pub u64);

/// One change; those of one call become durable together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigWrite {
    /// Store this.
    Put(ConfigRecord),
    /// Remove what stands there.
    Remove(ConfigKey),
}

impl FeedNumber {
    /// The next change's.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl ConfigKey {
    /// Whose record it is.
    #[must_use]
    pub const fn tenant(&self) -> &TenantId {
        match self {
            Self::Source(tenant, _)
            | Self::Destination(tenant, _)
            | Self::Subscription(tenant, _)
            | Self::ApiKey(tenant, _)
            | Self::PausedTenant(tenant)
            | Self::ErasingTenant(tenant)
            | Self::Deleted(tenant, _) => tenant,
        }
    }
}

impl ConfigWrite {
    /// What it writes to.
    #[must_use]
    pub fn key(&self) -> ConfigKey {
        match self {
            Self::Put(record) => record.key(),
            Self::Remove(key) => key.clone(),
        }
    }

    /// What the shards are told of it, once it is durable; nothing of what they do not know. An object that is only
    /// removed is not deleted for them: its mark is.
    #[must_use]
    pub fn told(&self) -> Option<ConfigChange> {
        match self {
            Self::Put(record) => record.told(),
            Self::Remove(ConfigKey::PausedTenant(tenant)) => Some(ConfigChange::ResumeTenant(tenant.clone())),
            Self::Remove(
                ConfigKey::Source(..)
                | ConfigKey::Destination(..)
                | ConfigKey::Subscription(..)
                | ConfigKey::ApiKey(..)
                | ConfigKey::ErasingTenant(_)
                | ConfigKey::Deleted(..),
            ) => None,
        }
    }
}

impl ConfigRecord {
    /// What it is found by.
    #[must_use]
    pub fn key(&self) -> ConfigKey {
        match self {
            Self::Source(source) => ConfigKey::Source(source.tenant.clone(), source.id),
            Self::Destination(destination) => ConfigKey::Destination(destination.tenant.clone(), destination.id),
            Self::Subscription(subscription) => ConfigKey::Subscription(subscription.tenant.clone(), subscription.id),
            Self::ApiKey(key) => ConfigKey::ApiKey(key.tenant.clone(), key.id),
            Self::PausedTenant { tenant, .. } => ConfigKey::PausedTenant(tenant.clone()),
            Self::ErasingTenant { tenant, .. } => ConfigKey::ErasingTenant(tenant.clone()),
            Self::Deleted { tenant, object, .. } => ConfigKey::Deleted(tenant.clone(), *object),
        }
    }

    /// Whether it holds secrets and must be sealed on disk.
    #[must_use]
    pub const fn is_secret(&self) -> bool {
        match self {
            Self::Destination(_) => true,
            Self::Source(_)
            | Self::Subscription(_)
            | Self::ApiKey(_)
            | Self::PausedTenant { .. }
            | Self::ErasingTenant { .. }
            | Self::Deleted { .. } => false,
        }
    }

    fn told(&self) -> Option<ConfigChange> {
        match self {
            Self::Destination(destination) => Some(ConfigChange::PutDestination(destination.clone())),
            Self::Subscription(subscription) => Some(ConfigChange::PutSubscription(subscription.clone())),
            Self::PausedTenant { tenant, .. } => Some(ConfigChange::PauseTenant(tenant.clone())),
            Self::Deleted { tenant, object: ObjectId::Destination(id), .. } => {
                Some(ConfigChange::DeleteDestination(tenant.clone(), *id))
            }
            Self::Deleted { tenant, object: ObjectId::Subscription(id), .. } => {
                Some(ConfigChange::DeleteSubscription(tenant.clone(), *id))
            }
            Self::Deleted { object: ObjectId::Source(_), .. }
            | Self::Source(_)
            | Self::ApiKey(_)
            | Self::ErasingTenant { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::store::codec::samples;

    #[test]
    fn shards_are_told_what_they_know_and_nothing_else() {
        let (tenant, id) = (TenantId::new("acme").expect("a valid tenant"), Uuid::from_u128(9));
        let source = samples::source(&tenant, id);
        let destination = samples::destination(&tenant, id);
        let subscription = samples::subscription(&tenant, id);
        let put = |record| ConfigWrite::Put(record).told();
        let deleted = |object| put(ConfigRecord::Deleted { tenant: tenant.clone(), object, at: Time(1) });
        assert_eq!(put(ConfigRecord::Source(Box::new(source))), None);
        assert_eq!(
            put(ConfigRecord::Destination(Box::new(destination.clone()))),
            Some(ConfigChange::PutDestination(Box::new(destination)))
        );
        assert_eq!(
            put(ConfigRecord::Subscription(Box::new(subscription.clone()))),
            Some(ConfigChange::PutSubscription(Box::new(subscription)))
        );
        assert_eq!(deleted(ObjectId::Source(SourceId(id))), None);
        assert_eq!(
            deleted(ObjectId::Destination(DestinationId(id))),
            Some(ConfigChange::DeleteDestination(tenant.clone(), DestinationId(id)))
        );
        assert_eq!(
            deleted(ObjectId::Subscription(SubscriptionId(id))),
            Some(ConfigChange::DeleteSubscription(tenant.clone(), SubscriptionId(id)))
        );
        let key = ConfigKey::PausedTenant(tenant.clone());
        assert_eq!(
            put(ConfigRecord::PausedTenant { tenant: tenant.clone(), since: Time(1) }),
            Some(ConfigChange::PauseTenant(tenant.clone()))
        );
        assert_eq!(ConfigWrite::Remove(key).told(), Some(ConfigChange::ResumeTenant(tenant.clone())));
        let removed = ConfigKey::Subscription(tenant, SubscriptionId(id));
        assert_eq!(ConfigWrite::Remove(removed).told(), None, "only a mark is a deletion");
    }
}
