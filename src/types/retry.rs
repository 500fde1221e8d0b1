//! When a failed attempt is tried again: the schedule as a value.

use serde::{Deserialize, Serialize};

use super::limits;

/// A retry schedule. Delays are in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum RetryPolicy {
    /// `steps_s[i]` is the longest delay before attempt i, drawn uniformly from zero up (full jitter).
    Curve {
        /// 1 to 12 delays of 0 to 36 000 s.
        steps_s: Vec<u32>,
    },
    /// Waits `intervals_s[min(n − 1, last)]` before retry n.
    Exponential {
        /// 1 to 20 delays of 1 to 86 400 s.
        intervals_s: Vec<u32>,
        /// 0 to 100 retries.
        max_retries: u32,
    },
    /// Waits `intervals_s[0] × n` before retry n.
    Linear {
        /// 1 to 20 delays of 1 to 86 400 s.
        intervals_s: Vec<u32>,
        /// 0 to 100 retries.
        max_retries: u32,
    },
    /// Waits `intervals_s[0]` before each retry.
    Fixed {
        /// 1 to 20 delays of 1 to 86 400 s.
        intervals_s: Vec<u32>,
        /// 0 to 100 retries.
        max_retries: u32,
    },
}

/// Why a schedule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetryPolicyError {
    /// Too few or too many steps of a curve.
    #[error("steps_s must have 1 to {max} entries", max = limits::RETRY_CURVE_STEPS_MAX)]
    Steps,
    /// A step of a curve is too long.
    #[error("each step must be at most {max} s", max = limits::RETRY_CURVE_STEP_MAX_S)]
    Step,
    /// Too few or too many intervals.
    #[error("intervals_s must have 1 to {max} entries", max = limits::RETRY_INTERVALS_MAX)]
    Intervals,
    /// An interval is out of range.
    #[error("each interval must be 1 to {max} s", max = limits::RETRY_INTERVAL_MAX_S)]
    Interval,
    /// Too many retries.
    #[error("max_retries must be at most {max}", max = limits::RETRIES_MAX)]
    Retries,
    /// The schedule at its longest outlasts the payload.
    #[error("the schedule may last {longest_s} s, longer than the payload is kept less a day ({allowed_s} s)")]
    OutlivesPayload {
        /// The schedule at its longest.
        longest_s: u64,
        /// What payload retention allows.
        allowed_s: u64,
    },
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::Curve { steps_s: vec![0, 5, 300, 1_800, 7_200, 18_000, 36_000, 36_000] }
    }
}

impl RetryPolicy {
    /// Checks the ranges, and that the schedule ends a day before a payload kept `payload_retention_s` does.
    ///
    /// # Errors
    /// The first [`RetryPolicyError`] that applies.
    pub fn check(&self, payload_retention_s: u64) -> Result<(), RetryPolicyError> {
        match self {
            Self::Curve { steps_s } => check_curve(steps_s)?,
            Self::Exponential { intervals_s, max_retries }
            | Self::Linear { intervals_s, max_retries }
            | Self::Fixed { intervals_s, max_retries } => check_intervals(intervals_s, *max_retries)?,
        }
        let longest_s = self.longest_s();
        let allowed_s = payload_retention_s.saturating_sub(limits::EXPIRY_MARGIN.as_secs());
        if longest_s > allowed_s { Err(RetryPolicyError::OutlivesPayload { longest_s, allowed_s }) } else { Ok(()) }
    }

    /// How many attempts the schedule allows in all, at least 1.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        match self {
            Self::Curve { steps_s } => u32::try_from(steps_s.len()).unwrap_or(u32::MAX).max(1),
            Self::Exponential { max_retries, .. }
            | Self::Linear { max_retries, .. }
            | Self::Fixed { max_retries, .. } => max_retries.saturating_add(1),
        }
    }

    /// The longest delay, in seconds, before the attempt that follows `attempts` counted ones (so `attempts` ≥ 1
    /// for retries and 0 for the first attempt); `None` when the schedule is exhausted.
    #[must_use]
    pub fn delay_s(&self, attempts: u32) -> Option<u64> {
        if attempts >= self.attempts() {
            return None;
        }
        let at = |list: &[u32], index: u32| {
            let last = list.len().saturating_sub(1);
            let index = usize::try_from(index).unwrap_or(usize::MAX).min(last);
            list.get(index).map_or(0, |delay| u64::from(*delay))
        };
        let delay = match self {
            Self::Curve { steps_s } => at(steps_s, attempts),
            Self::Exponential { .. } | Self::Linear { .. } | Self::Fixed { .. } if attempts == 0 => 0,
            Self::Exponential { intervals_s, .. } => at(intervals_s, attempts - 1),
            Self::Linear { intervals_s, .. } => at(intervals_s, 0).saturating_mul(u64::from(attempts)),
            Self::Fixed { intervals_s, .. } => at(intervals_s, 0),
        };
        Some(delay)
    }

    /// Whether delays are drawn uniformly from zero up rather than waited in full.
    #[must_use]
    pub const fn has_jitter(&self) -> bool {
        matches!(self, Self::Curve { .. })
    }

    /// The sum of all delays at their longest, in seconds.
    #[must_use]
    pub fn longest_s(&self) -> u64 {
        (0..self.attempts()).filter_map(|attempts| self.delay_s(attempts)).fold(0, u64::saturating_add)
    }
}

fn check_curve(steps_s: &[u32]) -> Result<(), RetryPolicyError> {
    if steps_s.is_empty() || steps_s.len() > limits::RETRY_CURVE_STEPS_MAX {
        return Err(RetryPolicyError::Steps);
    }
    if steps_s.iter().any(|step| *step > limits::RETRY_CURVE_STEP_MAX_S) {
        return Err(RetryPolicyError::Step);
    }
    Ok(())
}

fn check_intervals(intervals_s: &[u32], max_retries: u32) -> Result<(), RetryPolicyError> {
    if intervals_s.is_empty() || intervals_s.len() > limits::RETRY_INTERVALS_MAX {
        return Err(RetryPolicyError::Intervals);
    }
    if intervals_s.iter().any(|interval| *interval == 0 || *interval > limits::RETRY_INTERVAL_MAX_S) {
        return Err(RetryPolicyError::Interval);
    }
    if max_retries > limits::RETRIES_MAX { Err(RetryPolicyError::Retries) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEEK_S: u64 = 7 * 86_400;

    #[test]
    fn the_default_curve_has_eight_attempts() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.attempts(), 8);
        assert_eq!((0..9).map(|n| policy.delay_s(n)).collect::<Vec<_>>()[..3], [Some(0), Some(5), Some(300)]);
        assert_eq!(policy.delay_s(8), None);
        assert_eq!(policy.check(WEEK_S), Ok(()));
    }

    #[test]
    fn the_three_interval_kinds_count_retries_from_one() {
        let intervals_s = vec![30, 300, 1_800];
        let exponential = RetryPolicy::Exponential { intervals_s: intervals_s.clone(), max_retries: 5 };
        assert_eq!(
            (0..7).map(|n| exponential.delay_s(n)).collect::<Vec<_>>(),
            [Some(0), Some(30), Some(300), Some(1_800), Some(1_800), Some(1_800), None]
        );
        let linear = RetryPolicy::Linear { intervals_s: intervals_s.clone(), max_retries: 3 };
        assert_eq!((1..5).map(|n| linear.delay_s(n)).collect::<Vec<_>>(), [Some(30), Some(60), Some(90), None]);
        let fixed = RetryPolicy::Fixed { intervals_s, max_retries: 2 };
        assert_eq!((1..4).map(|n| fixed.delay_s(n)).collect::<Vec<_>>(), [Some(30), Some(30), None]);
    }

    #[test]
    fn each_bound_has_its_error() {
        let curve = |steps_s: Vec<u32>| RetryPolicy::Curve { steps_s }.check(WEEK_S);
        assert_eq!(curve(vec![]), Err(RetryPolicyError::Steps));
        assert_eq!(curve(vec![0; 13]), Err(RetryPolicyError::Steps));
        assert_eq!(curve(vec![36_001]), Err(RetryPolicyError::Step));
        let fixed = |intervals_s: Vec<u32>, max_retries| RetryPolicy::Fixed { intervals_s, max_retries }.check(WEEK_S);
        assert_eq!(fixed(vec![], 1), Err(RetryPolicyError::Intervals));
        assert_eq!(fixed(vec![0], 1), Err(RetryPolicyError::Interval));
        assert_eq!(fixed(vec![1], 101), Err(RetryPolicyError::Retries));
        assert_eq!(
            fixed(vec![86_400], 7),
            Err(RetryPolicyError::OutlivesPayload { longest_s: 7 * 86_400, allowed_s: 6 * 86_400 })
        );
    }
}
