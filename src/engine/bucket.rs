//! Buckets of ids, read from the store a page at a time for the tenants whose arrivals wait for them.
//!
//! Buckets take turns: one of many pages stands in line again behind the others after each. In one that is too
//! large for memory a reading looks for the ids of the arrivals that wait then; those that come later wait for
//! the next reading.

use super::arena::Handle;
use super::dedup::{Paged, bucket_minute, dedup_key};
use super::parked::Parked;
use super::rows::Read;
use super::shard::{Asked, Shard};
use super::tenant::Tenant;
use crate::types::{Sequence, Slot, Time, limits};

/// A page of a bucket that stands in line.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketTurn {
    slot: Slot,
    minute: u64,
    /// Where to go on; absent when the reading has not begun.
    from: Option<Sequence>,
}

impl Shard {
    /// A tenant's first arrival waits for a bucket.
    pub(super) fn wait_for_bucket(&mut self, slot: Slot, minute: u64, tenant: Handle<Tenant>) {
        self.bucket_waiters.entry((slot, minute)).or_default().push(tenant);
        self.buckets_waiting.push_back(BucketTurn { slot, minute, from: None });
        self.read_buckets();
    }

    /// Reads a bucket before it is asked for, if that costs nobody a turn. A large one is never read ahead.
    pub(super) fn read_bucket_ahead(&mut self, slot: Slot, minute: u64) {
        if self.buckets_waiting.is_empty() && !self.dedup.is_large(slot, minute) {
            self.buckets_waiting.push_back(BucketTurn { slot, minute, from: None });
            self.read_buckets();
        }
    }

    /// Asks for the pages that stand in line, as far as reads may be under way.
    fn read_buckets(&mut self) {
        while self.bucket_reads < limits::DEDUP_READS_MAX
            && let Some(BucketTurn { slot, minute, from }) = self.buckets_waiting.pop_front()
        {
            let large = self.dedup.is_large(slot, minute);
            if from.is_none() && large && !self.bucket_waiters.contains_key(&(slot, minute)) {
                continue;
            }
            let from = match from {
                Some(from) => from,
                None if self.dedup.begin_read(slot, minute) => {
                    if large {
                        self.seek_waiting(slot, minute);
                    }
                    Sequence(0)
                }
                None => continue,
            };
            self.bucket_reads += 1;
            self.ask(Asked::Ids(slot, minute), Read::Ids { slot, minute, from });
        }
    }

    /// Names the ids that arrivals wait for, of those parked at most: so many fit in memory.
    fn seek_waiting(&mut self, slot: Slot, minute: u64) {
        let waiters = self.bucket_waiters.get(&(slot, minute)).map(Vec::as_slice).unwrap_or_default();
        let tenants = waiters.iter().filter_map(|tenant| self.tenants.get(*tenant));
        let keys = tenants.flat_map(|tenant| {
            let events = tenant.parked.iter().flat_map(Parked::events);
            let ids = events.map(|event| event.id).filter(|id| bucket_minute(*id) == minute);
            ids.map(|id| dedup_key(tenant.mask, id))
        });
        let keys: Vec<u128> = keys.collect();
        self.dedup.seek(slot, minute, keys);
    }

    /// A page of a bucket came: once it was the last, whoever waited goes on.
    pub(super) fn bucket_page(
        &mut self,
        slot: Slot,
        minute: u64,
        entries: &[(u128, Sequence)],
        next: Option<Sequence>,
        now: Time,
    ) {
        self.bucket_reads -= 1;
        match self.dedup.page(slot, minute, entries, next) {
            Paged::More(from) => self.buckets_waiting.push_back(BucketTurn { slot, minute, from: Some(from) }),
            Paged::TooLarge => {
                self.seek_waiting(slot, minute);
                self.buckets_waiting.push_back(BucketTurn { slot, minute, from: Some(Sequence(0)) });
            }
            Paged::Done => {
                for tenant in self.bucket_waiters.remove(&(slot, minute)).unwrap_or_default() {
                    self.admit_parked(tenant, now);
                }
            }
        }
        self.read_buckets();
        self.resume_lanes();
    }
}
