//! All that the engine does for an event that goes well: arrival, commit, dispatch, outcome, commit. Budget:
//! dedup 0.1, match 0.3, queues and timers 0.3 and part of 3 µs for bookkeeping: 2 µs.

use criterion::{BatchSize, Criterion, Throughput};
use streaming_hub::types::destination::Ordering;
use streaming_hub::types::{ConfigChange, Event};

use super::common::{NOW, destination, event, payload, subscription, tenant};
use super::turn_driver::Driver;

/// A shard that knows `tenants` tenants with one destination each.
fn driver(tenants: u64) -> Driver {
    let mut changes = Vec::new();
    for number in 0..tenants {
        let tenant = tenant(number);
        let url = "http://example.com/hook";
        changes.push(ConfigChange::PutDestination(Box::new(destination(&tenant, number, url, Ordering::Parallel))));
        changes.push(ConfigChange::PutSubscription(Box::new(subscription(&tenant, number, "loan.approved"))));
    }
    Driver::new(changes, 4_096, true)
}

fn turns(criterion: &mut Criterion, name: &str, tenants: u64, batch: u64) {
    let mut driver = driver(tenants);
    let body = payload(1_024);
    let mut number = 0;
    let mut group = criterion.benchmark_group("turn");
    group.throughput(Throughput::Elements(batch));
    group.bench_function(name, |bencher| {
        bencher.iter_batched(
            || {
                number += batch;
                let owner = tenant(number / batch % tenants);
                let make = |n| event(&owner, number + n, "loan.approved", NOW, body.clone());
                (0..batch).map(make).collect::<Vec<Event>>()
            },
            |events| driver.arrive(events),
            BatchSize::SmallInput,
        );
    });
    group.finish();
    assert!(driver.ended >= number, "every event was delivered");
}

pub fn bench(criterion: &mut Criterion) {
    turns(criterion, "1_tenant_batches_of_1", 1, 1);
    turns(criterion, "1_tenant_batches_of_64", 1, 64);
    turns(criterion, "1000_tenants_batches_of_1", 1_000, 1);
}
