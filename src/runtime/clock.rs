//! The clock: the only place of the crate that reads one.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use std::time::{SystemTime, UNIX_EPOCH};

use super::course::{Course, Pace, Reading};
use crate::types::Time;

/// How often the course is held against the wall clock, in microseconds.
const CHECK_US: u64 = 100_000;

/// Wall-clock time that never goes backwards and counts suspension: see [`Course`] for what it does when the
/// machine's clock is set.
///
/// Copies share their course, so times of several threads of one process can be compared.
#[derive(Clone, Copy, Debug)]
pub struct Clock(&'static Shared);

/// Where readings come from, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Source {
    /// The boot clock.
    boot: fn() -> u64,
    /// The wall clock.
    wall: fn() -> u64,
}

impl Source {
    fn read(self) -> Reading {
        Reading { boot_us: (self.boot)(), wall_us: (self.wall)() }
    }
}

/// The course in force, for all threads: read without a lock, changed by whoever finds it due.
///
/// The version is odd while it is being changed. A reader reads the boot clock between two looks at the version, so
/// what it computes is of the course in force at that moment: times of different threads never contradict.
#[derive(Debug)]
struct Shared {
    source: Source,
    version: AtomicU64,
    boot_us: AtomicU64,
    time_us: AtomicU64,
    far_since_us: AtomicU64,
    pace: AtomicU8,
}

impl Clock {
    /// Reads the wall clock; a clock before 1970 counts as 1970.
    #[must_use]
    pub fn start() -> Self {
        Self::reading(Source { boot: boot_us, wall: wall_us })
    }

    /// A clock on a source of readings; what it keeps lives as long as the process.
    fn reading(source: Source) -> Self {
        let Course { boot_us, time_us, pace, far_since_us } = Course::begin(source.read());
        Self(Box::leak(Box::new(Shared {
            source,
            version: AtomicU64::new(0),
            boot_us: AtomicU64::new(boot_us),
            time_us: AtomicU64::new(time_us),
            far_since_us: AtomicU64::new(far_since_us),
            pace: AtomicU8::new(pace_number(pace)),
        })))
    }

    /// The time now, in microseconds.
    #[must_use]
    pub fn now(&self) -> Time {
        let (course, boot_us) = self.0.read();
        if boot_us.saturating_sub(course.boot_us) >= CHECK_US {
            self.0.correct();
        }
        Time(course.at(boot_us))
    }

    /// What is left until `deadline`; zero when it has passed.
    #[must_use]
    pub fn until(&self, deadline: Time) -> std::time::Duration {
        deadline.since(self.now()).to_std()
    }
}

impl Shared {
    /// The course in force, and the boot clock read while it was.
    fn read(&self) -> (Course, u64) {
        loop {
            let before = self.version.load(Ordering::Acquire);
            let course = self.course();
            let boot_us = (self.source.boot)();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return (course, boot_us);
            }
            std::hint::spin_loop();
        }
    }

    fn course(&self) -> Course {
        Course {
            boot_us: self.boot_us.load(Ordering::Relaxed),
            time_us: self.time_us.load(Ordering::Relaxed),
            pace: pace_of(self.pace.load(Ordering::Relaxed)),
            far_since_us: self.far_since_us.load(Ordering::Relaxed),
        }
    }

    /// Holds the course against the wall clock, unless another thread is about it.
    fn correct(&self) {
        let version = self.version.load(Ordering::Relaxed);
        let mine = version.is_multiple_of(2)
            && self.version.compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !mine {
            return;
        }
        fence(Ordering::Release);
        let Course { boot_us, time_us, pace, far_since_us } = self.course().corrected(self.source.read());
        self.boot_us.store(boot_us, Ordering::Relaxed);
        self.time_us.store(time_us, Ordering::Relaxed);
        self.pace.store(pace_number(pace), Ordering::Relaxed);
        self.far_since_us.store(far_since_us, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }
}

const fn pace_number(pace: Pace) -> u8 {
    match pace {
        Pace::Half => 1,
        Pace::Even => 2,
        Pace::Double => 4,
    }
}

const fn pace_of(number: u8) -> Pace {
    match number {
        1 => Pace::Half,
        4 => Pace::Double,
        _ => Pace::Even,
    }
}

/// The machine's boot clock.
fn boot_us() -> u64 {
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(boot.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(boot.tv_nsec).unwrap_or(0) / 1_000
}

/// The machine's wall clock.
#[expect(clippy::disallowed_methods, reason = "this is where time comes in")]
fn wall_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

/// The time now, for threads that are not handed a [`Clock`]: all of them share one, started at the first call.
#[must_use]
pub fn process_time() -> Time {
    static SHARED: std::sync::OnceLock<Clock> = std::sync::OnceLock::new();
    SHARED.get_or_init(Clock::start).now()
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

    #[test]
    fn a_suspension_and_a_step_of_the_wall_clock_are_met_as_the_course_says() {
        static BOOT_US: AtomicU64 = AtomicU64::new(5_000_000);
        static STEP_US: AtomicU64 = AtomicU64::new(1_700_000_000_000_000);
        let boot = || BOOT_US.load(Ordering::SeqCst);
        let wall = || BOOT_US.load(Ordering::SeqCst) + STEP_US.load(Ordering::SeqCst);
        let clock = Clock::reading(Source { boot, wall });
        let began = clock.now();
        BOOT_US.fetch_add(3_600_000_000, Ordering::SeqCst);
        assert_eq!(clock.now().since(began), Duration::from_secs(3_600), "an hour of suspension has passed");
        STEP_US.fetch_sub(10_000_000, Ordering::SeqCst);
        BOOT_US.fetch_add(CHECK_US, Ordering::SeqCst);
        let set_back = clock.now();
        BOOT_US.fetch_add(1_000_000, Ordering::SeqCst);
        assert_eq!(clock.now().since(set_back), Duration::from_millis(500), "it goes on, at half speed");
    }

    #[test]
    fn threads_never_see_time_go_back_while_the_course_changes() {
        static BOOT_US: AtomicU64 = AtomicU64::new(0);
        let boot = || BOOT_US.fetch_add(7, Ordering::SeqCst);
        let wall = || {
            let boot_us = BOOT_US.load(Ordering::SeqCst);
            let wave = if (boot_us / 1_000_000).is_multiple_of(2) { 0 } else { 400_000 };
            1_700_000_000_000_000 + boot_us + wave
        };
        let clock = Clock::reading(Source { boot, wall });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    let mut last = Time::ZERO;
                    for _ in 0..200_000 {
                        let now = clock.now();
                        assert!(now >= last, "{} after {}", now.0, last.0);
                        last = now;
                    }
                });
            }
        });
    }
}
