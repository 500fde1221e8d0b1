//! Commands of the API: a retry, a circuit closed by hand, a probe that succeeded.
//!
//! A retry of a job that is not in memory begins by reading its event; commands on one event go one after the
//! other, so that two never give the same ordinal away.

use super::job::Cover;
use super::load::Logged;
use super::pipeline::Effect;
use super::rows::{LoggedEvent, Read, Row, Unit};
use super::shard::{Asked, Shard};
use super::{Command, CommandId, CommandResult, Output};
use crate::types::{DestinationId, JobKey, JobRecord, RunId, Sequence, Slot, TenantId, Time, Trigger, limits};

/// Commands that wait for another one on the same event.
const WAITING_MAX: usize = 1_024;

impl Shard {
    /// Takes a command in.
    pub(super) fn command(&mut self, id: CommandId, command: Command, now: Time) {
        match command {
            Command::ResetCircuit(tenant, destination) => {
                self.forgive(id, &tenant, destination, false, now);
            }
            Command::ClearFailures(tenant, destination) => {
                self.forgive(id, &tenant, destination, true, now);
            }
            Command::Retry { tenant, key, run, trigger } => {
                self.retry(id, Command::Retry { tenant, key, run, trigger }, key, now);
            }
        }
    }

    /// Closes a circuit, and clears the failure span where a probe has succeeded.
    fn forgive(&mut self, id: CommandId, tenant: &TenantId, destination: DestinationId, span: bool, now: Time) {
        let found = self.target_of.get(&destination).copied();
        let Some(handle) = found.filter(|target| self.tenants[self.targets[*target].tenant].id == *tenant) else {
            self.outputs.push_back(Output::CommandDone(id, CommandResult::NotFound));
            return;
        };
        let slot = self.tenants[self.targets[handle].tenant].slot;
        if self.slots[&slot].phase == super::slot::SlotPhase::Loading {
            self.outputs.push_back(Output::CommandDone(id, CommandResult::Busy));
            return;
        }
        let target = &mut self.targets[handle];
        if span {
            target.span.succeeded();
        }
        target.hold_until = None;
        let transition = target.circuit.reset(now);
        self.circuit_moved(handle, transition, now);
        self.write_target(handle);
        self.list_target(handle);
        let slot = self.tenants[self.targets[handle].tenant].slot;
        self.slot(slot).pipeline.follow(Effect::Command(id, CommandResult::Done(None)));
        self.touch(slot);
    }

    fn retry(&mut self, id: CommandId, command: Command, key: JobKey, now: Time) {
        if self.draining || self.slots.get(&key.slot).is_none_or(|slot| slot.phase == super::slot::SlotPhase::Loading) {
            self.outputs.push_back(Output::CommandDone(id, CommandResult::Busy));
            return;
        }
        if let Some(handle) = self.job_of.get(&key).copied() {
            self.jobs[handle].next_at = self.jobs[handle].next_at.min(now);
            self.wake_job(handle, now);
            self.outputs.push_back(Output::CommandDone(id, CommandResult::Done(Some(key))));
            return;
        }
        if !self.slot(key.slot).locked.insert(key.sequence) {
            if self.commands_waiting.len() >= WAITING_MAX {
                self.outputs.push_back(Output::CommandDone(id, CommandResult::Busy));
            } else {
                self.commands_waiting.push_back((id, command));
            }
            return;
        }
        if let Command::Retry { tenant, .. } = &command {
            let read = Read::Event { slot: key.slot, tenant: tenant.clone(), sequence: key.sequence };
            self.ask(Asked::Command(key.slot, id), read);
        }
        self.commands.insert(id, command);
    }

    /// The event of a retry came.
    pub(super) fn command_read(&mut self, id: CommandId, event: Option<LoggedEvent>, now: Time) {
        let Some(Command::Retry { key, run, trigger, .. }) = self.commands.remove(&id) else { return };
        let result = match event {
            Some(event) => self.retry_logged(event, key, run, trigger, now),
            None => CommandResult::NotFound,
        };
        let state = self.slot(key.slot);
        state.pipeline.follow(Effect::Command(id, result));
        state.pipeline.follow(Effect::Unlock(key.sequence));
        self.touch(key.slot);
    }

    fn retry_logged(
        &mut self,
        logged: LoggedEvent,
        key: JobKey,
        run: RunId,
        trigger: Trigger,
        now: Time,
    ) -> CommandResult {
        let Some(record) = logged.jobs.iter().find(|job| job.key == key).cloned() else {
            return CommandResult::NotFound;
        };
        let known_better = self.job_of.contains_key(&key) || self.is_outdated(&key);
        if record.end.is_none() && record.attempts == 0 {
            return CommandResult::Done(Some(key));
        }
        if record.end.is_none() && known_better {
            return CommandResult::Busy;
        }
        if !self.subscriber_of.contains_key(&record.subscription) {
            return CommandResult::SubscriptionDeleted;
        }
        if logged.payload_expired {
            return CommandResult::Expired;
        }
        if record.end.is_none() {
            self.bring_forward(logged, &record, now);
            return CommandResult::Done(Some(key));
        }
        self.run_again(logged, &record, run, trigger, now)
    }

    /// A job that sleeps in the store is due now. It gets a new row of its own, since its old one lies ahead.
    fn bring_forward(&mut self, logged: LoggedEvent, record: &JobRecord, now: Time) {
        let tenant = logged.event.tenant.clone();
        let due = JobRecord { next_at: Some(now), ..record.clone() };
        let at = self.write_due_row(&tenant, record.key, now);
        if self.has_no_room(&tenant) {
            return;
        }
        self.place(&mut Logged::open(logged).0, &due, Cover::Due(at), now);
    }

    /// A job that has ended gets a new run, unless this very command has made it already.
    fn run_again(
        &mut self,
        logged: LoggedEvent,
        record: &JobRecord,
        run: RunId,
        trigger: Trigger,
        now: Time,
    ) -> CommandResult {
        let runs = logged.jobs.iter().filter(|job| job.subscription == record.subscription);
        if let Some(done) = runs.clone().find(|job| job.run == run) {
            return CommandResult::Done(Some(done.key));
        }
        if runs.count() > limits::RUNS_MAX {
            return CommandResult::TooManyRuns;
        }
        let last = logged.jobs.iter().map(|job| job.key.ordinal).max().unwrap_or(0);
        let Some(ordinal) = last.checked_add(1) else { return CommandResult::TooManyRuns };
        let key = JobKey { ordinal, ..record.key };
        let tenant = logged.event.tenant.clone();
        let job = JobRecord {
            key,
            run,
            trigger,
            created_at: now,
            attempts: 0,
            counted: 0,
            reclaims: 0,
            open_claim: None,
            next_at: Some(now),
            last_status: None,
            last_error_kind: None,
            end: None,
            ..record.clone()
        };
        let (subscription, destination) = (job.subscription, job.destination);
        let row = Row::Run { tenant: tenant.clone(), key, subscription, destination, run, trigger, created_at: now };
        self.slot(key.slot).pipeline.push(row);
        let at = self.write_due_row(&tenant, key, now);
        self.counters.jobs_made.count(trigger.as_str());
        if self.has_no_room(&tenant) {
            return CommandResult::Done(Some(key));
        }
        self.place(&mut Logged::open(logged).0, &job, Cover::Due(at), now);
        CommandResult::Done(Some(key))
    }

    /// Whether a tenant's jobs should be left to the rows just written.
    fn has_no_room(&mut self, tenant: &TenantId) -> bool {
        let tenant = self.tenant(tenant);
        self.is_crowded(tenant)
    }

    /// A command on this event is done: the next one on it may begin.
    pub(super) fn unlock(&mut self, unit: Unit, sequence: Sequence, now: Time) {
        let Unit::Slot(slot) = unit else { return };
        self.slot(slot).locked.remove(&sequence);
        let on_this = |(_, command): &(CommandId, Command)| match command {
            Command::Retry { key, .. } => key.slot == slot && key.sequence == sequence,
            Command::ResetCircuit(..) | Command::ClearFailures(..) => false,
        };
        while !self.slot(slot).locked.contains(&sequence)
            && let Some(position) = self.commands_waiting.iter().position(on_this)
            && let Some((id, command)) = self.commands_waiting.remove(position)
        {
            self.command(id, command, now);
        }
    }

    /// The slots of this shard.
    pub(super) fn own_slots(&self) -> Vec<Slot> {
        self.slots.keys().copied().collect()
    }
}
