//! Which subscriptions want an event. Budget: 0.3 µs at a million subscriptions.

use std::cell::LazyCell;
use std::hint::black_box;

use criterion::Criterion;
use streaming_hub::engine::filter::Filter;
use streaming_hub::engine::matching::Matcher;
use streaming_hub::engine::payload::PayloadView;
use streaming_hub::types::Event;

use super::common::{NOW, event, payload, subscription, tenant};

/// A tenant's limit, by default; a thousand tenants of it are a million subscriptions.
const PER_TENANT: u64 = 1_000;

fn matcher(number: u64, subscriptions: u64) -> Matcher {
    let tenant = tenant(number);
    let mut matcher = Matcher::new(number);
    for (handle, one) in (0_u32..).zip(0..subscriptions) {
        let everything = Filter::compile(&[]).expect("no rules, no faults");
        matcher.put(&subscription(&tenant, one, &format!("loan.kind-{one}")), everything, handle);
    }
    matcher
}

fn events() -> Vec<Event> {
    let one = |number| event(&tenant(0), number, &format!("loan.kind-{number}"), NOW, payload(1_024));
    (0..PER_TENANT).map(one).collect()
}

fn found(matcher: &Matcher, event: &Event, found: &mut Vec<u32>) -> usize {
    found.clear();
    matcher.matches(event, &mut PayloadView::new(), found);
    found.len()
}

pub fn bench(criterion: &mut Criterion) {
    let events = events();
    let mut places = Vec::new();
    let single = matcher(0, 1);
    assert_eq!(found(&single, &events[0], &mut places), 1);
    criterion.bench_function("match/1_subscription", |bencher| {
        bencher.iter(|| found(&single, black_box(&events[0]), &mut places));
    });
    // Made only when this bench is among those asked for.
    let million = LazyCell::new(|| (0..1_000).map(|number| matcher(number, PER_TENANT)).collect::<Vec<_>>());
    let mut turn = 0;
    criterion.bench_function("match/1000000_subscriptions", |bencher| {
        let million = &*million;
        bencher.iter(|| {
            turn = (turn + 7_919) % (million.len() * events.len());
            let (tenant, event) = (turn % million.len(), turn / million.len());
            found(&million[tenant], black_box(&events[event]), &mut places)
        });
    });
}
