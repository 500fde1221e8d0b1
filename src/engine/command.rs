//! Commands of the API: a retry, a circuit closed by hand, a probe that succeeded.
//!
//! A retry of a job that is not in memory begins by reading its event; commands on one event go one after the
//! other, so that two never give the same ordinal away.
//!
//! On a lease commands come on the slot's lane, in order with the events, and a record is settled when its command is
//! done. So whoever takes the slot meets each command that its former owner may have begun, in the same order and
//! knowing at least as much, and gives its run the same ordinal, should the former owner's row arrive late.

use super::job::Cover;
use super::load::Logged;
use super::parked::Parked;
use super::pipeline::Effect;
use super::rows::{LoggedEvent, Read, Row, Unit};
use super::shard::{Asked, Shard};
use super::slot::SlotPhase;
use super::{Command, CommandId, CommandResult, LaneNumber, Output};
use crate::types::ids::uuid_v7_time;
use crate::types::{DestinationId, End, JobKey, JobRecord, RunId, Sequence, Slot, TenantId, Time, Trigger, limits};

/// Commands that wait for another one on the same event; a lane's have a bound of their own, as all its records.
const WAITING_MAX: usize = 1_024;

/// Whom a command's result goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    /// The shell's number.
    pub(super) id: CommandId,
    /// The record that brought it: its lane and offset.
    pub(super) record: Option<(LaneNumber, u64)>,
}

/// A command, and whom its result goes to.
#[derive(Debug)]
pub(super) struct Errand {
    asker: Asker,
    command: Command,
}

impl Asker {
    /// Whether the record was settled by a former owner of the slot, who had settled all up to `settled_before`.
    fn is_settled(&self, settled_before: Sequence) -> bool {
        self.record.is_some_and(|(_, offset)| offset < settled_before.0)
    }
}

impl Shard {
    /// Takes a command in.
    pub(super) fn command(&mut self, id: CommandId, command: Command, now: Time) {
        self.carry_out(Errand { asker: Asker { id, record: None }, command }, now);
    }

    /// Takes in a command that a lane has brought, the own lane of `slot`: it stands in its tenant's line. A drained shard
    /// leaves it to the slot's next owner.
    pub(super) fn lane_command(&mut self, slot: Option<Slot>, asker: Asker, command: Command, now: Time) {
        if self.draining {
            return;
        }
        let own = slot.filter(|slot| Slot::of(command.tenant(), self.settings.slots) == *slot);
        let possible = match (&command, asker.record) {
            (Command::Retry { key, .. }, Some((_, offset))) => own == Some(key.slot) && key.sequence.0 <= offset,
            (Command::Retry { .. }, None)
            | (Command::ResetCircuit(..) | Command::ClearFailures(..) | Command::Mark(_), _) => own.is_some(),
        };
        if !possible {
            return self.command_done(asker, CommandResult::NotFound);
        }
        let tenant = self.tenant(&command.tenant().clone());
        let errand = Parked::Command(Errand { asker, command });
        if let Some(Parked::Command(errand)) = self.stand_in_line(tenant, errand, now) {
            self.carry_out(errand, now);
        }
        if let Some((lane, _)) = asker.record {
            self.pause_if(lane, self.has_parked_its_share(tenant));
        }
    }

    /// Begins a command whose turn it is.
    pub(super) fn carry_out(&mut self, errand: Errand, now: Time) {
        let Errand { asker, command } = &errand;
        let slot = Slot::of(command.tenant(), self.settings.slots);
        if self.slots.get(&slot).is_some_and(|state| asker.is_settled(state.settled_before)) {
            return self.settle_command(*asker);
        }
        match command {
            Command::ResetCircuit(tenant, destination) => self.forgive(*asker, tenant, *destination, false, now),
            Command::ClearFailures(tenant, destination) => self.forgive(*asker, tenant, *destination, true, now),
            Command::Retry { key, .. } => {
                let key = *key;
                self.retry(errand, key, now);
            }
            Command::Mark(_) => self.mark(*asker, slot),
        }
    }

    /// What stood before it in the tenant's line has been taken in; what that writes is to be durable.
    fn mark(&mut self, asker: Asker, slot: Slot) {
        if self.draining || self.slots.get(&slot).is_none_or(|slot| slot.phase == SlotPhase::Loading) {
            if asker.record.is_none() {
                self.command_done(asker, CommandResult::Busy);
            }
            return;
        }
        let own = asker.record.map(|(_, offset)| JobKey { slot, sequence: Sequence(offset + 1), ordinal: 0 });
        self.follow_command(slot, asker, CommandResult::Done(own));
    }

    /// A command is done, and what it wrote is durable.
    pub(super) fn command_done(&mut self, asker: Asker, result: CommandResult) {
        self.outputs.push_back(Output::CommandDone(asker.id, result));
        self.settle_command(asker);
    }

    fn settle_command(&mut self, asker: Asker) {
        if let Some((lane, offset)) = asker.record {
            self.intake.settle(lane, offset);
            self.slot_settled(lane);
        }
    }

    /// Closes a circuit, and clears the failure span where a probe has succeeded.
    fn forgive(&mut self, asker: Asker, tenant: &TenantId, destination: DestinationId, span: bool, now: Time) {
        let found = self.target_of.get(&destination).copied();
        let Some(handle) = found.filter(|target| self.tenants[self.targets[*target].tenant].id == *tenant) else {
            return self.command_done(asker, CommandResult::NotFound);
        };
        let slot = self.tenants[self.targets[handle].tenant].slot;
        if self.slots[&slot].phase == SlotPhase::Loading {
            return self.command_done(asker, CommandResult::Busy);
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
        self.follow_command(slot, asker, CommandResult::Done(None));
    }

    /// Lets a command be done once all that its slot has to write so far is durable.
    fn follow_command(&mut self, slot: Slot, asker: Asker, result: CommandResult) {
        self.slot(slot).pipeline.follow(Effect::Command(asker, result));
        self.touch(slot);
    }

    fn retry(&mut self, errand: Errand, key: JobKey, now: Time) {
        let asker = errand.asker;
        if self.draining || self.slots.get(&key.slot).is_none_or(|slot| slot.phase == SlotPhase::Loading) {
            if asker.record.is_none() {
                self.command_done(asker, CommandResult::Busy);
            }
            return;
        }
        if let Some(handle) = self.job_of.get(&key).copied() {
            self.jobs[handle].next_at = self.jobs[handle].next_at.min(now);
            self.wake_job(handle, now);
            // If its attempt can begin at once, the claim goes with the same batch.
            return self.follow_command(key.slot, asker, CommandResult::Done(Some(key)));
        }
        if !self.slot(key.slot).locked.insert(key.sequence) {
            if asker.record.is_none() && self.commands_waiting.len() >= WAITING_MAX {
                self.command_done(asker, CommandResult::Busy);
            } else {
                self.commands_waiting.push_back(errand);
            }
            return;
        }
        let read = event_of(&errand.command, key);
        self.commands.insert(asker.id, errand);
        self.ask(Asked::Command(key.slot, asker.id), read);
    }

    /// The event of a retry came. Without a lease nothing is concluded from it: it is asked for again.
    pub(super) fn command_read(&mut self, id: CommandId, event: Option<LoggedEvent>, now: Time) {
        let Some(errand) = self.commands.remove(&id) else { return };
        let Errand { asker, command: Command::Retry { key, run, trigger, .. } } = errand else { return };
        if asker.record.is_some() && !self.holds_lease(now) {
            self.failed_reads.push((Asked::Command(key.slot, id), event_of(&errand.command, key)));
            self.commands.insert(id, errand);
            return;
        }
        let result = match event {
            Some(event) if asker.record.is_some() && is_fulfilled(&event, key, run) => CommandResult::Done(Some(key)),
            Some(event) => self.retry_logged(event, key, run, trigger, now),
            None => CommandResult::NotFound,
        };
        self.follow_command(key.slot, asker, result);
        self.slot(key.slot).pipeline.follow(Effect::Unlock(key.sequence));
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
        let refusal = self.refusal(&logged, &record);
        match (record.end, refusal) {
            (None, Some(refusal)) => refusal,
            (None, None) => self.bring_forward(logged, &record, now),
            (Some(_), None) => self.run_again(logged, &record, run, trigger, now),
            (Some(_), Some(refusal)) => {
                // A former owner may have made the run, and its row may be on its way: it must find its end here.
                if self.is_on_lease() {
                    self.run_again(logged, &record, run, trigger, now);
                }
                refusal
            }
        }
    }

    /// Why nothing could be sent for a job.
    fn refusal(&self, logged: &LoggedEvent, record: &JobRecord) -> Option<CommandResult> {
        if !self.subscriber_of.contains_key(&record.subscription) {
            Some(CommandResult::SubscriptionDeleted)
        } else if logged.payload_expired {
            Some(CommandResult::Expired)
        } else {
            None
        }
    }

    /// A job that sleeps in the store is due now. It gets a new row of its own, since its old one lies ahead.
    fn bring_forward(&mut self, logged: LoggedEvent, record: &JobRecord, now: Time) -> CommandResult {
        if self.has_no_room(&logged.event.tenant) {
            return CommandResult::Busy;
        }
        let key = record.key;
        self.take_up(logged, &JobRecord { next_at: Some(now), ..record.clone() }, now);
        CommandResult::Done(Some(key))
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
        if let Some(made) = runs.clone().find(|job| job.run == run).cloned() {
            let key = made.key;
            // Of a former owner's rows this may be the only one that arrived.
            if made.end.is_none() && made.attempts == 0 {
                self.take_up(logged, &made, now);
            }
            return CommandResult::Done(Some(key));
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
        let row = Row::Run { tenant, key, subscription, destination, run, trigger, created_at: now };
        self.slot(key.slot).pipeline.push(row);
        self.counters.jobs_made.count(trigger.as_str());
        self.take_up(logged, &job, now);
        CommandResult::Done(Some(key))
    }

    /// Covers a job that waits in the log by a row of its own, and lets it into memory where there is room.
    fn take_up(&mut self, logged: LoggedEvent, job: &JobRecord, now: Time) {
        if self.job_of.contains_key(&job.key) || self.is_outdated(&job.key) {
            return;
        }
        let tenant = logged.event.tenant.clone();
        let at = self.write_due_row(&tenant, job.key, now);
        if !self.has_no_room(&tenant) {
            self.place(&mut Logged::open(logged).0, job, Cover::Due(at), now);
        }
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
        let on_this = |errand: &Errand| match &errand.command {
            Command::Retry { key, .. } => key.slot == slot && key.sequence == sequence,
            Command::ResetCircuit(..) | Command::ClearFailures(..) | Command::Mark(_) => false,
        };
        while !self.slot(slot).locked.contains(&sequence)
            && let Some(position) = self.commands_waiting.iter().position(on_this)
            && let Some(errand) = self.commands_waiting.remove(position)
        {
            self.carry_out(errand, now);
        }
    }

    /// The slots of this shard.
    pub(super) fn own_slots(&self) -> Vec<Slot> {
        self.slots.keys().copied().collect()
    }
}

/// Whether the job was delivered after the retry was asked for, by the time that the run's id carries, and has no such
/// run: it was pending then, a former owner has brought it forward, and another delivery is not wanted.
fn is_fulfilled(logged: &LoggedEvent, key: JobKey, run: RunId) -> bool {
    let job = logged.jobs.iter().find(|job| job.key == key);
    let delivered_at = job.and_then(|job| job.end).and_then(|(end, at)| (end == End::Delivered).then_some(at));
    let is_made = logged.jobs.iter().any(|job| job.run == run);
    delivered_at.is_some_and(|at| !is_made && at > uuid_v7_time(run.0))
}

/// The read that a retry begins with.
fn event_of(command: &Command, key: JobKey) -> Read {
    Read::Event { slot: key.slot, tenant: command.tenant().clone(), sequence: key.sequence }
}
