//! Who owns a slot, counted, and the timestamps that keep the writes of two owners apart.
//!
//! A server keeps, of two writes to one cell, the one with the later timestamp. Those of rows that an owner
//! changes (its record, cursors, destinations) are therefore no clock's: the owner's epoch stands in the high
//! bits, a count of its batches in the low ones. A former owner's late write never hides a later owner's.
//!
//! They stay below 2^50, which as microseconds is September 2005: `ScyllaDB` refuses timestamps in the future.

/// How many bits count the batches of one epoch: 25 days at 500 a second. Who has used them up takes the slot anew.
const COUNT_BITS: u32 = 30;
/// How many bits hold the epoch: a take-over an hour for a century.
const EPOCH_BITS: u32 = 20;

/// Counts the owners of a slot, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The first owner's.
    pub const FIRST: Self = Self(1);

    /// The next owner's; `None` when timestamps have no room for it.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        let next = self.0 + 1;
        (next < 1 << EPOCH_BITS).then_some(Self(next))
    }
}

/// The timestamps of one owner, each greater than all before.
#[derive(Clone, Copy, Debug)]
pub struct Stamps {
    epoch: Epoch,
    used: u32,
}

impl Stamps {
    /// The timestamps of the owner with this epoch.
    #[must_use]
    pub const fn new(epoch: Epoch) -> Self {
        Self { epoch, used: 0 }
    }

    /// The owner's epoch.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The next timestamp; `None` when the epoch has no more.
    pub fn stamp(&mut self) -> Option<i64> {
        if self.used >> COUNT_BITS != 0 {
            return None;
        }
        let stamp = (i64::from(self.epoch.0) << COUNT_BITS) | i64::from(self.used);
        self.used += 1;
        Some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_owner_s_first_timestamp_is_above_all_of_an_earlier_one() {
        let mut earlier = Stamps { epoch: Epoch(7), used: (1 << COUNT_BITS) - 1 };
        let last = earlier.stamp().expect("one is left");
        assert_eq!(earlier.stamp(), None);
        assert!(Stamps::new(Epoch(8)).stamp() > Some(last));
    }

    #[test]
    fn timestamps_are_no_time_of_the_future() {
        let mut last = Stamps { epoch: Epoch((1 << EPOCH_BITS) - 1), used: (1 << COUNT_BITS) - 1 };
        assert!(last.stamp().expect("one is left") < 1 << 50);
        assert_eq!(last.epoch().next(), None);
        assert_eq!(Epoch::FIRST.next(), Some(Epoch(2)));
    }
}
