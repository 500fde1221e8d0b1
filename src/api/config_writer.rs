//! The only writer of configuration in a process: decide → store → tell the shards → answer, one change after another.
//!
//! A change is decided on the directory as it stands, made durable, applied to the directory and to the owning
//! shard, in this order, before the next begins; so an answered change is in force. A change must run to its
//! end once begun: the server lets handlers finish even when their client has gone.
//!
//! On a cluster other nodes write, too. Changes are numbered there, and the store takes one only from whoever knows the
//! last: a change is decided on what the others have made of the directory, and decided again when it was outrun. What
//! they change is applied like a change of one's own, in the order of the numbers; a node that was away for too long
//! loads everything and applies what is different.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use crate::runtime::channel;
use crate::store::configuration::{ConfigKey, ConfigRecord, ConfigWrite, FeedNumber, ObjectId};
use crate::store::{ConfigureError, FollowError, StoreError};
use crate::types::subscription::{DisabledReason, VerificationState};
use crate::types::{Destination, Source, Subscription, SubscriptionId, TenantId, Time, limits};

use super::config_store::ConfigStore;
use super::directory::{Directory, Objects};
use super::problem::Problem;
use super::shards::Shards;

/// The writer and the directory it keeps.
pub struct ConfigWriter {
    store: Rc<dyn ConfigStore>,
    shards: Rc<dyn Shards>,
    directory: RefCell<Directory>,
    /// The last change in the directory.
    number: Cell<FeedNumber>,
    turn: Turn,
}

/// What a change writes and what its maker wants back. The shards are told of it as of any other node's.
#[derive(Debug)]
pub struct Change<T> {
    writes: Vec<ConfigWrite>,
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
        Self { writes: Vec::new(), result }
    }

    /// Stores a source.
    #[must_use]
    pub fn put_source(self, source: &Source) -> Self {
        self.store(ConfigWrite::Put(ConfigRecord::Source(Box::new(source.clone()))))
    }

    /// Stores a destination.
    #[must_use]
    pub fn put_destination(self, destination: &Destination) -> Self {
        self.store(ConfigWrite::Put(ConfigRecord::Destination(Box::new(destination.clone()))))
    }

    /// Stores a subscription.
    #[must_use]
    pub fn put_subscription(self, subscription: &Subscription) -> Self {
        self.store(ConfigWrite::Put(ConfigRecord::Subscription(Box::new(subscription.clone()))))
    }

    /// Adds a write.
    #[must_use]
    pub fn store(mut self, write: ConfigWrite) -> Self {
        self.writes.push(write);
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
    }

    /// Deletes a subscription.
    #[must_use]
    pub fn delete_subscription(self, subscription: &Subscription, at: Time) -> Self {
        let key = ConfigKey::Subscription(subscription.tenant.clone(), subscription.id);
        self.delete(key, &subscription.tenant, ObjectId::Subscription(subscription.id), at)
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
    }

    /// A deletion is a stored mark: only that lets jobs end as cancelled.
    fn delete(self, key: ConfigKey, tenant: &TenantId, object: ObjectId, at: Time) -> Self {
        let mark = ConfigRecord::Deleted { tenant: tenant.clone(), object, at };
        self.store(ConfigWrite::Remove(key)).store(ConfigWrite::Put(mark))
    }
}

impl ConfigWriter {
    /// A writer that begins with what is stored and the number of the last change in it; the shards know that already.
    #[must_use]
    pub fn new(
        store: Rc<dyn ConfigStore>,
        shards: Rc<dyn Shards>,
        (stored, number): (Vec<ConfigRecord>, FeedNumber),
    ) -> Self {
        let (directory, number) = (RefCell::new(Directory::load(stored)), Cell::new(number));
        Self { store, shards, directory, number, turn: Turn::new() }
    }

    /// The directory as it stands. Never held over an await.
    #[must_use]
    pub fn directory(&self) -> Ref<'_, Directory> {
        self.directory.borrow()
    }

    /// Whether other processes change the configuration, too.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// Makes the change that `decide` finds right; it is asked again when others were faster.
    ///
    /// # Errors
    /// What `decide` says, or 503 when the store did not take it: then nothing has changed, but on a cluster where the
    /// store's answer got lost it may.
    pub async fn change<T>(
        &self,
        mut decide: impl FnMut(&Directory) -> Result<Change<T>, Problem>,
    ) -> Result<T, Problem> {
        let _turn = self.turn.wait().await;
        for _ in 0..limits::CONFIG_DECISIONS {
            self.catch_up().await?;
            let Change { writes, result } = decide(&self.directory.borrow())?;
            if writes.is_empty() {
                return Ok(result);
            }
            match self.store.configure(&writes, self.number.get()).await {
                Ok(number) => {
                    self.apply(number, writes).await;
                    return Ok(result);
                }
                Err(ConfigureError::Outrun) => {}
                Err(error @ ConfigureError::TooLarge(_)) => {
                    return Err(Problem::new(409, "change_too_large", error.to_string()));
                }
                Err(ConfigureError::Store(error)) => return Err(error.into()),
            }
        }
        Err(Problem::unavailable("other changes of the configuration came first again and again"))
    }

    /// Applies what other processes have changed.
    ///
    /// # Errors
    /// [`StoreError`] when the store does not tell.
    pub async fn follow(&self) -> Result<(), StoreError> {
        let _turn = self.turn.wait().await;
        self.catch_up().await
    }

    async fn catch_up(&self) -> Result<(), StoreError> {
        loop {
            match self.store.follow(self.number.get()).await {
                Ok(changes) if changes.is_empty() => return Ok(()),
                Ok(changes) => {
                    for (number, writes) in changes {
                        self.apply(number, writes).await;
                    }
                }
                Err(FollowError::TooFarBehind(_)) => {
                    let (stored, number) = self.store.load().await?;
                    tracing::info!(number = number.0, "the configuration was loaded anew");
                    let writes = self.directory.borrow().difference(stored);
                    self.apply(number, writes).await;
                }
                Err(FollowError::Store(error)) => return Err(error),
            }
        }
    }

    /// Puts a durable change into force here: first where it is acted on, so that what can be seen is in force.
    async fn apply(&self, number: FeedNumber, writes: Vec<ConfigWrite>) {
        for change in writes.iter().filter_map(ConfigWrite::told) {
            self.shards.configure(change).await;
        }
        for write in writes {
            self.directory.borrow_mut().apply(write);
        }
        self.number.set(number);
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
