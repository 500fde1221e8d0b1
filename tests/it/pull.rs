//! The pull list: in order of arrival, each event once, none skipped, whoever writes meanwhile.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{CloudEvent, Hub, Setup, Source, Tenant, eventually, eventually_some};

/// The events after `cursor`, and the cursor after them.
fn pull(tenant: &Tenant, cursor: &str) -> (Vec<Value>, String) {
    let page = tenant.api.get(&format!("/v1/events?limit=7&cursor={cursor}")).expect(200);
    let next = page["next_cursor"].as_str().expect("the pull list always has a next cursor").to_owned();
    (page["items"].as_array().expect("items").clone(), next)
}

fn publish(source: &Source, count: usize) -> Vec<String> {
    source.publish_many(count)
}

#[test]
fn a_reader_beside_four_writers_skips_nothing_and_sees_nothing_twice() {
    const WRITERS: usize = 4;
    const EVENTS: usize = 100;
    let hub = Setup::new().with("PULL_RATE", "10000").with("PULL_BURST", "10000").start();
    let acme = hub.tenant("acme");
    let source = acme.source("shop");
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    let written: BTreeSet<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(|| publish(&source, EVENTS))).collect();
        eventually("all events to be pulled", || {
            let (items, next) = pull(&acme, &cursor);
            cursor = next;
            seen.extend(items);
            seen.len() >= WRITERS * EVENTS
        });
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer")).collect()
    });
    let ids: Vec<&str> = seen.iter().map(|event| event["id"].as_str().expect("an id")).collect();
    assert_eq!(ids.len(), WRITERS * EVENTS);
    assert_eq!(ids.iter().copied().collect::<BTreeSet<_>>(), written.iter().map(String::as_str).collect());
    let sequences: Vec<u64> = seen.iter().map(|event| event["sequence"].as_u64().expect("a number")).collect();
    assert!(sequences.is_sorted_by(|one, next| one < next), "{sequences:?}");
    assert_eq!(pull(&acme, &cursor).0, Vec::<Value>::new(), "the end is empty, with a cursor to come back with");
}

#[test]
fn a_cursor_goes_on_where_it_ended_after_a_restart() {
    let mut hub = Hub::start();
    let acme = hub.tenant("acme");
    let source = acme.source("shop");
    let first = source.publish_many(3);
    let (items, cursor) = eventually_some("three events", || {
        let (items, next) = pull(&acme, "");
        (items.len() == 3).then_some((items, next))
    });
    assert_eq!(
        items.iter().map(|event| event["id"].clone()).collect::<Vec<_>>(),
        first.iter().map(|id| json!(id)).collect::<Vec<_>>()
    );
    hub.restart();
    let second = source.publish_many(2);
    let after = eventually_some("two more", || {
        let (items, _) = pull(&acme, &cursor);
        (items.len() == 2).then_some(items)
    });
    assert_eq!(
        after.iter().map(|event| event["id"].clone()).collect::<Vec<_>>(),
        second.iter().map(|id| json!(id)).collect::<Vec<_>>()
    );
}

#[test]
fn filters_and_newest_first() {
    let hub = Hub::start();
    let acme = hub.tenant("acme");
    let (shop, bank) = (acme.source("shop"), acme.source("bank"));
    let events = [(&shop, "paid"), (&bank, "paid"), (&shop, "sent"), (&shop, "paid")].map(|(source, name)| {
        let event = CloudEvent::new("order", name);
        source.publish(&event).expect(200);
        event.id
    });
    let listed = |query: &str| {
        let page = acme.api.get(&format!("/v1/events?{query}")).expect(200);
        let items = page["items"].as_array().expect("items");
        items.iter().map(|event| event["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    eventually("all four events", || listed("").len() == 4);
    let chosen = |indexes: &[usize]| indexes.iter().map(|index| events[*index].clone()).collect::<Vec<_>>();
    assert_eq!(listed(""), chosen(&[0, 1, 2, 3]));
    assert_eq!(listed("order=desc"), chosen(&[3, 2, 1, 0]));
    assert_eq!(listed("event_type=order.paid&origin=shop"), chosen(&[0, 3]));
    assert_eq!(listed(&format!("source_id={}", bank.id)), chosen(&[1]));
    assert_eq!(listed("from=2100-01-01T00:00:00Z"), Vec::<String>::new());
}

#[test]
fn a_tenant_that_pulls_too_often_is_told_so() {
    let hub = Setup::new().with("PULL_RATE", "1").with("PULL_BURST", "2").start();
    let (acme, globex) = (hub.tenant("acme"), hub.tenant("globex"));
    let refused = eventually_some("a 429", || {
        let answer = acme.api.get("/v1/events");
        (answer.status != 200).then_some(answer)
    });
    refused.problem(429);
    assert!(refused.header("retry-after").is_some());
    globex.api.get("/v1/events").expect(200);
}
