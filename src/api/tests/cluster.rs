//! Writers of two nodes on one store: a change of one is in force at the other, and none is decided on what was before.

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::rc::Rc;

use super::Notes;
use crate::api::config_store::{ConfigStore, Numbered};
use crate::api::config_writer::{Change, ConfigWriter};
use crate::api::directory::Directory;
use crate::api::problem::Problem;
use crate::api::shards::{Local, Shards};
use crate::runtime::boot::run_local;
use crate::store::codec::samples;
use crate::store::tests::tenant;
use crate::store::{
    ConfigKey, ConfigRecord, ConfigWrite, ConfigureError, FeedNumber, FollowError, ObjectId, StoreError,
};
use crate::types::{ConfigChange, Destination, DestinationId, Time, limits};
use uuid::Uuid;

/// The changes of a cluster, in memory.
#[derive(Default)]
struct Feed {
    changes: RefCell<Vec<Vec<ConfigWrite>>>,
    /// Up to this number they have expired.
    expired: Cell<u64>,
    /// What another node makes just before the next change.
    rival: RefCell<Option<Vec<ConfigWrite>>>,
    /// The answer to the next change gets lost.
    is_mute: Cell<bool>,
}

impl Feed {
    fn head(&self) -> FeedNumber {
        FeedNumber(self.changes.borrow().len() as u64)
    }

    fn make(&self, writes: &[ConfigWrite], head: FeedNumber) -> Result<FeedNumber, ConfigureError> {
        if let Some(rival) = self.rival.take() {
            self.changes.borrow_mut().push(rival);
        }
        if head != self.head() {
            return Err(ConfigureError::Outrun);
        }
        self.changes.borrow_mut().push(writes.to_vec());
        if self.is_mute.take() { Err(StoreError::Stopped.into()) } else { Ok(self.head()) }
    }

    /// One at a time, so that who follows must ask again.
    fn after(&self, from: FeedNumber) -> Result<Numbered, FollowError> {
        if from.0 < self.expired.get() {
            return Err(FollowError::TooFarBehind(from.next()));
        }
        let from = usize::try_from(from.0).expect("few changes");
        Ok(self
            .changes
            .borrow()
            .get(from)
            .map(|writes| (FeedNumber(from as u64 + 1), writes.clone()))
            .into_iter()
            .collect())
    }

    fn records(&self) -> Vec<ConfigRecord> {
        let mut stored = std::collections::BTreeMap::new();
        for write in self.changes.borrow().iter().flatten() {
            match write {
                ConfigWrite::Put(record) => stored.insert(record.key(), record.clone()),
                ConfigWrite::Remove(key) => stored.remove(key),
            };
        }
        stored.into_values().collect()
    }
}

impl ConfigStore for Feed {
    fn configure<'a>(
        &'a self,
        writes: &'a [ConfigWrite],
        head: FeedNumber,
    ) -> Local<'a, Result<FeedNumber, ConfigureError>> {
        Box::pin(ready(self.make(writes, head)))
    }

    fn follow(&self, from: FeedNumber) -> Local<'_, Result<Numbered, FollowError>> {
        Box::pin(ready(self.after(from)))
    }

    fn load(&self) -> Local<'_, Result<(Vec<ConfigRecord>, FeedNumber), StoreError>> {
        Box::pin(ready(Ok((self.records(), self.head()))))
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// A node's writer with shards that take notes.
struct Node {
    writer: ConfigWriter,
    notes: Rc<Notes>,
}

impl Node {
    fn of(feed: &Rc<Feed>) -> Self {
        let notes = Rc::new(Notes::default());
        let stored = (feed.records(), feed.head());
        let shards = Rc::clone(&notes) as Rc<dyn Shards>;
        Self { writer: ConfigWriter::new(Rc::clone(feed) as Rc<dyn ConfigStore>, shards, stored), notes }
    }

    /// Makes a destination if the tenant has none yet.
    async fn make_first(&self, number: u128) -> Result<(), Problem> {
        self.writer
            .change(|directory| {
                let is_first = count(directory) == 0;
                is_first.then(|| Change::new(()).put_destination(&destination(number))).ok_or_else(Problem::not_found)
            })
            .await
    }

    fn told(&self) -> Vec<ConfigChange> {
        self.notes.changes.take()
    }
}

fn count(directory: &Directory) -> usize {
    directory.tenant(&tenant("acme")).map_or(0, |objects| objects.destinations.len())
}

fn destination(number: u128) -> Destination {
    samples::destination(&tenant("acme"), Uuid::from_u128(number))
}

fn put(number: u128) -> ConfigWrite {
    ConfigWrite::Put(ConfigRecord::Destination(Box::new(destination(number))))
}

fn told(number: u128) -> ConfigChange {
    ConfigChange::PutDestination(Box::new(destination(number)))
}

#[test]
fn what_one_node_changes_is_in_force_at_the_other_in_order() {
    run_local(async {
        let feed = Rc::new(Feed::default());
        let (one, other) = (Node::of(&feed), Node::of(&feed));
        one.make_first(1).await.expect("it is the first");
        let gone = destination(1);
        one.writer.change(|_| Ok(Change::new(()).delete_destination(&gone, Time(5)))).await.expect("it is there");
        one.make_first(2).await.expect("it is the first again");
        assert_eq!(count(&other.writer.directory()), 0);
        other.writer.follow().await.expect("the feed is there");
        assert_eq!(count(&other.writer.directory()), 1);
        let expected = [told(1), ConfigChange::DeleteDestination(tenant("acme"), gone.id), told(2)];
        assert_eq!(other.told(), expected);
        assert_eq!(one.told(), expected, "as told of changes of one's own");
    });
}

#[test]
fn a_change_is_decided_on_what_others_have_changed() {
    run_local(async {
        let feed = Rc::new(Feed::default());
        let (one, other) = (Node::of(&feed), Node::of(&feed));
        one.make_first(1).await.expect("it is the first");
        assert!(other.make_first(2).await.is_err(), "it has not followed before, and knows");
        assert_eq!(feed.head(), FeedNumber(1));
    });
}

#[test]
fn a_change_that_was_outrun_is_decided_again() {
    run_local(async {
        let feed = Rc::new(Feed::default());
        let node = Node::of(&feed);
        feed.rival.replace(Some(vec![put(7)]));
        assert!(node.make_first(1).await.is_err(), "another was first");
        assert_eq!((feed.head(), node.told()), (FeedNumber(1), vec![told(7)]));
        feed.rival.replace(Some(vec![put(8)]));
        let mut seen = Vec::new();
        let change = node.writer.change(|directory| {
            seen.push(count(directory));
            Ok(Change::new(()).put_destination(&destination(9)))
        });
        change.await.expect("nothing forbids it");
        assert_eq!(seen, [1, 2]);
        assert_eq!(node.told(), [told(8), told(9)]);
        assert_eq!(feed.records().len(), 3);
    });
}

#[test]
fn a_change_without_an_answer_is_found_when_the_next_one_is_decided() {
    run_local(async {
        let feed = Rc::new(Feed::default());
        let node = Node::of(&feed);
        feed.is_mute.set(true);
        assert_eq!(node.make_first(1).await.map_err(|problem| problem.status), Err(503));
        assert!(node.told().is_empty());
        assert!(node.make_first(2).await.is_err(), "there is one");
        assert_eq!(node.told(), [told(1)]);
    });
}

#[test]
fn a_node_that_was_away_too_long_applies_what_is_different() {
    run_local(async {
        let feed = Rc::new(Feed::default());
        feed.changes.borrow_mut().push(vec![put(1), put(2)]);
        let away = Node::of(&feed);
        let mark = ConfigRecord::Deleted {
            tenant: tenant("acme"),
            object: ObjectId::Destination(DestinationId(Uuid::from_u128(1))),
            at: Time(3),
        };
        let key = ConfigKey::Destination(tenant("acme"), DestinationId(Uuid::from_u128(1)));
        feed.changes.borrow_mut().push(vec![ConfigWrite::Remove(key), ConfigWrite::Put(mark)]);
        feed.changes.borrow_mut().push(vec![put(3)]);
        feed.expired.set(3);
        away.writer.follow().await.expect("it loads");
        let deleted = ConfigChange::DeleteDestination(tenant("acme"), DestinationId(Uuid::from_u128(1)));
        assert_eq!(away.told(), [told(3), deleted], "and nothing of what it knows");
        assert_eq!(count(&away.writer.directory()), 2);
        away.writer.follow().await.expect("it goes on from there");
        assert!(away.told().is_empty());
    });
}

#[test]
fn who_is_always_outrun_gives_up() {
    /// A store where somebody else is always faster.
    struct Busy(Cell<u32>);

    impl ConfigStore for Busy {
        fn configure<'a>(
            &'a self,
            _: &'a [ConfigWrite],
            _: FeedNumber,
        ) -> Local<'a, Result<FeedNumber, ConfigureError>> {
            self.0.set(self.0.get() + 1);
            Box::pin(ready(Err(ConfigureError::Outrun)))
        }

        fn follow(&self, _: FeedNumber) -> Local<'_, Result<Numbered, FollowError>> {
            Box::pin(ready(Ok(Vec::new())))
        }

        fn load(&self) -> Local<'_, Result<(Vec<ConfigRecord>, FeedNumber), StoreError>> {
            Box::pin(ready(Ok((Vec::new(), FeedNumber(0)))))
        }

        fn is_shared(&self) -> bool {
            true
        }
    }

    run_local(async {
        let busy = Rc::new(Busy(Cell::new(0)));
        let shards = Rc::new(Notes::default()) as Rc<dyn Shards>;
        let stored = (Vec::new(), FeedNumber(0));
        let writer = ConfigWriter::new(Rc::clone(&busy) as Rc<dyn ConfigStore>, shards, stored);
        let change = writer.change(|_| Ok(Change::new(()).put_destination(&destination(1)))).await;
        assert_eq!(change.map_err(|problem| problem.status), Err(503));
        assert_eq!(busy.0.get(), limits::CONFIG_DECISIONS);
    });
}
