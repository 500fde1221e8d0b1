//! The API's executor: made, told its phase, and stopped from the thread that runs the process.

use std::net::SocketAddr;
use std::rc::Rc;

use super::run::run;
use super::service::{Links, Phase, Service};
use super::settings::Settings;
use super::shards::ProcessShards;
use crate::config::Config;
use crate::deliver::{Client, ClientSettings};
use crate::runtime::boot::spawn_pinned;
use crate::runtime::channel::{Receiver, Sender, bounded, reply};
use crate::runtime::{Clock, ExecutorThread, Listener, sleep};
use crate::shard::{HubError, Shards};
use crate::source::kafka::LaneBoard;
use crate::store::{ConfigRecord, FeedNumber, Store};

/// Phases waiting to be entered: there are no more than that.
const PHASES: usize = 4;

/// How often a taken address is tried again, and how long it is waited for each time: two seconds in all.
const LISTEN_TRIES: u32 = 40;
const LISTEN_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// What the API's executor is made with.
pub struct ServerWiring {
    /// The checked configuration.
    pub config: Config,
    /// What this process is called.
    pub node: String,
    /// The store.
    pub store: Store,
    /// All stored configuration; the shards know it already.
    pub configuration: Vec<ConfigRecord>,
    /// The number of the last change in it.
    pub feed_number: FeedNumber,
    /// All shards.
    pub shards: Shards,
    /// What each Kafka consumer knows of its lanes.
    pub lanes: Vec<LaneBoard>,
    /// The way out.
    pub client: ClientSettings,
    /// Time.
    pub clock: Clock,
    /// For ids, which must be unique but are no secret.
    pub seed: u64,
    /// The core it is pinned to.
    pub cpu: usize,
}

/// The running API.
pub struct ServerThread {
    address: SocketAddr,
    phases: Sender<Phase>,
    thread: ExecutorThread<()>,
}

impl ServerThread {
    /// Starts the API; returns once it listens.
    ///
    /// # Errors
    /// [`HubError`] when the address can't be bound, the thread not made or the configuration not be read.
    pub fn start(wiring: ServerWiring) -> Result<Self, HubError> {
        let (phases, entered) = bounded(PHASES);
        let (answer, answered) = reply();
        let cpu = wiring.cpu;
        let thread = spawn_pinned("api", cpu, move || serve(wiring, entered, answer))?;
        match answered.recv() {
            Ok(Ok(address)) => Ok(Self { address, phases, thread }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(HubError::ThreadEnded("api".to_owned())),
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Readiness turns 503; all is still served.
    pub fn not_ready(&self) {
        self.enter(Phase::NotReady);
    }

    /// Intake is refused.
    pub fn drain(&self) {
        self.enter(Phase::Draining);
    }

    /// Answers what was asked and ends.
    ///
    /// # Errors
    /// [`HubError`] when the thread has panicked.
    pub fn stop(self) -> Result<(), HubError> {
        drop(self.phases);
        Ok(self.thread.join()?)
    }

    fn enter(&self, phase: Phase) {
        // The thread has ended only when the process is ending too.
        let _ = self.phases.send(phase);
    }
}

async fn serve(wiring: ServerWiring, phases: Receiver<Phase>, answer: Sender<Result<SocketAddr, HubError>>) {
    let (listener, service, shards) = match begin(wiring).await {
        Ok((address, listener, service, shards)) => {
            // The starting thread waits for nothing else.
            let _ = answer.send(Ok(address));
            (listener, service, shards)
        }
        Err(error) => {
            let _ = answer.send(Err(error));
            return;
        }
    };
    run(service, shards, listener, phases).await;
}

async fn begin(wiring: ServerWiring) -> Result<(SocketAddr, Listener, Rc<Service>, Shards), HubError> {
    let listen = wiring.config.http.listen;
    let bound = |source| HubError::Listen { address: listen, source };
    let listener = listen_on(listen).await.map_err(bound)?;
    let address = listener.local_address().map_err(bound)?;
    let settings = Settings::of(&wiring.config, wiring.store.deployment().slots, wiring.node);
    let links = Links {
        store: wiring.store,
        configuration: wiring.configuration,
        feed_number: wiring.feed_number,
        shards: Rc::new(ProcessShards::new(wiring.shards.clone(), wiring.lanes)),
        resolver: wiring.client.resolver.clone(),
        client: Client::new(wiring.client),
        clock: wiring.clock,
        seed: wiring.seed,
    };
    let service = Service::start(settings, links);
    Ok((address, listener, service, wiring.shards))
}

/// Listens. Right after a kill the address may still be taken: the kernel ends what the former process had asked of
/// it a moment after the process itself.
async fn listen_on(address: SocketAddr) -> std::io::Result<Listener> {
    for _ in 0..LISTEN_TRIES {
        match Listener::bind(address) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => sleep(LISTEN_PAUSE).await,
            bound => return bound,
        }
    }
    Listener::bind(address)
}
