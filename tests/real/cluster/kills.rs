//! Nodes are killed again and again, one comes and goes, receivers fail now and then, and every event is delivered, in
//! order.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ledger::{Ledger, Request};
use super::{Cluster, Everywhere, asked_for, short_of_breath, topic_of};
use crate::broker::Producer;
use crate::harness::time::now;
use crate::harness::{CloudEvent, Hub, Tenant};
use crate::patience::within;
use crate::record::Record;
use crate::stage::{subscribe, tenant_name};
use crate::tally::SECRET;

const NODES: usize = 3;
const PARTITIONS: i32 = 12;
const TENANTS: u64 = 100;
/// `CLUSTER_EVENTS` asks for another number.
const EVENTS: u64 = 20_000;
/// `CLUSTER_KILLS` asks for another number.
const KILLS: u64 = 3;
/// Of each tenant's requests every so manieth fails.
const FAILING: usize = 10;
/// A node that was killed and started again serves so long before the next one is killed.
const PAUSE: Duration = Duration::from_secs(3);
/// Events that are produced before their turn comes.
const AHEAD: u64 = 5_000;
/// What a thousand events may take on a slow machine, beside the start.
const PATIENCE_PER_THOUSAND: Duration = Duration::from_secs(12);

#[test]
fn nodes_are_killed_and_no_event_is_lost() {
    let (events, kills) = (asked_for("CLUSTER_EVENTS", EVENTS), asked_for("CLUSTER_KILLS", KILLS));
    let per_tenant = events / TENANTS;
    let events = per_tenant * TENANTS;
    let limit = Duration::from_secs(240) + PATIENCE_PER_THOUSAND * u32::try_from(events / 1_000).expect("few");
    let (cluster, ledger) = (Cluster::new(), Ledger::failing_each(FAILING));
    let topic = topic_of(&cluster, "loans", PARTITIONS);
    let mut hubs = cluster.start(NODES);
    let retry = json!({"type": "curve", "steps_s": [0, 0, 1, 1, 2, 2, 5, 5, 5, 5]});
    let more = short_of_breath(json!({"secret": SECRET, "ordering": "fifo", "retry": retry}));
    let subscribed = |number| {
        let tenant = tenant_name(number);
        subscribe(&hubs[0], &tenant, &ledger.url(&tenant), more.clone())
    };
    let tenants: Vec<Tenant> = (0..TENANTS).map(subscribed).collect();
    // Changes come in order: where the last is known, all are.
    Everywhere::new(&hubs, "the-last");
    let begun = now();
    let producer = cluster.broker.producer();
    let all_came = AtomicBool::new(false);
    let killed = std::thread::scope(|scope| {
        scope.spawn(|| produce(&producer, &topic, (&ledger, &all_came), per_tenant));
        let killed = kill_one_after_the_other(&cluster, &mut hubs, kills);
        let progress = || format!("{events} successes: {} came", ledger.successes());
        within(limit, progress, || missing(&ledger, per_tenant).is_empty());
        all_came.store(true, Ordering::Relaxed);
        killed
    });
    let took = begun.elapsed();
    let (requests, repeats) = judge(&ledger, &killed, per_tenant);
    println!("{events} events of {TENANTS} tenants in {took:?}, {requests} requests, {} kills", killed.len());
    println!("{repeats} came again after a success, each of which a kill hid");
    nothing_is_left(&tenants, limit);
}

/// Stays ahead of the receiver by a bounded number, so that kills fall into the intake too.
fn produce(producer: &Producer, topic: &str, (ledger, done): (&Ledger, &AtomicBool), per_tenant: u64) {
    for number in 0..per_tenant {
        while number * TENANTS > ledger.successes() + AHEAD && !done.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        for of in 0..TENANTS {
            let event = CloudEvent::new("loan", "paid").with_data(format!("{{\"number\":{number}}}"));
            producer.give(&Record::of(topic, &tenant_name(of), &event));
        }
    }
    producer.finish();
}

/// `kill -9` on one node after the other, each started again; halfway one more node comes, and goes in order. Gives when
/// they were killed.
fn kill_one_after_the_other(cluster: &Cluster, hubs: &mut [Hub], kills: u64) -> Vec<Instant> {
    let mut killed = Vec::new();
    for round in 0..kills {
        std::thread::sleep(PAUSE);
        let hub = &mut hubs[usize::try_from(round).expect("few") % NODES];
        killed.push(now());
        hub.restart();
        if round == kills / 2 {
            let mut guest = cluster.setup().start();
            std::thread::sleep(PAUSE);
            guest.terminate();
            assert_eq!(guest.finish().code, Some(0), "it leaves in order");
        }
    }
    killed
}

/// Events that have not come with success, at most a few.
fn missing(ledger: &Ledger, per_tenant: u64) -> Vec<String> {
    let came = ledger.came();
    let missing = (0..TENANTS).map(tenant_name).flat_map(|tenant| {
        let requests = came.get(&tenant).map(Vec::as_slice).unwrap_or_default();
        let done: BTreeSet<u64> =
            requests.iter().filter(|request| request.succeeded).map(|request| request.number).collect();
        (0..per_tenant).filter(move |number| !done.contains(number)).map(move |number| format!("{tenant} {number}"))
    });
    missing.take(5).collect()
}

/// First attempts of each tenant come in order, and a success comes again only where a kill hid it. Gives how many
/// requests came, and how many of them after a success.
fn judge(ledger: &Ledger, killed: &[Instant], per_tenant: u64) -> (usize, usize) {
    let came = ledger.came();
    let (mut requests, mut repeats) = (0, 0);
    for (tenant, came) in &came {
        requests += came.len();
        let mut met = BTreeSet::new();
        let firsts: Vec<u64> = came.iter().map(|request| request.number).filter(|number| met.insert(*number)).collect();
        assert_eq!(firsts, (0..per_tenant).collect::<Vec<_>>(), "{tenant}: first attempts come in order");
        for number in 0..per_tenant {
            let of: Vec<&Request> = came.iter().filter(|request| request.number == number).collect();
            for (index, request) in of.iter().enumerate().filter(|(_, request)| request.succeeded) {
                let again = of.len() - index - 1;
                let hidden = again == 0 || ledger.was_hidden(request, killed);
                assert!(hidden, "{tenant} {number} comes again after {request:?}: {of:?}, kills at {killed:?}");
                repeats += again.min(1);
            }
        }
    }
    (requests, repeats)
}

/// No job is open, and none ended without success, as the API has it.
fn nothing_is_left(tenants: &[Tenant], limit: Duration) {
    let empty = |page: Value| page["items"].as_array().is_some_and(Vec::is_empty);
    for (number, tenant) in tenants.iter().enumerate() {
        let has_none = |status: &str| {
            let page = tenant.api.get(&format!("/v1/deliveries?status={status}&limit=1"));
            page.status == 200 && empty(page.json())
        };
        for status in ["pending", "delivering", "dead_lettered"] {
            within(limit, || format!("tenant {number} to have no {status}"), || has_none(status));
        }
    }
}
