//! The world of a cluster: time, the heap of what happens next, and everyone who takes part.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use fastrand::Rng;
use streaming_hub::engine::rows::Row;
use streaming_hub::engine::{BatchNumber, LaneNumber, Read, ReadAnswer, ReadId, Refusal, Unit};
use streaming_hub::store::Memory;
use streaming_hub::types::{ConfigChange, Duration, Slot, Time};
use uuid::Uuid;

use super::checks::{Checks, Rule, Violation};
use super::faults::Fault;
use super::group::Group;
use super::node::{Engine, Life, Node, Place};
use super::receivers::Sent;
use super::scenario::{LEASE_MARGIN, Scenario};
use super::store::{Fate, Write};
use crate::config::Config;
use crate::log::Partition;
use crate::receivers::Receivers;
use crate::scenario::START;
use crate::trace::{Printed, Trace};

/// Steps after which a run is called endless.
const STEPS_MAX: u64 = 600_000;
/// So long after healing nobody is expelled any more: leases hold for ever, and the nodes fall silent.
const STEADY_AFTER: Duration = Duration::from_secs(30);
/// The last moment that anything may take after healing.
const END: Duration = Duration::from_hours(6);

/// Where something goes to or comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    ToGroup,
    FromGroup,
    Configuration,
}

/// An entry of the heap.
#[derive(Debug)]
pub enum Happening {
    Produce,
    Reconfigure,
    Command,
    Boot(usize),
    Kill(usize),
    Stall(usize),
    Leave(usize),
    Awake(Life),
    LeaveCheck(Life, u32),
    /// To the group.
    Joins(Life),
    Heard(Life, Time, Vec<(Slot, u64)>),
    GivenBack(Life, Vec<(Slot, u64)>),
    Left(Life, Vec<(Slot, u64)>),
    Sessions,
    /// To a node.
    Heartbeat(Life),
    Acknowledged(Life, Time),
    Expelled(Life),
    Assigned(Life, Slot, u64),
    Revoked(Life, Vec<Slot>),
    Configured(Life, ConfigChange),
    Fetch(Life, LaneNumber),
    Wake(Place),
    PhaseAnswered(Life, u64, Option<Refusal>),
    Answered(Place, ReadId, ReadAnswer),
    Ends(usize),
    /// To the store and the receivers.
    Part(u64, Vec<Row>, Fate),
    Late((Unit, BatchNumber), Vec<Row>, u64),
    Reads(Place, ReadId, Read, bool),
    Reaches(usize),
    Heal,
    QuietCheck(u32),
}

impl Happening {
    /// The life of a node that this needs to be awake.
    const fn life(&self) -> Option<Life> {
        match self {
            Self::LeaveCheck(life, _)
            | Self::Heartbeat(life)
            | Self::Acknowledged(life, _)
            | Self::Expelled(life)
            | Self::Assigned(life, ..)
            | Self::Revoked(life, _)
            | Self::Configured(life, _)
            | Self::Fetch(life, _)
            | Self::PhaseAnswered(life, ..)
            | Self::Wake(Place { life, .. })
            | Self::Answered(Place { life, .. }, ..) => Some(*life),
            Self::Produce
            | Self::Reconfigure
            | Self::Command
            | Self::Boot(_)
            | Self::Kill(_)
            | Self::Stall(_)
            | Self::Leave(_)
            | Self::Awake(_)
            | Self::Joins(_)
            | Self::Heard(..)
            | Self::GivenBack(..)
            | Self::Left(..)
            | Self::Sessions
            | Self::Ends(_)
            | Self::Part(..)
            | Self::Late(..)
            | Self::Reads(..)
            | Self::Reaches(_)
            | Self::Heal
            | Self::QuietCheck(_) => None,
        }
    }
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
    pub group: Group,
    /// The slots' topic.
    pub topic: Vec<Partition>,
    /// When each record was produced.
    pub produced_at: BTreeMap<(Slot, u64), Time>,
    pub store: Memory,
    /// The last epoch of each slot.
    pub epochs: BTreeMap<Slot, u64>,
    pub writes: BTreeMap<u64, Write>,
    pub numbered_writes: u64,
    pub config: Config,
    pub receivers: Receivers,
    pub sent: Vec<Sent>,
    pub checks: Checks,
    pub trace: Trace,
    pub healed: bool,
    pub done: bool,
    pub lanes_numbered: u32,
    /// When the last message between two ends arrives: they never overtake.
    ordered: BTreeMap<(Life, Way), Time>,
    pub kills: u32,
    pub takes: u32,
}

/// What a run came to.
#[derive(Default)]
pub struct Ending {
    pub violation: Option<Violation>,
    pub digest: (u64, u64),
    pub events: usize,
    pub attempts: usize,
    pub kills: u32,
    pub takes: u32,
}

/// Runs one seed.
pub fn run(seed: u64, fault: Option<Fault>, printed: Printed) -> Ending {
    let mut world = World::new(Scenario::of(seed), fault, printed);
    world.plan();
    let mut steps = 0;
    while let Some(((at, _), happening)) = world.heap.pop_first() {
        world.now = at;
        world.checks.now = at;
        steps += 1;
        world.happen(happening);
        if steps > STEPS_MAX {
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
        takes: world.takes,
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
            nodes: (0..scenario.nodes).map(|_| Node::default()).collect(),
            group: Group::default(),
            topic: (0..scenario.slots).map(|_| Partition::default()).collect(),
            produced_at: BTreeMap::new(),
            store: Memory::new(scenario.pages),
            epochs: BTreeMap::new(),
            writes: BTreeMap::new(),
            numbered_writes: 0,
            config: Config::default(),
            receivers: Receivers::default(),
            sent: Vec::new(),
            checks: Checks::default(),
            trace,
            healed: false,
            done: false,
            lanes_numbered: 0,
            ordered: BTreeMap::new(),
            kills: 0,
            takes: 0,
            scenario,
        }
    }

    /// Puts the run's outline into the heap.
    fn plan(&mut self) {
        self.draw_configuration();
        for node in 0..self.scenario.nodes {
            let late = Duration::from_millis(self.rng.u64(0..3_000));
            self.after(late, Happening::Boot(node));
        }
        self.after(Duration::from_millis(500), Happening::Sessions);
        let scenario = self.scenario.clone();
        for _ in 0..scenario.bursts {
            self.somewhen(Happening::Produce);
        }
        for _ in 0..scenario.reconfigurations {
            self.somewhen(Happening::Reconfigure);
        }
        let some = |rng: &mut Rng| rng.usize(0..scenario.nodes);
        for _ in 0..scenario.kills {
            let node = some(&mut self.rng);
            self.somewhen(Happening::Kill(node));
        }
        for _ in 0..scenario.stalls {
            let node = some(&mut self.rng);
            self.somewhen(Happening::Stall(node));
        }
        for _ in 0..scenario.leaves {
            let node = some(&mut self.rng);
            self.somewhen(Happening::Leave(node));
        }
        for _ in 0..scenario.commands {
            self.somewhen(Happening::Command);
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

    /// A message between a node and the group.
    pub fn message(&mut self, life: Life, way: Way, happening: Happening) {
        let span = Duration::from_millis(self.rng.u64(1..if self.healed { 10 } else { 120 }));
        self.in_order(life, way, span, happening);
    }

    /// Something comes to a node or from it, not before what went the same way earlier.
    pub fn in_order(&mut self, life: Life, way: Way, span: Duration, happening: Happening) {
        let last = self.ordered.entry((life, way)).or_default();
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
        self.nodes[life.node].up && self.nodes[life.node].generation == life.generation
    }

    /// The life that this node leads, if it is up.
    pub fn life(&self, node: usize) -> Option<Life> {
        let up = self.nodes.get(node).filter(|node| node.up)?;
        Some(Life { node, generation: up.generation })
    }

    /// An engine, if it is still there.
    pub fn engine(&mut self, place: Place) -> Option<&mut Engine> {
        if !self.lives(place.life) {
            return None;
        }
        self.nodes[place.life.node].engines.get_mut(&place.engine)
    }

    /// What a node's clock says now.
    pub fn clock(&self, node: usize) -> Time {
        self.now + self.scenario.skews[node]
    }

    /// How long a lease holds that was asked for at `sent_at`, by the node's clock.
    pub fn lease(&self, node: usize, sent_at: Time) -> Time {
        let steady = self.healed && sent_at > START + self.scenario.span + STEADY_AFTER;
        if steady || self.fault == Some(Fault::NoLease) {
            return Time::MAX;
        }
        sent_at + super::scenario::SESSION + self.scenario.skews[node] - LEASE_MARGIN
    }

    fn happen(&mut self, happening: Happening) {
        if let Some(life) = happening.life() {
            if !self.lives(life) {
                return;
            }
            let node = &mut self.nodes[life.node];
            let (until, first) = (node.stalled_until, node.deferred.is_empty());
            if until > self.now || !first {
                node.deferred.push_back(happening);
                if first {
                    self.at(until, Happening::Awake(life));
                }
                return;
            }
        }
        self.take_place(happening);
    }

    /// A node goes on where it has stalled: with all that came meanwhile, in order.
    fn awake(&mut self, life: Life) {
        if !self.lives(life) {
            return;
        }
        let until = self.nodes[life.node].stalled_until;
        if until > self.now {
            return self.at(until, Happening::Awake(life));
        }
        while let Some(happening) = self.nodes[life.node].deferred.pop_front() {
            self.take_place(happening);
            if !self.lives(life) {
                return;
            }
        }
    }

    fn take_place(&mut self, happening: Happening) {
        match happening {
            Happening::Awake(life) => self.awake(life),
            Happening::Produce => self.produce(),
            Happening::Reconfigure => self.reconfigure(),
            Happening::Command => self.command(),
            Happening::Boot(node) => self.boot(node),
            Happening::Kill(node) => self.kill(node),
            Happening::Stall(node) => self.stall(node),
            Happening::Leave(node) => self.leave(node),
            Happening::LeaveCheck(life, looks) => self.leave_check(life, looks),
            Happening::Joins(life) => self.joins(life),
            Happening::Heard(life, sent_at, positions) => self.heard(life, sent_at, &positions),
            Happening::GivenBack(life, positions) => self.given_back(life, &positions),
            Happening::Left(life, positions) => self.left(life, &positions),
            Happening::Sessions => self.sessions(),
            Happening::Heartbeat(life) => self.heartbeat(life),
            Happening::Acknowledged(life, sent_at) => self.acknowledged(life, sent_at),
            Happening::Expelled(life) => self.expelled(life),
            Happening::Assigned(life, slot, position) => self.assigned(life, slot, position),
            Happening::Revoked(life, slots) => self.revoked(life, &slots),
            Happening::Configured(life, change) => self.configured(life, &change),
            Happening::Fetch(life, lane) => self.fetch(life, lane),
            Happening::Wake(place) => self.wake(place),
            Happening::PhaseAnswered(_, number, refusal) => self.phase_answered(number, refusal),
            Happening::Answered(place, id, answer) => self.answered(place, id, answer),
            Happening::Ends(number) => self.ends(number),
            Happening::Part(number, rows, fate) => self.part(number, rows, fate),
            Happening::Late(batch, rows, epoch) => self.apply(batch, &rows, epoch),
            Happening::Reads(place, id, read, failed) => self.reads(place, id, &read, failed),
            Happening::Reaches(number) => self.reaches(number),
            Happening::Heal => self.heal(),
            Happening::QuietCheck(looks) => self.quiet_check(looks),
        }
    }

    /// All faults end: everything that was accepted must now end, too.
    fn heal(&mut self) {
        self.say(format_args!("everything heals"));
        self.healed = true;
        self.receivers.heal();
        for node in 0..self.nodes.len() {
            self.nodes[node].engines.values_mut().for_each(|engine| engine.idle_wakes = 0);
            if self.life(node).is_none() {
                self.after(Duration::ZERO, Happening::Boot(node));
            }
        }
        self.enable_everything();
        self.after(Duration::from_secs(40), Happening::QuietCheck(0));
    }

    /// Looks whether all is done, more and more rarely.
    fn quiet_check(&mut self, looks: u32) {
        let end = START + self.scenario.span + END;
        if self.is_quiet() || self.now >= end {
            self.done = true;
            return self.check_end();
        }
        let pause = Duration::from_secs(10).times(1 << u64::from(looks.min(7)));
        self.at((self.now + pause).min(end), Happening::QuietCheck(looks + 1));
    }

    fn is_quiet(&self) -> bool {
        let settled = |slot: Slot| {
            let lane = self.nodes.iter().filter(|node| node.up).find_map(|node| node.lane_of(slot));
            lane.is_some_and(|(_, lane)| lane.position >= self.topic[usize::from(slot.0)].end())
        };
        self.writes.is_empty()
            && self.nodes.iter().all(Node::is_idle)
            && (0..self.scenario.slots).map(Slot).all(settled)
            && self.store.jobs().all(|(_, job)| job.end.is_some())
    }

    fn check_end(&mut self) {
        let open = self.store.jobs().find(|(_, job)| job.end.is_none());
        self.checks.expect(open.is_none(), Rule::Stuck, || format!("a job never ends: {open:?}"));
        for slot in (0..self.scenario.slots).map(Slot) {
            let end = self.topic[usize::from(slot.0)].end();
            let owner = self.nodes.iter().filter(|node| node.up).find_map(|node| node.lane_of(slot));
            let position = owner.map(|(_, lane)| lane.position);
            let reached = position.is_some_and(|position| position >= end);
            self.checks.expect(reached, Rule::Stuck, || format!("{slot:?} ends at {end}, its lane is at {position:?}"));
        }
        let sent: Vec<_> = self.checks.plans.iter().map(|(name, plan)| (name.clone(), plan.unstorable)).collect();
        for (name, unstorable) in sent {
            let kept = if unstorable { self.is_quarantined(name.1) } else { self.checks.events.contains_key(&name) };
            self.checks.expect(kept, Rule::Lost, || format!("{name:?} is gone"));
        }
        self.checks.check_commands();
        let quiet = self.nodes.iter().all(Node::is_idle);
        self.checks.expect(quiet, Rule::Stuck, || "something is on its way for ever".to_owned());
    }

    fn is_quarantined(&self, event: Uuid) -> bool {
        let id = event.to_string();
        let is_its =
            |(name, value): &(Box<str>, Option<Bytes>)| &**name == "ce-id" && value.as_deref() == Some(id.as_bytes());
        self.store.quarantined().any(|record| record.headers.iter().any(is_its))
    }
}
