//! A lane's watermark: up to where its partition may be committed, and how far the others are.
//!
//! The shard writes the position, the consumer the rest when its timer fires. Nothing queues, so nothing can be full
//! or lost, and a commit that failed is made again without a new record coming.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No offset: Kafka's own are below it.
const UNKNOWN: u64 = u64::MAX;

/// Shared by a lane's shard, the consumer and reports; cheap to clone.
#[derive(Clone, Debug)]
pub struct LaneWatermark(Arc<Marks>);

#[derive(Debug)]
struct Marks {
    position: AtomicU64,
    committed: AtomicU64,
    end: AtomicU64,
}

impl LaneWatermark {
    /// A watermark at `position`, the first offset that will come.
    #[must_use]
    pub fn new(position: u64) -> Self {
        let [position, committed, end] = [position, UNKNOWN, UNKNOWN].map(AtomicU64::new);
        Self(Arc::new(Marks { position, committed, end }))
    }

    /// All before `position` is durable, dropped or quarantined. A smaller one than before changes nothing.
    pub fn advance(&self, position: u64) {
        self.0.position.fetch_max(position, Ordering::Release);
    }

    /// The next offset: all before it may be committed.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.0.position.load(Ordering::Acquire)
    }

    /// What the group has, as far as is known.
    #[must_use]
    pub fn committed(&self) -> Option<u64> {
        known(&self.0.committed)
    }

    /// Records from the position to the partition's end as last heard of from the brokers.
    #[must_use]
    pub fn lag(&self) -> Option<u64> {
        known(&self.0.end).map(|end| end.saturating_sub(self.position()))
    }

    /// The group has `position`.
    pub(super) fn note_committed(&self, position: u64) {
        self.0.committed.store(position, Ordering::Release);
    }

    /// The partition ends before offset `end`.
    pub(super) fn note_end(&self, end: u64) {
        self.0.end.store(end, Ordering::Release);
    }
}

fn known(mark: &AtomicU64) -> Option<u64> {
    Some(mark.load(Ordering::Acquire)).filter(|offset| *offset != UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watermark_only_advances() {
        let watermark = LaneWatermark::new(5);
        let shard = watermark.clone();
        shard.advance(9);
        shard.advance(7);
        assert_eq!(watermark.position(), 9);
    }

    #[test]
    fn what_is_not_known_yet_is_absent() {
        let watermark = LaneWatermark::new(5);
        assert_eq!((watermark.committed(), watermark.lag()), (None, None));
        watermark.note_committed(4);
        watermark.note_end(7);
        assert_eq!((watermark.committed(), watermark.lag()), (Some(4), Some(2)));
        watermark.advance(9);
        assert_eq!(watermark.lag(), Some(0));
    }
}
