//! Who is next, through the engine: an attempt ends and the next one of 1 000 busy destinations is claimed,
//! committed and started. Budget: queues and timers 0.3 µs, within a turn's 2 µs.

use criterion::{BatchSize, Criterion, Throughput};
use streaming_hub::types::ConfigChange;
use streaming_hub::types::destination::Ordering;

use super::common::{NOW, destination, event, payload, subscription, tenant};
use super::turn_driver::Driver;

const TENANTS: u64 = 100;
/// Of each tenant.
const DESTINATIONS: u64 = 10;
/// Jobs that wait for each destination; half of them are measured.
const BACKLOG: u64 = 20;
const MEASURED: u64 = TENANTS * DESTINATIONS * BACKLOG / 2;

/// A shard with all its attempts in flight and a queue behind every destination.
fn busy(ordering: Ordering) -> Driver {
    let mut changes = Vec::new();
    for number in 0..TENANTS * DESTINATIONS {
        let (tenant, key) = place(number);
        let destination = destination(&tenant, number, "http://example.com/hook", ordering);
        changes.push(ConfigChange::PutDestination(Box::new(destination)));
        changes.push(ConfigChange::PutSubscription(Box::new(subscription(&tenant, number, &key))));
    }
    let mut driver = Driver::new(changes, 256, false);
    for number in 0..TENANTS * DESTINATIONS * BACKLOG {
        let (tenant, key) = place(number);
        driver.arrive(vec![event(&tenant, number, &key, NOW, payload(64))]);
    }
    driver
}

/// Tenant and event key of a destination.
fn place(number: u64) -> (streaming_hub::types::TenantId, String) {
    let number = number % (TENANTS * DESTINATIONS);
    (tenant(number / DESTINATIONS), format!("loan.kind-{}", number % DESTINATIONS))
}

pub fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pick/1000_busy_destinations");
    group.throughput(Throughput::Elements(MEASURED)).sample_size(10);
    for (name, ordering) in [("parallel", Ordering::Parallel), ("fifo", Ordering::Fifo)] {
        let drain = |mut driver: Driver| {
            (0..MEASURED).for_each(|_| driver.end_one());
            driver
        };
        group.bench_function(name, |bencher| {
            bencher.iter_batched(|| busy(ordering), drain, BatchSize::PerIteration);
        });
    }
    group.finish();
}
