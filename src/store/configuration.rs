//! Configuration records as the store keeps them: what tenants and operators set, and what was deleted.

use serde::{Deserialize, Serialize};

use crate::types::ids::KeyId;
use crate::types::{Destination, DestinationId, Source, SourceId, Subscription, SubscriptionId, TenantId, Time};

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

/// One change; those of one call become durable together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigWrite {
    /// Store this.
    Put(ConfigRecord),
    /// Remove what stands there.
    Remove(ConfigKey),
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
}
