//! The store's handle. One side thread runs the driver; nothing here waits for it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::Semaphore;

use super::connect::{ClusterError, ClusterSettings, connect, use_keyspace};
use super::deployment;
use super::migrate::check_schema;
use super::port::ScyllaPort;
use super::queries;
use super::rows::Lifetimes;
use super::session::{Requests, Session};
use crate::runtime::Clock;
use crate::store::codec::deployment::Deployment;
use crate::store::seal::Kek;
use crate::store::{Queries, Retention, StoreError, StoreFault};
use crate::types::counters::CqlCounters;
use crate::types::{Slot, TenantId, Time, limits};

/// How the store is opened.
#[derive(Clone, Debug)]
pub struct ScyllaSettings {
    /// The cluster.
    pub cluster: ClusterSettings,
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
pub struct Scylla(pub(super) Arc<Inner>);

pub(super) struct Inner {
    /// Absent only while dropped.
    tasks: Option<flume::Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    faults: flume::Receiver<StoreFault>,
    /// Each slot's batches, one at a time, whoever in this process writes them.
    turns: Mutex<BTreeMap<Slot, Turn>>,
    pub(super) owner: String,
    deployment: Deployment,
    kek: Kek,
    pub(super) clock: Clock,
    pub(super) kept: Lifetimes,
    requests: Arc<Requests>,
    retention: Retention,
    /// One for each query that waits or runs, and one for each that runs.
    asked: Arc<Semaphore>,
    answering: Arc<Semaphore>,
}

/// Two batches of one unit are never carried out at the same time.
pub(super) type Turn = Arc<tokio::sync::Mutex<()>>;

/// Something to be run on the driver's thread.
type Task = Box<dyn FnOnce(Arc<Session>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

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
        Ok(Self(Arc::new(Inner {
            tasks: Some(tasks),
            thread: Some(thread),
            faults,
            turns: Mutex::default(),
            owner: settings.owner,
            deployment,
            kek,
            clock: settings.clock,
            kept: settings.retention.into(),
            requests,
            retention: settings.retention,
            asked: Arc::new(Semaphore::new(limits::STORE_QUERIES)),
            answering: Arc::new(Semaphore::new(limits::CQL_QUERIES_AT_ONCE)),
        })))
    }

    /// A new way in, for one engine.
    #[must_use]
    pub fn port(&self) -> ScyllaPort {
        ScyllaPort::new(self.clone())
    }

    /// Where the store says that it can't go on; the process must then end.
    #[must_use]
    pub fn faults(&self) -> flume::Receiver<StoreFault> {
        self.0.faults.clone()
    }

    /// What all nodes of the cluster share.
    #[must_use]
    pub fn deployment(&self) -> Deployment {
        self.0.deployment
    }

    /// What the API asks, of any slot.
    #[must_use]
    pub fn queries(&self) -> Queries {
        Queries::Scylla(queries::Queries::new(self.clone()))
    }

    /// The slot of a tenant.
    pub(super) fn slot_of(&self, tenant: &TenantId) -> Slot {
        Slot::of(tenant, self.0.deployment.slots)
    }

    /// How long things are kept.
    pub(super) fn retention(&self) -> Retention {
        self.0.retention
    }

    /// Runs `query` of the API on the driver's thread, beside few others.
    ///
    /// # Errors
    /// What `query` says; [`StoreError::Busy`] when too many wait, [`StoreError::Stopped`] when the thread has ended.
    pub(super) async fn query<T: Send + 'static, F: Future<Output = Result<T, StoreError>> + Send>(
        &self,
        query: impl FnOnce(Arc<Session>) -> F + Send + 'static,
    ) -> Result<T, StoreError> {
        let asked = Arc::clone(&self.0.asked).try_acquire_owned().map_err(|_| StoreError::Busy)?;
        let answering = Arc::clone(&self.0.answering);
        self.ask(move |session| async move {
            let _turn = answering.acquire_owned().await.expect("the semaphore is never closed");
            let answer = query(session).await;
            drop(asked);
            answer
        })
        .await?
    }

    /// Requests sent to the cluster so far.
    #[must_use]
    pub fn requests(&self) -> CqlCounters {
        self.0.requests.counters()
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
    pub(super) fn start<F: Future<Output = ()> + Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Session>) -> F + Send + 'static,
    ) -> bool {
        let tasks = self.0.tasks.as_ref().expect("taken only when dropped");
        tasks.try_send(Box::new(|session| Box::pin(work(session)))).is_ok()
    }
}

impl Inner {
    /// The turn of a slot's batches.
    pub(super) fn turn(&self, slot: Slot) -> Turn {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(slot).or_default())
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
    let room = Arc::new(Semaphore::new(limits::CQL_TASKS));
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
