//! What is known of each lane of this process beside its shard: committed offset, lag, and whether it is stalled.
//!
//! For reports only; nothing is decided from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::LaneWatermark;
use crate::types::{LaneName, Time, limits};

/// The lanes of one consumer; clones are the same board.
#[derive(Clone, Debug, Default)]
pub struct LaneBoard(Arc<Mutex<BTreeMap<Box<str>, Posted>>>);

/// How far a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneProgress {
    /// The offset that the group has, as far as is known.
    pub committed: Option<u64>,
    /// Records from the position to the end, as far as is known.
    pub lag: Option<u64>,
    /// It has had records, and its position has not moved, for 30 s or more.
    pub stalled: bool,
}

#[derive(Debug)]
struct Posted {
    watermark: LaneWatermark,
    /// The position when it was last seen to move, or the lane to be empty.
    position: u64,
    since: Time,
    stalled: bool,
}

impl LaneBoard {
    /// The lane of that name, if this process holds it.
    #[must_use]
    pub fn progress(&self, name: &str) -> Option<LaneProgress> {
        let lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.get(name).map(|posted| LaneProgress {
            committed: posted.watermark.committed(),
            lag: posted.watermark.lag(),
            stalled: posted.stalled,
        })
    }

    /// A lane begins.
    pub(super) fn post(&self, name: &LaneName, watermark: LaneWatermark, now: Time) {
        let posted = Posted { position: watermark.position(), watermark, since: now, stalled: false };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.0.clone(), posted);
    }

    /// A lane has ended.
    pub(super) fn withdraw(&self, name: &LaneName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&name.0);
    }

    /// Looks which lanes have moved; to be called about once a second.
    pub(super) fn look(&self, now: Time) {
        for (name, posted) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            posted.look(name, now);
        }
    }
}

impl Posted {
    fn look(&mut self, name: &str, now: Time) {
        let position = self.watermark.position();
        if position != self.position || self.watermark.lag().is_none_or(|lag| lag == 0) {
            (self.position, self.since) = (position, now);
        }
        let stalled = now.since(self.since) >= limits::LANE_STALLED_AFTER;
        if stalled && !self.stalled {
            tracing::warn!(lane = name, position, lag = self.watermark.lag(), "a lane has records and stands still");
        }
        self.stalled = stalled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Duration;

    const BEGIN: Time = Time::from_millis(1_700_000_000_000);
    const LONG: Duration = limits::LANE_STALLED_AFTER;

    fn stalled(board: &LaneBoard, now: Time) -> bool {
        board.look(now);
        board.progress("kafka/t/1").expect("a posted lane").stalled
    }

    #[test]
    fn a_lane_with_records_that_does_not_move_is_stalled_until_it_does() {
        let (board, watermark) = (LaneBoard::default(), LaneWatermark::new(5));
        board.post(&LaneName::kafka("t", 1), watermark.clone(), BEGIN);
        assert!(!stalled(&board, BEGIN + LONG), "nothing is known of its end");
        watermark.note_end(9);
        assert!(!stalled(&board, BEGIN + LONG + LONG - Duration::from_millis(1)));
        assert!(stalled(&board, BEGIN + LONG + LONG));
        watermark.advance(6);
        assert!(!stalled(&board, BEGIN + LONG + LONG));
        watermark.advance(9);
        assert!(!stalled(&board, BEGIN + LONG + LONG + LONG), "there is nothing to read");
    }

    #[test]
    fn only_lanes_that_are_held_are_known() {
        let (board, watermark) = (LaneBoard::default(), LaneWatermark::new(5));
        board.post(&LaneName::kafka("t", 1), watermark.clone(), BEGIN);
        watermark.note_committed(4);
        let progress = LaneProgress { committed: Some(4), lag: None, stalled: false };
        assert_eq!((board.progress("kafka/t/1"), board.progress("kafka/t/2")), (Some(progress), None));
        board.withdraw(&LaneName::kafka("t", 1));
        assert_eq!(board.progress("kafka/t/1"), None);
    }
}
