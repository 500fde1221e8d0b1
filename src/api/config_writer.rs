//! The only writer of configuration: decide → store → tell the shards → answer, one change after another.
//!
//! A change is decided on the directory as it stands, made durable, applied to the directory and to the owning
//! shard, in this order, before the next begins; so an answered change is in force. A change must run to its
//! end once begun: the server lets handlers finish even when their client has gone.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use crate::runtime::channel;
use crate::store::Embedded;
use crate::store::configuration::{ConfigKey, ConfigRecord, ConfigWrite, ObjectId};
use crate::types::subscription::{DisabledReason, VerificationState};
use crate::types::{ConfigChange, Destination, Source, Subscription, SubscriptionId, TenantId, Time};

use super::directory::{Directory, Objects};
use super::problem::Problem;
use super::shards::Shards;

/// The writer and the directory it keeps.
pub struct ConfigWriter {
    store: Embedded,
    shards: Rc<dyn Shards>,
    directory: RefCell<Directory>,
    turn: Turn,
}

/// What a change writes and what its maker wants back.
#[derive(Debug)]
pub struct Change<T> {
    writes: Vec<ConfigWrite>,
    shards: Vec<ConfigChange>,
    /// For the answer.
    pub result: T,
}

/// One token: whoever holds it is the only one to write.
struct Turn {
    give: channel::Sender<()>,
    take: channel::Receiver<()>,
}

impl<T> Change<T> {
    /// No writes yet.
    pub const fn new(result: T) -> Self {
        Self { writes: Vec::new(), shards: Vec::new(), result }
    }

    /// Stores a source; shards do not know sources.
    #[must_use]
    pub fn put_source(self, source: &Source) -> Self {
        self.store(ConfigWrite::Put(ConfigRecord::Source(Box::new(source.clone()))))
    }

    /// Stores a destination.
    #[must_use]
    pub fn put_destination(mut self, destination: &Destination) -> Self {
        self.shards.push(ConfigChange::PutDestination(Box::new(destination.clone())));
        self.store(ConfigWrite::Put(ConfigRecord::Destination(Box::new(destination.clone()))))
    }

    /// Stores a subscription.
    #[must_use]
    pub fn put_subscription(mut self, subscription: &Subscription) -> Self {
        self.shards.push(ConfigChange::PutSubscription(Box::new(subscription.clone())));
        self.store(ConfigWrite::Put(ConfigRecord::Subscription(Box::new(subscription.clone()))))
    }

    /// Stores anything that shards do not know.
    #[must_use]
    pub fn store(mut self, write: ConfigWrite) -> Self {
        self.writes.push(write);
        self
    }

    /// Tells the owning shard of what is stored.
    #[must_use]
    pub fn tell(mut self, change: ConfigChange) -> Self {
        self.shards.push(change);
        self
    }

    /// Deletes a source.
    #[must_use]
    pub fn delete_source(self, source: &Source, at: Time) -> Self {
        let key = ConfigKey::Source(source.tenant.clone(), source.id);
        self.delete(key, &source.tenant, ObjectId::Source(source.id), at)
    }

    /// Deletes a destination; its subscriptions are deleted by their own calls, before.
    #[must_use]
    pub fn delete_destination(self, destination: &Destination, at: Time) -> Self {
        let key = ConfigKey::Destination(destination.tenant.clone(), destination.id);
        self.delete(key, &destination.tenant, ObjectId::Destination(destination.id), at)
            .tell(ConfigChange::DeleteDestination(destination.tenant.clone(), destination.id))
    }

    /// Deletes a subscription.
    #[must_use]
    pub fn delete_subscription(self, subscription: &Subscription, at: Time) -> Self {
        let key = ConfigKey::Subscription(subscription.tenant.clone(), subscription.id);
        self.delete(key, &subscription.tenant, ObjectId::Subscription(subscription.id), at)
            .tell(ConfigChange::DeleteSubscription(subscription.tenant.clone(), subscription.id))
    }

    /// Deletes everything that `objects` has.
    #[must_use]
    pub fn delete_all(mut self, tenant: &TenantId, objects: &Objects, at: Time) -> Self {
        for subscription in objects.subscriptions.values() {
            self = self.delete_subscription(subscription, at);
        }
        for destination in objects.destinations.values() {
            self = self.delete_destination(destination, at);
        }
        for source in objects.sources.values() {
            self = self.delete_source(source, at);
        }
        for key in objects.keys.keys() {
            self = self.store(ConfigWrite::Remove(ConfigKey::ApiKey(tenant.clone(), *key)));
        }
        self.store(ConfigWrite::Remove(ConfigKey::PausedTenant(tenant.clone())))
            .tell(ConfigChange::ResumeTenant(tenant.clone()))
    }

    /// A deletion is a stored mark: only that lets jobs end as cancelled.
    fn delete(self, key: ConfigKey, tenant: &TenantId, object: ObjectId, at: Time) -> Self {
        let mark = ConfigRecord::Deleted { tenant: tenant.clone(), object, at };
        self.store(ConfigWrite::Remove(key)).store(ConfigWrite::Put(mark))
    }
}

impl ConfigWriter {
    /// A writer that begins with what is stored; the shards know that already.
    #[must_use]
    pub fn new(store: Embedded, shards: Rc<dyn Shards>, stored: Vec<ConfigRecord>) -> Self {
        Self { store, shards, directory: RefCell::new(Directory::load(stored)), turn: Turn::new() }
    }

    /// The directory as it stands. Never held over an await.
    #[must_use]
    pub fn directory(&self) -> Ref<'_, Directory> {
        self.directory.borrow()
    }

    /// Makes the change that `decide` finds right.
    ///
    /// # Errors
    /// What `decide` says, or 503 when the store did not take it: then nothing has changed.
    pub async fn change<T>(&self, decide: impl FnOnce(&Directory) -> Result<Change<T>, Problem>) -> Result<T, Problem> {
        let _turn = self.turn.wait().await;
        let Change { writes, shards, result } = decide(&self.directory.borrow())?;
        self.store.configure(&writes).await?;
        for write in writes {
            self.directory.borrow_mut().apply(write);
        }
        for change in shards {
            self.shards.configure(change).await;
        }
        Ok(result)
    }

    /// Writes down that the hub itself disabled subscriptions.
    ///
    /// # Errors
    /// 503 when the store did not take it.
    pub async fn disable(
        &self,
        tenant: &TenantId,
        subscriptions: &[SubscriptionId],
        reason: DisabledReason,
        now: Time,
    ) -> Result<(), Problem> {
        self.change(|directory| {
            let mut change = Change::new(());
            for id in subscriptions {
                let Some(stored) = directory.subscription(tenant, *id).filter(|stored| stored.enabled) else {
                    continue;
                };
                change = change.put_subscription(&Subscription {
                    enabled: false,
                    disabled_reason: Some(reason),
                    disabled_at: Some(now),
                    updated_at: now,
                    version: stored.version + 1,
                    ..Subscription::clone(stored)
                });
            }
            Ok(change)
        })
        .await
    }

    /// Writes down what a verification of `probed` found; nothing when its URL has changed meanwhile.
    /// `enable` also enables the subscription, as a manual verification does.
    ///
    /// # Errors
    /// 404 when the subscription is gone, 409 when the URL has changed, 503 when the store did not take it.
    pub async fn verified(
        &self,
        (id, probed): (SubscriptionId, &Destination),
        state: VerificationState,
        enable: Enable,
        now: Time,
    ) -> Result<Subscription, Problem> {
        self.change(|directory| {
            let stored = directory.subscription(&probed.tenant, id).ok_or_else(Problem::not_found)?;
            let destination = directory.destination(&probed.tenant, stored.destination_id);
            if destination.is_none_or(|current| current.id != probed.id || current.url != probed.url) {
                return Err(Problem::new(409, "url_changed", "the destination's URL changed during the verification"));
            }
            let mut changed = Subscription::clone(stored);
            changed.verification_state = state;
            if enable == Enable::Yes {
                (changed.enabled, changed.disabled_reason, changed.disabled_at) = (true, None, None);
            }
            changed.updated_at = now;
            changed.version += 1;
            Ok(Change::new(changed.clone()).put_subscription(&changed))
        })
        .await
    }
}

/// Whether a verification also enables the subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enable {
    /// It does.
    Yes,
    /// It leaves that as it is.
    No,
}

impl Turn {
    fn new() -> Self {
        let (give, take) = channel::bounded(1);
        let turn = Self { give, take };
        drop(Held(&turn));
        turn
    }

    async fn wait(&self) -> Held<'_> {
        self.take.recv_async().await.expect("the token's sender lives beside its receiver");
        Held(self)
    }
}

struct Held<'a>(&'a Turn);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.give.try_send(()).expect("there is one token and room for one");
    }
}
