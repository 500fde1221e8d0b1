//! How fast the hub delivers what is in Kafka already, beside the least that could do its work:
//! `cargo bench --features real --bench kafka`, with `tests/real/servers up` before.
//!
//! The real binary with its embedded store, its receiver and the bare loop's in one run, one after the other, so
//! that their ratio holds on a busy machine too. Processor time of the hub is its whole process's: consumers,
//! shards, store and API. Figures are printed, not judged.

mod bare;
#[path = "../tests/real/broker.rs"]
#[allow(dead_code, reason = "shared with tests/real, which does more with it")]
mod broker;
#[allow(dead_code, reason = "shared with the loop, which makes events of its own")]
mod common;
#[path = "../tests/it/harness/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with tests/it, which stands on other parts of it")]
mod harness;
#[path = "../tests/real/patience.rs"]
mod patience;
#[path = "common/processor.rs"]
#[allow(dead_code, reason = "shared with the loop, which looks at its own process")]
mod processor;
#[path = "common/receiver.rs"]
mod receiver;
#[path = "../tests/real/record.rs"]
#[allow(dead_code, reason = "shared with tests/real, which breaks records too")]
mod record;
#[path = "../tests/real/stage.rs"]
#[allow(dead_code, reason = "shared with tests/real, which looks at lanes too")]
mod stage;

use std::collections::BTreeMap;
use std::io::Write as _;

use serde_json::{Value, json};

use broker::Broker;
use harness::time::now;
use harness::{CloudEvent, Hub};
use patience::patiently;
use processor::processor_seconds_of;
use receiver::Receiver;
use record::Record;
use stage::Stage;
use streaming_hub::runtime::Clock;

const EVENTS: u64 = 200_000;
/// Deliveries before it is measured: consumers join, connections are made, memory is touched.
const WARM_UP: u64 = 20_000;
const PAYLOAD_BYTES: usize = 1_024;
const PARTITIONS: i32 = 8;
/// Requests at once: of the bare loop, and of the parallel destination.
const CONCURRENCY: u32 = 256;
const FIFO_TENANTS: u64 = 20;
const FIFO_PER_TENANT: u64 = 10;

/// One measurement.
struct Figure {
    name: &'static str,
    deliveries: u64,
    seconds: f64,
    processor: BTreeMap<String, f64>,
}

impl Figure {
    fn per_second(&self) -> f64 {
        self.deliveries as f64 / self.seconds
    }

    fn per_processor_second(&self) -> f64 {
        self.deliveries as f64 / self.processor.values().sum::<f64>()
    }

    fn print(&self, bare: &Self) {
        let micros = |seconds: &f64| seconds * 1e6 / self.deliveries as f64;
        let threads: Vec<String> =
            self.processor.iter().map(|(name, seconds)| format!("{name} {:.1}", micros(seconds))).collect();
        let line = format!(
            "{:<24} {:>6.0}/s ({:.2} of bare)  {:>6.0} per processor second ({:.2} of bare)  µs each: {}",
            self.name,
            self.per_second(),
            self.per_second() / bare.per_second(),
            self.per_processor_second(),
            self.per_processor_second() / bare.per_processor_second(),
            threads.join(", "),
        );
        writeln!(std::io::stdout(), "{line}").expect("the terminal takes a line");
    }
}

/// Where events of one kind go.
struct Route {
    tenant: String,
    kind: String,
    destination: Value,
}

fn main() {
    let (broker, receiver) = (Broker::shared(), Receiver::start());
    let before = measure_bare(&receiver);
    let parallel = measure_hub("hub, 1 parallel", &broker, &receiver, &[parallel()]);
    let fifo = measure_hub("hub, 200 fifo", &broker, &receiver, &fifo());
    let after = measure_bare(&receiver);
    // The better of two counts, since the machine may be busy with something else.
    let bare = if after.seconds < before.seconds { after } else { before };
    for figure in [&bare, &parallel, &fifo] {
        figure.print(&bare);
    }
}

fn measure_bare(receiver: &Receiver) -> Figure {
    bare::run(receiver.address, CONCURRENCY, WARM_UP);
    let (clock, deliveries) = (Clock::start(), EVENTS / 4);
    let begun = clock.now();
    let spent = bare::run(receiver.address, CONCURRENCY, deliveries);
    let seconds = clock.now().since(begun).to_std().as_secs_f64();
    Figure { name: "bare loop", deliveries, seconds, processor: BTreeMap::from([("bare".to_owned(), spent)]) }
}

fn parallel() -> Route {
    let destination = json!({"ordering": "parallel", "max_in_flight": CONCURRENCY});
    Route { tenant: "tenant-0".to_owned(), kind: "kind-0".to_owned(), destination }
}

fn fifo() -> Vec<Route> {
    let route = |number| Route {
        tenant: format!("tenant-{}", number % FIFO_TENANTS),
        kind: format!("kind-{number}"),
        destination: json!({"ordering": "fifo"}),
    };
    (0..FIFO_TENANTS * FIFO_PER_TENANT).map(route).collect()
}

fn measure_hub<Guard>(name: &'static str, broker: &Broker<Guard>, receiver: &Receiver, routes: &[Route]) -> Figure {
    let stage = Stage::new();
    // One tenant gets an eighth of a shard's attempts.
    let setup = stage.setup().with("DISPATCH_WORKERS", &(CONCURRENCY * 8).to_string());
    let mut hub = setup.start();
    subscribe(&hub, receiver, routes);
    hub.terminate();
    hub.finish();
    let topic = stage.topic("loans");
    broker.create_topic(&topic, PARTITIONS);
    produce(broker, &topic, routes);
    let base = receiver.answered();
    hub.restart_after_end();
    let answered = |count: u64| {
        let progress = || format!("{count} deliveries: {} came", receiver.answered() - base);
        patiently(progress, || receiver.answered() - base >= count);
        (now(), receiver.answered() - base, processor_seconds_of(&hub.process_id().to_string()))
    };
    let (begun, first, spent_before) = answered(WARM_UP);
    let (ended, last, mut spent) = answered(EVENTS);
    for (thread, seconds) in &mut spent {
        *seconds -= spent_before.get(thread).copied().unwrap_or_default();
    }
    spent.retain(|_, seconds| *seconds > 0.01);
    Figure { name, deliveries: last - first, seconds: (ended - begun).as_secs_f64(), processor: spent }
}

/// Each route has a destination and a subscription of its own.
fn subscribe(hub: &Hub, receiver: &Receiver, routes: &[Route]) {
    let mut tenants = BTreeMap::new();
    for route in routes {
        let tenant = tenants.entry(&route.tenant).or_insert_with(|| hub.tenant(&route.tenant));
        let destination =
            harness::merged(json!({"url": receiver.url(), "verification": "none"}), route.destination.clone());
        let subscription = json!({"destination": destination, "event_types": [format!("loan.{}", route.kind)]});
        tenant.api.post("/v1/subscriptions", &subscription).expect(201);
    }
}

fn produce<Guard>(broker: &Broker<Guard>, topic: &str, routes: &[Route]) {
    let producer = broker.producer();
    let payload = "x".repeat(PAYLOAD_BYTES);
    for route in (0..EVENTS).zip(routes.iter().cycle()).map(|(_, route)| route) {
        let event = CloudEvent::new("loan", &route.kind).with_data(payload.clone());
        producer.give(&Record::of(topic, &route.tenant, &event));
    }
    producer.finish();
}
