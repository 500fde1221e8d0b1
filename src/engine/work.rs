//! What deciding on filters costs, in bytes looked at: counted, so that it can be shared out.
//!
//! A tenant may do so much of it at once (its allowance, which comes back with time); what goes beyond is done
//! slice by slice, tenant by tenant, between everything else that the shard has to do.

use crate::types::Time;

/// Work that may be done without waiting, in all: about a millisecond's.
const BURST: i64 = 1024 * 1024;
/// What comes back of it in each microsecond: a quarter of the time, or so.
const PER_MICROSECOND: i64 = 256;
/// Work of one slice: what everybody else waits for, beside the one step that may go beyond it.
pub const SLICE: i64 = 1024 * 1024;
/// Parsing a byte of JSON costs as much as looking at so many.
const PARSE_COST: i64 = 4;

/// Work that may still be done now; the step that uses it up may go beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    left: i64,
}

impl Work {
    /// So many bytes.
    #[must_use]
    pub const fn new(bytes: i64) -> Self {
        Self { left: bytes }
    }

    /// As much as there is.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self { left: i64::MAX }
    }

    /// Charges a step.
    pub fn charge(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Charges the parsing of a payload.
    pub fn charge_parsing(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(PARSE_COST));
    }

    /// Whether the next step has to wait.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.left <= 0
    }

    /// What is left; below zero when the last step went beyond.
    #[must_use]
    pub const fn left(&self) -> i64 {
        self.left
    }
}

/// What a tenant may do at once.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    level: i64,
    counted_at: Time,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { level: BURST, counted_at: Time::ZERO }
    }
}

impl Allowance {
    /// What may be done at `now`: to be handed back with [`Allowance::put_back`].
    pub fn take(&mut self, now: Time) -> Work {
        let gained = i64::try_from(now.since(self.counted_at).0).unwrap_or(i64::MAX).saturating_mul(PER_MICROSECOND);
        self.level = self.level.saturating_add(gained).min(BURST);
        self.counted_at = self.counted_at.max(now);
        Work::new(self.level)
    }

    /// Notes what is left of it.
    pub const fn put_back(&mut self, work: Work) {
        self.level = work.left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Duration;

    #[test]
    fn what_was_done_beyond_the_allowance_is_waited_for() {
        let mut allowance = Allowance::default();
        let now = Time::from_millis(1_000);
        let mut work = allowance.take(now);
        assert_eq!(work.left(), BURST);
        work.charge_parsing(1024 * 1024);
        assert!(work.is_spent());
        allowance.put_back(work);
        assert!(allowance.take(now).is_spent());
        let debt_us = u64::try_from(3 * BURST / PER_MICROSECOND).expect("positive");
        let repaid = now + Duration(debt_us);
        assert!(allowance.take(repaid).is_spent());
        assert!(!allowance.take(repaid + Duration(1)).is_spent());
        assert_eq!(allowance.take(Time::MAX).left(), BURST, "it does not pile up");
    }
}
