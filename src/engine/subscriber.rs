//! A subscription in the shard's eyes: its queue, and what of it waits in the log.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::arena::Handle;
use super::job::Job;
use super::queue::{Mode, Queue, subject_group};
use super::target::Target;
use super::tenant::Tenant;
use crate::types::destination::{Ordering, OrderingKey};
use crate::types::{Destination, Event, RetryPolicy, Sequence, Subscription, Time};

/// What of a subscription waits in the log behind the jobs in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow {
    /// The next event to look at.
    pub(super) next_read: Sequence,
    /// The last event known to hold a job of it.
    pub(super) last_spilled: Sequence,
}

/// One subscription.
pub(super) struct Subscriber {
    pub(super) subscription: Rc<Subscription>,
    pub(super) tenant: Handle<Tenant>,
    pub(super) target: Handle<Target>,
    /// Deleted: it only lives on until its jobs in the log have ended.
    pub(super) deleted: bool,

    pub(super) queue: Queue,
    /// The order that the queue is laid out for.
    pub(super) order: (Ordering, OrderingKey),
    /// It stands in its destination's ring, by class.
    pub(super) listed: [bool; 2],
    /// All its jobs in memory, in any phase, in order of arrival.
    pub(super) jobs: BTreeMap<(Sequence, u16), Handle<Job>>,
    /// Bytes of their events.
    pub(super) bytes: usize,
    /// It stands in its tenant's list of those that wait for room.
    pub(super) starving: bool,

    pub(super) overflow: Option<Overflow>,
    /// It waits for, or is under, a read of the log.
    pub(super) refilling: bool,
    /// Nothing behind the cursor must end before then, as far as the last look told.
    pub(super) overdue_at: Option<Time>,
    /// It stands in the slot's line of queues to be looked at for that.
    pub(super) in_overdue_line: bool,
    /// The cursor row as last written.
    pub(super) cursor_written: Option<Sequence>,
    /// Its jobs in memory that rely on the cursor row, in order of arrival.
    pub(super) covered: BTreeSet<(Sequence, u16)>,
    /// It stands in the slot's list of cursors to be looked at.
    pub(super) cursor_dirty: bool,
    /// Stands in for a stored schedule that is malformed.
    pub(super) fallback_retry: Option<RetryPolicy>,
}

impl Subscriber {
    pub(super) fn new(
        subscription: Rc<Subscription>,
        tenant: Handle<Tenant>,
        target: Handle<Target>,
        destination: &Destination,
    ) -> Self {
        let mode = mode_of(&subscription, destination);
        let order = (
            subscription.ordering.unwrap_or(destination.ordering),
            subscription.ordering_key.unwrap_or(destination.ordering_key),
        );
        Self {
            subscription,
            tenant,
            target,
            deleted: false,
            queue: Queue::new(mode),
            order,
            listed: [false, false],
            jobs: BTreeMap::new(),
            bytes: 0,
            starving: false,
            overflow: None,
            refilling: false,
            overdue_at: None,
            in_overdue_line: false,
            cursor_written: None,
            covered: BTreeSet::new(),
            cursor_dirty: false,
            fallback_retry: None,
        }
    }

    /// Whether attempts may go out as far as the subscription itself is concerned.
    pub(super) fn is_live(&self) -> bool {
        !self.deleted && self.subscription.is_live()
    }

    /// The group an event's job belongs to.
    pub(super) fn group_of(&self, event: &Event, destination: &Destination) -> u64 {
        match self.ordering_key(destination) {
            OrderingKey::Subscription => 0,
            OrderingKey::Subject => event.subject().map_or(0, subject_group),
        }
    }

    /// The order in force.
    pub(super) fn ordering(&self, destination: &Destination) -> Ordering {
        self.subscription.ordering.unwrap_or(destination.ordering)
    }

    /// Within what the order holds.
    pub(super) fn ordering_key(&self, destination: &Destination) -> OrderingKey {
        self.subscription.ordering_key.unwrap_or(destination.ordering_key)
    }

    /// The schedule in force.
    pub(super) fn retry<'a>(&'a self, destination: &'a Destination) -> &'a RetryPolicy {
        self.fallback_retry.as_ref().or(self.subscription.retry.as_ref()).unwrap_or(&destination.retry)
    }

    /// Where the cursor row should stand: at the first job that relies on it, or at what is still to be read.
    pub(super) fn cursor_wanted(&self) -> Option<Sequence> {
        let covered = self.covered.first().map(|(sequence, _)| *sequence);
        let unread = self.overflow.map(|overflow| overflow.next_read);
        match (covered, unread) {
            (Some(covered), Some(unread)) => Some(covered.min(unread)),
            (covered, unread) => covered.or(unread),
        }
    }
}

/// How many jobs of a group the order lets out at once.
pub(super) fn mode_of(subscription: &Subscription, destination: &Destination) -> Mode {
    match subscription.ordering.unwrap_or(destination.ordering) {
        Ordering::Fifo | Ordering::Strict => Mode::OneAtATime,
        Ordering::Parallel => Mode::Parallel,
    }
}
