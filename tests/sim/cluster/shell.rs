//! The shell around a cluster's engines, as a model: processes come and go, inputs and outputs are carried.

use streaming_hub::engine::{Input, LaneNumber, Output};
use streaming_hub::types::{AttemptOutcome, Duration, ErrorKind, Slot};

use super::checks::Rule;
use super::node::{Lane, Life, Node, Place};
use super::world::{Happening, Way, World};

/// Outputs of one input after which the engine is called endless.
const OUTPUTS_MAX: u32 = 20_000;
/// Looks at a process that leaves, 100 ms apart, before its attempts are cut.
const GRACE_LOOKS: u32 = 60;

impl World {
    /// A process starts and wants to be a member.
    pub fn boot(&mut self, index: usize) {
        if self.nodes[index].up {
            return;
        }
        let generation = self.nodes[index].generation + 1;
        self.nodes[index] = Node { generation, up: true, config: self.config.clone(), ..Node::default() };
        let life = Life { node: index, generation };
        self.say(format_args!("node {index} starts its life {generation}"));
        self.begin_engine(life);
        self.message(life, Way::ToGroup, Happening::Joins(life));
        self.after(Duration::from_secs(1), Happening::Heartbeat(life));
    }

    /// Another engine is put to work.
    pub fn begin_engine(&mut self, life: Life) -> Place {
        let clock = self.clock(life.node);
        let place = self.nodes[life.node].begin_engine(&self.scenario, life, clock);
        let lease = self.nodes[life.node].lease_until;
        self.input(place, Input::Lease(lease));
        place
    }

    /// A process dies: memory is gone, what was on its way arrives or does not.
    pub fn kill(&mut self, index: usize) {
        let Some(life) = self.life(index).filter(|_| !self.healed) else { return };
        self.say(format_args!("node {index} dies"));
        self.kills += 1;
        self.end_life(life);
        let pause = Duration::from_millis(self.rng.u64(1..20_000));
        self.after(pause, Happening::Boot(index));
    }

    fn end_life(&mut self, life: Life) {
        let node = std::mem::take(&mut self.nodes[life.node]);
        self.nodes[life.node].generation = life.generation;
        for number in node.attempts.into_values() {
            self.sent[number].cut = self.rng.bool();
        }
    }

    /// A process does nothing for a while, and knows nothing of that.
    pub fn stall(&mut self, index: usize) {
        if self.life(index).is_some() && !self.healed {
            let until = self.now + Duration::from_millis(self.rng.u64(500..30_000));
            self.say(format_args!("node {index} stalls until {until}"));
            let node = &mut self.nodes[index];
            node.stalled_until = node.stalled_until.max(until);
        }
    }

    /// A process shuts down in order.
    pub fn leave(&mut self, index: usize) {
        let Some(life) = self.life(index).filter(|_| !self.healed) else { return };
        if self.nodes[index].leaving || self.nodes[index].stalled_until > self.now {
            return;
        }
        self.say(format_args!("node {index} leaves"));
        self.nodes[index].leaving = true;
        let positions = self.retire(life);
        self.message(life, Way::ToGroup, Happening::Left(life, positions));
        self.after(Duration::from_millis(100), Happening::LeaveCheck(life, 0));
    }

    /// The shutdown is complete when nothing is on its way, or when its grace has been over for a while.
    pub fn leave_check(&mut self, life: Life, looks: u32) {
        if looks == GRACE_LOOKS {
            self.cut_attempts(life);
        }
        if self.nodes[life.node].engines.is_empty() || looks > GRACE_LOOKS * 2 {
            self.say(format_args!("node {} ends", life.node));
            self.end_life(life);
            let pause = Duration::from_millis(self.rng.u64(1..10_000));
            return self.after(pause, Happening::Boot(life.node));
        }
        self.after(Duration::from_millis(100), Happening::LeaveCheck(life, looks + 1));
    }

    fn cut_attempts(&mut self, life: Life) {
        let node = &mut self.nodes[life.node];
        for ((engine, token), _) in std::mem::take(&mut node.attempts) {
            let (ended_at, error_kind) = (self.now + self.scenario.skews[life.node], Some(ErrorKind::Interrupted));
            let outcome = AttemptOutcome { ended_at, error_kind, ..AttemptOutcome::default() };
            self.input(Place { life, engine }, Input::AttemptEnded { token, outcome });
        }
    }

    /// The engine at work takes nothing more in and begins nothing more; it sees its attempts out. The positions of its
    /// slots.
    pub fn retire(&mut self, life: Life) -> Vec<(Slot, u64)> {
        let node = &mut self.nodes[life.node];
        let place = Place { life, engine: node.current };
        let lanes = std::mem::take(&mut node.lanes);
        let Some(engine) = node.engines.get_mut(&place.engine) else { return Vec::new() };
        engine.retired = true;
        let position = |(number, lane): (LaneNumber, Lane)| {
            (lane.slot, engine.shard.lane_position(number).unwrap_or(lane.position).max(lane.position))
        };
        let positions = lanes.into_iter().map(position).collect();
        self.input(place, Input::Drain);
        positions
    }

    /// Gives an engine one input and carries out what it asks for.
    pub fn input(&mut self, place: Place, input: Input) {
        let clock = self.clock(place.life.node);
        let Some(engine) = self.engine(place) else { return };
        engine.idle_wakes = 0;
        let said = crate::words::input(&input);
        self.say(format_args!("{place:?} <- {said}"));
        if let Some(engine) = self.engine(place) {
            engine.shard.handle(input, clock);
        }
        self.carry_out(place);
    }

    /// An engine's own deadline has come.
    pub fn wake(&mut self, place: Place) {
        let (now, clock) = (self.now, self.clock(place.life.node));
        let Some(engine) = self.engine(place).filter(|engine| engine.wake == Some(now)) else { return };
        engine.wake = None;
        engine.idle_wakes += 1;
        engine.shard.handle_timeout(clock);
        self.carry_out(place);
    }

    fn carry_out(&mut self, place: Place) {
        let mut outputs = 0;
        while let Some(output) = self.engine(place).and_then(|engine| engine.shard.poll_output()) {
            outputs += 1;
            if outputs > OUTPUTS_MAX {
                return self.checks.fail(Rule::Panic, format!("{place:?} has outputs without end"));
            }
            if let Some(engine) = self.engine(place) {
                engine.idle_wakes = 0;
            }
            let said = crate::words::output(&output);
            self.say(format_args!("{place:?} -> {said}"));
            self.output(place, output);
        }
        let Some(engine) = self.engine(place) else { return };
        if engine.retired && engine.shard.is_idle() && engine.writes.is_empty() {
            self.nodes[place.life.node].engines.remove(&place.engine);
            return;
        }
        self.schedule_wake(place);
    }

    fn schedule_wake(&mut self, place: Place) {
        let (now, healed, skew) = (self.now, self.healed, self.scenario.skews[place.life.node]);
        let Some(engine) = self.engine(place) else { return };
        let idle = if healed && !engine.retired { engine.idle_wakes } else { 0 };
        let late = Duration::from_secs((1 << idle.min(6)) - 1);
        let deadline = engine.shard.poll_timeout().map(|(at, _)| (at - skew).max(now) + late);
        if deadline == engine.wake {
            return;
        }
        engine.wake = deadline;
        if let Some(at) = deadline {
            self.at(at, Happening::Wake(place));
        }
    }

    fn output(&mut self, place: Place, output: Output) {
        match output {
            Output::Commit(batch) => self.commit(place, batch),
            Output::Read(id, read) => self.read(place, id, read),
            Output::Dispatch(dispatch) => self.dispatch(place, &dispatch),
            Output::LanePosition { lane, position } => {
                if let Some(lane) = self.nodes[place.life.node].lanes.get_mut(&lane) {
                    lane.position = lane.position.max(position);
                }
            }
            Output::PauseLane(lane) => self.pause(place, lane, true),
            Output::ResumeLane(lane) => self.pause(place, lane, false),
            Output::Disable { tenant, subscriptions, reason } => self.disable(&tenant, &subscriptions, reason),
            Output::Settled(settled) => {
                self.checks.fail(Rule::Panic, format!("{:?} is told elsewhere", settled.ticket));
            }
            Output::Handover(..) => self.checks.fail(Rule::Panic, "an event goes to another shard".to_owned()),
            Output::CommandDone(id, result) => self.command_done(id, result),
            Output::Notice(_) => {}
        }
    }

    fn pause(&mut self, place: Place, number: LaneNumber, paused: bool) {
        if let Some(lane) = self.nodes[place.life.node].lanes.get_mut(&number) {
            lane.paused = paused;
            self.fetch_soon(place.life, number);
        }
    }
}
