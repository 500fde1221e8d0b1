//! The embedded store on real files: conformance, crashes, configuration, lists, reads,
//! retention, room on the disk, memtables, copies of payloads, backup.

mod backup;
mod configuration;
mod conformance;
mod copies;
mod crash;
mod lists;
mod reads;
mod retention;
mod room;
mod rotation;

use std::path::{Path, PathBuf};

use super::{Embedded, EmbeddedSettings};
use crate::engine::{Batch, Read, ReadAnswer, ReadId};
use crate::runtime::Clock;
use crate::store::tests::Subject;
use crate::store::{Retention, StoreEvent};
use crate::types::{Duration, ShardId};

/// The only shard of these tests.
const SHARD: ShardId = ShardId(0);

/// A store in a directory of its own, asked and answered in step.
struct Opened {
    store: Embedded,
    events: flume::Receiver<StoreEvent>,
    dir: PathBuf,
    _owned: Option<tempfile::TempDir>,
}

impl Opened {
    fn new() -> Self {
        let owned = tempfile::tempdir().expect("a temporary directory");
        let mut opened = Self::at(owned.path());
        opened._owned = Some(owned);
        opened
    }

    fn at(dir: &Path) -> Self {
        let store = Embedded::open(settings(dir)).expect("the directory opens");
        Self { events: store.events(SHARD), store, dir: dir.to_owned(), _owned: None }
    }

    fn next(&self) -> StoreEvent {
        self.events.recv_timeout(std::time::Duration::from_secs(30)).expect("the store answers")
    }

    /// Runs a future of the store to its end.
    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        futures_lite::future::block_on(future)
    }
}

impl Subject for Opened {
    fn apply(&mut self, batch: &Batch) {
        self.store.submit(SHARD, std::slice::from_ref(batch));
        let StoreEvent::Committed(batches) = self.next() else { panic!("the batch is durable") };
        assert_eq!(batches, [(batch.unit, batch.number)]);
    }

    fn answer(&mut self, read: Read) -> ReadAnswer {
        self.store.read(SHARD, ReadId(1), read);
        let StoreEvent::Loaded(ReadId(1), answer) = self.next() else { panic!("an answer") };
        *answer
    }
}

/// Nothing expires by itself: retention tests take their own steps.
fn settings(dir: &Path) -> EmbeddedSettings {
    let ever = Duration(u64::MAX);
    let retention = Retention { payloads: ever, events: ever, dead_letters: ever, quarantine: ever };
    EmbeddedSettings { dir: dir.to_owned(), shards: 1, slots: 64, kek: None, clock: Clock::start(), retention }
}
