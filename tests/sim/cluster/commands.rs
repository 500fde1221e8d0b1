//! Commands in a cluster: any node puts them into the lane of the slot that they concern, and the slot's owner carries
//! them out, or the next one does.

use std::collections::BTreeMap;

use streaming_hub::engine::{Command, CommandId, CommandResult, LaneRecord};
use streaming_hub::types::{JobKey, JobRecord, RunId, Slot, TenantId, Trigger};
use uuid::Uuid;

use super::checks::{Checks, JobPlace, Rule};
use super::faults::Fault;
use super::node::Place;
use super::world::World;
use crate::log::{Written, command_id};
use crate::scenario::chance;

/// Commands that come together.
const BURST_MAX: u32 = 4;

/// What is known of commands.
#[derive(Default)]
pub struct Commands {
    /// Each record of a lane with its command, and whether an owner has said that it is done.
    asked: BTreeMap<CommandId, (Command, bool)>,
    /// Where the run that somebody asked for was made.
    runs: BTreeMap<RunId, JobPlace>,
    /// Runs by what they are called, with the run that was asked for.
    wanted: BTreeMap<RunId, RunId>,
    /// Which engine read a record first.
    read_by: BTreeMap<CommandId, Place>,
}

impl Checks {
    /// A command is in a lane.
    fn commanded(&mut self, id: CommandId, command: &Command) {
        if let Command::Retry { run, .. } = command {
            self.commands.wanted.insert(*run, *run);
        }
        self.commands.asked.insert(id, (command.clone(), false));
    }

    /// A run is durable: somebody asked for it, and it is made nowhere else.
    pub fn run_made(&mut self, tenant: &TenantId, key: JobKey, run: RunId) {
        let Some(wanted) = self.commands.wanted.get(&run).copied() else {
            return self.fail(Rule::Runs, format!("{key:?} is a run that nobody asked for"));
        };
        let place = (tenant.clone(), key);
        let known = self.commands.runs.entry(wanted).or_insert_with(|| place.clone()).clone();
        self.expect(known == place, Rule::Runs, || format!("{run:?} is made at {known:?} and at {place:?}"));
    }

    /// An owner says that a command is done. `made` is the job of its answer as the store has it.
    fn command_done(&mut self, id: CommandId, result: CommandResult, made: Option<&JobRecord>) {
        let Some((command, done)) = self.commands.asked.get_mut(&id) else {
            return self.fail(Rule::Runs, format!("nobody asked for {id:?}"));
        };
        *done = true;
        let command = command.clone();
        if let (Command::Retry { key, run, .. }, CommandResult::Done(Some(job))) = (&command, result) {
            let made_run = made.and_then(|made| self.commands.wanted.get(&made.run));
            let durable = job == *key || made_run == Some(run);
            self.expect(durable, Rule::Runs, || format!("{command:?} is answered with {job:?}, stored is {made:?}"));
        }
    }

    /// All commands are done.
    pub fn check_commands(&mut self) {
        let open = self.commands.asked.iter().find(|(_, (_, done))| !done);
        let open = open.map(|(id, (command, _))| format!("{id:?}, {command:?}, was never done"));
        self.expect(open.is_none(), Rule::Stuck, || open.unwrap_or_default());
    }
}

impl World {
    /// Clients ask any nodes for something: the commands are appended to the slots' topic.
    pub fn command(&mut self) {
        for _ in 0..self.rng.u32(1..=BURST_MAX) {
            let Some(command) = self.draw_command() else { return };
            // A producer that has got no answer may write a record again.
            let copies = if chance(&mut self.rng, 15) { 2 } else { 1 };
            for _ in 0..copies {
                let slot = Slot::of(command.tenant(), self.scenario.slots);
                let offset = self.append(slot, Written::Command(Box::new(command.clone())));
                self.say(format_args!("{slot:?} {offset}: {command:?}"));
                self.checks.commanded(command_id(slot.0, offset), &command);
            }
        }
    }

    /// A retry of a job that has ended or that has not, now and then of one that does not exist; a circuit closed.
    fn draw_command(&mut self) -> Option<Command> {
        if chance(&mut self.rng, 25) {
            let destinations: Vec<_> = self.config.destinations.keys().cloned().collect();
            let (tenant, destination) = destinations.get(self.rng.usize(0..destinations.len().max(1)))?.clone();
            let reset = self.rng.bool();
            let kind = if reset { Command::ResetCircuit } else { Command::ClearFailures };
            return Some(kind(tenant, destination));
        }
        let jobs: Vec<(TenantId, JobKey, bool)> =
            self.store.jobs().map(|(tenant, job)| (tenant, job.key, job.end.is_some())).collect();
        // Few jobs are open at a time.
        let open: Vec<_> = jobs.iter().filter(|(_, _, ended)| !ended).cloned().collect();
        let jobs = if open.is_empty() || self.rng.bool() { jobs } else { open };
        let (tenant, mut key, _) = jobs.get(self.rng.usize(0..jobs.len().max(1)))?.clone();
        if chance(&mut self.rng, 3) {
            key.ordinal += 50;
        }
        let run = RunId(Uuid::from_u128(self.rng.u128(..)));
        Some(Command::Retry { tenant, key, run, trigger: Trigger::Manual })
    }

    /// What an engine is given of a record, a deliberate fault included.
    pub fn tamper(&mut self, place: Place, record: LaneRecord) -> LaneRecord {
        let LaneRecord::Command(id, mut command) = record else { return record };
        let first = *self.checks.commands.read_by.entry(id).or_insert(place);
        match self.fault {
            Some(Fault::CommandReadOnce) if first != place => return LaneRecord::Drop,
            Some(Fault::RunOfItsOwn) => {
                if let Command::Retry { run, .. } = &mut *command {
                    let another = RunId(Uuid::from_u128(self.rng.u128(..)));
                    self.checks.commands.wanted.insert(another, *run);
                    *run = another;
                }
            }
            _ => {}
        }
        LaneRecord::Command(id, command)
    }

    /// An engine says that a command is done.
    pub fn command_done(&mut self, id: CommandId, result: CommandResult) {
        let asked = self.checks.commands.asked.get(&id).map(|(command, _)| command.tenant().clone());
        let made = match (asked, result) {
            (Some(tenant), CommandResult::Done(Some(key))) => self.store.job(&tenant, key),
            (_, _) => None,
        };
        self.checks.command_done(id, result, made.as_ref());
    }
}
