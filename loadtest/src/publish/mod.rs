//! The generator: takes events from a feed and publishes them over HTTP or Kafka, on a thread of its own.
//!
//! An event that is refused or meets a broken connection is published again under the same id until it is
//! acknowledged, so that what was acknowledged is all that was issued but for what is named `unacknowledged`.
//! Events of a route that keeps an order are published one after the other.

mod event;
mod http;
mod kafka;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hdrhistogram::Histogram;
use streaming_hub::runtime::Clock;
use streaming_hub::runtime::boot::run_here;
use streaming_hub::runtime::channel::{self, Receiver};
use streaming_hub::types::Time;

use crate::failure::Failure;
use crate::feed::Ticket;
use crate::measure::latency;
use crate::pace::{End, Pace};
use crate::plan::{Plan, Spread};

pub use event::{EventMaker, SOURCE};

/// What is counted while it goes on.
#[derive(Debug, Default)]
pub struct Published {
    /// Events handed out by the feed.
    pub issued: AtomicU64,
    /// Events that the hub, or the broker, has acknowledged.
    pub acknowledged: AtomicU64,
    /// Answers that asked to come again.
    pub refused: AtomicU64,
    /// Whatever else went wrong and was tried again.
    pub errors: AtomicU64,
    stop: AtomicBool,
}

impl Published {
    /// Tells the generator to give up what is not acknowledged yet.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Where events go in.
#[derive(Clone, Debug)]
pub enum Intake {
    /// HTTP ingest.
    Http {
        /// The hub, or the nodes that connections are spread over.
        addresses: Vec<SocketAddr>,
        /// The path of each tenant's source.
        paths: Arc<Vec<String>>,
        /// Connections, each with one request at a time.
        connections: usize,
        /// Events of one tenant in one request, at most.
        batch: usize,
    },
    /// A topic.
    Kafka {
        /// `host:port`.
        brokers: String,
        /// Its name.
        topic: String,
        /// The tenants' ids by number.
        tenants: Arc<Vec<String>>,
    },
}

/// What to publish.
#[derive(Clone, Debug)]
pub struct Order {
    /// Makes the events.
    pub maker: EventMaker,
    /// The routes.
    pub plan: Arc<Plan>,
    /// Their turns.
    pub spread: Spread,
    /// How fast.
    pub pace: Pace,
    /// When the first event is meant to be sent.
    pub begin: Time,
    /// Until when.
    pub end: End,
    /// Where to.
    pub intake: Intake,
}

/// What was published.
#[derive(Debug)]
pub struct Outcome {
    /// Events of each route.
    pub issued: Vec<u64>,
    /// Those that were given up.
    pub unacknowledged: Vec<Ticket>,
    /// How much later than meant events were sent, in µs.
    pub lateness: Histogram<u64>,
    /// From the intended time to the acknowledgement, in µs.
    pub acknowledgement: Histogram<u64>,
}

impl Outcome {
    fn new() -> Self {
        Self {
            issued: Vec::new(),
            unacknowledged: Vec::new(),
            lateness: latency::histogram(),
            acknowledgement: latency::histogram(),
        }
    }
}

/// A generator at work.
pub struct Publisher {
    /// What is counted.
    pub published: Arc<Published>,
    ended: Receiver<Result<Outcome, Failure>>,
}

impl Publisher {
    /// Starts it. `delivered` says how many of its events have been delivered.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(order: Order, clock: Clock, delivered: Arc<AtomicU64>) -> Result<Self, Failure> {
        let published = Arc::<Published>::default();
        let (sender, ended) = channel::reply();
        let counts = Arc::clone(&published);
        let work = move || {
            let outcome = match order.intake.clone() {
                Intake::Http { addresses, paths, connections, batch } => {
                    let target = http::Target { addresses, paths, connections, batch };
                    run_here(http::publish(order, target, clock, counts, delivered))
                        .map_err(|error| Failure::Thread { name: "generator", reason: error.to_string() })
                }
                Intake::Kafka { brokers, topic, tenants } => {
                    let target = kafka::Target { brokers, topic, tenants };
                    kafka::publish(&order, &target, clock, &counts, &delivered)
                }
            };
            // Whoever waits may be gone after an interruption.
            let _ = sender.send(outcome);
        };
        std::thread::Builder::new()
            .name("generator".to_owned())
            .spawn(work)
            .map_err(|source| Failure::Io { what: "the generator's thread".to_owned(), source })?;
        Ok(Self { published, ended })
    }

    /// Whether it has ended; its outcome is then taken with [`Self::finish`].
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty() || self.ended.is_disconnected()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// What went wrong, or that its thread panicked.
    pub async fn finish(&self) -> Result<Outcome, Failure> {
        let gone = || Failure::Thread { name: "generator", reason: "it panicked".to_owned() };
        self.ended.recv_async().await.map_err(|_| gone())?
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.published.stop();
    }
}
