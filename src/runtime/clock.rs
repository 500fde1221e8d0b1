//! The clock: the only place of the crate that reads one.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::types::Time;

/// Wall-clock time that never goes backwards: the wall clock at the start plus what has passed since.
///
/// Copies share their origin, so times of several threads of one process can be compared.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Time,
    origin: Instant,
}

impl Clock {
    /// Reads the wall clock once; a clock before 1970 counts as 1970.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is where time comes in")]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall: Time(micros(since_epoch)), origin: Instant::now() }
    }

    /// The time now, in microseconds.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(self.wall.0.saturating_add(micros(self.origin.elapsed())))
    }

    /// What is left until `deadline`; zero when it has passed.
    #[must_use]
    pub fn until(&self, deadline: Time) -> std::time::Duration {
        deadline.since(self.now()).to_std()
    }
}

/// The time now, for threads that are not handed a [`Clock`]: all of them share one, started at the first call.
#[must_use]
pub fn process_time() -> Time {
    static SHARED: std::sync::OnceLock<Clock> = std::sync::OnceLock::new();
    SHARED.get_or_init(Clock::start).now()
}

fn micros(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Duration;

    #[test]
    fn the_clock_advances_and_copies_agree() {
        let clock = Clock::start();
        let copy = clock;
        let first = clock.now();
        let second = copy.now();
        assert!(first <= second, "{first} is not after {second}");
        assert!(first > Time::from_millis(1_700_000_000_000), "the wall clock is not set");
        assert_eq!(clock.until(first), std::time::Duration::ZERO);
        assert!(clock.until(first + Duration::from_secs(60)) > std::time::Duration::from_secs(50));
    }
}
