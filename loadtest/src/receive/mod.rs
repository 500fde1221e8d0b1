//! The receivers: they answer deliveries as told, count what is lost, repeated and out of order, and check
//! signatures.
//!
//! One executor on a thread of its own serves them all, on several addresses of loopback. It keeps the state of one
//! phase at a time; deliveries of another phase or run are counted as strays.

mod phase;
mod request;
mod server;
mod signature;
mod tally;
mod temper;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hdrhistogram::Histogram;
use streaming_hub::runtime::Clock;
use streaming_hub::runtime::channel::{self, Sender};
use streaming_hub::types::Time;

use crate::failure::Failure;
use crate::measure::latency::Summary;
use crate::plan::{Group, Plan};

pub use phase::Expected;
pub use signature::SECRET;
pub use temper::{Temper, Tempers};

/// What is counted while it goes on; reset with each phase.
#[derive(Debug, Default)]
pub struct Live {
    /// Events delivered for the first time.
    pub delivered: Arc<AtomicU64>,
    /// Requests of the phase, whatever their answer.
    pub attempts: AtomicU64,
    /// Requests of the bare loop.
    pub bare: AtomicU64,
    /// TLS handshakes made.
    pub handshakes: AtomicU64,
}

/// What came in since the last look.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Events delivered for the first time.
    pub delivered: u64,
    /// Their latencies, of [`Group::Healthy`] alone.
    pub latency: Summary,
}

/// All that a phase has seen.
#[derive(Debug)]
pub struct Seen {
    /// By route, then in all.
    pub counts: Counts,
    /// Latencies in the window, by [`Group::index`].
    pub latencies: Vec<Histogram<u64>>,
}

/// Numbers of one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events delivered at least once.
    pub delivered: u64,
    /// Events issued and acknowledged, and never delivered.
    pub lost: u64,
    /// Deliveries beyond an event's first.
    pub repeated: u64,
    /// First deliveries behind a later event of the same route.
    pub out_of_order: u64,
    /// Deliveries at another destination than their route's.
    pub misdirected: u64,
    /// Deliveries of another run or phase, or of nobody's.
    pub strays: u64,
    /// Requests of the phase, whatever their answer.
    pub attempts: u64,
    /// Signatures checked.
    pub signatures_checked: u64,
    /// Those that were wrong.
    pub signatures_wrong: u64,
}

/// A phase to receive.
#[derive(Clone, Debug)]
pub struct PhaseOrder {
    /// Which run.
    pub run: u64,
    /// Which phase of it.
    pub number: u16,
    /// Its routes.
    pub plan: Arc<Plan>,
    /// Events meant to be sent from here on are measured.
    pub window_begin: Time,
}

/// What the receivers' thread is told.
enum Command {
    Begin(PhaseOrder, Sender<()>),
    Interval(Sender<Interval>),
    End(Expected, Sender<Seen>),
}

/// How deliveries travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In the clear.
    Plain,
    /// TLS 1.3.
    Tls,
}

/// Where receivers listen.
#[derive(Clone, Debug)]
pub struct Listening {
    /// In the clear.
    pub plain: Vec<SocketAddr>,
    /// With TLS.
    pub tls: Vec<SocketAddr>,
    /// The authority that the hub must trust for that, PEM.
    pub authority: String,
}

/// Running receivers.
pub struct Receivers {
    /// Where they listen.
    pub listening: Listening,
    /// What is counted.
    pub live: Arc<Live>,
    /// How they answer.
    pub tempers: Arc<Tempers>,
    commands: Sender<Command>,
}

impl Receivers {
    /// Starts them.
    ///
    /// # Errors
    /// When the thread or its sockets cannot be had.
    pub async fn start(clock: Clock) -> Result<Self, Failure> {
        let (live, tempers) = (Arc::<Live>::default(), Arc::<Tempers>::default());
        let (commands, inbox) = channel::bounded(16);
        let (started, listening) = channel::reply();
        let serving = server::Serving { clock, live: Arc::clone(&live), tempers: Arc::clone(&tempers) };
        std::thread::Builder::new()
            .name("receivers".to_owned())
            .spawn(move || server::run(serving, inbox, started))
            .map_err(Failure::io("the receivers' thread"))?;
        let listening = listening.recv_async().await.map_err(|_| gone())??;
        Ok(Self { listening, live, tempers, commands })
    }

    /// Where a destination's deliveries go.
    #[must_use]
    pub fn url(&self, transport: Transport, destination: usize) -> String {
        let (scheme, addresses) = match transport {
            Transport::Plain => ("http", &self.listening.plain),
            Transport::Tls => ("https", &self.listening.tls),
        };
        format!("{scheme}://{}/d/{destination}", addresses[destination % addresses.len()])
    }

    /// Forgets the phase before and begins another; returns when its counts stand at nothing.
    ///
    /// # Errors
    /// When the thread is gone.
    pub async fn begin(&self, order: PhaseOrder) -> Result<(), Failure> {
        let (reply, begun) = channel::reply();
        self.commands.send_async(Command::Begin(order, reply)).await.map_err(|_| gone())?;
        begun.recv_async().await.map_err(|_| gone())
    }

    /// What came in since the last look.
    ///
    /// # Errors
    /// When the thread is gone.
    pub async fn interval(&self) -> Result<Interval, Failure> {
        let (reply, answer) = channel::reply();
        self.commands.send_async(Command::Interval(reply)).await.map_err(|_| gone())?;
        answer.recv_async().await.map_err(|_| gone())
    }

    /// Ends the phase: judges what came by what was `expected`.
    ///
    /// # Errors
    /// When the thread is gone.
    pub async fn end(&self, expected: Expected) -> Result<Seen, Failure> {
        let (reply, answer) = channel::reply();
        self.commands.send_async(Command::End(expected, reply)).await.map_err(|_| gone())?;
        answer.recv_async().await.map_err(|_| gone())
    }

    /// Changes how a group is answered, from now on.
    pub fn set_temper(&self, group: Group, temper: Temper) {
        self.tempers.set(group, temper);
    }
}

fn gone() -> Failure {
    Failure::Thread { name: "receivers", reason: "their thread has ended".to_owned() }
}
