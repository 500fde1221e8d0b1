//! The shard's side of its Kafka lanes: readers to poll, watermarks to advance, assignments that come and go.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::engine::{Input, LaneNumber, Shard};
use crate::runtime::channel::{Receiver, Sender, bounded};
use crate::source::decode::Decoded;
use crate::source::kafka::{AssignedLane, KafkaEvent, LaneWatermark, PartitionReader, Polled};
use crate::types::Time;

/// Records taken from one lane before the next one's turn, and from all of them in a turn in which little else ends.
const LANE_TURN: usize = 64;

struct LaneIo {
    reader: PartitionReader,
    watermark: LaneWatermark,
    paused: bool,
}

/// The lanes of one shard.
pub struct LaneReaders {
    lanes: BTreeMap<LaneNumber, LaneIo>,
    /// The lane polled last.
    polled: LaneNumber,
    /// Records that were dropped by the decoder, by reason.
    dropped: BTreeMap<&'static str, u64>,
    wake: (Sender<()>, Receiver<()>),
}

impl Default for LaneReaders {
    fn default() -> Self {
        Self { lanes: BTreeMap::new(), polled: LaneNumber(0), dropped: BTreeMap::new(), wake: bounded(1) }
    }
}

impl LaneReaders {
    /// Takes an assignment or a revocation over.
    pub fn take(&mut self, event: KafkaEvent, engine: &mut Shard, now: Time) {
        match event {
            KafkaEvent::Assigned(lane) => self.assigned(lane, engine, now),
            KafkaEvent::Revoked { lane, acknowledge } => {
                if let Some(io) = self.lanes.remove(&lane)
                    && let Some(position) = engine.lane_position(lane)
                {
                    io.watermark.advance(position);
                }
                engine.handle(Input::LaneRevoked(lane), now);
                // Never full, as the consumer promises; without it nobody waits any more.
                let _ = acknowledge.try_send(lane);
            }
        }
    }

    fn assigned(&mut self, assigned: AssignedLane, engine: &mut Shard, now: Time) {
        let AssignedLane { lane, name, position, mut reader, watermark } = assigned;
        tracing::info!(lane = %name, position, "lane assigned");
        let wake = self.wake.0.clone();
        reader.set_wake(move || {
            // A full channel means that a wake-up is on its way.
            let _ = wake.try_send(());
        });
        engine.handle(Input::LaneAssigned { lane, name, position }, now);
        self.lanes.insert(lane, LaneIo { reader, watermark, paused: false });
        let _ = self.wake.0.try_send(());
    }

    /// Everything before `position` may be committed.
    pub fn advance(&self, lane: LaneNumber, position: u64) {
        if let Some(io) = self.lanes.get(&lane) {
            io.watermark.advance(position);
        }
    }

    /// Stops or goes on polling a lane: while it is not polled, the client's bounded queue stops the fetching.
    pub fn pause(&mut self, lane: LaneNumber, paused: bool) {
        if let Some(io) = self.lanes.get_mut(&lane) {
            io.paused = paused;
            let _ = self.wake.0.try_send(());
        }
    }

    /// Takes records of the lanes that are not paused, lane by lane, in turn. Says whether there were any.
    ///
    /// No more records come in than attempts have `ended` since the last time, but always a few: where the shard's
    /// core is the limit, what is in goes out first, instead of waiting on disk for the core to read it again.
    pub fn poll(&mut self, engine: &mut Shard, ended: usize, now: Time) -> bool {
        let mut left = ended.max(LANE_TURN);
        let after = self.lanes.range((Bound::Excluded(self.polled), Bound::Unbounded));
        let numbers: Vec<LaneNumber> = after.chain(self.lanes.range(..=self.polled)).map(|(lane, _)| *lane).collect();
        let all = left;
        for lane in numbers {
            for _ in 0..LANE_TURN.min(left) {
                let Some((offset, decoded)) = self.next(lane, now) else { break };
                left -= 1;
                self.polled = lane;
                if let Decoded::Drop(reason) = &decoded {
                    *self.dropped.entry(reason.as_str()).or_insert(0) += 1;
                }
                engine.handle(Input::Record { lane, offset, record: decoded.into_lane_record() }, now);
            }
        }
        left < all
    }

    fn next(&mut self, lane: LaneNumber, now: Time) -> Option<(u64, Decoded)> {
        let io = self.lanes.get_mut(&lane)?;
        if io.paused {
            return None;
        }
        match io.reader.poll(now)? {
            Polled::Record(offset, decoded) => Some((offset, decoded)),
            Polled::Fault(error) => {
                tracing::warn!(%error, "a lane can't fetch; the client goes on trying");
                None
            }
        }
    }

    /// Waits until a lane that was empty has records, or a paused one goes on.
    pub async fn woken(&self) {
        // The sender lives in this very value.
        let _ = self.wake.1.recv_async().await;
    }

    /// Records dropped by the decoder, by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.dropped.iter().map(|(reason, count)| (*reason, *count))
    }
}
