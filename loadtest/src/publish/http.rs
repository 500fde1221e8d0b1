//! Publishing over HTTP ingest: a feed, and connections that take what it hands out.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use streaming_hub::runtime::channel::{Receiver, Sender};
use streaming_hub::runtime::{Clock, channel, sleep, task};

use super::{Order, Outcome, Published};
use crate::connection::Connection;
use crate::feed::{Feed, Next, Ticket};
use crate::measure::latency;
use crate::plan;

/// How often a closed loop looks whether something was delivered.
const FULL_PAUSE: Duration = Duration::from_micros(200);
/// Before a refused request is sent again.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);
/// The longest sleep, so that a stop is noticed.
const NAP: Duration = Duration::from_millis(50);
/// Tickets handed out that no connection has taken: an open loop's own backlog when the hub is too slow.
const TICKETS_MAX: usize = 1 << 20;

/// Where and how.
pub struct Target {
    pub addresses: Vec<SocketAddr>,
    pub paths: Arc<Vec<String>>,
    pub connections: usize,
    pub batch: usize,
}

/// What all connections share.
struct Shared {
    order: Order,
    target: Target,
    clock: Clock,
    published: Arc<Published>,
    outcome: RefCell<Outcome>,
}

/// Publishes all of it.
pub async fn publish(
    order: Order,
    target: Target,
    clock: Clock,
    published: Arc<Published>,
    delivered: Arc<AtomicU64>,
) -> Outcome {
    let mut feed = Feed::new(order.plan.routes.len(), order.spread, order.pace, order.begin, order.end);
    let shared = Rc::new(Shared { order, target, clock, published, outcome: RefCell::new(Outcome::new()) });
    let (lanes, ended) = start_lanes(&shared);
    hand_out(&mut feed, &lanes, &shared, &delivered).await;
    drop(lanes);
    // Each connection holds a sender; the channel ends with the last of them.
    while ended.recv_async().await.is_ok() {}
    shared.outcome.borrow_mut().issued = feed.into_issued();
    shared.outcome.replace(Outcome::new())
}

/// Connections, and what each takes: all from one queue, or where an order is kept each from its own.
fn start_lanes(shared: &Rc<Shared>) -> (Vec<Sender<Ticket>>, Receiver<()>) {
    let (ending, ended) = channel::bounded(1);
    let count = shared.target.connections;
    let queues = match shared.order.plan.order {
        plan::Order::Free => 1,
        plan::Order::Kept => count,
    };
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..queues).map(|_| channel::bounded(TICKETS_MAX / queues)).unzip();
    for number in 0..count {
        let (shared, tickets): (_, Receiver<Ticket>) = (Rc::clone(shared), receivers[number % queues].clone());
        let address = shared.target.addresses[number % shared.target.addresses.len()];
        let ending: Sender<()> = ending.clone();
        task::spawn(async move {
            Lane { shared, tickets, address, connection: None, request: Vec::new(), held: None }.run().await;
            drop(ending);
        });
    }
    (senders, ended)
}

async fn hand_out(feed: &mut Feed, lanes: &[Sender<Ticket>], shared: &Shared, delivered: &AtomicU64) {
    let mut since_yield = 0_u32;
    while !shared.published.is_stopped() {
        let now = shared.clock.now();
        match feed.next(now, delivered.load(Ordering::Relaxed)) {
            Next::Now(ticket) => {
                shared.published.issued.fetch_add(1, Ordering::Relaxed);
                let lane = &lanes[ticket.route as usize % lanes.len()];
                lane.send_async(ticket).await.expect("connections outlive the feed");
                since_yield += 1;
                if since_yield.is_multiple_of(64) {
                    task::yield_now().await;
                }
            }
            Next::At(at) => sleep(shared.clock.until(at).min(NAP)).await,
            Next::Full => sleep(FULL_PAUSE).await,
            Next::Over => return,
        }
    }
}

/// One connection with what it has taken.
struct Lane {
    shared: Rc<Shared>,
    tickets: Receiver<Ticket>,
    address: SocketAddr,
    connection: Option<Connection>,
    request: Vec<u8>,
    /// Taken, but of another tenant than the batch before it.
    held: Option<Ticket>,
}

/// What became of a request.
enum Sent {
    Acknowledged,
    Refused,
    Failed,
}

impl Lane {
    async fn run(&mut self) {
        while let Some(tickets) = self.take().await {
            self.make_request(&tickets);
            self.note_lateness(&tickets);
            self.publish_stubbornly(&tickets).await;
        }
    }

    /// The next events to go together; `None` when there are none any more.
    async fn take(&mut self) -> Option<Vec<Ticket>> {
        let first = match self.held.take() {
            Some(ticket) => ticket,
            None => self.tickets.recv_async().await.ok()?,
        };
        let plan = &self.shared.order.plan;
        let mut tickets = vec![first];
        while tickets.len() < self.shared.target.batch {
            let Ok(next) = self.tickets.try_recv() else { break };
            if plan.tenant_of(next.route) != plan.tenant_of(first.route) {
                self.held = Some(next);
                break;
            }
            tickets.push(next);
        }
        Some(tickets)
    }

    fn make_request(&mut self, tickets: &[Ticket]) {
        let shared = &self.shared;
        let path = &shared.target.paths[shared.order.plan.tenant_of(tickets[0].route)];
        self.request.clear();
        match tickets {
            [one] => shared.order.maker.write_request(&mut self.request, path, one),
            several => shared.order.maker.write_batch(&mut self.request, path, several),
        }
    }

    fn note_lateness(&self, tickets: &[Ticket]) {
        let now = self.shared.clock.now();
        let mut outcome = self.shared.outcome.borrow_mut();
        tickets.iter().for_each(|ticket| latency::record(&mut outcome.lateness, now.since(ticket.intended)));
    }

    /// Again and again until it is acknowledged or the generator is told to stop.
    async fn publish_stubbornly(&mut self, tickets: &[Ticket]) {
        let published = Arc::clone(&self.shared.published);
        loop {
            match self.send().await {
                Sent::Acknowledged => return self.note_acknowledged(tickets),
                Sent::Refused => published.refused.fetch_add(1, Ordering::Relaxed),
                Sent::Failed => published.errors.fetch_add(1, Ordering::Relaxed),
            };
            if published.is_stopped() {
                self.shared.outcome.borrow_mut().unacknowledged.extend_from_slice(tickets);
                return;
            }
            sleep(REFUSED_PAUSE).await;
        }
    }

    fn note_acknowledged(&self, tickets: &[Ticket]) {
        let now = self.shared.clock.now();
        let mut outcome = self.shared.outcome.borrow_mut();
        tickets.iter().for_each(|ticket| latency::record(&mut outcome.acknowledgement, now.since(ticket.intended)));
        self.shared.published.acknowledged.fetch_add(tickets.len() as u64, Ordering::Relaxed);
    }

    async fn send(&mut self) -> Sent {
        let connection = match self.connection.take() {
            Some(connection) => Ok(connection),
            None => Connection::open(self.address).await,
        };
        let Ok(mut connection) = connection else { return Sent::Failed };
        let Ok(answer) = connection.exchange(&self.request).await else { return Sent::Failed };
        let sent = match answer.status {
            200 => Sent::Acknowledged,
            429 | 503 => Sent::Refused,
            0..200 | 201..429 | 430..503 | 504.. => Sent::Failed,
        };
        self.connection = Some(connection);
        sent
    }
}
