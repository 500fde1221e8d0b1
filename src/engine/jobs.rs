//! Jobs in memory: how they come in, sleep, wake, leave for the log, and end.
//!
//! Each job in memory is covered: something durable, written no later than whatever lets low-water or the due
//! bound pass it, makes a restart find it again ([`Cover`]).

use std::rc::Rc;

use super::arena::Handle;
use super::job::{Class, Cover, HeldEvent, Job, Phase};
use super::pipeline::Effect;
use super::rows::Row;
use super::shard::Shard;
use super::subscriber::Subscriber;
use super::{Notice, retry};
use crate::types::destination::Ordering;
use crate::types::{End, EndReason, ErrorKind, Event, JobKey, JobRecord, RunId, Slot, TenantId, Time, Trigger};

impl Shard {
    /// A job that matching just made.
    pub(super) fn queue_new_job(
        &mut self,
        key: JobKey,
        subscriber: Handle<Subscriber>,
        held: Handle<HeldEvent>,
        now: Time,
    ) {
        let state = &self.subscribers[subscriber];
        let behind_cursor = state.cursor_written.is_some_and(|cursor| cursor <= key.sequence);
        let cover = if behind_cursor { Cover::Cursor } else { Cover::Tail };
        let created_at = self.held[held].event.received_at;
        let job = self.fresh_job(key, subscriber, held, created_at, now);
        let job = self.add_job(Job { cover, ..job });
        self.enqueue(job);
    }

    /// A job as it is before its first attempt.
    fn fresh_job(
        &self,
        key: JobKey,
        subscriber: Handle<Subscriber>,
        held: Handle<HeldEvent>,
        created_at: Time,
        now: Time,
    ) -> Job {
        let state = &self.subscribers[subscriber];
        let destination = self.destination_of(subscriber);
        Job {
            key,
            tenant: state.tenant,
            subscriber,
            held,
            run: RunId::MATCH,
            trigger: Trigger::Match,
            created_at,
            phase: Phase::Queued,
            class: Class::First,
            cover: Cover::Tail,
            group: state.group_of(&self.held[held].event, &destination),
            out: false,
            next_at: Time::ZERO,
            deadline: retry::deadline(state.retry(&destination), created_at),
            rested_at: now,
            attempts: 0,
            counted: 0,
            reclaims: 0,
            faults: 0,
            stale_used: false,
            fresh_connection: false,
            sent_to: None,
            probe: false,
            last_status: None,
            last_error_kind: None,
        }
    }

    /// A job as the log knows it.
    pub(super) fn logged_job(
        &self,
        record: &JobRecord,
        subscriber: Handle<Subscriber>,
        held: Handle<HeldEvent>,
        now: Time,
    ) -> Job {
        Job {
            run: record.run,
            trigger: record.trigger,
            next_at: record.next_at.unwrap_or(Time::ZERO),
            attempts: record.attempts,
            counted: record.counted,
            reclaims: record.reclaims,
            last_status: record.last_status,
            last_error_kind: record.last_error_kind,
            ..self.fresh_job(record.key, subscriber, held, record.created_at, now)
        }
    }

    /// Which share of attempts a job of the log belongs to. One of which no attempt is known to have come back has
    /// its first attempt still before it: cut by a crash or a shutdown, it keeps its place before later jobs.
    pub(super) fn class_of(&self, record: &JobRecord, subscriber: Handle<Subscriber>) -> Class {
        let cut = matches!(record.last_error_kind, None | Some(ErrorKind::Interrupted));
        let untried = cut && record.last_status.is_none();
        let strict = self.ordering_of(subscriber) == Ordering::Strict;
        if record.run == RunId::MATCH && (untried || strict) { Class::First } else { Class::Retry }
    }

    /// The order in force for a subscription.
    pub(super) fn ordering_of(&self, subscriber: Handle<Subscriber>) -> Ordering {
        self.subscribers[subscriber].ordering(&self.destination_of(subscriber))
    }

    /// Puts a job into memory.
    pub(super) fn add_job(&mut self, job: Job) -> Handle<Job> {
        let (key, cover, subscriber) = (job.key, job.cover, job.subscriber);
        self.tenants[job.tenant].jobs += 1;
        self.held[job.held].jobs += 1;
        self.take_cover(key, subscriber, cover);
        let weight = self.held[job.held].event.weight();
        let place = job.place();
        let handle = self.jobs.insert(job);
        let state = &mut self.subscribers[subscriber];
        state.jobs.insert(place, handle);
        state.bytes += weight;
        let before = self.job_of.insert(key, handle);
        assert!(before.is_none(), "a job is in memory once");
        handle
    }

    fn take_cover(&mut self, key: JobKey, subscriber: Handle<Subscriber>, cover: Cover) {
        match cover {
            Cover::Tail => self.slot(key.slot).tail.add(key.sequence),
            Cover::Due(at) => self.slot(key.slot).due.hold(at),
            Cover::Cursor => {
                self.subscribers[subscriber].covered.insert((key.sequence, key.ordinal));
            }
        }
    }

    fn leave_cover(&mut self, key: JobKey, subscriber: Handle<Subscriber>, cover: Cover) {
        match cover {
            Cover::Tail => self.slot(key.slot).tail.done(key.sequence),
            Cover::Due(at) => self.slot(key.slot).due.release(at),
            Cover::Cursor => {
                self.subscribers[subscriber].covered.remove(&(key.sequence, key.ordinal));
                self.cursor_moved(subscriber);
            }
        }
    }

    /// Exchanges what covers a job; the new cover's row has been pushed already.
    pub(super) fn change_cover(&mut self, handle: Handle<Job>, cover: Cover) {
        let (key, subscriber, old) = {
            let job = &self.jobs[handle];
            (job.key, job.subscriber, job.cover)
        };
        self.take_cover(key, subscriber, cover);
        self.leave_cover(key, subscriber, old);
        self.jobs[handle].cover = cover;
    }

    /// Lets a job wait in its queue.
    pub(super) fn enqueue(&mut self, handle: Handle<Job>) {
        let job = &mut self.jobs[handle];
        job.phase = Phase::Queued;
        let (subscriber, group, class) = (job.subscriber, job.group, job.class);
        self.subscribers[subscriber].queue.push_back(group, class, handle);
        self.list_subscriber(subscriber);
    }

    /// Puts a job that was let out back before the others, and frees its group.
    pub(super) fn requeue_first(&mut self, handle: Handle<Job>) {
        let job = &mut self.jobs[handle];
        job.phase = Phase::Queued;
        let (subscriber, group, class) = (job.subscriber, job.group, job.class);
        self.subscribers[subscriber].queue.push_front(group, class, handle);
        self.release_group(handle);
        self.list_subscriber(subscriber);
    }

    /// Frees the group that a job holds, if it holds it.
    pub(super) fn release_group(&mut self, handle: Handle<Job>) {
        let job = &mut self.jobs[handle];
        if std::mem::take(&mut job.out) {
            let (subscriber, group) = (job.subscriber, job.group);
            self.subscribers[subscriber].queue.release(group);
            self.list_subscriber(subscriber);
        }
    }

    /// Lets a job sleep in memory until `at`.
    pub(super) fn sleep(&mut self, handle: Handle<Job>, at: Time) {
        let timer = self.wheel.insert(at, handle);
        let job = &mut self.jobs[handle];
        job.phase = Phase::Sleeping(timer);
        job.next_at = at;
        let (place, subscriber) = (job.place(), job.subscriber);
        let target = self.subscribers[subscriber].target;
        self.targets[target].sleeping.insert(place, handle);
    }

    /// A sleeping job's time has come, or it is wanted before.
    pub(super) fn wake_job(&mut self, handle: Handle<Job>, now: Time) {
        let Some(job) = self.jobs.get_mut(handle) else { return };
        let Phase::Sleeping(timer) = job.phase else { return };
        job.rested_at = now;
        let (place, subscriber, out) = (job.place(), job.subscriber, job.out);
        self.wheel.cancel(timer);
        let target = self.subscribers[subscriber].target;
        self.targets[target].sleeping.remove(&place);
        if out {
            self.requeue_first(handle);
        } else {
            self.enqueue(handle);
        }
        self.overfull(handle, now);
    }

    /// A queue of retries that can't go out does not grow in memory: the newest goes back to the log.
    fn overfull(&mut self, handle: Handle<Job>, now: Time) {
        let job = &self.jobs[handle];
        let subscriber = &self.subscribers[job.subscriber];
        let crowded = subscriber.queue.waiting(Class::Retry) > self.settings.bounds.queue_head_jobs;
        if job.class == Class::Retry && !job.out && crowded {
            let later = now + self.settings.bounds.near_future;
            if self.take_out(handle) {
                self.leave_until(handle, later);
            }
        }
    }

    /// Takes a waiting job out of its queue; `false` when it does not wait there.
    pub(super) fn take_out(&mut self, handle: Handle<Job>) -> bool {
        let job = &self.jobs[handle];
        let (subscriber, group, class) = (job.subscriber, job.group, job.class);
        self.subscribers[subscriber].queue.remove(group, class, handle)
    }

    /// Lets a job leave memory: a due row brings it back.
    pub(super) fn leave_until(&mut self, handle: Handle<Job>, at: Time) {
        self.write_due(handle, at);
        self.counters.jobs_spilled += 1;
        let key = self.jobs[handle].key;
        let target = self.subscribers[self.jobs[handle].subscriber].target;
        self.targets[target].searched = false;
        self.forget_job(handle);
        self.depart(key);
    }

    /// Writes a due row for a job and returns its time, which may be later than `at`.
    pub(super) fn write_due(&mut self, handle: Handle<Job>, at: Time) -> Time {
        let (key, tenant) = (self.jobs[handle].key, self.tenants[self.jobs[handle].tenant].id.clone());
        self.write_due_row(&tenant, key, at)
    }

    /// Writes a due row for a job that need not be in memory.
    pub(super) fn write_due_row(&mut self, tenant: &TenantId, key: JobKey, at: Time) -> Time {
        let state = self.slot(key.slot);
        let at = state.due.time_for(at);
        state.pipeline.push(Row::Due { tenant: tenant.clone(), key, at });
        state.pipeline.follow(Effect::DueWritten(at));
        state.due.wrote(at);
        self.touch(key.slot);
        at
    }

    /// Covers a job that stays in memory by a due row.
    pub(super) fn cover_by_due(&mut self, handle: Handle<Job>, at: Time) {
        let at = self.write_due(handle, at);
        self.change_cover(handle, Cover::Due(at));
    }

    /// Ends a job that is not in flight, without an attempt.
    pub(super) fn end_job(&mut self, handle: Handle<Job>, end: End, now: Time) {
        let (key, tenant) = (self.jobs[handle].key, self.tenants[self.jobs[handle].tenant].id.clone());
        self.take_out_of_everything(handle);
        self.slot(key.slot).pipeline.push(Row::End { tenant, key, end, at: now });
        self.finish(handle, end, now);
    }

    /// Takes a job out of its queue, its sleep or its suspicion.
    fn take_out_of_everything(&mut self, handle: Handle<Job>) {
        match self.jobs[handle].phase {
            Phase::Queued => {
                self.take_out(handle);
            }
            Phase::Sleeping(timer) => {
                self.wheel.cancel(timer);
                let (place, subscriber) = (self.jobs[handle].place(), self.jobs[handle].subscriber);
                let target = self.subscribers[subscriber].target;
                self.targets[target].sleeping.remove(&place);
            }
            Phase::Suspect => self.suspects.retain(|other| *other != handle),
            Phase::Claimed(_) | Phase::Started(..) | Phase::Foreign(_) => {}
        }
    }

    /// The job has ended, and a row that says so has been pushed.
    pub(super) fn finish(&mut self, handle: Handle<Job>, end: End, now: Time) {
        let (key, subscriber) = (self.jobs[handle].key, self.jobs[handle].subscriber);
        self.count_end(end);
        if end == End::Delivered {
            let received_at = self.held[self.jobs[handle].held].event.received_at;
            self.counters.delivery_latencies.observe(now.since(received_at));
        }
        if let End::DeadLettered(reason) = end {
            self.dead_letter(handle, end, reason, now);
        }
        self.release_group(handle);
        self.forget_job(handle);
        self.depart(key);
        self.touch(key.slot);
        self.refill_if_low(subscriber);
        self.drop_if_spent(subscriber);
    }

    fn dead_letter(&mut self, handle: Handle<Job>, end: End, reason: EndReason, now: Time) {
        let job = &self.jobs[handle];
        let subscription = &self.subscribers[job.subscriber].subscription;
        let record = job.record(subscription.id, subscription.destination_id, end, now);
        let event = Rc::clone(&self.held[job.held].event);
        let (key, tenant) = (job.key, event.tenant.clone());
        self.slot(key.slot).pipeline.push(Row::DeadLetter { event, job: Box::new(record) });
        self.outputs.push_back(super::Output::Notice(Notice::DeadLettered { tenant, key, reason }));
    }

    /// Takes a job out of memory and all its counts.
    pub(super) fn forget_job(&mut self, handle: Handle<Job>) {
        let job = self.jobs.remove(handle).expect("a job is forgotten once");
        self.job_of.remove(&job.key);
        self.tenants[job.tenant].jobs -= 1;
        let weight = self.held[job.held].event.weight();
        let state = &mut self.subscribers[job.subscriber];
        state.jobs.remove(&job.place());
        state.bytes -= weight;
        self.leave_cover(job.key, job.subscriber, job.cover);
        let held = &mut self.held[job.held];
        held.jobs -= 1;
        if held.jobs == 0 {
            self.release_held(job.held);
        }
        self.feed(job.tenant);
    }

    /// Lets go of an event that no job needs.
    pub(super) fn release_held(&mut self, held: Handle<HeldEvent>) {
        let held = self.held.remove(held).expect("an event is held until its last job goes");
        self.held_bytes -= held.event.weight();
        self.tenants[held.tenant].bytes -= held.event.weight();
    }

    /// Remembers that a job has left memory until the log says so.
    pub(super) fn depart(&mut self, key: JobKey) {
        let state = self.slot(key.slot);
        state.departed.leave(key);
        state.pipeline.follow(Effect::Departed(key));
    }

    /// Undoes an event that the store refuses by itself: its id, its jobs.
    pub(super) fn forget_event(&mut self, slot: Slot, event: &Event, jobs: u16, now: Time) {
        let mask = self.tenant_of.get(&event.tenant).map(|tenant| self.tenants[*tenant].mask);
        if let Some(mask) = mask {
            let minute = super::dedup::bucket_minute(event.id);
            self.dedup.remove(slot, minute, super::dedup::dedup_key(mask, event.id));
        }
        for ordinal in 0..jobs {
            let key = JobKey { slot, sequence: event.sequence, ordinal };
            let Some(handle) = self.job_of.get(&key).copied() else { continue };
            let subscriber = self.jobs[handle].subscriber;
            self.withdraw_claim(handle, now);
            self.take_out_of_everything(handle);
            self.release_group(handle);
            self.forget_job(handle);
            self.refill_if_low(subscriber);
        }
    }
}
