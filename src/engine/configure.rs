//! Changes of the configuration, each in force at once: what is put, deleted, paused and resumed.

use std::rc::Rc;

use super::arena::Handle;
use super::filter::Filter;
use super::job::{Job, Phase};
use super::queue::Queue;
use super::rows::Row;
use super::shard::Shard;
use super::subscriber::{Subscriber, mode_of};
use super::target::Target;
use super::tenant::Tenant;
use super::{Notice, Output};
use crate::types::{
    ConfigChange, Destination, DestinationId, End, RetryPolicy, Sequence, Slot, Subscription, SubscriptionId, TenantId,
    Time,
};

impl Shard {
    /// Takes a change over. Of a slot that it does not hold a shard keeps nothing: with the slot all of it comes again.
    pub(super) fn configure(&mut self, change: ConfigChange, now: Time) {
        if !self.slots.contains_key(&Slot::of(change.tenant(), self.settings.slots)) {
            return;
        }
        self.counters.configuration_changes += 1;
        match change {
            ConfigChange::PutDestination(destination) => self.put_destination(*destination, now),
            ConfigChange::PutSubscription(subscription) => self.put_subscription(*subscription, now),
            ConfigChange::DeleteDestination(tenant, id) => self.delete_destination(&tenant, id, now),
            ConfigChange::DeleteSubscription(tenant, id) => self.delete_subscription(&tenant, id, now),
            ConfigChange::PauseTenant(tenant) => {
                let tenant = self.tenant(&tenant);
                self.tenants[tenant].paused = true;
            }
            ConfigChange::ResumeTenant(tenant) => {
                let tenant = self.tenant(&tenant);
                self.tenants[tenant].paused = false;
                self.list_tenant(tenant);
                self.search_for_all(tenant, now);
            }
        }
    }

    fn search_for_all(&mut self, tenant: Handle<Tenant>, now: Time) {
        let own: Vec<Handle<Target>> =
            self.targets.iter().filter(|(_, target)| target.tenant == tenant).map(|(handle, _)| handle).collect();
        for target in own {
            self.search_again(target, now);
        }
    }

    fn put_destination(&mut self, destination: Destination, now: Time) {
        let destination = Rc::new(destination);
        let Some(handle) = self.target_of.get(&destination.id).copied() else {
            let tenant = self.tenant(&destination.tenant);
            let id = destination.id;
            let target = Target::new(destination, tenant, now);
            let handle = self.targets.insert(target);
            self.tenants[tenant].targets += 1;
            self.target_of.insert(id, handle);
            return;
        };
        self.targets[handle].change(destination, now);
        for subscriber in self.targets[handle].subscribers.clone() {
            self.reorder(subscriber);
        }
        self.wake_target(handle, now);
    }

    fn put_subscription(&mut self, subscription: Subscription, now: Time) {
        let Some(target) = self.target_of.get(&subscription.destination_id).copied() else {
            self.counters.configuration_faults += 1;
            return;
        };
        let tenant = self.tenant(&subscription.tenant);
        let id = subscription.id;
        let subscription = Rc::new(subscription);
        let handle = match self.subscriber_of.get(&id).copied() {
            Some(handle) => {
                self.subscribers[handle].subscription = Rc::clone(&subscription);
                self.move_to_target(handle, target);
                handle
            }
            None => {
                let destination = Rc::clone(&self.targets[target].destination);
                let subscriber = Subscriber::new(Rc::clone(&subscription), tenant, target, &destination);
                let handle = self.subscribers.insert(subscriber);
                self.subscriber_of.insert(id, handle);
                self.targets[target].subscribers.push(handle);
                handle
            }
        };
        self.check_schedule(handle);
        self.reorder(handle);
        self.index(tenant, &subscription, handle);
        self.list_subscriber(handle);
        self.search_again(target, now);
    }

    /// Takes the subscription into its tenant's index. One whose filter does not compile matches nothing: the
    /// API refuses such a filter, so only a damaged record gets here.
    fn index(&mut self, tenant: Handle<Tenant>, subscription: &Subscription, handle: Handle<Subscriber>) {
        match Filter::compile(&subscription.filter_rules) {
            Ok(filter) => self.tenants[tenant].matcher.put(subscription, filter, handle.index()),
            Err(_) => {
                self.counters.configuration_faults += 1;
                self.tenants[tenant].matcher.remove(subscription.id);
            }
        }
    }

    fn check_schedule(&mut self, handle: Handle<Subscriber>) {
        let retention_s = self.settings.payload_retention.as_secs();
        let destination = self.destination_of(handle);
        let subscriber = &mut self.subscribers[handle];
        subscriber.fallback_retry = None;
        if subscriber.retry(&destination).check(retention_s).is_err() {
            subscriber.fallback_retry = Some(RetryPolicy::default());
            self.counters.schedules_malformed += 1;
            self.outputs.push_back(Output::Notice(Notice::MalformedSchedule(subscriber.subscription.id)));
        }
    }

    /// The subscription goes to another destination from now on; attempts under way end where they began.
    fn move_to_target(&mut self, handle: Handle<Subscriber>, target: Handle<Target>) {
        let old = std::mem::replace(&mut self.subscribers[handle].target, target);
        if old == target {
            return;
        }
        self.targets[old].subscribers.retain(|other| *other != handle);
        self.targets[target].subscribers.push(handle);
        self.subscribers[handle].listed = [false, false];
        let sleeping: Vec<((crate::types::Sequence, u16), Handle<Job>)> =
            self.targets[old].sleeping.iter().map(|(place, job)| (*place, *job)).collect();
        for (place, job) in sleeping {
            if self.jobs[job].subscriber == handle {
                self.targets[old].sleeping.remove(&place);
                self.targets[target].sleeping.insert(place, job);
            }
        }
    }

    /// Lays the queue anew where the order in force has changed.
    fn reorder(&mut self, handle: Handle<Subscriber>) {
        let destination = self.destination_of(handle);
        let subscriber = &mut self.subscribers[handle];
        subscriber.overdue_at = None;
        let order = (subscriber.ordering(&destination), subscriber.ordering_key(&destination));
        if std::mem::replace(&mut subscriber.order, order) == order {
            return;
        }
        let mut waiting = subscriber.queue.drain();
        waiting.sort_unstable_by_key(|job| self.jobs[*job].place());
        let subscriber = &mut self.subscribers[handle];
        subscriber.queue = Queue::new(mode_of(&subscriber.subscription, &destination));
        for job in self.jobs_of(handle) {
            let group = self.subscribers[handle].group_of(&self.held[self.jobs[job].held].event, &destination);
            let one_at_a_time = self.subscribers[handle].queue.is_one_at_a_time();
            let state = &mut self.jobs[job];
            state.group = group;
            let holds = state.in_flight() || state.phase == Phase::Suspect || state.out;
            state.out = holds && one_at_a_time;
            if state.out {
                self.subscribers[handle].queue.occupy(group);
            }
        }
        for job in waiting {
            self.enqueue(job);
        }
        self.occupy_for_flights(handle);
    }

    /// All jobs of a subscription in memory, in order of arrival.
    fn jobs_of(&self, handle: Handle<Subscriber>) -> Vec<Handle<Job>> {
        self.subscribers[handle].jobs.values().copied().collect()
    }

    fn delete_destination(&mut self, tenant: &TenantId, id: DestinationId, now: Time) {
        let Some(handle) = self.target_of.remove(&id) else { return };
        self.targets[handle].deleted = true;
        let slot = self.tenants[self.targets[handle].tenant].slot;
        for subscriber in self.targets[handle].subscribers.clone() {
            let subscription = self.subscribers[subscriber].subscription.id;
            self.delete_subscription(tenant, subscription, now);
        }
        self.slot(slot).pipeline.push(Row::Destination { tenant: tenant.clone(), destination: id, record: None });
        self.touch(slot);
        self.drop_target_if_spent(handle);
    }

    /// Ends the subscription's jobs; those whose attempt is under way end with it.
    fn delete_subscription(&mut self, tenant: &TenantId, id: SubscriptionId, now: Time) {
        let tenant = self.tenant(tenant);
        self.tenants[tenant].matcher.remove(id);
        self.tenants[tenant].deleted.insert(id);
        let Some(handle) = self.subscriber_of.remove(&id) else { return };
        self.subscribers[handle].deleted = true;
        let slot = self.tenants[tenant].slot;
        let subscriber = &mut self.subscribers[handle];
        if subscriber.cursor_written.is_some() {
            let cursor = subscriber.cursor_wanted().unwrap_or(Sequence(u64::MAX));
            self.end_overflow(handle);
            self.cancel_from(slot, tenant, id, cursor, Some(handle));
        }
        for job in self.jobs_of(handle) {
            if !self.jobs[job].in_flight() {
                self.end_job(job, End::Cancelled, now);
            }
        }
        self.drop_if_spent(handle);
    }

    /// Lets go of a deleted subscription whose last job in memory has ended.
    pub(super) fn drop_if_spent(&mut self, handle: Handle<Subscriber>) {
        let Some(subscriber) = self.subscribers.get(handle) else { return };
        if !subscriber.deleted || !subscriber.jobs.is_empty() {
            return;
        }
        let target = subscriber.target;
        let slot = self.tenants[subscriber.tenant].slot;
        self.subscribers.remove(handle);
        self.cancel_next(slot);
        self.targets[target].subscribers.retain(|other| *other != handle);
        self.drop_target_if_spent(target);
    }

    pub(super) fn drop_target_if_spent(&mut self, handle: Handle<Target>) {
        let Some(target) = self.targets.get(handle) else { return };
        if target.deleted && target.subscribers.is_empty() && target.in_flight == 0 {
            if let Some(wake) = target.wake {
                self.wakes.remove(&(wake, handle));
            }
            let tenant = target.tenant;
            self.targets.remove(handle);
            self.tenants[tenant].targets -= 1;
        }
    }
}
