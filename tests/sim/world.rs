//! The world: time, the heap of what happens next, and everything that takes part.

use std::collections::BTreeMap;
use std::fmt;

use fastrand::Rng;
use streaming_hub::engine::{Input, JobToken, Read, ReadId};
use streaming_hub::store::Memory;
use streaming_hub::types::{AttemptId, AttemptOutcome, ConfigChange, Duration, ShardId, Slot, TenantId, Time};

use crate::checks::{Checks, Rule, Violation};
use crate::clients::Clients;
use crate::config::{Config, draw_tenant};
use crate::events::tenant;
use crate::faults::Fault;
use crate::happening::{Happening, Life, Place};
use crate::log::Partition;
use crate::node::{Node, PAYLOAD_RETENTION};
use crate::receivers::Receivers;
use crate::scenario::{START, Scenario, StoreTemper};
use crate::trace::{Printed, Trace};

/// Steps after which a run is called endless.
const STEPS_MAX: u64 = 200_000;

/// A request on its way to a receiver.
pub struct Sent {
    pub place: Place,
    pub token: JobToken,
    pub attempt: AttemptId,
    pub url: String,
    pub deadline: Time,
    /// The process died before the request left.
    pub cut: bool,
    /// What came back, once it has reached the receiver.
    pub outcome: AttemptOutcome,
}

/// Everything.
pub struct World {
    pub scenario: Scenario,
    pub fault: Option<Fault>,
    pub rng: Rng,
    pub now: Time,
    heap: BTreeMap<(Time, u64), Happening>,
    numbered: u64,
    pub nodes: Vec<Node>,
    pub partitions: Vec<Partition>,
    pub store: Memory,
    pub store_temper: StoreTemper,
    pub config: Config,
    pub receivers: Receivers,
    pub clients: Clients,
    pub sent: Vec<Sent>,
    pub checks: Checks,
    pub trace: Trace,
    pub healed: bool,
    pub done: bool,
    pub lanes_numbered: u32,
    /// When the last message of each kind between two ends arrives: they never overtake.
    pub ordered: BTreeMap<String, Time>,
    pub kills: u32,
    pub happenings: u64,
}

/// What a run came to.
pub struct Ending {
    pub violation: Option<Violation>,
    pub digest: (u64, u64),
    pub events: usize,
    pub attempts: usize,
    pub kills: u32,
}

/// Runs one seed.
pub fn run(seed: u64, fault: Option<Fault>, printed: Printed) -> Ending {
    let mut world = World::new(Scenario::of(seed), fault, printed);
    world.plan();
    while let Some(((at, _), happening)) = world.heap.pop_first() {
        world.now = at;
        world.checks.now = at;
        world.happenings += 1;
        world.happen(happening);
        if world.happenings > STEPS_MAX {
            world.checks.fail(Rule::Stuck, "the run does not end".to_owned());
        }
        if world.done || world.checks.violation.is_some() {
            break;
        }
    }
    Ending {
        violation: world.checks.violation.take(),
        digest: world.trace.digest(),
        events: world.checks.events.len(),
        attempts: world.sent.len(),
        kills: world.kills,
    }
}

impl World {
    fn new(scenario: Scenario, fault: Option<Fault>, printed: Printed) -> Self {
        let mut trace = Trace::new(printed, START);
        trace.line(START, format_args!("{scenario:?}"));
        Self {
            rng: Rng::with_seed(scenario.seed),
            fault,
            now: START,
            heap: BTreeMap::new(),
            numbered: 0,
            nodes: vec![Node::default()],
            partitions: (0..scenario.partitions).map(|_| Partition::default()).collect(),
            store: Memory::new(scenario.pages),
            store_temper: scenario.store.clone(),
            config: Config::default(),
            receivers: Receivers::default(),
            clients: Clients::default(),
            sent: Vec::new(),
            checks: Checks { quarrel: scenario.quarrel, ..Checks::default() },
            trace,
            healed: false,
            done: false,
            lanes_numbered: 0,
            ordered: BTreeMap::new(),
            kills: 0,
            happenings: 0,
            scenario,
        }
    }

    /// Puts the run's outline into the heap.
    fn plan(&mut self) {
        for index in 0..self.scenario.tenants {
            for mut change in draw_tenant(&mut self.rng, &tenant(index), START) {
                if let (true, ConfigChange::PutDestination(destination)) = (self.scenario.quarrel, &mut change) {
                    destination.rate_limit = None;
                }
                self.take_configuration(&change);
            }
        }
        self.after(Duration::ZERO, Happening::Boot(0));
        let scenario = self.scenario.clone();
        for _ in 0..scenario.bursts {
            self.somewhen(Happening::Produce);
        }
        for number in 0..u64::from(scenario.requests) {
            self.somewhen(Happening::Request(number));
        }
        for number in 0..u64::from(scenario.commands) {
            self.somewhen(Happening::Command(number));
        }
        for _ in 0..scenario.reconfigurations {
            self.somewhen(Happening::Reconfigure);
        }
        for _ in 0..scenario.rebalances {
            self.somewhen(Happening::Rebalance);
        }
        for _ in 0..scenario.drains {
            self.somewhen(Happening::Drain(0));
        }
        for _ in 0..scenario.kills {
            let kill = if self.rng.bool() { Happening::Kill(0) } else { Happening::KillSoon(0) };
            self.somewhen(kill);
        }
        self.after(scenario.span, Happening::Heal);
    }

    fn somewhen(&mut self, happening: Happening) {
        let after = Duration(self.rng.u64(1_000..self.scenario.span.0));
        self.after(after, happening);
    }

    /// Something will happen after a while.
    pub fn after(&mut self, span: Duration, happening: Happening) {
        self.at(self.now + span, happening);
    }

    /// Something will happen at `at`, or now if that is past.
    pub fn at(&mut self, at: Time, happening: Happening) {
        self.numbered += 1;
        self.heap.insert((at.max(self.now), self.numbered), happening);
    }

    /// Something will happen after a while, but not before what went the same way earlier.
    pub fn after_in_order(&mut self, way: String, span: Duration, happening: Happening) {
        let last = self.ordered.entry(way).or_default();
        let at = (self.now + span).max(*last);
        *last = at;
        self.at(at, happening);
    }

    /// A line of the trace.
    pub fn say(&mut self, text: fmt::Arguments<'_>) {
        self.trace.line(self.now, text);
    }

    /// Whether this life of a node goes on.
    pub fn lives(&self, life: Life) -> bool {
        self.nodes.get(life.node).is_some_and(|node| node.up && node.generation == life.generation)
    }

    /// The life that this node leads, if it is up.
    pub fn life(&self, node: usize) -> Option<Life> {
        self.nodes.get(node).filter(|node| node.up).map(|up| Life { node, generation: up.generation })
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Produce => self.produce(),
            Happening::Request(number) => self.request(number),
            Happening::Reconfigure => self.reconfigure(),
            Happening::Command(number) => self.command(number),
            Happening::Boot(node) => self.boot(node),
            Happening::Kill(node) => self.kill(node),
            Happening::KillSoon(node) => self.kill_soon(node),
            Happening::Drain(node) => self.drain(node),
            Happening::DrainCheck(life, looks) => self.drain_check(life, looks),
            Happening::Rebalance => self.rebalance(),
            Happening::Assign(life, partition) => self.assign(life, partition),
            Happening::Fetch(life, lane) => self.fetch(life, lane),
            Happening::CommitPositions(life) => self.commit_positions(life),
            Happening::Wake(place) => self.wake(place),
            Happening::Stored(place, unit) => self.stored(place, unit),
            Happening::Early(place, unit, number) => self.input(place, Input::Committed(unit, number)),
            Happening::Answers(place, id, read) => self.answers(place, id, &read),
            Happening::Answered(place, id, answer) => self.loaded(place, id, answer),
            Happening::Handed(place, arrival) => self.input(place, Input::Arrival(arrival)),
            Happening::Carried(place, ticket) => self.input(place, Input::Settled(ticket)),
            Happening::Configured(place, change) => self.input(place, Input::Config(change)),
            Happening::Reaches(number) => self.reaches(number),
            Happening::Ends(place, token, number) => self.ends(place, token, number),
            Happening::Heal => self.heal(),
            Happening::QuietCheck(looks) => self.quiet_check(looks),
        }
    }

    fn answers(&mut self, place: Place, id: ReadId, read: &Read) {
        let answer = self.store.answer(read);
        self.loaded(place, id, answer);
    }

    /// All faults end: everything that was accepted must now end, too.
    fn heal(&mut self) {
        self.say(format_args!("everything heals"));
        self.healed = true;
        self.receivers.heal();
        for node in &mut self.nodes {
            node.idle_wakes.fill(0);
        }
        self.store_temper = StoreTemper::healed();
        if self.life(0).is_none() {
            self.after(Duration::ZERO, Happening::Boot(0));
        }
        if self.scenario.healing_enables {
            self.enable_everything();
        }
        self.after(Duration::from_secs(1), Happening::QuietCheck(0));
    }

    /// Looks whether all is done, more and more rarely, until the last moment anything may take.
    fn quiet_check(&mut self, looks: u32) {
        let end = START + self.scenario.span + PAYLOAD_RETENTION;
        if self.is_quiet() || self.now >= end {
            self.done = true;
            self.check_end();
        } else {
            let pause = Duration::from_secs(5).times(1 << u64::from(looks.min(8)));
            self.at((self.now + pause).min(end), Happening::QuietCheck(looks + 1));
        }
    }

    /// The shard of node 0 that owns a tenant.
    pub fn owner(&self, tenant: &TenantId) -> ShardId {
        Slot::of(tenant, self.scenario.slots).shard(self.scenario.shards)
    }
}
