//! What the API asks of the store about configuration, as one trait.
//!
//! A store of one machine has one writer, this process; that of a cluster has one on every node, and numbers their
//! changes. The tests of the writer give it one that they write to themselves.

use std::rc::Rc;

use crate::store::{
    ConfigRecord, ConfigWrite, ConfigureError, Embedded, FeedNumber, FollowError, Scylla, Store, StoreError,
};

use super::shards::Local;

/// Changes with their numbers, in order.
pub type Numbered = Vec<(FeedNumber, Vec<ConfigWrite>)>;

/// A store that keeps configuration.
pub trait ConfigStore {
    /// Makes one change, whole or not at all, if `head` is the last one; gives its number.
    fn configure<'a>(
        &'a self,
        writes: &'a [ConfigWrite],
        head: FeedNumber,
    ) -> Local<'a, Result<FeedNumber, ConfigureError>>;
    /// Some of the changes after `from`, in order and none left out; none when there are none.
    fn follow(&self, from: FeedNumber) -> Local<'_, Result<Numbered, FollowError>>;
    /// Everything, and the number of the last change in it.
    fn load(&self) -> Local<'_, Result<(Vec<ConfigRecord>, FeedNumber), StoreError>>;
    /// Whether other processes write to it.
    fn is_shared(&self) -> bool;
}

/// Nobody else writes, so nothing is counted and nothing is followed.
impl ConfigStore for Embedded {
    fn configure<'a>(
        &'a self,
        writes: &'a [ConfigWrite],
        head: FeedNumber,
    ) -> Local<'a, Result<FeedNumber, ConfigureError>> {
        Box::pin(async move {
            Embedded::configure(self, writes).await?;
            Ok(head)
        })
    }

    fn follow(&self, _: FeedNumber) -> Local<'_, Result<Numbered, FollowError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn load(&self) -> Local<'_, Result<(Vec<ConfigRecord>, FeedNumber), StoreError>> {
        Box::pin(async { Ok((self.load_configuration()?, FeedNumber::default())) })
    }

    fn is_shared(&self) -> bool {
        false
    }
}

impl ConfigStore for Scylla {
    fn configure<'a>(
        &'a self,
        writes: &'a [ConfigWrite],
        head: FeedNumber,
    ) -> Local<'a, Result<FeedNumber, ConfigureError>> {
        Box::pin(Scylla::configure(self, writes, head))
    }

    fn follow(&self, from: FeedNumber) -> Local<'_, Result<Numbered, FollowError>> {
        Box::pin(Scylla::follow(self, from))
    }

    fn load(&self) -> Local<'_, Result<(Vec<ConfigRecord>, FeedNumber), StoreError>> {
        Box::pin(self.load_configuration())
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// The part of `store` that keeps configuration.
#[must_use]
pub fn of(store: &Store) -> Rc<dyn ConfigStore> {
    match store {
        Store::Embedded(store) => Rc::new(store.clone()),
        Store::Scylla(store) => Rc::new(store.clone()),
    }
}
