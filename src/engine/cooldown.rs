//! How long a circuit stays open: contracts, section 7, "Circuit".

use crate::types::destination::CircuitSettings;
use crate::types::{Duration, limits};

/// The cooldown of a circuit that opens.
#[must_use]
pub const fn first(settings: &CircuitSettings) -> Duration {
    Duration::from_millis(settings.cooldown_ms as u64)
}

/// The cooldown after `last`, whose probe failed: twice as long, up to [`limits::CIRCUIT_COOLDOWN_CEILING`] or to the
/// set one where that is longer.
#[must_use]
pub fn longer(last: Duration, settings: &CircuitSettings) -> Duration {
    let ceiling = limits::CIRCUIT_COOLDOWN_CEILING.max(first(settings));
    last.times(2).clamp(first(settings), ceiling)
}

/// `span` ± [`limits::CIRCUIT_JITTER_PERCENT`], drawn uniformly.
#[must_use]
pub fn jittered(span: Duration, rng: &mut fastrand::Rng) -> Duration {
    let least = span.0 / 100 * (100 - limits::CIRCUIT_JITTER_PERCENT);
    let spread = span.0 / 100 * (2 * limits::CIRCUIT_JITTER_PERCENT);
    Duration(least + rng.u64(0..=spread))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(cooldown_ms: u32) -> CircuitSettings {
        CircuitSettings { cooldown_ms, ..CircuitSettings::default() }
    }

    #[test]
    fn it_doubles_up_to_ten_minutes() {
        let settings = settings(60_000);
        let mut cooldown = first(&settings);
        let longer = [(); 5].map(|()| {
            cooldown = longer(cooldown, &settings);
            cooldown.as_secs()
        });
        assert_eq!(longer, [120, 240, 480, 600, 600]);
    }

    #[test]
    fn a_longer_set_cooldown_is_its_own_ceiling() {
        let hour = Duration::from_hours(1);
        assert_eq!(longer(hour, &settings(3_600_000)), hour);
        assert_eq!(longer(Duration(u64::MAX), &settings(1_000)), limits::CIRCUIT_COOLDOWN_CEILING);
    }

    #[test]
    fn a_cooldown_raised_meanwhile_is_the_least() {
        assert_eq!(longer(Duration::from_secs(1), &settings(60_000)), Duration::from_secs(60));
    }

    #[test]
    fn the_jitter_spreads_over_a_tenth_to_both_sides() {
        let mut rng = fastrand::Rng::with_seed(11);
        let spans: Vec<u64> = (0..1_000).map(|_| jittered(Duration::from_secs(60), &mut rng).as_millis()).collect();
        assert!(spans.iter().all(|ms| (54_000..=66_000).contains(ms)));
        for tenth in 0..10 {
            let drawn = spans.iter().filter(|ms| (**ms - 54_000) / 1_200 == tenth).count();
            assert!((60..150).contains(&drawn), "{drawn} of 1 000 in part {tenth}");
        }
    }
}
