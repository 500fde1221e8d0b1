//! Time as the hub counts it: integer microseconds, wall clock, never going backwards within a process.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// A point in time: microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A span of time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(pub u64);

impl Time {
    /// The Unix epoch, also used as "long ago".
    pub const ZERO: Self = Self(0);
    /// Later than any time the hub meets.
    pub const MAX: Self = Self(u64::MAX);

    /// The time `ms` milliseconds after the epoch, saturating.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000))
    }

    /// Whole milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole seconds since the epoch.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whole minutes since the epoch: the unit of dedup and due buckets.
    #[must_use]
    pub const fn as_minutes(self) -> u64 {
        self.0 / 60_000_000
    }

    /// How long ago `earlier` was; zero when it lies in the future.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// RFC 3339 in UTC with milliseconds, as every API answer shows times.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        let millis = i64::try_from(self.as_millis()).unwrap_or(i64::MAX);
        jiff::Timestamp::from_millisecond(millis)
            .map_or_else(|_| "9999-12-31T23:59:59.999Z".to_owned(), |at| format!("{at:.3}"))
    }

    /// Parses an RFC 3339 text; `None` for anything else and for times before 1970.
    #[must_use]
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let at: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(at.as_microsecond()).ok().map(Self)
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `us` microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us)
    }

    /// `ms` milliseconds, saturating.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000))
    }

    /// `s` seconds, saturating.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000))
    }

    /// `h` hours, saturating.
    #[must_use]
    pub const fn from_hours(h: u64) -> Self {
        Self::from_secs(h.saturating_mul(3_600))
    }

    /// Whole milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole seconds.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// As the standard library's duration.
    #[must_use]
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0)
    }

    /// This span `n` times, saturating.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_has_milliseconds_and_round_trips() {
        let at = Time::from_millis(1_645_557_742_000);
        assert_eq!(at.to_rfc3339(), "2022-02-22T19:22:22.000Z");
        assert_eq!(Time::parse_rfc3339("2022-02-22T19:22:22Z"), Some(at));
        assert_eq!(Time::parse_rfc3339("2022-02-22T20:22:22+01:00"), Some(at));
        assert_eq!(Time::parse_rfc3339("yesterday"), None);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
    }
}
