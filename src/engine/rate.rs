//! A token bucket in exact integers: what a destination's `rate_limit` lets through.
//!
//! It counts in millionths of a token, of which a rate of n a second gains n in each microsecond: nothing is
//! ever rounded, so nothing drifts.

use crate::types::Time;
use crate::types::destination::RateLimit;

/// One token in millionths.
const TOKEN: u64 = 1_000_000;

/// Tokens that come at a steady rate, up to a burst. Starts full.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// Gained in each microsecond, in millionths of a token; at least 1.
    gain: u64,
    /// The most it holds, in millionths; at least one token.
    full: u64,
    /// What it held at `counted_at`, in millionths.
    level: u64,
    counted_at: Time,
}

impl TokenBucket {
    /// A full bucket.
    #[must_use]
    pub fn new(limit: RateLimit, now: Time) -> Self {
        let full = capacity(limit);
        Self { gain: u64::from(limit.per_second.max(1)), full, level: full, counted_at: now }
    }

    /// Goes on under another limit with the tokens gained so far, cut to the new burst.
    pub fn change(&mut self, limit: RateLimit, now: Time) {
        self.count(now);
        self.gain = u64::from(limit.per_second.max(1));
        self.full = capacity(limit);
    }

    /// When a token is there: not after `now` means at once.
    #[must_use]
    pub fn ready_at(&self, now: Time) -> Time {
        let missing = TOKEN.saturating_sub(self.level_at(now));
        let counted_at = self.counted_at.max(now);
        Time(counted_at.0.saturating_add(missing.div_ceil(self.gain)))
    }

    /// Takes a token if there is one.
    pub fn take(&mut self, now: Time) -> bool {
        self.count(now);
        let ready = self.level >= TOKEN;
        if ready {
            self.level -= TOKEN;
        }
        ready
    }

    fn count(&mut self, now: Time) {
        self.level = self.level_at(now);
        self.counted_at = self.counted_at.max(now);
    }

    fn level_at(&self, now: Time) -> u64 {
        let gained = now.since(self.counted_at).0.saturating_mul(self.gain);
        // A token is taken up to a microsecond after it came: what came since must not be cut off.
        self.level.saturating_add(gained).min(self.full + (self.gain - 1))
    }
}

fn capacity(limit: RateLimit) -> u64 {
    u64::from(limit.burst.max(1)) * TOKEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::properties::same_cases;
    use crate::types::Duration;
    use proptest::prelude::*;

    const START: Time = Time::from_millis(1_000_000);

    fn limit(per_second: u32, burst: u32) -> RateLimit {
        RateLimit { per_second, burst }
    }

    #[test]
    fn a_burst_goes_at_once_and_then_the_rate_holds() {
        let mut bucket = TokenBucket::new(limit(10, 3), START);
        assert_eq!((0..4).map(|_| bucket.take(START)).collect::<Vec<_>>(), [true, true, true, false]);
        let ready = START + Duration::from_millis(100);
        assert_eq!(bucket.ready_at(START), ready);
        assert!(!bucket.take(Time(ready.0 - 1)));
        assert!(bucket.take(ready));
        assert!(!bucket.take(ready));
    }

    #[test]
    fn a_rate_that_divides_no_second_does_not_drift() {
        let mut bucket = TokenBucket::new(limit(7, 1), START);
        assert!(bucket.take(START));
        let mut now = START;
        for _ in 0..7_000 {
            now = bucket.ready_at(now);
            assert!(bucket.take(now), "ready means there is a token");
        }
        assert_eq!(now, START + Duration::from_secs(1_000));
    }

    #[test]
    fn a_change_keeps_what_was_gained_within_the_new_burst() {
        let mut bucket = TokenBucket::new(limit(1, 100), START);
        bucket.change(limit(1, 2), START);
        assert_eq!((0..3).map(|_| bucket.take(START)).collect::<Vec<_>>(), [true, true, false]);
        bucket.change(limit(1_000, 2), START);
        assert_eq!(bucket.ready_at(START), START + Duration::from_millis(1));
    }

    #[test]
    fn extremes_saturate() {
        let mut bucket = TokenBucket::new(limit(u32::MAX, u32::MAX), Time::ZERO);
        assert!(bucket.take(Time::MAX));
        assert!(bucket.take(Time::ZERO), "a clock that goes back takes nothing away");
        let mut none = TokenBucket::new(limit(0, 0), Time::MAX);
        assert!(none.take(Time::MAX));
        assert_eq!(none.ready_at(Time::MAX), Time::MAX);
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn never_more_than_burst_plus_rate(
            per_second in 1u32..2_000, burst in 1u32..50, steps in prop::collection::vec(0u64..5_000, 1..200),
        ) {
            let mut bucket = TokenBucket::new(limit(per_second, burst), START);
            let (mut now, mut taken) = (START, 0u64);
            for step in steps {
                now = now + Duration(step);
                let ready = bucket.ready_at(now) <= now;
                prop_assert_eq!(bucket.take(now), ready);
                taken += u64::from(ready);
                let allowed = u64::from(burst) * TOKEN + now.since(START).0 * u64::from(per_second);
                prop_assert!(taken * TOKEN <= allowed);
            }
        }
    }
}
