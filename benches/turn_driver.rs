//! An engine with a store and a receiver that answer at once, so that only the engine costs anything.

use std::collections::VecDeque;

use streaming_hub::engine::{
    Arrival, AutoDisable, Bounds, Input, JobToken, Output, Read, ReadAnswer, Shard, ShardSettings, Tenure, Ticket,
};
use streaming_hub::types::{AttemptOutcome, ConfigChange, Duration, Event, ShardId, Time};

use super::common::NOW;

/// The engine and its world.
pub struct Driver {
    shard: Shard,
    now: Time,
    /// Attempts under way, when the receiver does not answer at once.
    pub under_way: VecDeque<JobToken>,
    answers_at_once: bool,
    /// Attempts that ended.
    pub ended: u64,
}

impl Driver {
    /// A shard with these tenants' configuration and nothing else, loaded.
    pub fn new(changes: Vec<ConfigChange>, attempts_max: u32, answers_at_once: bool) -> Self {
        let settings = ShardSettings {
            shard: ShardId(0),
            shards: 1,
            slots: 64,
            dedup_salt: [7; 16],
            seed: 1,
            attempts_max,
            auto_disable: AutoDisable::default(),
            payload_retention: Duration::from_hours(168),
            poison_threshold: 5,
            tenure: Tenure::Sole,
            bounds: Bounds::default(),
        };
        let shard = Shard::new(settings, NOW);
        let mut driver = Self { shard, now: NOW, under_way: VecDeque::new(), answers_at_once, ended: 0 };
        for change in changes {
            driver.take(Input::Config(change));
        }
        driver
    }

    /// Events of one tenant arrive together; everything that follows at once follows.
    pub fn arrive(&mut self, events: Vec<Event>) {
        self.pass(20 * events.len() as u64);
        self.take(Input::Arrival(Arrival { events, ticket: Ticket::Request(1) }));
    }

    /// The attempt that began first ends well.
    pub fn end_one(&mut self) {
        self.pass(20);
        let token = self.under_way.pop_front().expect("an attempt is under way");
        self.end(token);
    }

    fn pass(&mut self, micros: u64) {
        self.now = self.now + Duration::from_micros(micros);
        if self.shard.poll_timeout().is_some_and(|(at, _)| at <= self.now) {
            self.shard.handle_timeout(self.now);
            self.settle();
        }
    }

    fn end(&mut self, token: JobToken) {
        self.ended += 1;
        let outcome = AttemptOutcome { ended_at: self.now, status: Some(200), ..AttemptOutcome::default() };
        self.take(Input::AttemptEnded { token, outcome });
    }

    fn take(&mut self, input: Input) {
        self.shard.handle(input, self.now);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(output) = self.shard.poll_output() {
            match output {
                Output::Commit(batch) => self.shard.handle(Input::Committed(batch.unit, batch.number), self.now),
                Output::Read(id, read) => self.shard.handle(Input::Loaded(id, empty(&read)), self.now),
                Output::Dispatch(dispatch) if self.answers_at_once => {
                    self.ended += 1;
                    let outcome = AttemptOutcome { ended_at: self.now, status: Some(200), ..AttemptOutcome::default() };
                    self.shard.handle(Input::AttemptEnded { token: dispatch.token, outcome }, self.now);
                }
                Output::Dispatch(dispatch) => self.under_way.push_back(dispatch.token),
                Output::Settled(_)
                | Output::Handover(..)
                | Output::LanePosition { .. }
                | Output::PauseLane(_)
                | Output::ResumeLane(_)
                | Output::Disable { .. }
                | Output::CommandDone(..)
                | Output::Notice(_) => {}
            }
        }
    }
}

/// What a new store answers.
fn empty(read: &Read) -> ReadAnswer {
    match read {
        Read::Slot(_) => {
            ReadAnswer::Slot { record: None, overflow: vec![], destinations: vec![], first_due: None, claimed: vec![] }
        }
        Read::Log { .. } => ReadAnswer::Log { events: vec![], next: None },
        Read::Queue { to, .. } => ReadAnswer::Queue { events: vec![], scanned_to: *to },
        Read::Due { .. } => ReadAnswer::Due { rows: vec![], more: false, first_after: None },
        Read::Ids { .. } => ReadAnswer::Ids { entries: vec![], next: None },
        Read::Event { .. } => ReadAnswer::Event(None),
    }
}
