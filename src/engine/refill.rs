//! Queues that are longer than memory: what waits in the log behind a subscription's cursor comes in as the
//! head drains. A tenant's log is read once for all its subscriptions that wait near the same place, one read at
//! a time, charged to that tenant.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::arena::Handle;
use super::job::{Class, Cover};
use super::load::Logged;
use super::rows::{LoggedEvent, Read, Row};
use super::shard::{Asked, Shard};
use super::slot::SlotPhase;
use super::subscriber::{Overflow, Subscriber};
use super::tenant::Tenant;
use crate::types::{RunId, Sequence, Slot, SubscriptionId, Time, limits};

/// Reads of queues under way at once: each may bring a page of payloads.
const READS_MAX: usize = 8;

/// Whom a page of the log is for, and where each goes on.
struct Page {
    riders: BTreeMap<SubscriptionId, Handle<Subscriber>>,
    left: Vec<(Handle<Subscriber>, Sequence)>,
}

impl Page {
    fn new(riders: impl Iterator<Item = (SubscriptionId, Handle<Subscriber>)>) -> Self {
        Self { riders: riders.collect(), left: Vec::new() }
    }

    /// Those whom `leaves` names take no more of this page: they go on at `next_read`.
    fn leave(&mut self, next_read: Sequence, leaves: impl Fn(Handle<Subscriber>) -> bool) {
        let left = &mut self.left;
        self.riders.retain(|_, handle| {
            let goes = leaves(*handle);
            if goes {
                left.push((*handle, next_read));
            }
            !goes
        });
    }

    fn leave_all(&mut self, next_read: Sequence) {
        self.leave(next_read, |_| true);
    }
}

impl Shard {
    /// Lets a subscription's queue be filled again when it runs low.
    pub(super) fn refill_if_low(&mut self, handle: Handle<Subscriber>) {
        if !self.is_low(handle) || self.subscribers[handle].refilling {
            return;
        }
        let tenant = self.subscribers[handle].tenant;
        if self.slots[&self.tenants[tenant].slot].phase == SlotPhase::Loading {
            return;
        }
        if !self.has_room(handle) || !self.is_worth_a_page(handle) {
            self.starve(handle);
            return;
        }
        self.subscribers[handle].refilling = true;
        self.tenants[tenant].refills.push_back(handle);
        self.list_refill(tenant);
        self.refill_next();
    }

    /// Whether jobs of the subscription wait in the log and few in memory.
    fn is_low(&self, handle: Handle<Subscriber>) -> bool {
        let below = self.settings.bounds.queue_refill_below.max(1);
        let Some(subscriber) = self.subscribers.get(handle) else { return false };
        subscriber.overflow.is_some() && !subscriber.deleted && subscriber.queue.waiting(Class::First) < below
    }

    /// Puts a tenant into the line of those whose log is to be read.
    fn list_refill(&mut self, handle: Handle<Tenant>) {
        let tenant = &mut self.tenants[handle];
        if !tenant.refills.is_empty() && !tenant.reading && !std::mem::replace(&mut tenant.refill_listed, true) {
            self.refill_waiting.push_back(handle);
        }
    }

    /// Asks for the queues that wait for their turn, as far as reads may be under way.
    pub(super) fn refill_next(&mut self) {
        while self.queue_reads < READS_MAX {
            let Some(tenant) = self.refill_waiting.pop_front() else { return };
            let Some(state) = self.tenants.get_mut(tenant) else { continue };
            state.refill_listed = false;
            if let Some(leader) = self.next_leader(tenant) {
                self.read_queues(tenant, leader);
            }
        }
    }

    /// The subscription whose turn it is to have the log read for it.
    fn next_leader(&mut self, tenant: Handle<Tenant>) -> Option<Handle<Subscriber>> {
        while let Some(handle) = self.tenants[tenant].refills.pop_front() {
            let Some(subscriber) = self.subscribers.get_mut(handle) else { continue };
            subscriber.refilling = false;
            if !self.is_low(handle) {
                continue;
            }
            if !self.has_room(handle) {
                self.starve(handle);
            } else if self.unread(handle).is_some() {
                return Some(handle);
            } else {
                self.subscribers[handle].refilling = true;
                let slot = self.tenants[tenant].slot;
                self.slot(slot).refills_waiting.push(handle);
            }
        }
        None
    }

    /// What of a subscription's overflow is durable and not read: first and last sequence.
    fn unread(&self, handle: Handle<Subscriber>) -> Option<(Sequence, Sequence)> {
        let subscriber = &self.subscribers[handle];
        let overflow = subscriber.overflow?;
        let durable = self.slots[&self.tenants[subscriber.tenant].slot].durable;
        let to = overflow.last_spilled.min(durable);
        (overflow.next_read <= to).then_some((overflow.next_read, to))
    }

    /// Reads a page of the tenant's log for `leader`, and for all others of the tenant that it may serve as well.
    fn read_queues(&mut self, tenant: Handle<Tenant>, leader: Handle<Subscriber>) {
        let riders = self.riders(tenant, leader);
        let ranges = riders.iter().filter_map(|handle| self.unread(*handle));
        let (from, to) =
            ranges.fold((Sequence(u64::MAX), Sequence(0)), |(from, to), range| (from.min(range.0), to.max(range.1)));
        let wanted = riders.iter().map(|handle| self.wanted(*handle)).collect();
        let bytes_max = self.page_room(tenant);
        let state = &mut self.tenants[tenant];
        state.reading = true;
        self.queue_reads += 1;
        let (slot, id) = (state.slot, state.id.clone());
        let read = Read::Queue { slot, tenant: id, from, to, wanted, bytes_max };
        self.ask(Asked::Queue(slot, tenant, riders), read);
    }

    /// The leader, and whoever has room and waits for what lies within a page of the leader's place: read together
    /// they stay together.
    fn riders(&self, tenant: Handle<Tenant>, leader: Handle<Subscriber>) -> Rc<[Handle<Subscriber>]> {
        let at = self.unread(leader).map_or(0, |(from, _)| from.0);
        let near = at.saturating_sub(limits::SCAN_MAX_EVENTS as u64);
        let rides = |handle: &Handle<Subscriber>| {
            let within = self.unread(*handle).is_some_and(|(from, _)| from.0 >= near);
            within && (*handle == leader || !self.is_full_for(*handle))
        };
        self.tenants[tenant].overflowing.iter().copied().filter(rides).collect()
    }

    /// The subscription and the first event that was not read for it yet.
    pub(super) fn wanted(&self, handle: Handle<Subscriber>) -> (SubscriptionId, Sequence) {
        let subscriber = &self.subscribers[handle];
        let from = subscriber.overflow.map_or(Sequence(u64::MAX), |overflow| overflow.next_read);
        (subscriber.subscription.id, from)
    }

    /// More of the log is durable: queues whose next jobs were on their way may be read.
    pub(super) fn refill_durable(&mut self, slot: Slot) {
        for handle in std::mem::take(&mut self.slot(slot).refills_waiting) {
            if let Some(subscriber) = self.subscribers.get_mut(handle) {
                subscriber.refilling = false;
                self.refill_if_low(handle);
            }
        }
    }

    /// A page of a tenant's log came.
    pub(super) fn refilled(
        &mut self,
        tenant: Handle<Tenant>,
        riders: &[Handle<Subscriber>],
        events: Vec<LoggedEvent>,
        scanned_to: Sequence,
        now: Time,
    ) {
        self.queue_reads -= 1;
        self.tenants[tenant].reading = false;
        let mut page = Page::new(riders.iter().filter_map(|handle| self.still_rides(*handle)));
        for logged in events {
            if page.riders.is_empty() {
                break;
            }
            self.place_logged(tenant, logged, &mut page, now);
        }
        page.leave_all(scanned_to.next());
        for (handle, next_read) in page.left {
            self.advance(handle, next_read);
            self.refill_if_low(handle);
        }
        self.list_refill(tenant);
        self.refill_next();
    }

    fn still_rides(&self, handle: Handle<Subscriber>) -> Option<(SubscriptionId, Handle<Subscriber>)> {
        let subscriber = self.subscribers.get(handle)?;
        subscriber.overflow?;
        Some((subscriber.subscription.id, handle))
    }

    /// Puts an event's jobs of the page's subscriptions into memory, as far as there is room.
    fn place_logged(&mut self, tenant: Handle<Tenant>, logged: LoggedEvent, page: &mut Page, now: Time) {
        let sequence = logged.event.sequence;
        let (mut event, jobs) = Logged::open(logged);
        for record in jobs.iter().filter(|job| job.run == RunId::MATCH) {
            let Some(handle) = page.riders.get(&record.subscription).copied() else { continue };
            if self.subscribers[handle].overflow.is_some_and(|overflow| sequence < overflow.next_read) {
                continue;
            }
            if !self.is_full_for(handle) {
                self.place(&mut event, record, Cover::Cursor, now);
            } else if self.is_crowded(tenant) {
                // Those who leave together go on together. Whoever has nothing in memory reads on.
                page.leave(sequence, |rider| rider == handle || !self.subscribers[rider].jobs.is_empty());
            } else {
                page.leave(sequence, |rider| rider == handle);
            }
        }
    }

    fn is_full_for(&self, handle: Handle<Subscriber>) -> bool {
        let waiting = self.subscribers[handle].queue.waiting(Class::First);
        waiting >= self.settings.bounds.queue_head_jobs || !self.has_room(handle)
    }

    /// Jobs of the subscription wait in the log from `sequence` on.
    pub(super) fn begin_overflow(&mut self, handle: Handle<Subscriber>, sequence: Sequence) {
        let subscriber = &mut self.subscribers[handle];
        subscriber.overflow = Some(Overflow { next_read: sequence, last_spilled: sequence });
        self.tenants[subscriber.tenant].overflowing.insert(handle);
    }

    /// Nothing of the subscription is to be read from the log any more.
    pub(super) fn end_overflow(&mut self, handle: Handle<Subscriber>) {
        let subscriber = &mut self.subscribers[handle];
        subscriber.overflow = None;
        self.tenants[subscriber.tenant].overflowing.remove(&handle);
    }

    /// Everything before `next_read` is in memory or needs no reading; when nothing lies behind it, the overflow ends.
    pub(super) fn advance(&mut self, handle: Handle<Subscriber>, next_read: Sequence) {
        let subscriber = &mut self.subscribers[handle];
        let Some(overflow) = &mut subscriber.overflow else { return };
        overflow.next_read = overflow.next_read.max(next_read);
        if overflow.next_read > overflow.last_spilled {
            self.end_overflow(handle);
        }
        self.cursor_moved(handle);
    }

    /// Makes sure that a cursor row stands at or before everything of the subscription that relies on one.
    pub(super) fn write_cursor(&mut self, handle: Handle<Subscriber>) {
        let subscriber = &self.subscribers[handle];
        let wanted = subscriber.cursor_wanted();
        let stands = match (subscriber.cursor_written, wanted) {
            (Some(written), Some(wanted)) => written <= wanted,
            (_, None) => true,
            (None, Some(_)) => false,
        };
        if !stands {
            self.put_cursor(handle, wanted);
        }
    }

    /// The cursor row may stand elsewhere now: it is written again with what is written behind.
    pub(super) fn cursor_moved(&mut self, handle: Handle<Subscriber>) {
        let subscriber = &mut self.subscribers[handle];
        if !std::mem::replace(&mut subscriber.cursor_dirty, true) {
            let slot = self.tenants[subscriber.tenant].slot;
            self.slot(slot).dirty_cursors.push(handle);
        }
    }

    /// Writes the cursor rows that moved.
    pub(super) fn write_cursors(&mut self, slot: Slot) {
        for handle in std::mem::take(&mut self.slot(slot).dirty_cursors) {
            let Some(subscriber) = self.subscribers.get_mut(handle) else { continue };
            subscriber.cursor_dirty = false;
            if subscriber.deleted {
                continue;
            }
            let wanted = subscriber.cursor_wanted();
            if subscriber.cursor_written != wanted {
                self.put_cursor(handle, wanted);
            }
        }
    }

    fn put_cursor(&mut self, handle: Handle<Subscriber>, cursor: Option<Sequence>) {
        let subscriber = &mut self.subscribers[handle];
        subscriber.cursor_written = cursor;
        let (tenant, subscription) = (subscriber.tenant, subscriber.subscription.id);
        let (slot, tenant) = (self.tenants[tenant].slot, self.tenants[tenant].id.clone());
        self.slot(slot).pipeline.push(Row::Overflow { tenant, subscription, cursor });
        self.touch(slot);
    }
}
