//! The store's handle: what shards hold. One side thread runs the driver; nothing here waits for it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use uuid::Uuid;

use super::connect::{ClusterError, ClusterSettings, connect, use_keyspace};
use super::deployment;
use super::migrate::check_schema;
use super::phase::Phase;
use super::plan::{Learned, SlotPlanner, plan_lanes};
use super::read::{self, Ahead};
use super::rows::Lifetimes;
use super::session::{Failure, RequestCounts, Requests, Session};
use super::take::{TakeError, Taken, take};
use crate::engine::{Batch, BatchNumber, Read, ReadAnswer, ReadId, Refusal, Unit};
use crate::runtime::Clock;
use crate::store::codec::deployment::Deployment;
use crate::store::seal::Kek;
use crate::store::{Retention, StoreError, StoreEvent, StoreFault};
use crate::types::{Sequence, ShardId, Slot, Time, limits};

/// How the store is opened.
#[derive(Clone, Debug)]
pub struct ScyllaSettings {
    /// The cluster.
    pub cluster: ClusterSettings,
    /// The number of shards: each gets a channel of [`StoreEvent`]s.
    pub shards: u16,
    /// What this node is called where others read who owns a slot.
    pub owner: String,
    /// The wall clock, for what expires.
    pub clock: Clock,
    /// How long things are kept.
    pub retention: Retention,
    /// The key-encryption key of all nodes; without the right one the store is not opened.
    pub kek: Option<Kek>,
}

/// The store on a cluster. Cheap to clone; the last clone dropped ends the thread, after what is on its way.
#[derive(Clone)]
pub struct Scylla(Arc<Inner>);

struct Inner {
    /// Absent only while dropped.
    tasks: Option<flume::Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    /// Unbounded by themselves: each message answers one batch or read that the shard keeps account of.
    shards: Vec<Shard>,
    faults: flume::Receiver<StoreFault>,
    owned: Mutex<BTreeMap<Slot, Arc<Owned>>>,
    owner: String,
    deployment: Deployment,
    kek: Kek,
    clock: Clock,
    kept: Lifetimes,
    requests: Arc<Requests>,
}

struct Shard {
    events: (flume::Sender<StoreEvent>, flume::Receiver<StoreEvent>),
    /// Its lanes' batches, one at a time.
    lanes: Turn,
}

/// A slot that this process took.
struct Owned {
    planner: Mutex<SlotPlanner>,
    /// Its batches, one at a time.
    turn: Turn,
}

/// Two batches of one unit are never carried out at the same time.
type Turn = Arc<tokio::sync::Mutex<()>>;

/// Something to be run on the driver's thread.
type Task = Box<dyn FnOnce(Arc<Session>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A batch ready to be carried out.
struct Planned {
    phases: Vec<Phase>,
    learned: Learned,
    owned: Option<Arc<Owned>>,
    turn: Turn,
}

impl Scylla {
    /// Connects, checks schema, deployment and key, prepares all statements. Waits for the cluster.
    ///
    /// # Errors
    /// [`ClusterError`] names the setting, its value and what it must be.
    pub fn connect(settings: ScyllaSettings) -> Result<Self, ClusterError> {
        let kek = settings.kek.ok_or(ClusterError::KeyMissing)?;
        let requests = Arc::new(Requests::default());
        let (tasks, inbox) = flume::bounded(limits::CQL_TASKS);
        let (report, connected) = flume::bounded(1);
        let (faulty, faults) = flume::bounded(1);
        let thread = {
            let (cluster, kek, requests) = (settings.cluster, kek.clone(), Arc::clone(&requests));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let work = move || runtime.block_on(run((cluster, kek), requests, &inbox, (&report, &faulty)));
            std::thread::Builder::new().name("store-cql".to_owned()).spawn(work)?
        };
        let deployment = connected.recv().map_err(|_| ClusterError::Stopped)??;
        let shard = |_| Shard { events: flume::unbounded(), lanes: Turn::default() };
        Ok(Self(Arc::new(Inner {
            tasks: Some(tasks),
            thread: Some(thread),
            shards: (0..settings.shards).map(shard).collect(),
            faults,
            owned: Mutex::default(),
            owner: settings.owner,
            deployment,
            kek,
            clock: settings.clock,
            kept: settings.retention.into(),
            requests,
        })))
    }

    /// The channel on which `shard` learns what became of its batches and reads.
    ///
    /// # Panics
    /// When there is no such shard: the shell numbers them.
    #[must_use]
    pub fn events(&self, shard: ShardId) -> flume::Receiver<StoreEvent> {
        self.0.shard(shard).events.1.clone()
    }

    /// Where the store says that it can't go on; the process must then end.
    #[must_use]
    pub fn faults(&self) -> flume::Receiver<StoreFault> {
        self.0.faults.clone()
    }

    /// Begins to make a shard's batches durable, each by itself. Never waits. A slot's batch is refused until the
    /// slot was taken.
    pub fn submit(&self, shard: ShardId, batches: &[Batch]) {
        for batch in batches {
            let name = (batch.unit, batch.number);
            let events = self.0.shard(shard).events.0.clone();
            let started = match self.plan(shard, batch) {
                Ok(planned) => self.start(carry_out(planned, name, events.clone())),
                Err(reason) => {
                    tracing::error!(unit = ?batch.unit, %reason, "a batch can't be written");
                    false
                }
            };
            if !started {
                // The store itself holds the receiver: no answer is lost.
                let _ = events.try_send(StoreEvent::Refused(vec![name], Refusal::Unavailable));
            }
        }
    }

    /// Begins to answer `read`. Never waits; when too much is on its way it answers [`ReadAnswer::Failed`].
    pub fn read(&self, shard: ShardId, id: ReadId, read: Read) {
        let events = self.0.shard(shard).events.0.clone();
        let slot = read::slot_of(&read);
        let owned = self.0.owned().get(&slot).cloned();
        let ahead = ahead_of(owned.as_deref(), &read);
        let answers = events.clone();
        let started = self.start(move |session| async move {
            let answer = read::answer(&session, &read, ahead).await;
            if let (Some(owned), ReadAnswer::Log { events, .. }) = (owned, &answer) {
                let mut planner = owned.planner();
                events.iter().for_each(|logged| planner.met(logged));
            }
            let _ = answers.try_send(StoreEvent::Loaded(id, Box::new(answer)));
        });
        if !started {
            let _ = events.try_send(StoreEvent::Loaded(id, Box::new(ReadAnswer::Failed)));
        }
    }

    /// Takes `slot`: from now on its batches are this process's, with the epoch that is answered. What a former owner
    /// still writes hides nothing of it.
    ///
    /// # Errors
    /// [`TakeError`]; the slot is then as it was, or had one owner more that writes nothing.
    pub async fn take(&self, slot: Slot) -> Result<Taken, TakeError> {
        let (sender, answer) = flume::bounded(1);
        let owner = self.0.owner.clone();
        let started = self.start(move |session| async move {
            let token = token();
            // Whoever asked may have given up.
            let _ = sender.send(take(&session, slot, &owner, token).await);
        });
        if !started {
            return Err(TakeError::Request(Failure::Unavailable("too much is on its way".to_owned())));
        }
        let taken = answer.recv_async().await.map_err(|_| TakeError::Stopped)??;
        let planner = Mutex::new(SlotPlanner::new(slot, taken.epoch, taken.record));
        let mut owned = self.0.owned();
        // Batches of the former epoch may still be on their way: they keep their turn.
        let turn = owned.get(&slot).map(|former| Arc::clone(&former.turn)).unwrap_or_default();
        owned.insert(slot, Arc::new(Owned { planner, turn }));
        Ok(taken)
    }

    /// What all nodes of the cluster share.
    #[must_use]
    pub fn deployment(&self) -> Deployment {
        self.0.deployment
    }

    /// Requests sent to the cluster so far.
    #[must_use]
    pub fn requests(&self) -> RequestCounts {
        self.0.requests.counts()
    }

    fn plan(&self, shard: ShardId, batch: &Batch) -> Result<Planned, String> {
        let (inner, now) = (&self.0, self.0.clock.now());
        match batch.unit {
            Unit::Lanes => {
                let plan = plan_lanes(&batch.rows, &inner.kept, now);
                let turn = Arc::clone(&inner.shard(shard).lanes);
                Ok(Planned { phases: plan.phases, learned: plan.learned, owned: None, turn })
            }
            Unit::Slot(slot) => {
                let owned = inner.owned().get(&slot).cloned().ok_or("the slot was not taken")?;
                let plan = owned.planner().plan(&batch.rows, &inner.kept, now).map_err(|error| error.to_string())?;
                let turn = Arc::clone(&owned.turn);
                Ok(Planned { phases: plan.phases, learned: plan.learned, owned: Some(owned), turn })
            }
        }
    }

    pub(super) fn kek(&self) -> &Kek {
        &self.0.kek
    }

    pub(super) fn kept(&self) -> Lifetimes {
        self.0.kept
    }

    pub(super) fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// Runs `work` on the driver's thread and gives what comes of it.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too much is on its way, [`StoreError::Stopped`] when the thread has ended.
    pub(super) async fn ask<T: Send + 'static, F: Future<Output = T> + Send>(
        &self,
        work: impl FnOnce(Arc<Session>) -> F + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, answer) = flume::bounded(1);
        let started = self.start(move |session| async move {
            // Whoever asked may have given up.
            let _ = sender.send(work(session).await);
        });
        if !started {
            return Err(StoreError::Busy);
        }
        answer.recv_async().await.map_err(|_| StoreError::Stopped)
    }

    /// Runs `work` on the driver's thread; whether there was room.
    fn start<F: Future<Output = ()> + Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Session>) -> F + Send + 'static,
    ) -> bool {
        let tasks = self.0.tasks.as_ref().expect("taken only when dropped");
        tasks.try_send(Box::new(|session| Box::pin(work(session)))).is_ok()
    }
}

impl Inner {
    fn shard(&self, shard: ShardId) -> &Shard {
        self.shards.get(usize::from(shard.0)).expect("the shell numbers shards from 0 to its own count")
    }

    fn owned(&self) -> MutexGuard<'_, BTreeMap<Slot, Arc<Owned>>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the cluster panicked");
        }
    }
}

impl Owned {
    fn planner(&self) -> MutexGuard<'_, SlotPlanner> {
        self.planner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out a batch when it is its turn, and says what became of it.
fn carry_out(
    planned: Planned,
    name: (Unit, BatchNumber),
    events: flume::Sender<StoreEvent>,
) -> impl FnOnce(Arc<Session>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send {
    move |session| {
        Box::pin(async move {
            let turn = planned.turn.lock_owned().await;
            let outcome = session.carry_out(planned.phases).await;
            drop(turn);
            let told = match outcome {
                Ok(()) => {
                    if let Some(owned) = planned.owned {
                        owned.planner().acknowledged(&planned.learned);
                    }
                    StoreEvent::Committed(vec![name])
                }
                Err(failure) => {
                    tracing::warn!(unit = ?name.0, error = %failure, "a batch was refused");
                    StoreEvent::Refused(vec![name], failure.refusal())
                }
            };
            let _ = events.try_send(told);
        })
    }
}

/// What the index does not have yet, as far as the read needs it.
fn ahead_of(owned: Option<&Owned>, read: &Read) -> Ahead {
    match (owned, read) {
        (Some(owned), Read::Queue { tenant, from, to, wanted, .. }) => {
            let planner = owned.planner();
            let flushed = planner.flushed();
            Ahead { indexed_below: flushed, pending: planner.pending(tenant, (*from).max(flushed), *to, wanted) }
        }
        (Some(owned), Read::Log { .. }) => Ahead { indexed_below: owned.planner().flushed(), pending: Vec::new() },
        (None, _) | (Some(_), Read::Slot(_) | Read::Due { .. } | Read::Ids { .. } | Read::Event { .. }) => {
            Ahead { indexed_below: Sequence(u64::MAX), pending: Vec::new() }
        }
    }
}

/// Random, as an identifier.
pub(super) fn token() -> Uuid {
    let half = || u128::from(getrandom::u64().expect("the system has random bytes"));
    Uuid::from_u128((half() << 64) | half())
}

/// The driver's thread: connects, reports, and runs tasks until the last handle is gone and all are done.
async fn run(
    cluster: (ClusterSettings, Kek),
    requests: Arc<Requests>,
    inbox: &flume::Receiver<Task>,
    (report, faulty): (&flume::Sender<Result<Deployment, ClusterError>>, &flume::Sender<StoreFault>),
) {
    let (session, deployment) = match open(cluster, requests).await {
        Ok((session, deployment)) => (Arc::new(session), deployment),
        Err(error) => return drop(report.send(Err(error))),
    };
    if report.send(Ok(deployment)).is_err() {
        return;
    }
    let room = Arc::new(tokio::sync::Semaphore::new(limits::CQL_TASKS));
    while let Ok(task) = inbox.recv_async().await {
        let place = Arc::clone(&room).acquire_owned().await.expect("the semaphore is never closed");
        let (work, faulty) = (tokio::spawn(task(Arc::clone(&session))), faulty.clone());
        tokio::spawn(async move {
            if let Err(panic) = work.await {
                // Whoever waits for it would wait for ever. A second fault has nothing to add.
                let _ = faulty.try_send(StoreFault(format!("a task of the cluster's thread panicked: {panic}")));
            }
            drop(place);
        });
    }
    let all = u32::try_from(limits::CQL_TASKS).expect("a few thousand");
    let _ended = room.acquire_many(all).await.expect("the semaphore is never closed");
}

async fn open(
    (settings, kek): (ClusterSettings, Kek),
    requests: Arc<Requests>,
) -> Result<(Session, Deployment), ClusterError> {
    let driver = connect(&settings).await?;
    use_keyspace(&driver, &settings).await?;
    check_schema(&driver, &settings.keyspace).await?;
    let deployment = deployment::read(&driver, &settings.keyspace, &kek).await?;
    let session = Session::prepare(driver, settings.keyspace, requests).await?;
    Ok((session, deployment))
}
