//! Configuration on a real CQL server: one change after another, each whole, whoever crashes, is late or gets no answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_lite::future::block_on;
use streaming_hub::store::codec::change::{self, StoredWrite};
use streaming_hub::store::codec::configuration::encode_key;
use streaming_hub::store::scylla::ClusterSettings;
use streaming_hub::store::tests::configuration::{ConfigSubject, keeps_configuration, put_all, records_of};
use streaming_hub::store::tests::tenant;
use streaming_hub::store::{
    ConfigKey, ConfigRecord, ConfigWrite, ConfigureError, FeedNumber, FollowError, ObjectId, Scylla, sealed,
};
use streaming_hub::types::{Slot, SubscriptionId, TenantId, Time, limits};
use uuid::Uuid;

use super::cassandra::{cluster, kek, node_settings, shared};
use super::proxy::{Cut, Proxy};
use super::raw::Raw;

/// What [`records_of`] a tenant hold that must not be read.
const SECRET: &[u8] = b"token-in-the-clear";

/// One keyspace has one configuration: these tests have it one after the other.
static TURN: Mutex<()> = Mutex::new(());

fn alone_with_it() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A node, and the last change that it knows.
struct Node {
    store: Scylla,
    head: FeedNumber,
}

impl Node {
    fn of(cluster: &ClusterSettings, owner: &str) -> Self {
        let store = Scylla::connect(node_settings(cluster.clone(), owner)).expect("the server is there");
        let (_, head) = block_on(store.load_configuration()).expect("readable");
        Self { store, head }
    }

    fn configure(&mut self, writes: &[ConfigWrite]) -> Result<FeedNumber, ConfigureError> {
        block_on(self.store.configure(writes, self.head)).inspect(|number| self.head = *number)
    }

    /// Everything that came since; what it had known before must be the change right before.
    fn follow(&mut self) -> Vec<ConfigWrite> {
        let mut all = Vec::new();
        loop {
            let came = block_on(self.store.follow(self.head)).expect("the feed is there");
            if came.is_empty() {
                return all;
            }
            for (number, writes) in came {
                assert_eq!(number, self.head.next(), "none is left out");
                self.head = number;
                all.extend(writes);
            }
        }
    }

    fn load(&self) -> Vec<ConfigRecord> {
        block_on(self.store.load_configuration()).expect("readable").0
    }

    /// Those of tenants that are called so.
    fn load_of(&self, names: &[&str]) -> Vec<ConfigRecord> {
        let is_named = |record: &ConfigRecord| names.contains(&record.key().tenant().as_str());
        self.load().into_iter().filter(is_named).collect()
    }
}

impl ConfigSubject for Node {
    fn configure(&mut self, writes: &[ConfigWrite]) {
        self.configure(writes).expect("nobody else writes");
    }

    fn load(&mut self) -> Vec<ConfigRecord> {
        Node::load(self)
    }
}

fn paused(name: &str, since: u64) -> ConfigRecord {
    ConfigRecord::PausedTenant { tenant: tenant(name), since: Time(since) }
}

fn bucket(tenant: &TenantId) -> i32 {
    Slot::of(tenant, limits::CQL_CONFIG_BUCKETS).0.into()
}

#[test]
fn it_is_kept_as_by_every_store_sealed_and_with_marks_that_expire() {
    let (_server, _turn) = (shared(), alone_with_it());
    let cluster = cluster();
    let mut node = Node::of(&cluster, "keeper");
    keeps_configuration(&mut node);
    let acme = tenant("acme");
    node.configure(&put_all(&records_of(&acme))).expect("nobody else writes");
    let raw = Raw::connect(&cluster);
    let blobs = |text: &str| raw.rows::<(Option<Vec<u8>>,)>(text, ()).into_iter().filter_map(|(blob,)| blob);
    let tables = ["SELECT value FROM config", "SELECT change FROM config_feed", "SELECT change FROM config_head"];
    let stored: Vec<Vec<u8>> = tables.iter().flat_map(|text| blobs(text)).collect();
    let contains = |words: &[u8]| stored.iter().any(|blob| blob.windows(words.len()).any(|window| window == words));
    let as_numbers = SECRET.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    assert!(contains(b"\"slug\":\"shop\""), "plain records are in the clear");
    assert!(!contains(SECRET) && !contains(as_numbers.as_bytes()));
    for record in records_of(&acme) {
        let values = (bucket(&acme), encode_key(&record.key()));
        let found: Vec<(Option<i32>,)> = raw.rows("SELECT TTL(value) FROM config WHERE bucket = ? AND key = ?", values);
        let is_mark = matches!(record, ConfigRecord::Deleted { .. });
        let month = 29 * 86_400..=30 * 86_400;
        assert!(found[0].0.map_or(!is_mark, |ttl| is_mark && month.contains(&ttl)), "{record:?}: {found:?}");
    }
}

#[test]
fn two_writers_at_once_make_all_changes_one_after_the_other() {
    const EACH: u64 = 40;
    let (_server, _turn) = (shared(), alone_with_it());
    let cluster = cluster();
    let mut follower = Node::of(&cluster, "follower");
    let first = follower.head.0;
    // Both know the same last change, so one of them is outrun at once.
    let nodes = ["one", "other"].map(|name| (name, Node::of(&cluster, name)));
    let writers = nodes.map(|(name, mut node)| {
        std::thread::spawn(move || {
            let mut outrun = 0;
            for since in 1..=EACH {
                let write = ConfigWrite::Put(paused(name, since));
                while let Err(error) = node.configure(std::slice::from_ref(&write)) {
                    assert!(matches!(error, ConfigureError::Outrun), "{error}");
                    outrun += 1;
                    node.follow();
                }
            }
            outrun
        })
    });
    let outrun: u32 = writers.into_iter().map(|writer| writer.join().expect("it ends")).sum();
    assert!(outrun > 0, "they met");
    let came = follower.follow();
    assert_eq!(follower.head, FeedNumber(first + 2 * EACH));
    for name in ["one", "other"] {
        let own = came.iter().filter(|write| *write.key().tenant() == tenant(name));
        let expected: Vec<ConfigWrite> = (1..=EACH).map(|since| ConfigWrite::Put(paused(name, since))).collect();
        assert!(own.eq(&expected), "each once and in order");
    }
    assert_eq!(follower.load_of(&["one", "other"]), [paused("one", EACH), paused("other", EACH)]);
}

#[test]
fn a_change_whose_writer_died_after_it_is_whole_for_all() {
    let (_server, _turn) = (shared(), alone_with_it());
    let cluster = cluster();
    let mut node = Node::of(&cluster, "next");
    node.configure(&put_all(&[paused("half", 1), paused("moved", 1)])).expect("nobody else writes");
    let (tenant, raw, first) = (tenant("half"), Raw::connect(&cluster), i64::try_from(node.head.0).expect("small"));
    let key = ConfigKey::PausedTenant(tenant.clone());
    let moved = paused("moved", 2);
    let value = sealed::encode(&kek(), &encode_key(&moved.key()), &moved).expect("nothing is sealed");
    let half = change::encode(&[StoredWrite::Remove(key.clone()), StoredWrite::Put(moved.key(), value)]);
    let decide = "UPDATE config_head SET number = ?, writer = ?, change = ? WHERE part = 'hub' IF number = ?";
    raw.run(decide, (first + 1, Uuid::from_u128(5), half, first));
    let row = (bucket(&tenant), encode_key(&key));
    let rows = || raw.rows::<(Vec<u8>,)>("SELECT value FROM config WHERE bucket = ? AND key = ?", row.clone()).len();
    let numbers = || raw.rows::<(i64,)>("SELECT number FROM config_feed", ()).into_iter().map(|(number,)| number);
    let entries = || numbers().filter(|number| *number > first).count();
    assert_eq!((rows(), entries()), (1, 0), "nothing is derived from it yet");
    let starting = Node::of(&cluster, "starting");
    assert_eq!(starting.head, node.head.next());
    assert_eq!(starting.load_of(&["half", "moved"]), std::slice::from_ref(&moved));
    let late = node.configure(&put_all(&[paused("half-next", 1)]));
    assert!(matches!(late, Err(ConfigureError::Outrun)), "{late:?}");
    assert_eq!(node.follow(), [ConfigWrite::Remove(key), ConfigWrite::Put(moved.clone())]);
    assert_eq!((rows(), entries()), (1, 0), "readers write nothing");
    node.configure(&put_all(&[paused("half-next", 1)])).expect("it has followed");
    assert_eq!((rows(), entries()), (0, 2), "the next writer has completed it");
    assert_eq!(node.load_of(&["half", "moved", "half-next"]), [paused("half-next", 1), moved]);
}

#[test]
fn a_late_write_of_a_former_change_hides_nothing() {
    let (_server, _turn) = (shared(), alone_with_it());
    let cluster = cluster();
    let mut node = Node::of(&cluster, "later");
    let resumed = ConfigWrite::Remove(ConfigKey::PausedTenant(tenant("late-gone")));
    let first = node.configure(&put_all(&[paused("late", 1), paused("late-gone", 1)])).expect("nobody else writes");
    node.configure(&[ConfigWrite::Put(paused("late", 2)), resumed]).expect("nobody else writes");
    let raw = Raw::connect(&cluster);
    for late in [paused("late", 1), paused("late-gone", 1)] {
        let key = encode_key(&late.key());
        let value = sealed::encode(&kek(), &key, &late).expect("nothing is sealed");
        let text = "INSERT INTO config (bucket, key, value) VALUES (?, ?, ?) USING TIMESTAMP ?";
        let stamp = i64::try_from(first.0).expect("small");
        raw.run(text, (bucket(late.key().tenant()), key, value, stamp));
    }
    // So that the change to be looked at is no longer the head, which a loader takes from elsewhere.
    node.configure(&put_all(&[paused("later", 1)])).expect("nobody else writes");
    node.configure(&put_all(&[paused("later", 2)])).expect("nobody else writes");
    assert_eq!(node.load_of(&["late", "late-gone", "later"]), [paused("late", 2), paused("later", 2)]);
}

#[test]
fn a_follower_gets_every_change_in_order_until_they_have_expired() {
    let (_server, _turn) = (shared(), alone_with_it());
    let cluster = cluster();
    let (mut node, mut follower) = (Node::of(&cluster, "writer"), Node::of(&cluster, "follower"));
    let (first, changes) = (node.head, limits::CQL_FEED_CHUNK + 7);
    let mut expected = Vec::new();
    for since in 1..=changes {
        let writes = put_all(&[paused("far", since), paused("far-2", since)]);
        node.configure(&writes).expect("nobody else writes");
        expected.extend(writes);
    }
    assert_eq!(follower.follow(), expected);
    assert_eq!(follower.head, FeedNumber(first.0 + changes));
    assert!(follower.follow().is_empty());
    Raw::connect(&cluster).run("TRUNCATE config_feed", ());
    let behind = block_on(follower.store.follow(first));
    assert!(matches!(behind, Err(FollowError::TooFarBehind(number)) if number == first.next()), "{behind:?}");
    let last = block_on(follower.store.follow(FeedNumber(follower.head.0 - 1))).expect("the head is there");
    assert_eq!(last.len(), 1, "the last change never expires");
    let reloaded = Node::of(&cluster, "again");
    assert_eq!(reloaded.head, follower.head);
    assert_eq!(reloaded.load_of(&["far", "far-2"]), [paused("far", changes), paused("far-2", changes)]);
    node.configure(&put_all(&[paused("far", 999)])).expect("the count goes on");
    assert_eq!(node.head, follower.head.next());
}

#[test]
fn a_change_that_is_too_large_changes_nothing() {
    let (_server, _turn) = (shared(), alone_with_it());
    let cluster = cluster();
    let mut node = Node::of(&cluster, "large");
    let object = |id| ObjectId::Subscription(SubscriptionId(Uuid::from_u128(id)));
    let name = "t".repeat(250);
    let mark = |id| ConfigRecord::Deleted { tenant: tenant(&name), object: object(id), at: Time(1) };
    let marks = |count| (0..count).map(mark).collect::<Vec<_>>();
    let large = node.configure(&put_all(&marks(8_000)));
    assert!(matches!(large, Err(ConfigureError::TooLarge(_))), "{large:?}");
    assert!(node.load_of(&[&name]).is_empty());
    node.configure(&put_all(&marks(6_000))).expect("a change of nearly two mebibytes");
    assert_eq!(node.load_of(&[&name]).len(), 6_000);
}

/// Of two conditional writes the answer to one and the request of the other get lost: both changes are made, once.
#[test]
fn a_change_whose_answer_or_request_got_lost_is_made_once() {
    let (_server, _turn) = (shared(), alone_with_it());
    let proxy = Proxy::start();
    let cluster = ClusterSettings { nodes: vec![proxy.address()], ..cluster() };
    let mut follower = Node::of(&cluster, "follower");
    let mut node = Node::of(&cluster, "unsure");
    // Only an answer to a conditional write says that it was applied, and its request is the first with the change.
    for (name, cut) in [("answer", Cut::Answer(b"[applied]")), ("request", Cut::Request(b"request"))] {
        proxy.lose(cut);
        node.configure(&put_all(&[paused(name, 1)])).expect("it finds out");
        assert!(proxy.has_lost(), "{cut:?}");
    }
    assert_eq!(follower.follow(), put_all(&[paused("answer", 1), paused("request", 1)]));
}

/// Nothing comes back any more: the change is made or not, and the next look tells.
#[test]
fn a_change_of_unknown_fate_is_found_by_the_next_look() {
    let (_server, _turn) = (shared(), alone_with_it());
    let proxy = Proxy::start();
    let cluster = ClusterSettings { nodes: vec![proxy.address()], ..cluster() };
    let mut node = Node::of(&cluster, "unsure");
    node.configure(&put_all(&[paused("unknown", 1)])).expect("nobody else writes");
    proxy.lose(Cut::AnswerAndAll(b"[applied]"));
    let unknown = node.configure(&put_all(&[paused("unknown", 2)]));
    assert!(matches!(unknown, Err(ConfigureError::Store(_))), "{unknown:?}");
    proxy.mend();
    assert_eq!(patiently(&mut node), put_all(&[paused("unknown", 2)]), "it was made");
    node.configure(&put_all(&[paused("unknown", 3)])).expect("it goes on from there");
    assert_eq!(node.load_of(&["unknown"]), [paused("unknown", 3)]);
}

/// What came, once the connection has been made anew.
fn patiently(node: &mut Node) -> Vec<ConfigWrite> {
    for _ in 0..100 {
        if block_on(node.store.follow(node.head)).is_ok() {
            return node.follow();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the server is there again");
}
