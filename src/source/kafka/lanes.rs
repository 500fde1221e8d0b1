//! The partitions this process holds, as lanes, and what of them is committed.

use std::collections::BTreeMap;

use super::LaneWatermark;
use super::context::Partition;
use crate::engine::LaneNumber;

/// One assignment of a partition.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) partition: Partition,
    pub(super) watermark: LaneWatermark,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: BTreeMap<LaneNumber, Lane>,
    last: u32,
}

impl Lanes {
    /// A number never given before.
    pub(super) fn next_number(&mut self) -> LaneNumber {
        self.last = self.last.checked_add(1).expect("4 billion assignments are not reached in a process's life");
        LaneNumber(self.last)
    }

    pub(super) fn insert(&mut self, number: LaneNumber, lane: Lane) {
        self.lanes.insert(number, lane);
    }

    pub(super) fn contains(&self, number: LaneNumber) -> bool {
        self.lanes.contains_key(&number)
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LaneNumber, &Lane)> {
        self.lanes.iter().map(|(number, lane)| (*number, lane))
    }

    pub(super) fn get(&self, number: LaneNumber) -> Option<&Lane> {
        self.lanes.get(&number)
    }

    pub(super) fn remove(&mut self, number: LaneNumber) -> Option<Lane> {
        self.lanes.remove(&number)
    }

    /// The numbers of all lanes.
    pub(super) fn numbers(&self) -> Vec<LaneNumber> {
        self.lanes.keys().copied().collect()
    }

    /// The numbers of the lanes of `partitions`.
    pub(super) fn numbers_of(&self, partitions: &[Partition]) -> Vec<LaneNumber> {
        let of_them = self.lanes.iter().filter(|(_, lane)| partitions.contains(&lane.partition));
        of_them.map(|(number, _)| *number).collect()
    }

    /// All positions.
    pub(super) fn positions(&self) -> Vec<(Partition, u64)> {
        self.lanes.values().map(|lane| (lane.partition.clone(), lane.watermark.position())).collect()
    }

    /// Positions the group does not have yet, of the lanes that `concerns` picks.
    pub(super) fn uncommitted(&self, concerns: impl Fn(LaneNumber) -> bool) -> Vec<(Partition, u64)> {
        let lanes = self.lanes.iter().filter(|(number, _)| concerns(**number));
        let positions = lanes.map(|(_, lane)| (lane, lane.watermark.position()));
        let new = positions.filter(|(lane, position)| lane.watermark.committed() != Some(*position));
        new.map(|(lane, position)| (lane.partition.clone(), position)).collect()
    }

    /// The group has `position` of `partition`.
    pub(super) fn note_committed(&self, partition: &Partition, position: u64) {
        for lane in self.lanes.values().filter(|lane| lane.partition == *partition) {
            lane.watermark.note_committed(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_uncommitted_until_the_group_has_it() {
        let mut lanes = Lanes::default();
        let number = lanes.next_number();
        let partition = ("lerian.streaming.loans".to_owned(), 3);
        let watermark = LaneWatermark::new(5);
        watermark.note_committed(5);
        lanes.insert(number, Lane { partition: partition.clone(), watermark: watermark.clone() });
        assert!(lanes.uncommitted(|_| true).is_empty());
        watermark.advance(7);
        assert_eq!(lanes.uncommitted(|_| true), [(partition.clone(), 7)]);
        assert!(lanes.uncommitted(|other| other != number).is_empty());
        lanes.note_committed(&partition, 7);
        assert!(lanes.uncommitted(|_| true).is_empty());
        assert_ne!(lanes.next_number(), number);
    }
}
