//! A dead destination costs no memory: `cargo bench --bench dead_destination`.
//!
//! A million events wait for a destination that refuses connections; its circuit is open. The process must stay
//! under 300 MiB, all told: engine, store, runtime.

mod common;
#[path = "common/hub.rs"]
mod hub;

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};

use futures_lite::future::block_on;
use streaming_hub::engine::SettledItem;
use streaming_hub::runtime::Clock;
use streaming_hub::types::Event;
use streaming_hub::types::destination::Ordering;

use common::{destination, event, payload, subscription, tenant};
use hub::RunningHub;

const EVENTS: u64 = 1_000_000;
const BATCH: u64 = 1_000;
const PAYLOAD_BYTES: usize = 200;
const RSS_MAX_MIB: u64 = 300;

fn main() {
    let clock = Clock::start();
    let running = RunningHub::start(256, clock);
    let owner = tenant(0);
    let dead = destination(&owner, 0, &format!("http://127.0.0.1:{}/", free_port()), Ordering::Parallel);
    running.configure(dead, subscription(&owner, 0, "loan.approved"));
    let begun = clock.now();
    let mut highest = 0;
    for first in (0..EVENTS).step_by(BATCH as usize) {
        let now = clock.now();
        let make = |number| event(&owner, number, "loan.approved", now, payload(PAYLOAD_BYTES));
        let events: Vec<Event> = (first..first + BATCH).map(make).collect();
        let items = block_on(running.shards.arrive(&owner, events));
        assert!(items.iter().all(|item| matches!(item, SettledItem::Stored(_))), "every event is taken in");
        highest = highest.max(resident_mib());
    }
    let seconds = clock.now().since(begun).to_std().as_secs_f64();
    let reports = block_on(running.shards.report());
    let report = reports.first().expect("one shard");
    let waiting = report.counters.jobs_made.iter().map(|(_, n)| n).sum::<u64>();
    assert_eq!(waiting, EVENTS, "every event made a job");
    assert_eq!(report.counters.jobs_ended.iter().count(), 0, "every job waits");
    let line = format!(
        "{EVENTS} events wait for a dead destination: {highest} MiB resident at most, {} jobs in memory, \
         {:.0} events/s",
        report.jobs,
        EVENTS as f64 / seconds,
    );
    writeln!(std::io::stdout(), "{line}").expect("the terminal takes a line");
    assert!(highest < RSS_MAX_MIB, "{highest} MiB, more than {RSS_MAX_MIB}");
    running.hub.stop(std::time::Duration::from_secs(5)).expect("the hub stops");
}

/// A port that nothing listens on.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// Resident memory of this process (proc(5), `statm`).
fn resident_mib() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = pages.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(u64::MAX / 4_096);
    (pages * 4_096) >> 20
}
