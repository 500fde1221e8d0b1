//! Auto-disable: whether a destination has failed for so long that its subscriptions are switched off.
//!
//! A failure span begins at the first failed attempt and any success clears it. It trips on length and
//! spread together, so that neither a short burst nor two lone failures days apart switch anything off at once.

use crate::types::{Duration, Time, limits};

/// When a failure span trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoDisable {
    /// Off: it never trips (`STREAMING_HUB_AUTODISABLE_ENABLED`).
    pub enabled: bool,
    /// The span must have lasted at least this.
    pub window: Duration,
    /// Its first and last failure must lie at least this far apart.
    pub spread: Duration,
}

impl Default for AutoDisable {
    fn default() -> Self {
        Self { enabled: true, window: limits::AUTODISABLE_WINDOW, spread: limits::AUTODISABLE_SPREAD }
    }
}

/// First and last failed attempt of a destination since its last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureSpan(Option<(Time, Time)>);

impl FailureSpan {
    /// The span as it was recorded.
    #[must_use]
    pub const fn restore(record: Option<(Time, Time)>) -> Self {
        Self(record)
    }

    /// What to record of it: first and last failure.
    #[must_use]
    pub const fn record(&self) -> Option<(Time, Time)> {
        self.0
    }

    /// An attempt failed.
    pub fn failed(&mut self, now: Time) {
        let (first, last) = self.0.unwrap_or((now, now));
        self.0 = Some((first, last.max(now)));
    }

    /// An attempt succeeded, or the failures were cleared; returns whether there were any.
    pub fn succeeded(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Whether the subscriptions are to be disabled now.
    #[must_use]
    pub fn trips(&self, settings: &AutoDisable, now: Time) -> bool {
        let Some((first, last)) = self.0 else { return false };
        settings.enabled && now.since(first) >= settings.window && last.since(first) >= settings.spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_millis(1_000_000);

    fn after_hours(hours: u64) -> Time {
        START + Duration::from_hours(hours)
    }

    fn span(failures: &[Time]) -> FailureSpan {
        let mut span = FailureSpan::default();
        for at in failures {
            span.failed(*at);
        }
        span
    }

    #[test]
    fn it_trips_only_on_window_and_spread_together() {
        let settings = AutoDisable::default();
        let spread = span(&[START, after_hours(12)]);
        assert!(!spread.trips(&settings, Time(after_hours(120).0 - 1)), "the window is not over");
        assert!(spread.trips(&settings, after_hours(120)));
        let narrow = span(&[START, Time(after_hours(12).0 - 1)]);
        assert!(!narrow.trips(&settings, after_hours(500)), "a burst is no spread");
        assert!(!FailureSpan::default().trips(&settings, Time::MAX));
    }

    #[test]
    fn many_failures_in_a_minute_do_not_trip() {
        let failures: Vec<Time> = (0..200).map(|n| START + Duration::from_millis(n * 300)).collect();
        assert!(!span(&failures).trips(&AutoDisable::default(), after_hours(121)));
    }

    #[test]
    fn any_success_clears_the_span() {
        let mut span = span(&[START, after_hours(119)]);
        assert!(span.succeeded());
        assert!(!span.succeeded(), "nothing was left to clear");
        span.failed(after_hours(120));
        assert!(!span.trips(&AutoDisable::default(), after_hours(121)));
        assert_eq!(span.record(), Some((after_hours(120), after_hours(120))));
    }

    #[test]
    fn off_means_never() {
        let settings = AutoDisable { enabled: false, ..AutoDisable::default() };
        assert!(!span(&[START, after_hours(200)]).trips(&settings, after_hours(400)));
    }

    #[test]
    fn a_span_survives_its_record() {
        let span = span(&[START, after_hours(3)]);
        assert_eq!(FailureSpan::restore(span.record()), span);
    }
}
