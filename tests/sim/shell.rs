//! The shell around the engines, as a model: it starts and ends processes and carries inputs and outputs.

use streaming_hub::engine::Shard;
use streaming_hub::engine::{CommandId, CommandResult, Input, Notice, Output, Settled, SettledItem, Ticket};
use streaming_hub::types::subscription::DisabledReason;
use streaming_hub::types::{ConfigChange, Duration, ShardId, SubscriptionId, TenantId, Time};

use crate::checks::Rule;
use crate::faults::Fault;
use crate::happening::{Happening, Life, Place};
use crate::node::Node;
use crate::world::World;

/// Outputs of one input after which the engine is called endless.
const OUTPUTS_MAX: u32 = 20_000;
/// Wake-ups at one instant after which the engine is called restless.
const WAKES_MAX: u32 = 200;
/// Jobs that may come in at once when memory is full.
const LET_IN_ANYWAY: usize = 40;
/// Looks at a shutdown, 100 ms apart, before its grace ends.
const GRACE_LOOKS: u32 = 80;

impl World {
    /// A process starts: fresh shards are told the configuration, then lanes come.
    pub fn boot(&mut self, index: usize) {
        if self.nodes[index].up {
            return;
        }
        self.nodes[index].boot(&self.scenario, self.now);
        let life = Life { node: index, generation: self.nodes[index].generation };
        self.say(format_args!("node {index} starts its life {}", life.generation));
        self.checks.begin_life(life.generation);
        let stored =
            (0..self.scenario.slots).flat_map(|slot| self.store.destinations(streaming_hub::types::Slot(slot)));
        self.checks.circuits.begin_life(stored.map(|(_, id, record)| (id, record)), self.now);
        for change in self.config.changes() {
            let place = Place { life, shard: self.owner(change.tenant()) };
            self.input(place, Input::Config(change));
        }
        for shard in 0..self.scenario.shards {
            self.schedule_wake(Place { life, shard: ShardId(shard) });
        }
        for partition in 0..self.scenario.partitions {
            let delay = Duration::from_millis(self.rng.u64(0..200));
            self.after(delay, Happening::Assign(life, partition));
        }
        let pause = Duration::from_millis(self.rng.u64(500..3_000));
        self.after(pause, Happening::CommitPositions(life));
    }

    /// A process dies: memory is gone, what was on its way arrives or does not.
    pub fn kill(&mut self, index: usize) {
        let Some(life) = self.life(index) else { return };
        self.say(format_args!("node {index} dies"));
        self.kills += 1;
        let node = std::mem::replace(&mut self.nodes[index], Node::dead(life.generation));
        for batch in node.commits.into_values() {
            let applied = self.rng.bool() && self.fault != Some(Fault::CommitBeforeDurable);
            if applied && !self.is_rejected(&batch) {
                self.say(format_args!("{:?} {:?} had arrived", batch.unit, batch.number));
                self.make_durable(&batch);
            }
        }
        for number in node.attempts.into_values() {
            let cut = self.rng.bool();
            if let Some(sent) = self.sent.get_mut(number) {
                sent.cut = cut;
            }
        }
        self.end_life(life);
    }

    /// It will die in the middle of some shard's outputs.
    pub fn kill_soon(&mut self, index: usize) {
        let after = self.rng.u32(1..40);
        if !self.healed && self.nodes[index].up {
            self.nodes[index].dies_after = Some(after);
        }
    }

    fn end_life(&mut self, life: Life) {
        self.checks.order.begin_life();
        self.disappoint_clients(life);
        let pause = Duration::from_millis(self.rng.u64(1..8_000));
        self.after(pause, Happening::Boot(life.node));
    }

    /// A shutdown begins.
    pub fn drain(&mut self, index: usize) {
        let Some(life) = self.life(index).filter(|_| !self.nodes[index].draining && !self.healed) else { return };
        self.say(format_args!("node {index} drains"));
        self.nodes[index].draining = true;
        for shard in 0..self.scenario.shards {
            self.input(Place { life, shard: ShardId(shard) }, Input::Drain);
        }
        self.after(Duration::from_millis(100), Happening::DrainCheck(life, 0));
    }

    /// The shutdown is complete when nothing is on its way.
    pub fn drain_check(&mut self, life: Life, looks: u32) {
        if !self.lives(life) {
            return;
        }
        if looks == GRACE_LOOKS {
            self.cut_attempts(life);
        }
        let node = &self.nodes[life.node];
        let on_their_way = !node.commits.is_empty() || node.reads > 0 || !node.attempts.is_empty();
        let idle = !on_their_way && node.shards.iter().all(Shard::is_idle);
        if idle {
            self.say(format_args!("node {} ends", life.node));
            self.commit_all_positions(life);
            self.nodes[life.node] = Node::dead(life.generation);
            return self.end_life(life);
        }
        if looks >= GRACE_LOOKS + 100 {
            let excused = !self.scenario.store.outages.is_empty();
            self.checks.expect(excused, Rule::Stuck, || "a shutdown does not come to its end".to_owned());
            return self.kill(life.node);
        }
        self.after(Duration::from_millis(100), Happening::DrainCheck(life, looks + 1));
    }

    /// Gives an engine one input and carries out what it asks for.
    pub fn input(&mut self, place: Place, input: Input) {
        if !self.lives(place.life) {
            return;
        }
        self.checks.step += 1;
        let said = crate::words::input(&input);
        self.say(format_args!("{:?} <- {said}", place.shard));
        self.observe(place, &input);
        self.nodes[place.life.node].idle_wakes[usize::from(place.shard.0)] = 0;
        let now = self.now;
        self.nodes[place.life.node].shards[usize::from(place.shard.0)].handle(input, now);
        self.carry_out(place);
    }

    fn observe(&mut self, place: Place, input: &Input) {
        match input {
            Input::Config(change) => self.checks.configured(change),
            Input::Arrival(arrival) => {
                for event in &arrival.events {
                    self.checks.admit(&event.tenant, event.id);
                }
            }
            Input::Record { record: streaming_hub::engine::LaneRecord::Accept(event), .. } => {
                self.checks.admit(&event.tenant, event.id);
            }
            Input::AttemptEnded { token, outcome } => self.checks.ended(place.shard, *token, outcome),
            Input::Record { .. }
            | Input::LaneAssigned { .. }
            | Input::SlotAssigned { .. }
            | Input::Lease(_)
            | Input::LaneRevoked(_)
            | Input::Settled(_)
            | Input::Committed(..)
            | Input::Refused(..)
            | Input::Loaded(..)
            | Input::Command(..)
            | Input::Drain => {}
        }
    }

    /// A shard's own deadline has come.
    pub fn wake(&mut self, place: Place) {
        let index = usize::from(place.shard.0);
        if !self.lives(place.life) || self.nodes[place.life.node].wakes[index] != Some(self.now) {
            return;
        }
        let now = self.now;
        let forgets = self.fault == Some(Fault::ForgottenTimer) && self.checks.step > 200;
        let node = &mut self.nodes[place.life.node];
        node.wakes[index] = None;
        if forgets {
            return;
        }
        node.wakes_now = if node.wakes_now.0 == now { (now, node.wakes_now.1 + 1) } else { (now, 1) };
        if node.wakes_now.1 > WAKES_MAX {
            let reason = node.shards[index].poll_timeout();
            return self.checks.fail(Rule::Terms, format!("{:?} wakes without end: {reason:?}", place.shard));
        }
        self.checks.step += 1;
        self.trace.line(now, format_args!("{:?} wakes", place.shard));
        node.idle_wakes[index] += 1;
        node.shards[index].handle_timeout(now);
        self.carry_out(place);
        self.check_bounds(place);
    }

    /// Nothing in memory outgrows its bound, but for the few jobs let in so that everyone moves on.
    fn check_bounds(&mut self, place: Place) {
        if !self.lives(place.life) {
            return;
        }
        let report = self.nodes[place.life.node].shards[usize::from(place.shard.0)].report();
        let bounds = self.scenario.bounds;
        let let_in = self.config.subscriptions.len() * 2 + LET_IN_ANYWAY;
        let jobs = report.jobs <= bounds.shard_jobs + let_in;
        self.checks
            .expect(jobs, Rule::Bound, || format!("{} jobs in memory, {} allowed", report.jobs, bounds.shard_jobs));
        let parked = report.parked <= bounds.admission_events + LET_IN_ANYWAY + bounds.lane_open_records * 4;
        self.checks.expect(parked, Rule::Bound, || format!("{} events wait for admission", report.parked));
    }

    fn carry_out(&mut self, place: Place) {
        let mut outputs = 0;
        let index = usize::from(place.shard.0);
        while self.lives(place.life) {
            let node = &mut self.nodes[place.life.node];
            let Some(output) = node.shards[index].poll_output() else { break };
            outputs += 1;
            node.idle_wakes[index] = 0;
            if let Some(left) = node.dies_after.as_mut() {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    return self.kill(place.life.node);
                }
            }
            if outputs > OUTPUTS_MAX {
                return self.checks.fail(Rule::Terms, format!("{:?} has outputs without end", place.shard));
            }
            let said = crate::words::output(&output);
            self.say(format_args!("{:?} -> {said}", place.shard));
            self.output(place, output);
        }
        self.schedule_wake(place);
    }

    fn schedule_wake(&mut self, place: Place) {
        if !self.lives(place.life) {
            return;
        }
        let index = usize::from(place.shard.0);
        let now = self.now;
        let waits = self.healed && !self.nodes[place.life.node].draining;
        let idle = if waits { self.nodes[place.life.node].idle_wakes[index] } else { 0 };
        let node = &mut self.nodes[place.life.node];
        let late = Duration::from_secs((1 << idle.min(9)) - 1);
        let deadline = node.shards[index].poll_timeout().map(|(at, _)| at.max(now) + late);
        if deadline == node.wakes[index] {
            return;
        }
        node.wakes[index] = deadline;
        if let Some(at) = deadline {
            self.at(at, Happening::Wake(place));
        }
    }

    fn output(&mut self, place: Place, output: Output) {
        match output {
            Output::Commit(batch) => self.commit(place, batch),
            Output::Read(id, read) => self.read(place, id, read),
            Output::Dispatch(dispatch) => self.dispatch(place, &dispatch),
            Output::Settled(settled) => self.settle(place, &settled),
            Output::Handover(shard, arrival) => {
                let delay = Duration::from_micros(self.rng.u64(0..5_000));
                let way = format!("handover {} {:?} {shard:?}", place.life.generation, place.shard);
                self.after_in_order(way, delay, Happening::Handed(Place { shard, ..place }, arrival));
            }
            Output::LanePosition { lane, position } => self.position(place, lane, position),
            Output::PauseLane(lane) => self.pause(place, lane, true),
            Output::ResumeLane(lane) => self.pause(place, lane, false),
            Output::Disable { tenant, subscriptions, reason } => self.disable(&tenant, &subscriptions, reason),
            Output::CommandDone(id, result) => self.command_done(id, result),
            Output::Notice(Notice::Circuit { destination, open, .. }) => {
                self.checks.circuits.noticed(destination, self.now, open);
            }
            Output::Notice(_) => {}
        }
    }

    fn settle(&mut self, place: Place, settled: &Settled) {
        match settled.ticket {
            Ticket::Lane { shard, lane, offset } => {
                if let Some(events) = self.events_at(lane, offset) {
                    self.checks.settled(settled, &events);
                }
                let overloaded = settled.items.contains(&SettledItem::Overloaded);
                self.checks.expect(!overloaded, Rule::Terms, || format!("{lane:?} {offset} is answered Overloaded"));
                let delay = Duration::from_micros(self.rng.u64(0..5_000));
                let way = format!("settled {} {:?} {shard:?}", place.life.generation, place.shard);
                self.after_in_order(way, delay, Happening::Carried(Place { shard, ..place }, settled.ticket));
            }
            Ticket::Request(number) => self.answer_request(number, place.life, settled),
        }
    }

    fn answer_request(&mut self, number: u64, life: Life, settled: &Settled) {
        let Some(request) = self.clients.requests.get_mut(&number) else {
            return self.checks.fail(Rule::Terms, format!("an answer to request {number}, which nobody sent"));
        };
        let events: Vec<_> = request.events.iter().map(|plan| (plan.tenant.clone(), plan.id)).collect();
        let awaited = request.open.take() == Some(life);
        let overloaded = settled.items.contains(&SettledItem::Overloaded);
        request.acknowledged = !overloaded;
        self.checks.expect(awaited, Rule::Terms, || format!("request {number} is answered twice"));
        let whole = !overloaded || settled.items.iter().all(|item| *item == SettledItem::Overloaded);
        self.checks.expect(whole, Rule::Durable, || format!("request {number} is stored in part"));
        self.checks.settled(settled, &events);
        if overloaded {
            self.request_again(number);
        }
    }

    fn disable(&mut self, tenant: &TenantId, subscriptions: &[SubscriptionId], reason: DisabledReason) {
        for id in subscriptions {
            let place = (tenant.clone(), *id);
            let step = self.checks.step;
            self.checks.oracle.doubt(place.clone(), step);
            let Some(mut subscription) = self.config.subscriptions.get(&place).cloned() else { continue };
            subscription.enabled = false;
            subscription.disabled_reason = Some(reason);
            subscription.disabled_at = Some(self.now);
            subscription.version += 1;
            self.change(&ConfigChange::PutSubscription(Box::new(subscription)));
        }
    }

    fn command_done(&mut self, id: CommandId, result: CommandResult) {
        let Some(asked) = self.clients.commands.get_mut(&id.0) else {
            return self.checks.fail(Rule::Terms, format!("{id:?} is done, which nobody asked for"));
        };
        let awaited = asked.open.take().is_some();
        asked.done = result != CommandResult::Busy;
        let tenant = asked.wish.tenant().clone();
        self.checks.expect(awaited, Rule::Terms, || format!("{id:?} is done twice"));
        match result {
            CommandResult::Done(Some(key)) => {
                let exists = self.checks.jobs.contains_key(&(tenant, key));
                self.checks
                    .expect(exists, Rule::Durable, || format!("{id:?} is done with {key:?}, which is not durable"));
                if let Some(job) = self.checks.jobs.get_mut(&(self.clients.commands[&id.0].wish.tenant().clone(), key))
                {
                    job.commanded = true;
                }
            }
            CommandResult::Busy => self.command_again(id.0),
            CommandResult::Done(None)
            | CommandResult::NotFound
            | CommandResult::SubscriptionDeleted
            | CommandResult::TooManyRuns
            | CommandResult::Expired => {}
        }
    }
}

impl Node {
    /// A node between two lives.
    pub fn dead(generation: u32) -> Self {
        Self { generation, ..Self::default() }
    }

    /// Whether nothing of this node is on its way anywhere.
    pub fn is_idle(&self) -> bool {
        self.up && self.commits.is_empty() && self.reads == 0 && self.attempts.is_empty()
    }

    /// The earliest deadline of its shards.
    pub fn next_wake(&self) -> Option<Time> {
        self.wakes.iter().flatten().min().copied()
    }
}
