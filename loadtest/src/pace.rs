//! When events are meant to be sent. Pure.
//!
//! An open loop has intended times that no answer moves, so that a slow hub cannot make its own measurement
//! kinder (coordinated omission). A closed loop sends as soon as an earlier event has been delivered.

use streaming_hub::types::{Duration, Time};

/// How fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Open loop at a constant rate.
    Steady {
        /// Events a second.
        per_second: f64,
    },
    /// Open loop at a rate that grows, or falls, evenly and then stays.
    Ramp {
        /// Events a second at the beginning.
        from: f64,
        /// Events a second at the end.
        to: f64,
        /// How long it takes.
        over: Duration,
    },
    /// Closed loop.
    Closed {
        /// Events published and not yet delivered, at most.
        outstanding: u64,
    },
}

impl Pace {
    /// How long after the beginning the event of that number is meant to be sent; `None` in a closed loop.
    #[must_use]
    pub fn after(self, event: u64) -> Option<Duration> {
        let number = event as f64;
        let seconds = match self {
            Self::Steady { per_second } => number / per_second,
            Self::Ramp { from, to, over } => ramp_seconds(number, from, to, over.0 as f64 / 1e6),
            Self::Closed { .. } => return None,
        };
        Some(Duration((seconds * 1e6) as u64))
    }

    /// As reports show it.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Steady { per_second } => format!("open loop, {per_second:.0}/s"),
            Self::Ramp { from, to, over } => format!("open loop, {from:.0}/s to {to:.0}/s in {} s", over.as_secs()),
            Self::Closed { outstanding } => format!("closed loop, {outstanding} outstanding"),
        }
    }
}

/// Solves `number = from·t + (to − from)·t²/(2·over)` for `t`, and goes on at `to` behind the ramp.
fn ramp_seconds(number: f64, from: f64, to: f64, over: f64) -> f64 {
    let within = (from + to) / 2.0 * over;
    if number >= within {
        return over + (number - within) / to;
    }
    let growth = (to - from) / over;
    // The form that stays exact when the rate hardly changes.
    2.0 * number / (from + (from * from + 2.0 * growth * number).sqrt())
}

/// When a feed ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Nothing is meant to be sent at or after this time.
    pub at: Time,
    /// Nor more events than this.
    pub events: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(pace: Pace, event: u64) -> u64 {
        pace.after(event).expect("an open loop").0
    }

    #[test]
    fn a_steady_pace_is_even_and_does_not_drift() {
        let pace = Pace::Steady { per_second: 3.0 };
        assert_eq!((micros(pace, 0), micros(pace, 1), micros(pace, 3)), (0, 333_333, 1_000_000));
        assert_eq!(micros(pace, 3_000_000), 1_000_000_000_000);
    }

    #[test]
    fn a_ramp_passes_its_rates() {
        let pace = Pace::Ramp { from: 100.0, to: 300.0, over: Duration::from_secs(10) };
        // 200/s in the mean: 2 000 events in ten seconds, then 300/s.
        assert_eq!(micros(pace, 2_000), 10_000_000);
        assert_eq!(micros(pace, 2_300), 11_000_000);
        let gap = |event| micros(pace, event + 1) - micros(pace, event);
        assert!((9_900..=10_000).contains(&gap(0)), "{}", gap(0));
        assert!((3_333..=3_400).contains(&gap(1_990)), "{}", gap(1_990));
        assert!((0..2_500).all(|event| micros(pace, event) <= micros(pace, event + 1)));
    }

    #[test]
    fn a_ramp_from_nothing_and_a_flat_one_are_ramps() {
        let rise = Pace::Ramp { from: 0.0, to: 200.0, over: Duration::from_secs(10) };
        assert_eq!((micros(rise, 0), micros(rise, 250), micros(rise, 1_000)), (0, 5_000_000, 10_000_000));
        let flat = Pace::Ramp { from: 50.0, to: 50.0, over: Duration::from_secs(10) };
        assert_eq!(micros(flat, 100), 2_000_000);
    }

    #[test]
    fn a_closed_loop_has_no_intended_times() {
        assert_eq!(Pace::Closed { outstanding: 5 }.after(3), None);
    }
}
