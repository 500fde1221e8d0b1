//! Slots of a cluster take turns to write: what waits goes in one batch, and a slot whose servers are silent stops no other.

use streaming_hub::engine::{
    AutoDisable, Batch, Bounds, Input, LaneNumber, LaneRecord, Output, Row, Shard, ShardSettings, Tenure, Unit,
};
use streaming_hub::store::Memory;
use streaming_hub::types::{Duration, Event, LaneName, ShardId, Slot, Time, ids, limits};

use crate::events::EventPlan;
use crate::scenario::START;
use crate::stage::tenant;

const SLOTS: u16 = 3;

/// The owner of some slots, with a store that answers batches when told.
struct Owner {
    shard: Shard,
    store: Memory,
    now: Time,
    unanswered: Vec<Batch>,
    published: u64,
}

impl Owner {
    fn new() -> Self {
        let settings = ShardSettings {
            shard: ShardId(0),
            shards: 1,
            slots: SLOTS,
            dedup_salt: [7; 16],
            seed: 1,
            attempts_max: 256,
            auto_disable: AutoDisable::default(),
            payload_retention: Duration::from_hours(168),
            poison_threshold: 5,
            tenure: Tenure::Leased { sync_grace: Duration::ZERO },
            bounds: Bounds::default(),
        };
        let (shard, store) = (Shard::new(settings, START), Memory::default());
        let mut owner = Self { shard, store, now: START, unanswered: Vec::new(), published: 0 };
        for slot in 0..SLOTS {
            owner.store.take(Slot(slot));
            let (lane, name) = (LaneNumber(slot.into()), LaneName::kafka("slots", slot.into()));
            owner.input(Input::SlotAssigned { slot: Slot(slot), lane, name, position: 0 });
        }
        owner.input(Input::Lease(Time::MAX));
        assert!(owner.unanswered.is_empty(), "nothing is written yet");
        owner
    }

    /// An event of the slot comes, which nobody has subscribed to.
    fn publish(&mut self, slot: u16) {
        let record = LaneRecord::Accept(Box::new(self.event(slot)));
        self.input(Input::Record { lane: LaneNumber(slot.into()), offset: self.published, record });
        self.published += 1;
    }

    fn event(&self, slot: u16) -> Event {
        let names = (0..).map(|number| tenant(&format!("tenant-{number}")));
        let plan = EventPlan {
            tenant: names.into_iter().find(|name| Slot::of(name, SLOTS) == Slot(slot)).expect("every slot has tenants"),
            id: ids::uuid_v7(self.now, u128::from(self.published) << 64 | u128::from(self.published)),
            key: "loan.approved",
            schema_major: 1,
            origin: "loans",
            subject: None,
            source_id: None,
            n: Some(1),
            unstorable: false,
            lethal: false,
        };
        plan.event(self.now, LaneName::kafka("slots", slot.into()))
    }

    fn input(&mut self, input: Input) {
        self.shard.handle(input, self.now);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(output) = self.shard.poll_output() {
            match output {
                Output::Commit(batch) => self.unanswered.push(batch),
                Output::Read(id, read) => {
                    let answer = self.store.answer(&read);
                    self.shard.handle(Input::Loaded(id, answer), self.now);
                }
                Output::LanePosition { .. }
                | Output::Settled(_)
                | Output::Notice(_)
                | Output::Dispatch(_)
                | Output::Handover(..)
                | Output::PauseLane(_)
                | Output::ResumeLane(_)
                | Output::Disable { .. }
                | Output::CommandDone(..) => {}
            }
        }
    }

    /// Time passes, and the shard is woken when it asks to be.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some((at, _)) = self.shard.poll_timeout().filter(|(at, _)| *at <= end) {
            assert!(at > self.now, "it asks for a moment that has passed");
            self.now = at;
            self.shard.handle_timeout(at);
            self.settle();
        }
        self.now = end;
    }

    /// The slots whose batches are on their way, in the order of sending, each with the number of its events.
    fn on_their_way(&self) -> Vec<(u16, usize)> {
        let events = |batch: &Batch| batch.rows.iter().filter(|row| matches!(row, Row::Event { .. })).count();
        let of = |batch: &Batch| match batch.unit {
            Unit::Slot(Slot(slot)) => (slot, events(batch)),
            Unit::Lanes => panic!("no lane's row is written"),
        };
        self.unanswered.iter().map(of).collect()
    }
}

#[test]
fn what_gathers_while_a_slot_waits_for_its_turn_goes_in_one_batch() {
    let mut owner = Owner::new();
    for slot in [2, 1, 0, 0, 0] {
        owner.publish(slot);
    }
    assert_eq!(owner.on_their_way(), [(2, 1), (1, 1)], "first come, first served, as many as there are places");
    let first = owner.unanswered.remove(0);
    owner.input(Input::Committed(first.unit, first.number));
    assert_eq!(owner.on_their_way(), [(1, 1), (0, 3)]);
}

#[test]
fn a_slot_that_gets_no_answer_stops_no_other() {
    let mut owner = Owner::new();
    for slot in 0..SLOTS {
        owner.publish(slot);
    }
    owner.pass(Duration(limits::BATCH_SLOW.0 - 1));
    assert_eq!(owner.on_their_way(), [(0, 1), (1, 1)]);
    owner.pass(Duration(1));
    assert_eq!(owner.on_their_way(), [(0, 1), (1, 1), (2, 1)]);
}
