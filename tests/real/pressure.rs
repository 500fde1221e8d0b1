//! A backlog for a destination that fails: it costs disk, not memory, and holds up nobody on the same partition.

use std::time::Duration;

use serde_json::json;

use super::broker::Broker;
use super::harness::{CloudEvent, Hub};
use super::patience::{patiently, within};
use super::record::Record;
use super::stage::{Stage, is_read_up, subscribe};
use super::tally::{SECRET, Tally};

/// Far more than a queue keeps in memory; 240 MB of payload.
const BACKLOG: u64 = 30_000;
const PAYLOAD_BYTES: usize = 8 * 1024;
/// One event of the neighbour after so many of the backlog.
const NEIGHBOUR_EVERY: u64 = 100;
const MEMORY_MAX_MIB: u64 = 300;
/// The neighbour's last event is delivered this long after all is read, at most.
const NEIGHBOUR_MAX: Duration = Duration::from_secs(30);

#[test]
fn a_failing_destination_costs_no_memory_and_delays_no_neighbour() {
    let broker = Broker::shared();
    let (stage, tally) = (Stage::new(), Tally::start());
    let topic = stage.topic("loans");
    broker.create_topic(&topic, 1);
    let mut hub = stage.setup().start();
    let failing = subscribe(
        &hub,
        "failing",
        &tally.url("failing"),
        json!({
            "secret": SECRET, "ordering": "parallel", "max_in_flight": 64,
            "retry": {"type": "fixed", "intervals_s": [1], "max_retries": 100},
        }),
    );
    let neighbour = subscribe(&hub, "neighbour", &tally.url("neighbour"), json!({"secret": SECRET}));
    tally.fail("failing");
    produce(&broker, &topic);
    patiently(|| "the backlog to be read".to_owned(), || is_read_up(&hub, 1));
    let neighbours = usize::try_from(BACKLOG / NEIGHBOUR_EVERY).expect("few");
    let progress = || format!("the neighbour's {neighbours}: {} came", tally.requests_of("neighbour"));
    within(NEIGHBOUR_MAX, progress, || tally.requests_of("neighbour") == neighbours);
    assert_eq!(tally.requests_of("failing"), 0);
    let peak_mib = peak_mib(&hub);
    println!("{BACKLOG} events of {PAYLOAD_BYTES} B waiting: {peak_mib} MiB at most");
    assert!(peak_mib < MEMORY_MAX_MIB, "{peak_mib} MiB");
    neighbour.wait_for_delivered(neighbours);
    hub.restart();
    tally.heal("failing");
    let destinations = failing.all("/v1/destinations", "");
    let reset = format!("/v1/destinations/{}/circuit/reset", destinations[0]["id"].as_str().expect("an id"));
    failing.api.post(&reset, &json!({})).expect(200);
    let all = usize::try_from(BACKLOG).expect("few");
    let progress = || format!("the backlog of {all}: {} came", tally.requests_of("failing"));
    patiently(progress, || tally.requests_of("failing") >= all);
    let mut numbers = tally.came()["failing"].clone();
    numbers.sort_unstable();
    assert!(numbers == (0..BACKLOG).collect::<Vec<_>>(), "{} requests for {all} events", numbers.len());
    assert_eq!(tally.requests_of("neighbour"), neighbours);
}

fn produce<Guard>(broker: &Broker<Guard>, topic: &str) {
    let producer = broker.producer();
    let filling = "x".repeat(PAYLOAD_BYTES);
    let give = |tenant, number| {
        let data = format!("{{\"number\":{number},\"filling\":\"{filling}\"}}");
        producer.give(&Record::of(topic, tenant, &CloudEvent::new("loan", "paid").with_data(data)));
    };
    for number in 0..BACKLOG {
        give("failing", number);
        if number % NEIGHBOUR_EVERY == NEIGHBOUR_EVERY - 1 {
            give("neighbour", number / NEIGHBOUR_EVERY);
        }
    }
    producer.finish();
}

/// The most memory that the hub's process has ever had resident.
fn peak_mib(hub: &Hub) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", hub.process_id())).expect("the hub runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells the peak");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib / 1024
}
