//! Waiting for conditions that take longer than a request: whole backlogs, consumer groups, brokers that come back.

use std::time::Duration;

use super::harness::time::now;

/// Reached only by a fault, or by a machine that stands still.
pub const LONG: Duration = Duration::from_secs(240);

const POLL: Duration = Duration::from_millis(20);

/// Waits until `condition` holds; `what` tells what has become of it when it never does.
pub fn patiently(what: impl Fn() -> String, condition: impl FnMut() -> bool) {
    within(LONG, what, condition);
}

/// The same with a limit of its own.
pub fn within(limit: Duration, what: impl Fn() -> String, mut condition: impl FnMut() -> bool) {
    let start = now();
    while !condition() {
        assert!(start.elapsed() < limit, "waited {limit:?} in vain for {}", what());
        std::thread::sleep(POLL);
    }
}
