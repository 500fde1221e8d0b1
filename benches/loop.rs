//! How fast the hub is beside the least that could do its work: `cargo bench --bench loop`.
//!
//! The bare loop (glommio, hyper and both signatures, no store) and the hub (events handed to a running shard on
//! an embedded store, then delivered) send 1 KiB each to the same receiver, one after the other in one process,
//! so that their ratio holds on a busy machine too. Aim: the hub does 0.6 of the bare loop. Processor time is
//! counted by thread; the receiver's and that of the threads that make events do not count.

mod bare;
mod common;
#[path = "common/hub.rs"]
mod hub;
#[path = "common/processor.rs"]
mod processor;
#[path = "common/receiver.rs"]
mod receiver;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::rc::Rc;

use streaming_hub::engine::SettledItem;
use streaming_hub::runtime::boot::run_here;
use streaming_hub::runtime::{Clock, sleep, task};
use streaming_hub::types::destination::Ordering;
use streaming_hub::types::{Event, TenantId, Time};

use common::{destination, event, payload, subscription, tenant};
use hub::RunningHub;
use processor::{processor_seconds, spent_since};
use receiver::Receiver;

/// Deliveries of one measurement.
const EVENTS: u64 = 20_000;
/// Deliveries before it, not measured: connections are made, memory is touched.
const WARM_UP: u64 = 2_000;
const PAYLOAD_BYTES: usize = 1_024;
/// Requests at once, of the bare loop and of the hub.
const CONCURRENCY: u32 = 256;
/// Events that arrive together.
const BATCH: u64 = 64;
/// Events handed in and not delivered yet, at most.
const WINDOW: u64 = 1_536;
/// A measurement that takes longer is broken.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
/// The threads that are not the hub: one measures, the others stand for producers and receivers.
const WORLD: [&str; 3] = ["receiver", "producer", "loop"];
const FIFO_DESTINATIONS: u64 = 200;

/// One measurement.
struct Figure {
    name: &'static str,
    seconds: f64,
    processor: BTreeMap<String, f64>,
}

impl Figure {
    fn per_second(&self) -> f64 {
        EVENTS as f64 / self.seconds
    }

    /// Of the threads that do the work.
    fn processor_micros(&self) -> f64 {
        let ours = self.processor.iter().filter(|(name, _)| !WORLD.iter().any(|world| name.starts_with(world)));
        ours.map(|(_, seconds)| seconds).sum::<f64>() * 1e6 / EVENTS as f64
    }

    fn print(&self, bare: &Self) {
        let threads: Vec<String> =
            self.processor.iter().map(|(name, s)| format!("{name} {:.1}", s * 1e6 / EVENTS as f64)).collect();
        say(&format!(
            "{:<22} {:>7.0}/s  {:>5.2} of bare   {:>5.1} µs of processor each  {:>5.2} of bare   ({})",
            self.name,
            self.per_second(),
            self.per_second() / bare.per_second(),
            self.processor_micros(),
            bare.processor_micros() / self.processor_micros(),
            threads.join(", "),
        ));
    }
}

fn main() {
    let clock = Clock::start();
    let receiver = Receiver::start();
    let bare = measure_bare(&receiver, clock);
    bare.print(&bare);
    measure_hub("hub, 1 parallel", &receiver, clock, &[parallel(&receiver)]).print(&bare);
    measure_hub("hub, 200 fifo", &receiver, clock, &fifo(&receiver)).print(&bare);
    measure_bare(&receiver, clock).print(&bare);
}

/// Measured before and after the hub: how far the two lie apart is what the machine's other work costs.
fn measure_bare(receiver: &Receiver, clock: Clock) -> Figure {
    bare::run(receiver.address, CONCURRENCY, WARM_UP);
    let (before, begun) = (processor_seconds(), clock.now());
    let spent = bare::run(receiver.address, CONCURRENCY, EVENTS);
    let seconds = since(clock, begun);
    let mut processor = spent_since(&before);
    // Its thread has ended, and what it spent is gone from the table.
    processor.insert("bare".to_owned(), spent);
    Figure { name: "bare loop", seconds, processor }
}

/// Where events of one kind go.
struct Route {
    tenant: TenantId,
    number: u64,
    url: String,
    ordering: Ordering,
}

impl Route {
    fn key(&self) -> String {
        format!("loan.kind-{}", self.number)
    }
}

fn parallel(receiver: &Receiver) -> Route {
    Route { tenant: tenant(0), number: 0, url: receiver.url(), ordering: Ordering::Parallel }
}

/// Twenty tenants with ten destinations each.
fn fifo(receiver: &Receiver) -> Vec<Route> {
    let route = |number| Route { tenant: tenant(number % 20), number, url: receiver.url(), ordering: Ordering::Fifo };
    (0..FIFO_DESTINATIONS).map(route).collect()
}

fn measure_hub(name: &'static str, receiver: &Receiver, clock: Clock, routes: &[Route]) -> Figure {
    let running = RunningHub::start(CONCURRENCY * 8, clock);
    for route in routes {
        let destination = destination(&route.tenant, route.number, &route.url, route.ordering);
        running.configure(destination, subscription(&route.tenant, route.number, &route.key()));
    }
    deliver(&running, receiver, clock, routes, WARM_UP);
    let (before, begun) = (processor_seconds(), clock.now());
    deliver(&running, receiver, clock, routes, EVENTS);
    let figure = Figure { name, seconds: since(clock, begun), processor: spent_since(&before) };
    running.hub.stop(PATIENCE).expect("the hub stops");
    figure
}

/// Hands in `count` events from a thread of its own and waits until the receiver has answered all.
fn deliver(running: &RunningHub, receiver: &Receiver, clock: Clock, routes: &[Route], count: u64) {
    let (goal, begun) = (receiver.answered() + count, clock.now());
    std::thread::scope(|scope| {
        let producer = || run_here(produce(running, receiver, clock, routes, count)).expect("an executor");
        std::thread::Builder::new().name("producer".to_owned()).spawn_scoped(scope, producer).expect("a thread");
        while receiver.answered() < goal {
            if since(clock, begun) > PATIENCE.as_secs_f64() {
                say(&format!("only {} of {goal} deliveries were made in {PATIENCE:?}", receiver.answered()));
                // The producer waits for deliveries, so that unwinding would too.
                std::process::exit(1);
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
}

async fn produce(running: &RunningHub, receiver: &Receiver, clock: Clock, routes: &[Route], count: u64) {
    let base = receiver.answered();
    let open = Rc::new(Cell::new(0_u64));
    let mut handed_in = 0;
    while handed_in < count {
        while handed_in + BATCH > receiver.answered() - base + WINDOW {
            sleep(std::time::Duration::from_micros(200)).await;
        }
        let size = BATCH.min(count - handed_in);
        let per_tenant = batches(routes, handed_in, size, clock.now());
        handed_in += size;
        for (tenant, events) in per_tenant {
            let (shards, open) = (running.shards.clone(), Rc::clone(&open));
            open.set(open.get() + 1);
            task::spawn(async move {
                let items = shards.arrive(&tenant, events).await;
                let stored = items.iter().filter(|item| matches!(item, SettledItem::Stored(_))).count();
                assert_eq!(stored, items.len(), "every event is taken in");
                open.set(open.get() - 1);
            });
        }
    }
    while open.get() > 0 {
        sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// The next events, by tenant: an arrival is of one tenant.
fn batches(routes: &[Route], from: u64, size: u64, now: Time) -> BTreeMap<TenantId, Vec<Event>> {
    let mut by_tenant: BTreeMap<TenantId, Vec<Event>> = BTreeMap::new();
    for number in from..from + size {
        let route = &routes[usize::try_from(number % routes.len() as u64).expect("few routes")];
        let event = event(&route.tenant, number, &route.key(), now, payload(PAYLOAD_BYTES));
        by_tenant.entry(route.tenant.clone()).or_default().push(event);
    }
    by_tenant
}

fn since(clock: Clock, begun: Time) -> f64 {
    clock.now().since(begun).to_std().as_secs_f64()
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("the terminal takes a line");
}
