//! Deterministic simulation of the hub: real engines, everything around them modelled, one seed is one run.
//!
//! `SIM_SEEDS=n` runs n seeds instead of 300, from `SIM_FIRST` on; `SIM_SEED=s` runs one and prints its trace, as does
//! `CLUSTER_SEED=s` of several nodes ([`cluster`]). Seeds that ever failed stand in `seeds.txt` and always run.

mod attempts;
mod buckets;
mod checks;
mod circuits;
mod clients;
mod cluster;
mod commanded;
mod config;
mod decisions;
mod dispatches;
mod durable;
mod ending;
mod events;
mod faults;
mod happening;
mod lanes;
mod leased;
mod log;
mod node;
mod oracle;
mod order;
mod overdue;
mod probes;
mod rates;
mod receivers;
mod scenario;
mod seeds;
mod shell;
mod stage;
mod standings;
mod storage;
mod trace;
mod traffic;
mod turns;
mod withdrawn;
mod words;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use checks::{Rule, Violation};
use faults::Fault;
use streaming_hub::types::Time;
use trace::Printed;
use world::Ending;

/// Seeds tried until a deliberate fault must have been seen.
const SEEDS_PER_FAULT: u64 = 60;

#[test]
fn all_promises_hold_in_every_seed() {
    if let Some(seed) = seeds::number("SIM_SEED") {
        let ending = world::run(seed, None, Printed::Yes);
        return assert!(ending.violation.is_none(), "seed {seed}: {:?}", ending.violation);
    }
    let mut failed = Vec::new();
    let mut reached = (0, 0, 0);
    for (seed, ending) in seeds::run_all(&seeds::asked_for(include_str!("seeds.txt")), |seed| attempt(seed, None)) {
        reached = (reached.0 + ending.events, reached.1 + ending.attempts, reached.2 + ending.kills);
        if let Some(violation) = ending.violation {
            println!("seed {seed}: {:?} at {}: {}", violation.rule, violation.at, violation.text);
            failed.push((seed, violation.rule));
        }
    }
    println!("{} events, {} attempts, {} crashes", reached.0, reached.1, reached.2);
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..10 {
        let digests = [attempt(seed, None).digest, attempt(seed, None).digest];
        assert_eq!(digests[0], digests[1], "seed {seed}");
        assert_ne!(digests[0], attempt(seed + 1, None).digest, "seeds {seed} and {}", seed + 1);
    }
}

#[test]
fn every_deliberate_fault_is_seen() {
    for fault in Fault::ALL {
        let seen = (0..SEEDS_PER_FAULT).find_map(|seed| Some((seed, attempt(seed, Some(fault)).violation?)));
        let Some((seed, violation)) = seen else { panic!("{fault:?} is not seen in {SEEDS_PER_FAULT} seeds") };
        println!("{fault:?} is seen in seed {seed}: {:?} {}", violation.rule, violation.text);
        assert!(fault.breaks().contains(&violation.rule), "{fault:?} is seen as {violation:?} in seed {seed}");
    }
}

fn attempt(seed: u64, fault: Option<Fault>) -> Ending {
    catch_unwind(AssertUnwindSafe(|| world::run(seed, fault, Printed::No))).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let text = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
        let violation = Some(Violation { rule: Rule::Panic, at: Time::ZERO, text });
        Ending { violation, digest: (0, 0), events: 0, attempts: 0, kills: 0 }
    })
}
