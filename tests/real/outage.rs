//! The broker goes away under load and comes back; the hub goes on by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::broker::Broker;
use super::patience::patiently;
use super::stage::{Stage, is_read_up, subscribe, tenant_name};
use super::tally::{SECRET, Tally};

const PARTITIONS: i32 = 4;
const TENANTS: u64 = 10;
/// How long the broker is away, each time.
const OUTAGE: Duration = Duration::from_secs(20);
/// Requests that must come between two outages.
const STEP: usize = 1_000;
/// Between two events of a tenant.
const PACE: Duration = Duration::from_millis(20);

#[test]
fn the_hub_goes_on_after_the_broker_was_frozen_and_after_it_was_killed() {
    let broker = Broker::alone();
    let (stage, tally) = (Stage::new(), Tally::start());
    let topic = stage.topic("loans");
    broker.create_topic(&topic, PARTITIONS);
    let hub = stage.setup().start();
    for number in 0..TENANTS {
        let tenant = tenant_name(number);
        subscribe(&hub, &tenant, &tally.url(&tenant), json!({"secret": SECRET}));
    }
    let (producer, stop) = (broker.producer(), AtomicBool::new(false));
    let per_tenant = std::thread::scope(|scope| {
        let producing = scope.spawn(|| producer.keep_giving(&topic, TENANTS, PACE, &stop));
        more_come(&tally);
        let frozen = broker.freeze();
        std::thread::sleep(OUTAGE);
        drop(frozen);
        more_come(&tally);
        let stopped = broker.kill();
        std::thread::sleep(OUTAGE);
        drop(stopped);
        more_come(&tally);
        stop.store(true, Ordering::SeqCst);
        producing.join().expect("the producer does not panic")
    });
    let progress = || format!("the rest: {} of {} requests came", tally.requests(), per_tenant * TENANTS);
    patiently(progress, || tally.requests() as u64 >= per_tenant * TENANTS && is_read_up(&hub, PARTITIONS as usize));
    let expected: Vec<u64> = (0..per_tenant).collect();
    for (tenant, numbers) in tally.came() {
        assert!(numbers == expected, "{tenant}: {} requests for {per_tenant} events", numbers.len());
    }
    println!("{} events through two outages of {OUTAGE:?}: each once and in order", per_tenant * TENANTS);
}

fn more_come(tally: &Tally) {
    let goal = tally.requests() + STEP;
    patiently(|| format!("{goal} requests: {} came", tally.requests()), || tally.requests() >= goal);
}
