//! When a job is tried again, and by when it must have ended: contracts, "Retries, circuit, auto-disable".
//!
//! The schedule itself is [`RetryPolicy`]; here it meets time and chance.

use crate::types::{Duration, RetryPolicy, Time, limits};

/// When the attempt after `counted` counted ones is due; `None` when the schedule is exhausted.
///
/// A curve draws uniformly from zero to its step (full jitter), the other schedules wait in full.
#[must_use]
pub fn next_attempt_at(policy: &RetryPolicy, counted: u32, now: Time, rng: &mut fastrand::Rng) -> Option<Time> {
    let longest = Duration::from_secs(policy.delay_s(counted)?);
    let delay = if policy.has_jitter() { Duration(rng.u64(0..=longest.0)) } else { longest };
    Some(now + delay)
}

/// A job's deadline: the larger of [`limits::DEADLINE_MIN`] and the schedule at its longest, after `from`.
#[must_use]
pub fn deadline(policy: &RetryPolicy, from: Time) -> Time {
    from + Duration::from_secs(policy.longest_s()).max(limits::DEADLINE_MIN)
}

/// When to try again after `faults` (from 1) faults of the hub's own in a row: between 1 s and
/// [`limits::HUB_FAULT_RETRY_MAX`], the bounds doubling, drawn uniformly between half and whole.
#[must_use]
pub fn hub_fault_at(faults: u32, now: Time, rng: &mut fastrand::Rng) -> Time {
    let doubled = 1u64.checked_shl(faults.max(1)).unwrap_or(u64::MAX);
    let whole = Duration::from_secs(doubled).min(limits::HUB_FAULT_RETRY_MAX);
    now + Duration(rng.u64(whole.0 / 2..=whole.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::properties::same_cases;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NOW: Time = Time::from_millis(1_000_000);

    fn rng(seed: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(seed)
    }

    #[test]
    fn a_curve_spreads_over_the_whole_step() {
        let policy = RetryPolicy::Curve { steps_s: vec![0, 5] };
        let mut rng = rng(1);
        assert_eq!(next_attempt_at(&policy, 0, NOW, &mut rng), Some(NOW), "the first attempt is due at once");
        let delays: Vec<u64> = (0..1_000)
            .filter_map(|_| next_attempt_at(&policy, 1, NOW, &mut rng))
            .map(|at| at.since(NOW).as_millis())
            .collect();
        assert_eq!(delays.len(), 1_000);
        for fifth in 0..5 {
            let drawn = delays.iter().filter(|delay| **delay / 1_000 == fifth).count();
            assert!((120..280).contains(&drawn), "{drawn} of 1 000 delays in second {fifth}");
        }
        assert_eq!(next_attempt_at(&policy, 2, NOW, &mut rng), None);
    }

    #[test]
    fn the_other_schedules_have_no_jitter() {
        let policy = RetryPolicy::Exponential { intervals_s: vec![30, 300], max_retries: 3 };
        let due: Vec<_> = (1..5)
            .map(|counted| next_attempt_at(&policy, counted, NOW, &mut rng(7)).map(|at| at.since(NOW).as_secs()))
            .collect();
        assert_eq!(due, [Some(30), Some(300), Some(300), None]);
    }

    #[test]
    fn the_deadline_is_a_day_or_the_longest_schedule() {
        let short = RetryPolicy::Fixed { intervals_s: vec![1], max_retries: 1 };
        assert_eq!(deadline(&short, NOW), NOW + Duration::from_hours(24));
        let long = RetryPolicy::default();
        assert_eq!(deadline(&long, NOW), NOW + Duration::from_secs(99_305));
        assert_eq!(deadline(&long, Time::MAX), Time::MAX);
    }

    #[test]
    fn faults_of_the_hub_wait_one_to_sixty_seconds_doubling() {
        let bounds = [(1, 1, 2), (2, 2, 4), (5, 16, 32), (6, 30, 60), (63, 30, 60), (64, 30, 60), (u32::MAX, 30, 60)];
        for (faults, least_s, most_s) in bounds {
            let waits: BTreeSet<Duration> =
                (0..50).map(|seed| hub_fault_at(faults, NOW, &mut rng(seed)).since(NOW)).collect();
            let (first, last) = (waits.first().expect("50 waits"), waits.last().expect("50 waits"));
            assert!(*first >= Duration::from_secs(least_s) && *last <= Duration::from_secs(most_s), "{waits:?}");
            assert!(waits.len() > 40, "spread: {waits:?}");
        }
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn never_early_never_later_than_the_step(
            steps_s in prop::collection::vec(0u32..=36_000, 1..=12), counted in 0u32..20, seed: u64,
        ) {
            let policy = RetryPolicy::Curve { steps_s: steps_s.clone() };
            let at = next_attempt_at(&policy, counted, NOW, &mut rng(seed));
            let step = steps_s.get(usize::try_from(counted).expect("small")).copied();
            prop_assert_eq!(at.is_some(), step.is_some());
            if let (Some(at), Some(step)) = (at, step) {
                prop_assert!(at >= NOW && at.since(NOW) <= Duration::from_secs(u64::from(step)));
            }
        }
    }
}
