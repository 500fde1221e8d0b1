//! Processor time by thread.

use std::collections::BTreeMap;
use std::fs;

/// Processor time of each thread of this process so far, in seconds, by name (proc(5), `schedstat`).
pub fn processor_seconds() -> BTreeMap<String, f64> {
    processor_seconds_of("self")
}

/// The same of a process by its number.
pub fn processor_seconds_of(process: &str) -> BTreeMap<String, f64> {
    let mut spent = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let (name, schedule) = (read("comm"), read("schedstat"));
        let nanoseconds: f64 = schedule.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0);
        // Executors number their threads.
        let name = name.trim().trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        *spent.entry(name.to_owned()).or_default() += nanoseconds / 1e9;
    }
    spent
}

/// What was spent since `before`, by thread.
pub fn spent_since(before: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let mut spent = processor_seconds();
    for (name, seconds) in &mut spent {
        *seconds -= before.get(name).copied().unwrap_or(0.0);
    }
    spent.retain(|_, seconds| *seconds > 0.0005);
    spent
}
