//! Room in memory: each tenant has a share of it, each subscription a part of that, and whoever has nothing in
//! memory may always have one job there, so that everyone moves on. What has no room waits in the log.

use super::arena::Handle;
use super::shard::Shard;
use super::subscriber::Subscriber;
use super::tenant::Tenant;
use crate::types::limits;

/// A tenant's share of the bytes in memory, as a divisor.
const TENANT_BYTES_DIVISOR: usize = 8;
/// A subscription's part of its tenant's share, as a divisor.
const SUBSCRIBER_BYTES_DIVISOR: usize = 2;
/// With fewer jobs than this a tenant has room even when the others have filled the memory.
const FLOOR_JOBS: usize = 16;
/// The same, in bytes, as a divisor of its share.
const FLOOR_BYTES_DIVISOR: usize = 64;
/// A page of the log is no smaller than this, in bytes, so that a read is worth its cost.
const PAGE_BYTES_MIN: usize = 64 * 1024;

impl Shard {
    /// Whether a tenant's further jobs should wait in the log.
    pub(super) fn is_crowded(&self, tenant: Handle<Tenant>) -> bool {
        let bounds = &self.settings.bounds;
        let share = bounds.event_bytes / TENANT_BYTES_DIVISOR;
        let tenant = &self.tenants[tenant];
        if tenant.jobs < FLOOR_JOBS.min(bounds.tenant_jobs) && tenant.bytes <= share / FLOOR_BYTES_DIVISOR {
            return false;
        }
        let full = self.jobs.len() >= bounds.shard_jobs || self.held_bytes >= bounds.event_bytes;
        full || tenant.jobs >= bounds.tenant_jobs || tenant.bytes >= share
    }

    /// Whether one more job of a subscription may come into memory.
    pub(super) fn has_room(&self, handle: Handle<Subscriber>) -> bool {
        let bounds = &self.settings.bounds;
        let share = bounds.event_bytes / TENANT_BYTES_DIVISOR;
        let subscriber = &self.subscribers[handle];
        let tenant = &self.tenants[subscriber.tenant];
        if subscriber.jobs.is_empty() {
            return tenant.jobs == 0 || tenant.bytes < 2 * share;
        }
        let part = share / SUBSCRIBER_BYTES_DIVISOR;
        subscriber.bytes < part && !self.is_crowded(subscriber.tenant)
    }

    /// Whether reading on is worth a page: a good part of the subscription's and its tenant's room is free, or the
    /// subscription has nothing in memory.
    pub(super) fn is_worth_a_page(&self, handle: Handle<Subscriber>) -> bool {
        let share = self.settings.bounds.event_bytes / TENANT_BYTES_DIVISOR;
        let subscriber = &self.subscribers[handle];
        let part = share / SUBSCRIBER_BYTES_DIVISOR;
        let tenant = &self.tenants[subscriber.tenant];
        subscriber.jobs.is_empty() || (subscriber.bytes <= part / 2 && tenant.bytes <= share / 4 * 3)
    }

    /// How many bytes of its log a tenant can take in now, at least a small page.
    pub(super) fn page_room(&self, tenant: Handle<Tenant>) -> usize {
        let share = self.settings.bounds.event_bytes / TENANT_BYTES_DIVISOR;
        let free = share.saturating_sub(self.tenants[tenant].bytes);
        free.clamp(PAGE_BYTES_MIN, limits::LOG_PAGE_BYTES)
    }

    /// Notes that a subscription's jobs in the log wait for room.
    pub(super) fn starve(&mut self, handle: Handle<Subscriber>) {
        let subscriber = &mut self.subscribers[handle];
        if !std::mem::replace(&mut subscriber.starving, true) {
            self.tenants[subscriber.tenant].starving.push_back(handle);
        }
    }

    /// A tenant has given room back: the first that waits for it may read on.
    pub(super) fn feed(&mut self, tenant: Handle<Tenant>) {
        let Some(handle) = self.tenants[tenant].starving.pop_front() else { return };
        let Some(subscriber) = self.subscribers.get_mut(handle) else { return };
        subscriber.starving = false;
        self.refill_if_low(handle);
    }

    /// Lets go of a tenant that nothing is known of any more.
    pub(super) fn drop_if_unknown(&mut self, handle: Handle<Tenant>) {
        let Some(tenant) = self.tenants.get(handle) else { return };
        let known = tenant.targets > 0
            || tenant.jobs > 0
            || tenant.paused
            || !tenant.matcher.is_empty()
            || !tenant.deleted.is_empty()
            || !tenant.parked.is_empty()
            || tenant.reading
            || tenant.in_flight > 0
            || tenant.listed.contains(&true);
        if !known {
            let id = tenant.id.clone();
            self.tenants.remove(handle);
            self.tenant_of.remove(&id);
        }
    }
}
