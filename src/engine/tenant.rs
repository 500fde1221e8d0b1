//! A tenant in the shard's eyes: its index of subscriptions, its share of attempts, its arrivals that wait.

use std::collections::{BTreeSet, VecDeque};

use super::arena::Handle;
use super::decide::Decisions;
use super::matching::Matcher;
use super::parked::Parked;
use super::subscriber::Subscriber;
use super::target::Target;
use super::work::Allowance;
use crate::types::{Slot, SubscriptionId, TenantId};

/// One tenant.
pub(super) struct Tenant {
    pub(super) id: TenantId,
    pub(super) slot: Slot,
    /// Folded into dedup keys, so that no other tenant's ids meet this one's.
    pub(super) mask: u128,

    pub(super) matcher: Matcher,
    pub(super) deleted: BTreeSet<SubscriptionId>,
    pub(super) paused: bool,

    /// Destinations with something ready, by class.
    pub(super) ring: [VecDeque<Handle<Target>>; 2],
    /// It stands in the shard's ring, by class.
    pub(super) listed: [bool; 2],
    /// What large payloads took beyond their turn, by class.
    pub(super) debt: [u32; 2],
    pub(super) in_flight: u32,
    pub(super) jobs: usize,
    /// Bytes of its events in memory.
    pub(super) bytes: usize,
    /// Destinations of it that are known.
    pub(super) targets: usize,
    /// Subscriptions whose jobs wait in the log for room in memory.
    pub(super) starving: VecDeque<Handle<Subscriber>>,

    /// Arrivals and commands in order, waiting for a bucket of ids, for room in a batch, or for one before them.
    pub(super) parked: VecDeque<Parked>,
    /// How many events those are, and how many bytes.
    pub(super) parked_events: usize,
    pub(super) parked_bytes: usize,
    /// What is decided of the first of them, if that takes more than one go.
    pub(super) decisions: Option<Box<Decisions>>,
    /// Work on filters that it may do at once.
    pub(super) allowance: Allowance,
    /// A read of its log is on its way: one at a time.
    pub(super) reading: bool,
    /// Subscriptions that wait for their turn to be read, and whether the tenant stands in the shard's line for it.
    pub(super) refills: VecDeque<Handle<Subscriber>>,
    pub(super) refill_listed: bool,
    /// Subscriptions with jobs that wait in the log.
    pub(super) overflowing: BTreeSet<Handle<Subscriber>>,
}

impl Tenant {
    pub(super) fn new(id: TenantId, slot: Slot, mask: u128, seed: u64) -> Self {
        Self {
            id,
            slot,
            mask,
            matcher: Matcher::new(seed),
            deleted: BTreeSet::new(),
            paused: false,
            ring: Default::default(),
            listed: [false, false],
            debt: [0, 0],
            in_flight: 0,
            jobs: 0,
            bytes: 0,
            targets: 0,
            starving: VecDeque::new(),
            parked: VecDeque::new(),
            parked_events: 0,
            parked_bytes: 0,
            decisions: None,
            allowance: Allowance::default(),
            reading: false,
            refills: VecDeque::new(),
            refill_listed: false,
            overflowing: BTreeSet::new(),
        }
    }
}
