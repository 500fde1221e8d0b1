//! The shard's side of its Kafka lanes: readers to poll, watermarks to advance, assignments that come and go.

use std::collections::BTreeMap;
use std::ops::Bound;

use uuid::Uuid;

use crate::engine::{CommandId, Input, LaneNumber, LaneRecord, Shard};
use crate::runtime::channel::{Receiver, Sender, bounded};
use crate::source::decode::{DecodeRules, Decoded, decode};
use crate::source::kafka::{AssignedLane, LaneWatermark, PartitionReader, Polled};
use crate::types::Time;

use super::slot_reader::SlotReader;

/// Records taken from one lane before the next one's turn, and from all of them in a turn in which little else ends.
const LANE_TURN: usize = 64;

/// What the records of all lanes of a shard are.
pub enum Records {
    /// Producers' events, judged by these rules.
    Producers(DecodeRules),
    /// What comes into slots.
    Slots(SlotReader),
}

struct LaneIo {
    reader: PartitionReader,
    watermark: LaneWatermark,
    paused: bool,
}

/// The lanes of one shard.
pub struct LaneReaders {
    records: Records,
    lanes: BTreeMap<LaneNumber, LaneIo>,
    /// The lane polled last.
    polled: LaneNumber,
    /// Records that were dropped by the decoder, by reason.
    dropped: BTreeMap<&'static str, u64>,
    wake: (Sender<()>, Receiver<()>),
}

impl LaneReaders {
    /// No lanes yet.
    #[must_use]
    pub fn new(records: Records) -> Self {
        let polled = LaneNumber(0);
        Self { records, lanes: BTreeMap::new(), polled, dropped: BTreeMap::new(), wake: bounded(1) }
    }

    /// Takes an assigned lane over, of which the engine knows.
    pub fn assigned(&mut self, assigned: AssignedLane) {
        let AssignedLane { lane, name, slot: _, position, mut reader, watermark } = assigned;
        tracing::info!(lane = %name, position, "lane assigned");
        let wake = self.wake.0.clone();
        reader.set_wake(move || {
            // A full channel means that a wake-up is on its way.
            let _ = wake.try_send(());
        });
        self.lanes.insert(lane, LaneIo { reader, watermark, paused: false });
        let _ = self.wake.0.try_send(());
    }

    /// Gives a lane back at the engine's position; the engine is told.
    pub fn revoked(&mut self, lane: LaneNumber, engine: &mut Shard, now: Time) {
        if let Some(io) = self.lanes.remove(&lane)
            && let Some(position) = engine.lane_position(lane)
        {
            io.watermark.advance(position);
        }
        engine.handle(Input::LaneRevoked(lane), now);
    }

    /// The id by which the result of a lane's command is asked for; the command is done.
    pub fn command_done(&mut self, command: CommandId) -> Option<Uuid> {
        match &mut self.records {
            Records::Producers(_) => None,
            Records::Slots(slots) => slots.done(command),
        }
    }

    /// Whether this lane is read here.
    #[must_use]
    pub fn has(&self, lane: LaneNumber) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// Gives all lanes up: nothing more is read of them. What may still be committed of each.
    pub fn take_all(&mut self) -> BTreeMap<LaneNumber, LaneWatermark> {
        if let Records::Slots(slots) = &mut self.records {
            slots.forget();
        }
        std::mem::take(&mut self.lanes).into_iter().map(|(lane, io)| (lane, io.watermark)).collect()
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
                let Some((offset, record)) = self.next(lane, now) else { break };
                left -= 1;
                self.polled = lane;
                engine.handle(Input::Record { lane, offset, record }, now);
            }
        }
        left < all
    }

    fn next(&mut self, lane: LaneNumber, now: Time) -> Option<(u64, LaneRecord)> {
        let Self { records, lanes, dropped, .. } = self;
        let io = lanes.get_mut(&lane).filter(|io| !io.paused)?;
        let polled = io.reader.poll(|record| match records {
            Records::Producers(rules) => judged(decode(record, rules, now), dropped),
            Records::Slots(slots) => slots.read(record, now),
        });
        match polled? {
            Polled::Record(offset, record) => Some((offset, record)),
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

/// The verdict as the engine takes it; what is dropped is counted.
fn judged(decoded: Decoded, dropped: &mut BTreeMap<&'static str, u64>) -> LaneRecord {
    if let Decoded::Drop(reason) = &decoded {
        *dropped.entry(reason.as_str()).or_insert(0) += 1;
    }
    decoded.into_lane_record()
}
