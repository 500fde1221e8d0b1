//! Queues that are longer than memory: what waits in the log behind a subscription's cursor comes in as the
//! head drains, one read at a time for a tenant.

use super::arena::Handle;
use super::job::{Class, Cover};
use super::load::Logged;
use super::rows::{LoggedEvent, Read, Row};
use super::shard::{Asked, Shard};
use super::subscriber::Subscriber;
use super::tenant::Tenant;
use crate::types::{RunId, Sequence, Time};

/// Reads of queues under way at once: each may bring a page of payloads.
const READS_MAX: usize = 8;

impl Shard {
    /// Lets a subscription's queue be filled again when it runs low.
    pub(super) fn refill_if_low(&mut self, handle: Handle<Subscriber>) {
        let below = self.settings.bounds.queue_refill_below.max(1);
        let Some(subscriber) = self.subscribers.get_mut(handle) else { return };
        let low = subscriber.queue.waiting(Class::First) < below;
        if subscriber.overflow.is_none() || subscriber.refilling || subscriber.deleted || !low {
            return;
        }
        let tenant = subscriber.tenant;
        if self.slots[&self.tenants[tenant].slot].phase == super::slot::SlotPhase::Loading {
            return;
        }
        if !self.has_room(handle) || !self.is_worth_a_page(handle) {
            self.starve(handle);
            return;
        }
        self.subscribers[handle].refilling = true;
        self.tenants[tenant].refills.push_back(handle);
        self.refill_waiting.push_back(tenant);
        self.refill_next();
    }

    /// Asks for the queues that wait for their turn, as far as reads may be under way.
    pub(super) fn refill_next(&mut self) {
        for _ in 0..self.refill_waiting.len() {
            if self.queue_reads >= READS_MAX {
                return;
            }
            let Some(tenant) = self.refill_waiting.pop_front() else { return };
            let Some(state) = self.tenants.get_mut(tenant) else { continue };
            if state.reading {
                self.refill_waiting.push_back(tenant);
                continue;
            }
            if let Some(subscriber) = state.refills.pop_front() {
                self.read_queue(subscriber);
            }
        }
    }

    fn read_queue(&mut self, handle: Handle<Subscriber>) {
        let Some(subscriber) = self.subscribers.get_mut(handle) else { return };
        let Some(overflow) = subscriber.overflow else {
            subscriber.refilling = false;
            return;
        };
        let (tenant, subscription) = (subscriber.tenant, subscriber.subscription.id);
        let slot = self.tenants[tenant].slot;
        let to = overflow.last_spilled.min(self.slots[&slot].durable);
        if to < overflow.next_read {
            self.slot(slot).refills_waiting.push(handle);
            return;
        }
        self.tenants[tenant].reading = true;
        self.queue_reads += 1;
        let (owner, tenant) = (tenant, self.tenants[tenant].id.clone());
        let read = Read::Queue { slot, tenant, from: overflow.next_read, to, subscription };
        self.ask(Asked::Queue(slot, owner, handle), read);
    }

    /// More of the log is durable: queues whose next jobs were on their way may be read.
    pub(super) fn refill_durable(&mut self, slot: crate::types::Slot) {
        for handle in std::mem::take(&mut self.slot(slot).refills_waiting) {
            if let Some(subscriber) = self.subscribers.get_mut(handle) {
                subscriber.refilling = false;
                self.refill_if_low(handle);
            }
        }
    }

    /// A page of a queue came.
    pub(super) fn refilled(
        &mut self,
        tenant: Handle<Tenant>,
        handle: Handle<Subscriber>,
        events: Vec<LoggedEvent>,
        scanned_to: Sequence,
        now: Time,
    ) {
        self.queue_reads -= 1;
        self.tenants[tenant].reading = false;
        if let Some(subscriber) = self.subscribers.get_mut(handle) {
            subscriber.refilling = false;
            let next_read = self.place_page(handle, events, scanned_to, now);
            self.advance(handle, next_read);
            self.refill_if_low(handle);
        }
        self.refill_next();
    }

    /// Puts the page's jobs of this subscription into memory, as far as there is room, and says where to go on.
    fn place_page(
        &mut self,
        handle: Handle<Subscriber>,
        events: Vec<LoggedEvent>,
        scanned_to: Sequence,
        now: Time,
    ) -> Sequence {
        let subscription = self.subscribers[handle].subscription.id;
        for logged in events {
            let sequence = logged.event.sequence;
            let (mut event, jobs) = Logged::open(logged);
            for record in jobs.iter().filter(|job| job.subscription == subscription && job.run == RunId::MATCH) {
                if self.is_full_for(handle) {
                    return sequence;
                }
                self.place(&mut event, record, Cover::Cursor, now);
            }
        }
        scanned_to.next()
    }

    fn is_full_for(&self, handle: Handle<Subscriber>) -> bool {
        let waiting = self.subscribers[handle].queue.waiting(Class::First);
        waiting >= self.settings.bounds.queue_head_jobs || !self.has_room(handle)
    }

    /// Everything before `next_read` is in memory or needs no reading; when nothing lies behind it, the overflow ends.
    fn advance(&mut self, handle: Handle<Subscriber>, next_read: Sequence) {
        let subscriber = &mut self.subscribers[handle];
        let Some(overflow) = &mut subscriber.overflow else { return };
        overflow.next_read = overflow.next_read.max(next_read);
        if overflow.next_read > overflow.last_spilled {
            subscriber.overflow = None;
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
    pub(super) fn write_cursors(&mut self, slot: crate::types::Slot) {
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
