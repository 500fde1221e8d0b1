//! Clocks, ids made from them, and waiting for conditions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Generous: reached only by a fault, or by a machine that stands still.
pub const DEADLINE: Duration = Duration::from_secs(40);

const POLL: Duration = Duration::from_millis(10);

#[expect(clippy::disallowed_methods, reason = "tests read the world's clock here, and only here")]
pub fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "tests read the world's clock here, and only here")]
pub fn wall_millis() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    u64::try_from(since_epoch.as_millis()).expect("this century fits")
}

/// A new id of the time, distinct within this process and very likely between processes.
pub fn uuid_v7() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (time, process) = (wall_millis(), u64::from(std::process::id()));
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let low = (process << 24 | number) & 0xffff_ffff_ffff;
    format!("{:08x}-{:04x}-7{:03x}-8{:03x}-{low:012x}", time >> 16, time & 0xffff, process & 0xfff, number & 0xfff)
}

/// Waits until `condition` holds; `what` is told when it never does.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(what, || condition().then_some(()));
}

/// Waits until `find` finds something.
pub fn eventually_some<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let start = now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::sleep(POLL);
    }
}
