//! The hub as a cluster: nodes that own slots on a lease, and die, stall, come and go; a group that assigns slots; a store
//! whose partitions are each atomic and nothing more, and whose writes arrive late or are not known to have arrived.
//!
//! Like the simulation of one node, one seed is one run. What is watched is what a cluster adds to a node's promises.

mod attempts;
mod checks;
mod commands;
mod faults;
mod group;
mod membership;
mod node;
mod receivers;
mod scenario;
mod shell;
mod store;
mod traffic;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::seeds;
use crate::trace::Printed;
use checks::{Rule, Violation};
use faults::Fault;
use streaming_hub::types::Time;
use world::Ending;

/// Seeds tried until a deliberate fault must have been seen.
const SEEDS_PER_FAULT: u64 = 1_000;

#[test]
fn all_promises_hold_in_a_cluster_in_every_seed() {
    if let Some(seed) = seeds::number("CLUSTER_SEED") {
        let ending = world::run(seed, None, Printed::Yes);
        return assert!(ending.violation.is_none(), "seed {seed}: {:?}", ending.violation);
    }
    let mut failed = Vec::new();
    let mut reached = (0, 0, 0, 0);
    for (seed, ending) in seeds::run_all(&seeds::asked_for(include_str!("seeds.txt")), |seed| attempt(seed, None)) {
        reached.0 += ending.events;
        reached.1 += ending.attempts;
        reached.2 += ending.kills;
        reached.3 += ending.takes;
        if let Some(violation) = ending.violation {
            println!("cluster seed {seed}: {:?} at {}: {}", violation.rule, violation.at, violation.text);
            failed.push((seed, violation.rule));
        }
    }
    println!("{} events, {} attempts, {} crashes, {} slots taken", reached.0, reached.1, reached.2, reached.3);
    assert!(failed.is_empty(), "cluster seeds that failed: {failed:?}");
}

#[test]
fn the_same_cluster_seed_gives_the_same_trace() {
    for seed in 0..10 {
        let digests = [attempt(seed, None).digest, attempt(seed, None).digest];
        assert_eq!(digests[0], digests[1], "seed {seed}");
        assert_ne!(digests[0], attempt(seed + 1, None).digest, "seeds {seed} and {}", seed + 1);
    }
}

#[test]
fn every_deliberate_fault_of_a_cluster_is_seen() {
    for fault in Fault::ALL {
        let seen = (0..SEEDS_PER_FAULT).find_map(|seed| Some((seed, attempt(seed, Some(fault)).violation?)));
        let Some((seed, violation)) = seen else { panic!("{fault:?} is not seen in {SEEDS_PER_FAULT} seeds") };
        println!("{fault:?} is seen in cluster seed {seed}: {:?} {}", violation.rule, violation.text);
        assert!(fault.breaks().contains(&violation.rule), "{fault:?} is seen as {violation:?} in seed {seed}");
    }
}

fn attempt(seed: u64, fault: Option<Fault>) -> Ending {
    catch_unwind(AssertUnwindSafe(|| world::run(seed, fault, Printed::No))).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let text = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
        let violation = Some(Violation { rule: Rule::Panic, at: Time::ZERO, text });
        Ending { violation, ..Ending::default() }
    })
}
