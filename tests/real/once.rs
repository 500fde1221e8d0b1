//! Each event once and in order, under load, whatever kills the hub on the way.

use std::collections::BTreeMap;

use serde_json::json;

use super::broker::{Broker, Producer};
use super::harness::{CloudEvent, Hub};
use super::patience::patiently;
use super::record::Record;
use super::stage::{Stage, is_read_up, subscribe, tenant_name};
use super::tally::{Number, SECRET, Tally};

const PARTITIONS: i32 = 8;
const TENANTS: u64 = 50;
const EVENTS_PER_TENANT: u64 = 2_000;
const EVENTS: usize = 100_000;
/// The hub is killed when so many requests have come.
const KILLS: [usize; 3] = [20_000, 45_000, 70_000];

/// Events that are produced before their turn comes.
const AHEAD: usize = 12_000;

/// What each tenant had received when the hub was killed.
type Received = BTreeMap<String, Vec<Number>>;

#[test]
fn each_event_comes_once_and_in_order_though_the_hub_is_killed() {
    let broker = Broker::shared();
    let (stage, tally) = (Stage::new(), Tally::start());
    let topic = stage.topic("loans");
    broker.create_topic(&topic, PARTITIONS);
    let mut hub = stage.setup().with("SHARDS", "3").start();
    for number in 0..TENANTS {
        let tenant = tenant_name(number);
        subscribe(&hub, &tenant, &tally.url(&tenant), json!({"secret": SECRET, "ordering": "fifo"}));
    }
    let producer = broker.producer();
    let kills = std::thread::scope(|scope| {
        scope.spawn(|| produce(&producer, &topic, &tally));
        KILLS.map(|requests| kill_at(&mut hub, &tally, requests))
    });
    let progress = || format!("all events: {} requests came", tally.requests());
    patiently(progress, || distinct(&tally) >= EVENTS && is_read_up(&hub, PARTITIONS as usize));
    let repeats = judge(&tally.came(), &kills);
    println!("{EVENTS} events; kills at {KILLS:?} requests; at most {TENANTS} attempts in flight at each");
    println!("repeats by kill: {repeats:?}, all of attempts that were in flight");
    let ends = broker.ends(&topic, PARTITIONS);
    patiently(|| "commits up to the end".to_owned(), || broker.committed(&stage.group(), &topic, PARTITIONS) == ends);
}

/// Stays ahead of the receiver by a bounded number, so that every kill falls into the intake too.
fn produce(producer: &Producer, topic: &str, tally: &Tally) {
    for number in 0..EVENTS_PER_TENANT {
        let given = usize::try_from(number * TENANTS).expect("few");
        patiently(|| format!("{given} requests: {} came", tally.requests()), || given < tally.requests() + AHEAD);
        for of in 0..TENANTS {
            let event = CloudEvent::new("loan", "paid").with_data(format!("{{\"number\":{number}}}"));
            producer.give(&Record::of(topic, &tenant_name(of), &event));
        }
    }
    producer.finish();
}

/// Kills the hub once that many requests have come, and starts it again when all its connections are gone, so that
/// each request is known to belong to one life of the hub.
fn kill_at(hub: &mut Hub, tally: &Tally, requests: usize) -> Received {
    let progress = || format!("{requests} requests: {} came", tally.requests());
    patiently(progress, || tally.requests() >= requests);
    hub.kill();
    patiently(|| "the hub's connections to end".to_owned(), || tally.connections() == 0);
    let received = tally.came();
    hub.restart_after_end();
    received
}

fn distinct(tally: &Tally) -> usize {
    let repeats = |numbers: &Vec<Number>| numbers.windows(2).filter(|pair| pair[0] == pair[1]).count();
    tally.came().values().map(|numbers| numbers.len() - repeats(numbers)).sum()
}

/// Every tenant has all numbers in order. One may come twice where a kill fell: with one attempt in flight per
/// subscription it must be the last that came before the kill, coming first after it. Gives the repeats of each kill.
fn judge(came: &Received, kills: &[Received]) -> Vec<u64> {
    assert_eq!(came.len(), TENANTS as usize);
    let mut repeats = vec![0; kills.len()];
    for (tenant, numbers) in came {
        let boundaries: Vec<usize> = kills.iter().map(|received| received.get(tenant).map_or(0, Vec::len)).collect();
        let mut next = 0;
        for (index, number) in numbers.iter().enumerate() {
            let kill = boundaries.iter().position(|boundary| *boundary == index);
            match kill {
                Some(kill) if number + 1 == next => repeats[kill] += 1,
                Some(_) | None => {
                    assert_eq!(
                        *number,
                        next,
                        "{tenant}: request {index} after {:?}",
                        &numbers[..index].last_chunk::<5>()
                    );
                    next += 1;
                }
            }
        }
        assert_eq!(next, EVENTS_PER_TENANT, "{tenant}");
    }
    repeats
}
