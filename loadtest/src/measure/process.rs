//! A process as the kernel accounts for it (proc(5)): processor time, memory, bytes written.

use std::collections::BTreeMap;
use std::fs;
use std::iter::Sum;

/// Ticks of `/proc/<pid>/stat` in a second: fixed for user space on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of a process so far, all its threads, ended ones included, in seconds.
#[must_use]
pub fn processor_seconds(process: u32) -> Option<f64> {
    processor_of_stat(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Processor time of the calling thread so far, in seconds.
#[must_use]
pub fn own_thread_seconds() -> f64 {
    let schedule = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedule.split(' ').next().and_then(|first| first.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Processor time of each thread of a process so far, in seconds, by name: those of one pool together.
#[must_use]
pub fn thread_seconds(process: u32) -> BTreeMap<String, f64> {
    let mut spent = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let (name, schedule) = (read("comm"), read("schedstat"));
        let nanoseconds: f64 = schedule.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0);
        *spent.entry(pool(&name)).or_default() += nanoseconds / 1e9;
    }
    spent
}

/// A thread's name without its number.
fn pool(name: &str) -> String {
    name.trim().trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-').to_owned()
}

/// Memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Its share of what it shares, and all it has alone, in KiB.
    pub pss_kib: u64,
    /// All that is resident, in KiB.
    pub rss_kib: u64,
}

impl Sum for Memory {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            pss_kib: sum.pss_kib + one.pss_kib,
            rss_kib: sum.rss_kib + one.rss_kib,
        })
    }
}

/// Memory of a process now.
#[must_use]
pub fn memory(process: u32) -> Option<Memory> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    Some(Memory { pss_kib: field(&text, "Pss:")?, rss_kib: field(&text, "Rss:")? })
}

/// Bytes that a process has had written to storage so far.
#[must_use]
pub fn written_bytes(process: u32) -> Option<u64> {
    field(&fs::read_to_string(format!("/proc/{process}/io")).ok()?, "write_bytes:")
}

/// `utime` and `stime`: fields 14 and 15. The name before them may have blanks and brackets.
fn processor_of_stat(text: &str) -> Option<f64> {
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_stat_are_found_behind_any_name() {
        let text = "12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(processor_of_stat(text), Some(2.0));
        assert_eq!(processor_of_stat("12"), None);
    }

    #[test]
    fn threads_of_a_pool_share_a_name() {
        assert_eq!([pool("shard-0\n"), pool("shard-11"), pool("store-commit")], ["shard", "shard", "store-commit"]);
        assert!(!thread_seconds(std::process::id()).is_empty());
    }

    #[test]
    fn this_process_has_figures() {
        let own = std::process::id();
        assert!(processor_seconds(own).is_some());
        let memory = memory(own).unwrap();
        assert!(memory.pss_kib > 0 && memory.rss_kib >= memory.pss_kib);
        assert!(written_bytes(own).is_some());
        assert_eq!(memory_of_nobody(), None);
    }

    fn memory_of_nobody() -> Option<Memory> {
        memory(u32::MAX)
    }
}
