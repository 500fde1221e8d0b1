//! The store's handle: what shards, API and shell hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::committer::{Committer, Done, Submission};
use super::directory::{self, Lock, OpenError};
use super::keeper::{Keeper, KeeperSettings};
use super::queries;
use super::readers::{self, Query, Question};
use super::rotation::{Fill, Rotation};
use super::space::Space;
use super::tables::Tables;
use crate::engine::{Batch, Read, ReadAnswer, ReadId, Refusal};
use crate::runtime::Clock;
use crate::store::codec::batch::encode;
use crate::store::codec::hub::HubRecord;
use crate::store::seal::Kek;
use crate::store::{Queries, Retention, StoreError, StoreEvent, StoreFault};
use crate::types::{ShardId, limits};

/// How the store is opened.
#[derive(Clone, Debug)]
pub struct EmbeddedSettings {
    /// The data directory; made where needed.
    pub dir: PathBuf,
    /// The number of shards: each gets a channel of [`StoreEvent`]s.
    pub shards: u16,
    /// The number of slots of a new directory; an old one keeps its own.
    pub slots: u16,
    /// The key-encryption key; absent: one in the directory's key file, made where needed.
    pub kek: Option<Kek>,
    /// The wall clock, for retention.
    pub clock: Clock,
    /// How long things are kept.
    pub retention: Retention,
}

/// The open store. Cheap to clone; the last clone dropped stops the threads and frees the directory.
#[derive(Clone)]
pub struct Embedded(Arc<Inner>);

/// The lock comes last, so that it is dropped last.
struct Inner {
    /// Absent only while dropped.
    senders: Option<Senders>,
    threads: Vec<JoinHandle<()>>,
    /// Unbounded by themselves: each message answers one batch or read that the shard keeps account of, and none
    /// may be lost, nor hold up the committer or a reader, which all shards share.
    shards: Vec<(flume::Sender<StoreEvent>, flume::Receiver<StoreEvent>)>,
    faults: flume::Receiver<StoreFault>,
    space: Arc<Space>,
    kek: Kek,
    record: HubRecord,
    dir: PathBuf,
    tables: Tables,
    _lock: Lock,
}

/// What the threads live on: they end when these are dropped.
struct Senders {
    submissions: flume::Sender<Submission>,
    questions: flume::Sender<Question>,
    queries: flume::Sender<Query>,
    _keeper: flume::Sender<()>,
}

/// Both ends of every queue.
struct Channels {
    senders: Senders,
    submissions: flume::Receiver<Submission>,
    questions: flume::Receiver<Question>,
    queries: flume::Receiver<Query>,
    keeper: flume::Receiver<()>,
    faults: (flume::Sender<StoreFault>, flume::Receiver<StoreFault>),
}

impl Channels {
    fn new() -> Self {
        let (submissions, submitted) = flume::bounded(limits::STORE_SUBMISSIONS);
        let (questions, asked) = flume::bounded(limits::STORE_READS);
        let (queries, queried) = flume::bounded(limits::STORE_QUERIES);
        let (keeper, stopped) = flume::bounded(0);
        Self {
            senders: Senders { submissions, questions, queries, _keeper: keeper },
            submissions: submitted,
            questions: asked,
            queries: queried,
            keeper: stopped,
            faults: flume::bounded(1),
        }
    }
}

impl Embedded {
    /// Opens the data directory and starts the threads.
    ///
    /// # Errors
    /// [`OpenError`] names the directory or file and what is wrong with it.
    pub fn open(settings: EmbeddedSettings) -> Result<Self, OpenError> {
        let dir = settings.dir;
        let lock = directory::lock(&dir)?;
        let (tables, record) = directory::open_tables(&dir, settings.slots)?;
        let kek = settings.kek.map_or_else(|| directory::local_kek(&dir), Ok)?;
        directory::sync(&dir)?;
        let space = Arc::new(Space::new(dir.clone()));
        space.check();
        let keeping = KeeperSettings { slots: record.slots, clock: settings.clock, retention: settings.retention };
        let channels = Channels::new();
        let threads = start_threads(&dir, &tables, &channels, &space, keeping)?;
        Ok(Self(Arc::new(Inner {
            senders: Some(channels.senders),
            threads,
            shards: (0..settings.shards).map(|_| flume::unbounded()).collect(),
            faults: channels.faults.1,
            space,
            kek,
            record,
            dir,
            tables,
            _lock: lock,
        })))
    }

    /// The channel on which `shard` learns what became of its batches and reads.
    ///
    /// # Panics
    /// When there is no such shard: the shell numbers them.
    #[must_use]
    pub fn events(&self, shard: ShardId) -> flume::Receiver<StoreEvent> {
        self.0.shard(shard).1.clone()
    }

    /// Where the store says that it can't go on; the process must then end.
    #[must_use]
    pub fn faults(&self) -> flume::Receiver<StoreFault> {
        self.0.faults.clone()
    }

    /// Begins to make a shard's batches, of different units, durable together. Never waits; without an answer when
    /// the store has failed.
    pub fn submit(&self, shard: ShardId, batches: &[Batch]) {
        let events = self.0.shard(shard).0.clone();
        let names = batches.iter().map(|batch| (batch.unit, batch.number)).collect();
        let submission = Submission { batch: encode(batches), done: Done::Shard(events, names) };
        match self.0.senders().submissions.try_send(submission) {
            Ok(()) => {}
            Err(flume::TrySendError::Full(refused)) => refuse(refused.done),
            // The committer ended on a fault, which ends the process.
            Err(flume::TrySendError::Disconnected(_)) => {}
        }
    }

    /// Begins to answer `read`. Never waits; a full queue answers [`ReadAnswer::Failed`].
    pub fn read(&self, shard: ShardId, id: ReadId, read: Read) {
        let events = self.0.shard(shard).0.clone();
        let question = Question { events, id, read };
        let refused = match self.0.senders().questions.try_send(question) {
            Ok(()) => return,
            Err(flume::TrySendError::Full(question) | flume::TrySendError::Disconnected(question)) => question,
        };
        // The store itself holds the receiver: no answer is lost.
        let _ = refused.events.try_send(StoreEvent::Loaded(refused.id, Box::new(ReadAnswer::Failed)));
    }

    /// What the API asks.
    #[must_use]
    pub fn queries(&self) -> Queries {
        Queries::Embedded(queries::Queries::new(self.clone()))
    }

    /// Whether there is enough disk to take in more; checked each second.
    #[must_use]
    pub fn intake_allowed(&self) -> bool {
        self.0.space.intake_allowed()
    }

    /// Syncs to disk since the store was opened.
    #[must_use]
    pub fn fsyncs(&self) -> u64 {
        self.0.tables.fsyncs()
    }

    /// The directory's own record: its id, dedup salt and number of slots.
    #[must_use]
    pub fn record(&self) -> HubRecord {
        self.0.record
    }

    /// The data directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    #[cfg(test)]
    pub(super) fn sweep(&self, retention: Retention) -> super::sweep::Sweep {
        super::sweep::Sweep::new(
            self.0.tables.clone(),
            self.0.senders().submissions.downgrade(),
            self.0.record.slots,
            retention,
        )
    }

    pub(super) fn kek(&self) -> &Kek {
        &self.0.kek
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.0.tables
    }

    /// Makes `submission` durable, waiting for room in the queue.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] when the store has failed.
    pub(super) async fn write(&self, batch: crate::store::codec::batch::EncodedBatch) -> Result<(), StoreError> {
        let (sender, done) = flume::bounded(1);
        let submission = Submission { batch, done: Done::Waiter(sender) };
        self.0.senders().submissions.send_async(submission).await.map_err(|_| StoreError::Stopped)?;
        done.recv_async().await.map_err(|_| StoreError::Stopped)
    }

    /// Runs `query` on a reader thread.
    ///
    /// # Errors
    /// What `query` says; [`StoreError::Busy`] when too many wait.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Tables) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, answer) = flume::bounded(1);
        let job: Query = Box::new(move |tables| {
            // Whoever asked may have given up.
            let _ = sender.send(query(tables));
        });
        self.0.senders().queries.try_send(job).map_err(|error| match error {
            flume::TrySendError::Full(_) => StoreError::Busy,
            flume::TrySendError::Disconnected(_) => StoreError::Stopped,
        })?;
        answer.recv_async().await.map_err(|_| StoreError::Stopped)?
    }
}

impl Inner {
    fn shard(&self, shard: ShardId) -> &(flume::Sender<StoreEvent>, flume::Receiver<StoreEvent>) {
        self.shards.get(usize::from(shard.0)).expect("the shell numbers shards from 0 to its own count")
    }

    fn senders(&self) -> &Senders {
        self.senders.as_ref().expect("taken only when dropped")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.senders = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}

fn refuse(done: Done) {
    match done {
        Done::Shard(events, batches) => drop(events.try_send(StoreEvent::Refused(batches, Refusal::Unavailable))),
        Done::Waiter(_) => {}
    }
}

fn start_threads(
    dir: &Path,
    tables: &Tables,
    channels: &Channels,
    space: &Arc<Space>,
    keeping: KeeperSettings,
) -> Result<Vec<JoinHandle<()>>, OpenError> {
    let faults = &channels.faults.0;
    let (look, looks) = flume::bounded(1);
    let committer = Committer::new(tables.clone(), channels.submissions.clone(), faults.clone(), Fill::new(look));
    let rotation = Rotation::new(tables.clone(), faults.clone());
    let submissions = channels.senders.submissions.downgrade();
    let keeper = Keeper::new(tables.clone(), keeping, submissions, Arc::clone(space), faults.clone());
    let stop = channels.keeper.clone();
    let mut works: Vec<(&str, Work)> = vec![
        ("store-commit", Box::new(move || committer.run())),
        ("store-keeper", Box::new(move || keeper.run(&stop))),
        ("store-rotate", Box::new(move || rotation.run(&looks))),
    ];
    for _ in 0..limits::STORE_READERS {
        let (own, asked) = (tables.clone(), channels.questions.clone());
        works.push(("store-read", Box::new(move || readers::answer_questions(&own, &asked))));
        let (own, queried) = (tables.clone(), channels.queries.clone());
        works.push(("store-query", Box::new(move || readers::run_queries(&own, &queried))));
    }
    let start = |(name, work)| spawn(name, faults.clone(), work);
    let threads: std::io::Result<Vec<_>> = works.into_iter().map(start).collect();
    threads.map_err(|source| OpenError::Io { path: dir.to_owned(), source })
}

/// What a thread does.
type Work = Box<dyn FnOnce() + Send>;

fn spawn(name: &'static str, faults: flume::Sender<StoreFault>, work: Work) -> std::io::Result<JoinHandle<()>> {
    let guarded = move || {
        let _guard = PanicFault { name, faults };
        work();
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(guarded)
}

/// Reports a thread's panic as a fault: whoever waits for the thread would wait for ever.
struct PanicFault {
    name: &'static str,
    faults: flume::Sender<StoreFault>,
}

impl Drop for PanicFault {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A second fault has nothing to add.
            let _ = self.faults.try_send(StoreFault(format!("the thread {} panicked", self.name)));
        }
    }
}
