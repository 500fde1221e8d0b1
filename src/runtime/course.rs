//! How the hub's time runs beside the machine's clocks: steadily, never backwards, and back to the wall clock when
//! that has been set.
//!
//! The base is the boot clock, which counts suspension and is never set. The wall clock says where time should be:
//! when it is ahead, the hub's seconds are half as long until both agree; when it is behind, twice as long. So a
//! wrong wall clock for a moment does little harm, and no timer waits for long. A wall clock that has been more than
//! an hour ahead for a minute is believed at once: it had never been set before.

/// Differences up to this are noise of reading two clocks, in microseconds.
const NOISE_US: u64 = 20_000;
/// A clock ahead by no more than this is followed at once, in microseconds.
const SMALL_US: u64 = 100_000;
/// A clock ahead by more than this had never been set, in microseconds.
const FAR_US: u64 = 3_600_000_000;
/// For so long it must stay ahead, in microseconds.
const FAR_FOR_US: u64 = 60_000_000;

/// Both clocks of the machine, read together, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Since the machine started, suspension included.
    pub boot_us: u64,
    /// Since 1970.
    pub wall_us: u64,
}

/// How fast the hub's time runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Half as fast as the boot clock.
    Half,
    /// As fast.
    Even,
    /// Twice as fast.
    Double,
}

/// A line: from a point on, at a pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Where it begins on the boot clock.
    pub boot_us: u64,
    /// What time it is there.
    pub time_us: u64,
    /// How it goes on.
    pub pace: Pace,
    /// Since when the wall clock has been far ahead, on the boot clock; zero when it is not.
    pub far_since_us: u64,
}

impl Course {
    /// Begins at the wall clock.
    #[must_use]
    pub const fn begin(now: Reading) -> Self {
        Self { boot_us: now.boot_us, time_us: now.wall_us, pace: Pace::Even, far_since_us: 0 }
    }

    /// The time at a moment of the boot clock, which is not before the course's beginning.
    #[must_use]
    pub const fn at(&self, boot_us: u64) -> u64 {
        let passed = boot_us.saturating_sub(self.boot_us);
        let passed = match self.pace {
            Pace::Half => passed / 2,
            Pace::Even => passed,
            Pace::Double => passed.saturating_mul(2),
        };
        self.time_us.saturating_add(passed)
    }

    /// The course from `now` on: it goes on where this one is, or later.
    #[must_use]
    pub const fn corrected(&self, now: Reading) -> Self {
        let time_us = self.at(now.boot_us);
        let ahead_us = now.wall_us.saturating_sub(time_us);
        let behind_us = time_us.saturating_sub(now.wall_us);
        let far_since_us = match (ahead_us > FAR_US, self.far_since_us) {
            (false, _) => 0,
            (true, 0) => now.boot_us,
            (true, since) => since,
        };
        let never_set = far_since_us > 0 && now.boot_us.saturating_sub(far_since_us) >= FAR_FOR_US;
        if never_set || (ahead_us > NOISE_US && ahead_us <= SMALL_US) {
            return Self::begin(now);
        }
        let pace = if ahead_us > SMALL_US {
            Pace::Double
        } else if behind_us > NOISE_US {
            Pace::Half
        } else {
            Pace::Even
        };
        Self { boot_us: now.boot_us, time_us, pace, far_since_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const START: Reading = Reading { boot_us: 77 * SECOND, wall_us: 1_700_000_000 * SECOND };

    /// The machine's clocks after so many seconds, the wall clock set by `step` seconds meanwhile.
    fn after(seconds: u64, step: i64) -> Reading {
        let wall = START.wall_us + seconds * SECOND;
        Reading { boot_us: START.boot_us + seconds * SECOND, wall_us: wall.saturating_add_signed(step * 1_000_000) }
    }

    /// Follows the clocks at ten checks a second; gives the course and each second's time.
    fn follow(mut course: Course, (from, to): (u64, u64), step: i64) -> (Course, Vec<u64>) {
        let mut times = Vec::new();
        for second in from..to {
            times.push(course.at(after(second, step).boot_us));
            for tenth in 0..10 {
                let now = after(second, step);
                let part = tenth * SECOND / 10;
                let now = Reading { boot_us: now.boot_us + part, wall_us: now.wall_us + part };
                let corrected = course.corrected(now);
                assert!(corrected.at(now.boot_us) >= course.at(now.boot_us), "time never goes back");
                course = corrected;
            }
        }
        (course, times)
    }

    #[test]
    fn without_a_step_it_is_the_wall_clock() {
        let (course, _) = follow(Course::begin(START), (0, 100), 0);
        assert_eq!(course.pace, Pace::Even);
        assert_eq!(course.at(after(100, 0).boot_us), after(100, 0).wall_us);
    }

    #[test]
    fn suspension_passes_at_once_since_the_boot_clock_counts_it() {
        let course = Course::begin(START).corrected(after(1, 0));
        assert_eq!(course.at(after(90_000, 0).boot_us), after(90_000, 0).wall_us);
        assert_eq!(course.corrected(after(90_000, 0)).pace, Pace::Even);
    }

    #[test]
    fn a_wall_clock_set_ahead_is_caught_up_with_at_double_speed() {
        let (course, times) = follow(Course::begin(START), (0, 30), 60);
        assert_eq!(course.pace, Pace::Double);
        let gains: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gains.iter().all(|gain| *gain <= 2 * SECOND + SMALL_US), "{gains:?}");
        let (course, _) = follow(course, (30, 70), 60);
        let now = after(70, 60);
        assert!(now.wall_us.abs_diff(course.at(now.boot_us)) <= NOISE_US);
        assert_eq!(course.pace, Pace::Even);
    }

    #[test]
    fn a_wall_clock_set_back_is_waited_for_at_half_speed() {
        let (course, times) = follow(Course::begin(START), (0, 30), -60);
        assert_eq!(course.pace, Pace::Half);
        assert!(times.windows(2).skip(1).all(|pair| pair[1] - pair[0] == SECOND / 2), "timers do not stall: {times:?}");
        let (course, _) = follow(course, (30, 130), -60);
        let now = after(130, -60);
        assert!(now.wall_us.abs_diff(course.at(now.boot_us)) <= NOISE_US);
    }

    #[test]
    fn a_clock_that_was_never_set_is_believed_after_a_minute_and_a_glitch_is_not() {
        const YEARS: i64 = 1_000_000_000;
        let (course, times) = follow(Course::begin(START), (0, 59), YEARS);
        assert!(times[58] - times[0] < 120 * SECOND);
        let (glitch, _) = follow(course, (59, 200), 0);
        assert!(after(200, 0).wall_us.abs_diff(glitch.at(after(200, 0).boot_us)) <= NOISE_US);
        let (set, _) = follow(course, (59, 65), YEARS);
        assert_eq!(set.at(after(65, YEARS).boot_us), after(65, YEARS).wall_us);
    }
}
