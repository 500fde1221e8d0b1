//! Who is next: fair rings over tenants, then destinations, then subscriptions, first attempts and retries apart.
//!
//! A ring holds only who has something ready; whoever may not start (its share is used up, its circuit is open,
//! its rate is spent) drops out when its turn comes and is listed again by what lifts the obstacle: an attempt
//! that ends, a timer, a change. So a turn costs the same however many wait.

use super::arena::Handle;
use super::circuit::Permit;
use super::job::{Class, Job, Phase};
use super::shard::Shard;
use super::slot::SlotPhase;
use super::subscriber::Subscriber;
use super::target::Target;
use super::tenant::Tenant;
use crate::types::{Event, Slot, Time, limits};

/// One attempt's cost in a turn, in units of this many payload bytes beyond the first.
const COST_UNIT_BYTES: usize = 64 * 1024;

/// Whether a destination lets an attempt start.
enum Gate {
    Open { probe: bool },
    Shut,
}

impl Shard {
    /// Claims as many jobs as may start now.
    pub(super) fn pump(&mut self, now: Time) {
        while !self.draining && !self.alone && self.holds_lease(now) {
            if self.suspect_is_due(now) {
                self.held_back_since.get_or_insert(now);
                if self.in_flight > 0 {
                    return;
                }
                self.claim_suspect(now);
                continue;
            }
            if self.in_flight >= self.settings.attempts_max {
                return;
            }
            match self.pick(now) {
                Some((job, probe)) => self.consider(job, probe, now),
                None if self.list_one_slow() => {}
                None => return,
            }
        }
    }

    /// Lists the next destination that waits for the slow ones' share, if that has room.
    fn list_one_slow(&mut self) -> bool {
        if self.slow_in_flight >= self.slow_share() {
            return false;
        }
        let Some(handle) = self.slow_waiting.pop_front() else { return false };
        if let Some(target) = self.targets.get_mut(handle) {
            target.waits_as_slow = false;
        }
        self.list_target(handle);
        true
    }

    fn slow_share(&self) -> u32 {
        (self.settings.attempts_max / limits::SLOW_SHARE_DIVISOR).max(1)
    }

    /// Lists a subscription, its destination and its tenant where they have something ready.
    pub(super) fn list_subscriber(&mut self, handle: Handle<Subscriber>) {
        let subscriber = &mut self.subscribers[handle];
        if !subscriber.is_live() {
            return;
        }
        let target = subscriber.target;
        for class in Class::BOTH {
            let index = class.index();
            if subscriber.queue.has_ready(class) && !subscriber.listed[index] {
                subscriber.listed[index] = true;
                self.targets[target].ring[index].push_back(handle);
            }
        }
        self.list_target(target);
    }

    /// Lists a destination and its tenant where they have something ready.
    pub(super) fn list_target(&mut self, handle: Handle<Target>) {
        let Some(target) = self.targets.get_mut(handle) else { return };
        let tenant = target.tenant;
        for index in Class::BOTH.map(Class::index) {
            if !target.ring[index].is_empty() && !target.listed[index] {
                target.listed[index] = true;
                self.tenants[tenant].ring[index].push_back(handle);
            }
        }
        self.list_tenant(tenant);
    }

    /// Lists a tenant where it has something ready.
    pub(super) fn list_tenant(&mut self, handle: Handle<Tenant>) {
        if self.tenants[handle].paused || self.waits_for_its_slot(handle) {
            return;
        }
        let tenant = &mut self.tenants[handle];
        for index in Class::BOTH.map(Class::index) {
            if !tenant.ring[index].is_empty() && !tenant.listed[index] {
                tenant.listed[index] = true;
                self.ring[index].push_back(handle);
            }
        }
    }

    /// On a lease nothing is attempted before all is known of what a former owner may still attempt.
    fn waits_for_its_slot(&self, handle: Handle<Tenant>) -> bool {
        let slot = &self.slots[&self.tenants[handle].slot];
        slot.lane.is_some() && (slot.phase == SlotPhase::Loading || !slot.ahead.is_empty())
    }

    /// Lists all tenants of a slot that has been loaded.
    pub(super) fn list_slot(&mut self, slot: Slot) {
        let tenants: Vec<Handle<Tenant>> =
            self.tenants.iter().filter(|(_, tenant)| tenant.slot == slot).map(|(handle, _)| handle).collect();
        for tenant in tenants {
            self.list_tenant(tenant);
        }
    }

    /// A destination may let something out again.
    pub(super) fn wake_target(&mut self, handle: Handle<Target>, now: Time) {
        let Some(target) = self.targets.get_mut(handle) else { return };
        target.wake = None;
        let idle = target.ring.iter().all(std::collections::VecDeque::is_empty);
        let probe = idle && target.circuit.permit(now) == Permit::Probe;
        match target.hold_until.filter(|until| *until > now) {
            Some(until) => self.wake_target_at(handle, until),
            None if probe => self.wake_for_probe(handle, now),
            None => self.wake_for_circuit(handle, now),
        }
        self.list_target(handle);
    }

    /// A wake for another reason has come before that of the circuit: it is asked for again.
    fn wake_for_circuit(&mut self, handle: Handle<Target>, now: Time) {
        if let Some(at) = self.targets[handle].circuit.next_probe_at().filter(|at| *at > now) {
            self.wake_target_at(handle, at);
        }
    }

    /// The probe is the first waiting job, due or not.
    fn wake_for_probe(&mut self, handle: Handle<Target>, now: Time) {
        let first = self.targets[handle].sleeping.values().copied().find(|job| {
            let job = &self.jobs[*job];
            self.subscribers[job.subscriber].is_live() && !self.tenants[job.tenant].paused
        });
        match first {
            Some(job) => self.wake_job(job, now),
            None => self.search_probe(handle),
        }
    }

    /// Asks for a destination to be looked at again at `at`.
    pub(super) fn wake_target_at(&mut self, handle: Handle<Target>, at: Time) {
        let target = &mut self.targets[handle];
        if target.wake.is_some_and(|wake| wake <= at) {
            return;
        }
        if let Some(later) = target.wake.replace(at) {
            self.wakes.remove(&(later, handle));
        }
        self.wakes.insert((at, handle));
    }

    fn pick(&mut self, now: Time) -> Option<(Handle<Job>, bool)> {
        let class = self.turn;
        self.turn = class.other();
        for class in [class, class.other()] {
            if class == Class::Retry && self.retries_have_their_share() {
                continue;
            }
            if let Some(picked) = self.pick_class(class, now) {
                return Some(picked);
            }
        }
        None
    }

    /// First attempts keep a reserved share while any wait.
    fn retries_have_their_share(&self) -> bool {
        let share = (self.settings.attempts_max / limits::RETRY_SHARE_DIVISOR).max(1);
        self.retries_in_flight >= share && !self.ring[Class::First.index()].is_empty()
    }

    fn pick_class(&mut self, class: Class, now: Time) -> Option<(Handle<Job>, bool)> {
        let index = class.index();
        while let Some(handle) = self.ring[index].pop_front() {
            let alone = self.ring[index].is_empty();
            let share = (self.settings.attempts_max / limits::TENANT_SHARE_DIVISOR).max(1);
            let tenant = &mut self.tenants[handle];
            tenant.listed[index] = false;
            if tenant.paused || tenant.in_flight >= share {
                continue;
            }
            if tenant.debt[index] > 0 && !alone {
                tenant.debt[index] -= 1;
                self.list_tenant(handle);
                continue;
            }
            let picked = self.pick_target(handle, class, now);
            if let Some((job, _)) = picked {
                let cost = cost(&self.held[self.jobs[job].held].event);
                let tenant = &mut self.tenants[handle];
                tenant.debt[index] = if alone { 0 } else { tenant.debt[index] + cost - 1 };
                self.list_tenant(handle);
                return picked;
            }
        }
        None
    }

    fn pick_target(&mut self, tenant: Handle<Tenant>, class: Class, now: Time) -> Option<(Handle<Job>, bool)> {
        let index = class.index();
        while let Some(handle) = self.tenants[tenant].ring[index].pop_front() {
            let Some(target) = self.targets.get_mut(handle) else { continue };
            target.listed[index] = false;
            if target.ring[index].is_empty() {
                continue;
            }
            let Gate::Open { probe } = self.gate(handle, now) else { continue };
            let job = self.pick_subscriber(handle, class);
            if job.is_none() && probe {
                self.wake_for_probe(handle, now);
            }
            self.list_target(handle);
            if let Some(job) = job {
                return Some((job, probe));
            }
        }
        None
    }

    fn pick_subscriber(&mut self, target: Handle<Target>, class: Class) -> Option<Handle<Job>> {
        let index = class.index();
        while let Some(handle) = self.targets[target].ring[index].pop_front() {
            let Some(subscriber) = self.subscribers.get_mut(handle) else { continue };
            subscriber.listed[index] = false;
            if !subscriber.is_live() || subscriber.target != target {
                continue;
            }
            let job = subscriber.queue.pop(class);
            self.list_subscriber(handle);
            if let Some(job) = job {
                self.jobs[job].out = self.subscribers[handle].queue.is_one_at_a_time();
                self.refill_if_low(handle);
                return Some(job);
            }
        }
        None
    }

    fn gate(&mut self, handle: Handle<Target>, now: Time) -> Gate {
        let slow_share = self.slow_share();
        let target = &mut self.targets[handle];
        if is_held(target, now) {
            let until = target.hold_until.unwrap_or(now);
            self.wake_target_at(handle, until);
            return Gate::Shut;
        }
        if target.in_flight >= target.destination.max_in_flight {
            return Gate::Shut;
        }
        if target.slow && self.slow_in_flight >= slow_share {
            if !std::mem::replace(&mut target.waits_as_slow, true) {
                self.slow_waiting.push_back(handle);
            }
            return Gate::Shut;
        }
        let probe = match target.circuit.permit(now) {
            Permit::Free => false,
            Permit::AtMost(most) if target.in_flight < most => false,
            Permit::AtMost(_) | Permit::ProbeOut => return Gate::Shut,
            Permit::Probe => true,
            Permit::WaitUntil(at) => {
                self.wake_target_at(handle, at);
                return Gate::Shut;
            }
        };
        if let Some(at) = target.bucket.as_ref().map(|bucket| bucket.ready_at(now)).filter(|at| *at > now) {
            self.wake_target_at(handle, at);
            return Gate::Shut;
        }
        Gate::Open { probe }
    }

    /// A picked job goes out, waits for its own time (under `strict`), or is suspected of crashing the process.
    fn consider(&mut self, handle: Handle<Job>, probe: bool, now: Time) {
        let job = &self.jobs[handle];
        if job.next_at > now && !probe {
            let (at, class) = (job.next_at, job.class);
            self.sleep(handle, at);
            if class == Class::Retry {
                self.release_group(handle);
            }
        } else if job.reclaims >= limits::RECLAIMS_BEFORE_ALONE {
            self.jobs[handle].phase = Phase::Suspect;
            self.suspects.push_back(handle);
        } else {
            self.claim(handle, probe, false, now);
        }
    }

    fn suspect_is_due(&self, now: Time) -> bool {
        !self.suspects.is_empty() && now >= self.next_suspect_at
    }

    /// Starts the first suspect, alone on the shard, if its destination lets it.
    fn claim_suspect(&mut self, now: Time) {
        let Some(handle) = self.suspects.pop_front() else { return };
        let target = self.subscribers[self.jobs[handle].subscriber].target;
        match self.gate(target, now) {
            Gate::Open { probe } => {
                self.alone = true;
                self.claim(handle, probe, true, now);
            }
            Gate::Shut => self.requeue_first(handle),
        }
    }

    /// Puts suspects back into their queues.
    pub(super) fn withdraw_suspects(&mut self) {
        while let Some(handle) = self.suspects.pop_front() {
            self.requeue_first(handle);
        }
    }
}

/// Whether a `Retry-After` holds the destination.
fn is_held(target: &Target, now: Time) -> bool {
    target.hold_until.is_some_and(|until| now < until)
}

fn cost(event: &Event) -> u32 {
    1 + u32::try_from(event.payload.len() / COST_UNIT_BYTES).unwrap_or(u32::MAX - 1)
}
