//! Many seeds on all cores: each run is by itself, and what they come to is told in the order of the seeds.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What `run` makes of each seed.
pub fn run_all<T: Send>(seeds: &[u64], run: impl Fn(u64) -> T + Sync) -> Vec<(u64, T)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*seed, run(*seed)));
        }
        done
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<(u64, T)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a run's panic is caught")).collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    all
}

/// The seeds of a file (one a line, with a remark behind `#`), then those that the environment asks for.
pub fn asked_for(kept: &str) -> Vec<u64> {
    let kept = kept.lines().filter_map(|line| line.split('#').next()?.trim().parse().ok());
    let first = number("SIM_FIRST").unwrap_or(0);
    kept.chain(first..first + number("SIM_SEEDS").unwrap_or(300)).collect()
}

/// A number in the environment.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
