//! The watermark of one lane: how far its position may move.
//!
//! Records are read in order and settled in any order. The position never passes a record that was read and
//! is not settled. The caller pauses the lane at [`crate::types::limits::LANE_OPEN_RECORDS`].

use std::collections::VecDeque;

use crate::types::LaneName;

/// One lane's records between its position and the newest read.
#[derive(Debug)]
pub struct Lane {
    name: LaneName,
    /// Everything before it is settled.
    position: u64,
    /// Lower offsets have been read already.
    next: u64,
    /// Records from the oldest that is not settled to the newest read, ascending; the first is not settled.
    records: VecDeque<LaneEntry>,
}

#[derive(Clone, Copy, Debug)]
struct LaneEntry {
    offset: u64,
    settled: bool,
}

impl Lane {
    /// A lane whose first record will be at `position` or later.
    #[must_use]
    pub const fn new(name: LaneName, position: u64) -> Self {
        Self { name, position, next: position, records: VecDeque::new() }
    }

    /// The lane's lasting name.
    #[must_use]
    pub const fn name(&self) -> &LaneName {
        &self.name
    }

    /// The next offset to read after a restart: every record before it is settled.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Records from the oldest that is not settled to the newest read: what the lane's bound counts.
    #[must_use]
    pub fn open(&self) -> usize {
        self.records.len()
    }

    /// Notes a record as read; gaps are allowed. Returns false, and ignores it, when it was read before.
    pub fn read(&mut self, offset: u64) -> bool {
        let new = offset >= self.next && offset < u64::MAX;
        if new {
            self.records.push_back(LaneEntry { offset, settled: false });
            self.next = offset + 1;
        }
        new
    }

    /// Notes a record as durable, dropped or quarantined; unknown and repeated offsets are ignored. Returns
    /// whether the position moved.
    pub fn settle(&mut self, offset: u64) -> bool {
        if let Ok(index) = self.records.binary_search_by_key(&offset, |record| record.offset) {
            self.records[index].settled = true;
        }
        let before = self.position;
        while self.records.pop_front_if(|record| record.settled).is_some() {
            self.position = self.records.front().map_or(self.next, |record| record.offset);
        }
        self.position != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::properties::same_cases;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn lane(position: u64) -> Lane {
        Lane::new(LaneName("http/0".into()), position)
    }

    #[test]
    fn the_position_waits_for_the_oldest() {
        let mut lane = lane(5);
        assert!(lane.read(5) && lane.read(6) && lane.read(7));
        assert!(!lane.settle(6));
        assert!(!lane.settle(7));
        assert_eq!((lane.position(), lane.open()), (5, 3));
        assert!(lane.settle(5));
        assert_eq!((lane.position(), lane.open()), (8, 0));
    }

    #[test]
    fn gaps_are_skipped() {
        let mut lane = lane(0);
        assert!(lane.read(10) && lane.read(20));
        assert_eq!(lane.position(), 0);
        assert!(lane.settle(10));
        assert_eq!(lane.position(), 20);
        assert!(lane.settle(20));
        assert_eq!(lane.position(), 21);
    }

    #[test]
    fn repeated_and_unknown_offsets_are_ignored() {
        let mut lane = lane(3);
        assert!(!lane.read(2), "before the position");
        assert!(lane.read(4));
        assert!(!lane.read(4) && !lane.read(3), "read again after a rebalance");
        assert!(!lane.settle(3) && !lane.settle(9));
        assert!(lane.settle(4));
        assert!(!lane.settle(4));
        assert_eq!(lane.position(), 5);
        assert!(!lane.read(u64::MAX), "no offset comes after it");
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn agrees_with_a_set(steps in prop::collection::vec((any::<bool>(), 0u64..40), 0..300)) {
            let mut lane = lane(0);
            let (mut read, mut settled) = (BTreeSet::new(), BTreeSet::new());
            for (is_read, offset) in steps {
                let before = lane.position();
                if is_read {
                    let new = read.last().is_none_or(|last| offset > *last);
                    prop_assert_eq!(lane.read(offset), new);
                    if new {
                        read.insert(offset);
                    }
                } else {
                    let moved = lane.settle(offset);
                    if read.contains(&offset) {
                        settled.insert(offset);
                    }
                    prop_assert_eq!(moved, lane.position() != before);
                }
                let oldest = read.difference(&settled).next().copied();
                let expected = oldest.or_else(|| read.last().map(|last| last + 1)).unwrap_or(0);
                prop_assert!(lane.position() <= expected, "never past an open record");
                if !is_read && settled.contains(&offset) {
                    prop_assert!(lane.position() == expected || oldest.is_some_and(|o| lane.position() < o));
                }
                prop_assert_eq!(lane.open(), oldest.map_or(0, |o| read.range(o..).count()));
            }
        }
    }
}
