//! Ends what a deleted subscription left in the log behind its cursor. The cursor row stays until all of it
//! has ended, so a crash on the way repeats the work and loses none of it.

use std::collections::BTreeMap;

use super::arena::Handle;
use super::rows::{LoggedEvent, Read, Row, Wanted};
use super::shard::{Asked, Shard};
use super::subscriber::Subscriber;
use super::tenant::Tenant;
use crate::types::{End, RunId, Sequence, Slot, SubscriptionId, Time, limits};

/// The cancellations of one slot; one of them reads at a time.
#[derive(Debug, Default)]
pub(super) struct Cancellations {
    open: BTreeMap<SubscriptionId, Cancellation>,
    reading: bool,
}

#[derive(Clone, Copy, Debug)]
struct Cancellation {
    tenant: Handle<Tenant>,
    /// The next event to look at.
    from: Sequence,
    /// The last event that may hold a job; known once the slot is loaded.
    until: Option<Sequence>,
    /// The subscription, while jobs of it in memory may rely on the cursor row.
    subscriber: Option<Handle<Subscriber>>,
}

impl Shard {
    /// Begins to end the jobs of a deleted subscription from `cursor` on. `subscriber` may still have jobs in
    /// memory.
    pub(super) fn cancel_from(
        &mut self,
        slot: Slot,
        tenant: Handle<Tenant>,
        subscription: SubscriptionId,
        cursor: Sequence,
        subscriber: Option<Handle<Subscriber>>,
    ) {
        let cancellation = Cancellation { tenant, from: cursor, until: None, subscriber };
        self.slot(slot).cancellations.open.insert(subscription, cancellation);
        self.cancel_next(slot);
    }

    /// Goes on with the first cancellation that can, unless a read is under way or the slot is still loading.
    pub(super) fn cancel_next(&mut self, slot: Slot) {
        let Some(state) = self.slots.get_mut(&slot) else { return };
        if state.cancellations.reading || state.phase == super::slot::SlotPhase::Loading {
            return;
        }
        let last = Sequence(state.next.0 - 1);
        let durable = state.durable;
        let mut done = Vec::new();
        let mut next = None;
        for (subscription, open) in &mut state.cancellations.open {
            let until = *open.until.get_or_insert(last);
            let to = until.min(durable);
            if open.from > until {
                done.push(*subscription);
            } else if open.from <= to {
                next = Some((*subscription, open.tenant, open.from, to));
                break;
            }
        }
        for subscription in done {
            self.cancelled(slot, subscription);
        }
        let Some((subscription, tenant, from, to)) = next else { return };
        self.slot(slot).cancellations.reading = true;
        let tenant = self.tenants[tenant].id.clone();
        let wanted = Wanted::from([(subscription, from)]);
        let read = Read::Queue { slot, tenant, from, to, wanted, bytes_max: limits::LOG_PAGE_BYTES };
        self.ask(Asked::Cancel(slot, subscription), read);
    }

    /// Ends the open jobs of a page.
    pub(super) fn cancel_page(
        &mut self,
        slot: Slot,
        subscription: SubscriptionId,
        events: Vec<LoggedEvent>,
        scanned_to: Sequence,
        now: Time,
    ) {
        for logged in events {
            let ours = logged.jobs.iter().filter(|job| job.subscription == subscription && job.run == RunId::MATCH);
            for job in ours {
                let known_better = self.job_of.contains_key(&job.key) || self.is_outdated(&job.key);
                if job.end.is_none() && !known_better {
                    self.write_end(&logged.event.tenant, job.key, End::Cancelled, now);
                }
            }
        }
        let state = self.slot(slot);
        state.cancellations.reading = false;
        if let Some(open) = state.cancellations.open.get_mut(&subscription) {
            open.from = scanned_to.next();
        }
        self.cancel_next(slot);
    }

    /// All of it has ended, in the log and in memory: the cursor row may go.
    fn cancelled(&mut self, slot: Slot, subscription: SubscriptionId) {
        let Some(open) = self.slots[&slot].cancellations.open.get(&subscription) else { return };
        let relied_on = |handle| self.subscribers.get(handle).is_some_and(|subscriber| !subscriber.covered.is_empty());
        if open.subscriber.is_some_and(relied_on) {
            return;
        }
        let tenant = self.tenants[open.tenant].id.clone();
        let state = self.slot(slot);
        state.cancellations.open.remove(&subscription);
        state.pipeline.push(Row::Overflow { tenant, subscription, cursor: None });
        self.touch(slot);
    }
}
