//! All configuration objects, in memory: what ingest, keys and the API look up.
//!
//! A pure fold of the store's configuration records: at the start over all of them, then over each durable
//! write. It never changes in any other way; what another load of everything brings is made into writes first.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::store::configuration::{ApiKey, ConfigKey, ConfigRecord, ConfigWrite, ObjectId};
use crate::types::ids::KeyId;
use crate::types::{Destination, DestinationId, Source, SourceId, Subscription, SubscriptionId, TenantId, Time};

use super::auth::KeyHash;

/// The objects of all tenants.
#[derive(Debug, Default)]
pub struct Directory {
    tenants: BTreeMap<TenantId, Objects>,
    sources: BTreeMap<SourceId, Rc<Source>>,
    keys: BTreeMap<KeyHash, TenantId>,
}

/// The objects of one tenant, each kind in order of id, which is the order of making.
#[derive(Debug, Default)]
pub struct Objects {
    /// Its sources.
    pub sources: BTreeMap<SourceId, Rc<Source>>,
    /// Its destinations.
    pub destinations: BTreeMap<DestinationId, Rc<Destination>>,
    /// Its subscriptions.
    pub subscriptions: BTreeMap<SubscriptionId, Rc<Subscription>>,
    /// Its API keys.
    pub keys: BTreeMap<KeyId, Rc<ApiKey>>,
    /// Subscriptions that were deleted, each with the time, as long as the mark of it is stored.
    pub deleted_subscriptions: BTreeMap<SubscriptionId, Time>,
    /// Since when its deliveries are paused.
    pub paused_since: Option<Time>,
    /// Since when everything of it goes.
    pub erasing_since: Option<Time>,
}

impl Objects {
    /// Whether it has objects: what remains of a tenant that has none is at most a mark.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
            && self.destinations.is_empty()
            && self.subscriptions.is_empty()
            && self.keys.is_empty()
            && self.paused_since.is_none()
    }
}

impl Directory {
    /// The directory of these records.
    #[must_use]
    pub fn load(records: impl IntoIterator<Item = ConfigRecord>) -> Self {
        let mut directory = Self::default();
        for record in records {
            directory.put(record);
        }
        directory
    }

    /// Follows one durable write.
    pub fn apply(&mut self, write: ConfigWrite) {
        match write {
            ConfigWrite::Put(record) => self.put(record),
            ConfigWrite::Remove(key) => self.remove(&key),
        }
    }

    /// The objects of `tenant`, if it has ever had any.
    #[must_use]
    pub fn tenant(&self, tenant: &TenantId) -> Option<&Objects> {
        self.tenants.get(tenant)
    }

    /// Every tenant with its objects, in order of name.
    pub fn tenants(&self) -> impl Iterator<Item = (&TenantId, &Objects)> {
        self.tenants.iter()
    }

    /// The source of an ingest URL, whosever it is.
    #[must_use]
    pub fn source(&self, id: SourceId) -> Option<&Rc<Source>> {
        self.sources.get(&id)
    }

    /// The tenant of a key.
    #[must_use]
    pub fn tenant_of(&self, key: KeyHash) -> Option<&TenantId> {
        self.keys.get(&key)
    }

    /// One destination of a tenant.
    #[must_use]
    pub fn destination(&self, tenant: &TenantId, id: DestinationId) -> Option<&Rc<Destination>> {
        self.tenant(tenant)?.destinations.get(&id)
    }

    /// One subscription of a tenant.
    #[must_use]
    pub fn subscription(&self, tenant: &TenantId, id: SubscriptionId) -> Option<&Rc<Subscription>> {
        self.tenant(tenant)?.subscriptions.get(&id)
    }

    /// When a subscription of a tenant was deleted, if it was and is still remembered.
    #[must_use]
    pub fn subscription_deleted_at(&self, tenant: &TenantId, id: SubscriptionId) -> Option<Time> {
        self.tenant(tenant)?.deleted_subscriptions.get(&id).copied()
    }

    /// Whether an operator paused the tenant.
    #[must_use]
    pub fn is_paused(&self, tenant: &TenantId) -> bool {
        self.tenant(tenant).is_some_and(|objects| objects.paused_since.is_some())
    }

    /// Whether the tenant is being erased.
    #[must_use]
    pub fn is_erasing(&self, tenant: &TenantId) -> bool {
        self.tenant(tenant).is_some_and(|objects| objects.erasing_since.is_some())
    }

    /// Tenants that are being erased.
    pub fn erasing(&self) -> impl Iterator<Item = &TenantId> {
        self.tenants().filter(|(_, objects)| objects.erasing_since.is_some()).map(|(tenant, _)| tenant)
    }

    /// The writes that make this directory into one of `stored`, destinations before their subscriptions, and last what
    /// was deleted, subscriptions before their destinations. Only marks of objects that are known here are among them.
    #[must_use]
    pub fn difference(&self, stored: Vec<ConfigRecord>) -> Vec<ConfigWrite> {
        let mut own: BTreeMap<ConfigKey, ConfigRecord> = self.records().map(|record| (record.key(), record)).collect();
        let (mut writes, mut marks) = (Vec::new(), [Vec::new(), Vec::new()]);
        for record in stored {
            if own.remove(&record.key()).is_some_and(|known| known == record) {
                continue;
            }
            match &record {
                ConfigRecord::Deleted { object: ObjectId::Subscription(_), .. } => {
                    marks[0].push(ConfigWrite::Put(record));
                }
                ConfigRecord::Deleted { tenant, object: ObjectId::Destination(id), .. } => {
                    if self.destination(tenant, *id).is_some() {
                        marks[1].push(ConfigWrite::Put(record));
                    }
                }
                ConfigRecord::Deleted { object: ObjectId::Source(_), .. } => {}
                ConfigRecord::Source(_)
                | ConfigRecord::Destination(_)
                | ConfigRecord::Subscription(_)
                | ConfigRecord::ApiKey(_)
                | ConfigRecord::PausedTenant { .. }
                | ConfigRecord::ErasingTenant { .. } => writes.push(ConfigWrite::Put(record)),
            }
        }
        writes.extend(own.into_keys().map(ConfigWrite::Remove));
        writes.extend(marks.into_iter().flatten());
        writes
    }

    /// What it is the fold of, but for the marks of sources and destinations.
    fn records(&self) -> impl Iterator<Item = ConfigRecord> {
        self.tenants.iter().flat_map(|(tenant, objects)| {
            let sources = objects.sources.values().map(|source| ConfigRecord::Source(Box::new(Source::clone(source))));
            let destinations = objects.destinations.values();
            let destinations =
                destinations.map(|stored| ConfigRecord::Destination(Box::new(Destination::clone(stored))));
            let subscriptions = objects.subscriptions.values();
            let subscriptions =
                subscriptions.map(|stored| ConfigRecord::Subscription(Box::new(Subscription::clone(stored))));
            let keys = objects.keys.values().map(|key| ConfigRecord::ApiKey(ApiKey::clone(key)));
            let deleted = objects.deleted_subscriptions.iter().map(|(id, at)| ConfigRecord::Deleted {
                tenant: tenant.clone(),
                object: ObjectId::Subscription(*id),
                at: *at,
            });
            let paused = objects.paused_since.map(|since| ConfigRecord::PausedTenant { tenant: tenant.clone(), since });
            let erasing =
                objects.erasing_since.map(|since| ConfigRecord::ErasingTenant { tenant: tenant.clone(), since });
            sources.chain(destinations).chain(subscriptions).chain(keys).chain(deleted).chain(paused).chain(erasing)
        })
    }

    fn of(&mut self, tenant: &TenantId) -> &mut Objects {
        self.tenants.entry(tenant.clone()).or_default()
    }

    fn put(&mut self, record: ConfigRecord) {
        match record {
            ConfigRecord::Source(source) => {
                let source = Rc::new(*source);
                self.sources.insert(source.id, Rc::clone(&source));
                self.of(&source.tenant).sources.insert(source.id, source);
            }
            ConfigRecord::Destination(destination) => {
                let (tenant, id) = (destination.tenant.clone(), destination.id);
                self.of(&tenant).destinations.insert(id, Rc::new(*destination));
            }
            ConfigRecord::Subscription(subscription) => {
                let (tenant, id) = (subscription.tenant.clone(), subscription.id);
                self.of(&tenant).subscriptions.insert(id, Rc::new(*subscription));
            }
            ConfigRecord::ApiKey(key) => {
                self.keys.insert(KeyHash(key.sha256), key.tenant.clone());
                let tenant = key.tenant.clone();
                self.of(&tenant).keys.insert(key.id, Rc::new(key));
            }
            ConfigRecord::PausedTenant { tenant, since } => self.of(&tenant).paused_since = Some(since),
            ConfigRecord::Deleted { tenant, object: ObjectId::Subscription(id), at } => {
                self.of(&tenant).deleted_subscriptions.insert(id, at);
            }
            ConfigRecord::Deleted { object: ObjectId::Source(_) | ObjectId::Destination(_), .. } => {}
            ConfigRecord::ErasingTenant { tenant, since } => self.of(&tenant).erasing_since = Some(since),
        }
    }

    fn remove(&mut self, key: &ConfigKey) {
        match key {
            ConfigKey::Source(tenant, id) => {
                self.sources.remove(id);
                self.of(tenant).sources.remove(id);
            }
            ConfigKey::Destination(tenant, id) => {
                self.of(tenant).destinations.remove(id);
            }
            ConfigKey::Subscription(tenant, id) => {
                self.of(tenant).subscriptions.remove(id);
            }
            ConfigKey::ApiKey(tenant, id) => {
                if let Some(key) = self.of(tenant).keys.remove(id) {
                    self.keys.remove(&KeyHash(key.sha256));
                }
            }
            ConfigKey::PausedTenant(tenant) => self.of(tenant).paused_since = None,
            ConfigKey::Deleted(tenant, ObjectId::Subscription(id)) => {
                self.of(tenant).deleted_subscriptions.remove(id);
            }
            ConfigKey::Deleted(_, ObjectId::Source(_) | ObjectId::Destination(_)) => {}
            ConfigKey::ErasingTenant(tenant) => {
                self.of(tenant).erasing_since = None;
                if self.of(tenant).is_empty() {
                    self.tenants.remove(tenant);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::codec::samples;
    use uuid::Uuid;

    #[test]
    fn keys_sources_and_pauses_come_and_go() {
        let tenant = TenantId::new("acme").expect("a tenant");
        let key = ApiKey {
            id: KeyId(Uuid::nil()),
            tenant: tenant.clone(),
            name: None,
            sha256: [7; 32],
            created_at: Time::ZERO,
        };
        let paused = ConfigRecord::PausedTenant { tenant: tenant.clone(), since: Time(5) };
        let mut directory = Directory::load([ConfigRecord::ApiKey(key.clone()), paused]);
        assert_eq!(directory.tenant_of(KeyHash([7; 32])), Some(&tenant));
        assert_eq!(directory.tenant_of(KeyHash([8; 32])), None);
        assert!(directory.is_paused(&tenant));
        directory.apply(ConfigWrite::Remove(ConfigKey::ApiKey(tenant.clone(), key.id)));
        directory.apply(ConfigWrite::Remove(ConfigKey::PausedTenant(tenant.clone())));
        assert_eq!(directory.tenant_of(KeyHash([7; 32])), None);
        assert!(!directory.is_paused(&tenant));
        assert_eq!(directory.tenant(&TenantId::new("other").expect("a tenant")).map(|_| ()), None);
    }

    #[test]
    fn a_directory_becomes_another_by_its_difference() {
        let tenant = TenantId::new("acme").expect("a tenant");
        let id = Uuid::from_u128;
        let deleted = |object| ConfigRecord::Deleted { tenant: tenant.clone(), object, at: Time(3) };
        let destination = |number| ConfigRecord::Destination(Box::new(samples::destination(&tenant, id(number))));
        let subscription = |number| ConfigRecord::Subscription(Box::new(samples::subscription(&tenant, id(number))));
        let paused = ConfigRecord::PausedTenant { tenant: tenant.clone(), since: Time(5) };
        let mut moved = samples::subscription(&tenant, id(3));
        moved.version += 1;
        let moved = ConfigRecord::Subscription(Box::new(moved));
        let former = vec![destination(1), destination(2), subscription(1), subscription(3), paused];
        let marks = [
            deleted(ObjectId::Destination(DestinationId(id(1)))),
            deleted(ObjectId::Subscription(SubscriptionId(id(1)))),
            deleted(ObjectId::Destination(DestinationId(id(99)))),
        ];
        let later = [vec![destination(2), destination(4), moved.clone()], marks.to_vec()].concat();
        let mut directory = Directory::load(former);
        let writes = directory.difference(later.clone());
        let expected = [
            ConfigWrite::Put(destination(4)),
            ConfigWrite::Put(moved),
            ConfigWrite::Remove(destination(1).key()),
            ConfigWrite::Remove(subscription(1).key()),
            ConfigWrite::Remove(ConfigKey::PausedTenant(tenant.clone())),
            ConfigWrite::Put(marks[1].clone()),
            ConfigWrite::Put(marks[0].clone()),
        ];
        assert_eq!(writes, expected, "and nothing of what was never known");
        writes.into_iter().for_each(|write| directory.apply(write));
        assert!(directory.difference(later.clone()).is_empty());
        assert!(directory.records().eq(Directory::load(later).records()));
    }
}
