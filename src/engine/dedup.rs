//! Which ids a shard has accepted, in memory: the fast half of "consume once".
//!
//! Ids lie in buckets of (slot, minute of the id's own time). Memory decides for a bucket once this owner has
//! read it from the store; until then only a hit is an answer. Ids that are not in the store yet pin their
//! bucket; beyond the memory budget the least recently used of the others are dropped and read again when
//! an id asks for them. Who waits for which bucket is the caller's business.
//!
//! A bucket may be larger than memory: whoever stamps ids may stamp them all alike. It is read a page at a time,
//! and once it has outgrown its part of the budget it is *large*: then each reading looks only for the ids that
//! were [sought](Dedup::seek), and memory vouches for those.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use ahash::RandomState;

use super::id_table::IdTable;
use crate::types::{Sequence, Slot, limits};

pub use super::dedup_key::{bucket_minute, dedup_key, tenant_mask};

/// No table of this many bytes makes its bucket a large one, however small the budget.
const LARGE_BYTES_MIN: usize = 256;
/// What an id that was sought costs, roughly.
const SOUGHT_BYTES: usize = 32;
/// What a bucket costs beside its table: itself, its place in the map and in the order of use.
const BUCKET_BYTES: usize = 384;

/// What memory knows of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It was never accepted.
    Fresh,
    /// It was accepted under this sequence.
    Duplicate(Sequence),
    /// Memory does not know: the bucket must be read first.
    Unread,
}

/// What a page of a bucket's ids led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paged {
    /// The page from this sequence on is wanted next.
    More(Sequence),
    /// The bucket is too large for memory: ids are to be sought, and all its pages are wanted again.
    TooLarge,
    /// The bucket is read: memory decides, in a large one for the ids that were sought.
    Done,
}

/// The ids in memory.
#[derive(Debug)]
pub struct Dedup {
    budget_bytes: usize,
    hasher: RandomState,
    /// Looked up by key only, never walked.
    buckets: HashMap<BucketKey, Bucket, RandomState>,
    /// Buckets that may be dropped, by when they were used when filed here; later use shows only in the bucket.
    droppable: BTreeMap<u64, BucketKey>,
    /// Buckets with ids that are not in the store yet.
    pinned: BTreeSet<BucketKey>,
    /// Buckets known to be larger than their part of the budget, some perhaps forgotten.
    large: BTreeSet<BucketKey>,
    /// Counts uses.
    uses: u64,
    bytes: usize,
    entries: usize,
}

type BucketKey = (Slot, u64);

#[derive(Debug, Default)]
struct Bucket {
    table: IdTable,
    reading: Reading,
    /// It is larger than its part of the budget: the table has some of its ids, and is never all of them.
    large: bool,
    /// In a large bucket: ids looked for and not found, once it has been read.
    sought: BTreeSet<u128>,
    unwritten: Vec<(u128, Sequence)>,
    /// Entries are on their way to the store.
    writing: bool,
    used: u64,
    /// Where it stands in [`Dedup::droppable`].
    filed: Option<u64>,
    /// It stands in [`Dedup::pinned`].
    listed_pinned: bool,
}

/// How much of a bucket memory knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    /// Only what was inserted.
    #[default]
    Unread,
    /// The same; a read is on its way.
    Asked,
    /// All of it.
    Read,
}

impl Bucket {
    const fn is_pinned(&self) -> bool {
        self.writing || !self.unwritten.is_empty()
    }

    fn is_droppable(&self) -> bool {
        !self.is_pinned() && self.reading != Reading::Asked
    }

    fn bytes(&self) -> usize {
        let unwritten = self.unwritten.capacity() * size_of::<(u128, Sequence)>();
        BUCKET_BYTES + self.table.bytes() + unwritten + self.sought.len() * SOUGHT_BYTES
    }

    /// Takes a part of what the store has of it.
    fn take(&mut self, entries: &[(u128, Sequence)], hasher: &RandomState) {
        if !self.large {
            self.table.reserve(entries.len(), hasher);
        }
        for (key, sequence) in entries {
            if !self.large || self.sought.remove(key) {
                self.table.insert(*key, *sequence, hasher);
            }
        }
    }

    /// From now on it is a large one: what the store has leaves memory.
    fn become_large(&mut self, most_bytes: usize, hasher: &RandomState) {
        self.large = true;
        self.sought.clear();
        if self.reading == Reading::Read {
            self.reading = Reading::Unread;
        }
        self.shrink(most_bytes, hasher);
    }

    /// Keeps only what the store does not have yet, if the table is too large and nothing is on its way there.
    fn shrink(&mut self, most_bytes: usize, hasher: &RandomState) {
        if self.large && !self.writing && self.table.bytes() > most_bytes {
            self.table = IdTable::default();
            for (key, sequence) in &self.unwritten {
                self.table.insert(*key, *sequence, hasher);
            }
        }
    }
}

impl Dedup {
    /// Nothing in memory. `seed` keys the hashing, since tenants choose the ids.
    #[must_use]
    pub fn new(budget_bytes: usize, seed: u64) -> Self {
        let hasher = RandomState::with_seeds(seed, seed.rotate_left(13), seed.rotate_left(29), seed.rotate_left(43));
        Self {
            budget_bytes,
            buckets: HashMap::with_hasher(hasher.clone()),
            hasher,
            droppable: BTreeMap::new(),
            pinned: BTreeSet::new(),
            large: BTreeSet::new(),
            uses: 0,
            bytes: 0,
            entries: 0,
        }
    }

    /// Memory in use, in bytes; above the budget only by what may not be dropped.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Ids in memory.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Counts what was asked and entered.
    #[must_use]
    pub const fn uses(&self) -> u64 {
        self.uses
    }

    /// Drops the buckets that nobody has asked for or written to since that many uses.
    pub fn drop_unused_since(&mut self, uses: u64) {
        while self.droppable.first_key_value().is_some_and(|(filed, _)| *filed < uses) {
            self.drop_first(None);
        }
    }

    /// What memory knows of an id.
    pub fn look(&mut self, slot: Slot, minute: u64, key: u128) -> Look {
        let Some(bucket) = self.buckets.get_mut(&(slot, minute)) else { return Look::Unread };
        self.uses += 1;
        bucket.used = self.uses;
        match (bucket.table.find(key, &self.hasher), bucket.reading) {
            (Some(sequence), _) => Look::Duplicate(sequence),
            (None, Reading::Read) => Look::Fresh,
            (None, Reading::Unread) if bucket.sought.contains(&key) => Look::Fresh,
            (None, Reading::Unread | Reading::Asked) => Look::Unread,
        }
    }

    /// The sequence of an id, if it is in memory: one that is not in the store yet always is.
    #[must_use]
    pub fn sequence_of(&self, slot: Slot, minute: u64, key: u128) -> Option<Sequence> {
        self.buckets.get(&(slot, minute))?.table.find(key, &self.hasher)
    }

    /// Notes that a bucket is about to be read. False: it has been read, or a read is on its way already.
    pub fn begin_read(&mut self, slot: Slot, minute: u64) -> bool {
        self.change((slot, minute), |bucket, _| {
            let unread = bucket.reading == Reading::Unread;
            if unread {
                bucket.reading = Reading::Asked;
            }
            unread
        })
    }

    /// Whether a bucket is known to be too large for memory.
    #[must_use]
    pub fn is_large(&self, slot: Slot, minute: u64) -> bool {
        self.large.contains(&(slot, minute))
    }

    /// What the reading of a large bucket that has just begun is to look for; what was sought before is forgotten.
    pub fn seek(&mut self, slot: Slot, minute: u64, keys: impl IntoIterator<Item = u128>) {
        self.change((slot, minute), |bucket, hasher| {
            let missing = |key: &u128| bucket.table.find(*key, hasher).is_none();
            bucket.sought = keys.into_iter().filter(missing).collect();
        });
    }

    /// Takes a page of what the store has of a bucket; `next` is where the next one begins.
    pub fn page(&mut self, slot: Slot, minute: u64, entries: &[(u128, Sequence)], next: Option<Sequence>) -> Paged {
        let most_bytes = self.bucket_bytes_max();
        let paged = self.change((slot, minute), |bucket, hasher| {
            bucket.take(entries, hasher);
            if !bucket.large && bucket.table.bytes() > most_bytes {
                bucket.become_large(most_bytes, hasher);
                return Paged::TooLarge;
            }
            if let Some(from) = next {
                return Paged::More(from);
            }
            bucket.reading = if bucket.large { Reading::Unread } else { Reading::Read };
            Paged::Done
        });
        self.remember_large((slot, minute));
        paged
    }

    /// Enters an accepted id that is not in the store yet; its bucket stays in memory until it is.
    pub fn insert(&mut self, slot: Slot, minute: u64, key: u128, sequence: Sequence) {
        let most_bytes = self.bucket_bytes_max();
        let outgrown = self.change((slot, minute), |bucket, hasher| {
            bucket.sought.remove(&key);
            if bucket.table.insert(key, sequence, hasher) {
                bucket.unwritten.push((key, sequence));
            }
            let outgrown = !bucket.large && bucket.table.bytes() > most_bytes;
            if outgrown {
                bucket.become_large(most_bytes, hasher);
            }
            outgrown
        });
        if outgrown {
            self.remember_large((slot, minute));
        }
    }

    fn bucket_bytes_max(&self) -> usize {
        (self.budget_bytes / limits::DEDUP_BUCKET_DIVISOR).max(LARGE_BYTES_MIN)
    }

    fn remember_large(&mut self, key: BucketKey) {
        if self.buckets.get(&key).is_some_and(|bucket| bucket.large) {
            self.large.insert(key);
            if self.large.len() > limits::DEDUP_LARGE_BUCKETS {
                self.large.pop_first();
            }
        }
    }

    /// Enters an accepted id that the store has.
    #[cfg(test)]
    fn insert_written(&mut self, slot: Slot, minute: u64, key: u128, sequence: Sequence) {
        self.change((slot, minute), |bucket, hasher| bucket.table.insert(key, sequence, hasher));
    }

    /// Takes an id out whose copy failed, so that the next copy is the first.
    pub fn remove(&mut self, slot: Slot, minute: u64, key: u128) {
        if self.buckets.contains_key(&(slot, minute)) {
            self.change((slot, minute), |bucket, hasher| {
                bucket.table.remove(key, hasher);
                bucket.unwritten.retain(|(other, _)| *other != key);
            });
        }
    }

    /// The slot's ids to be written, below a sequence, by minute and then sequence. Their buckets stay in
    /// memory until [`Dedup::written`].
    pub fn take_unwritten(&mut self, slot: Slot, below: Sequence) -> Vec<(u64, Vec<(u128, Sequence)>)> {
        let mut taken = Vec::new();
        for bucket_key in self.pinned_of(slot) {
            let entries = self.change(bucket_key, |bucket, _| {
                let mut entries: Vec<_> = bucket.unwritten.extract_if(.., |(_, sequence)| *sequence < below).collect();
                entries.sort_unstable_by_key(|(key, sequence)| (*sequence, *key));
                bucket.unwritten.shrink_to_fit();
                bucket.writing |= !entries.is_empty();
                entries
            });
            if !entries.is_empty() {
                taken.push((bucket_key.1, entries));
            }
        }
        taken
    }

    /// All that was taken of this slot is in the store.
    pub fn written(&mut self, slot: Slot) {
        let most_bytes = self.bucket_bytes_max();
        for bucket_key in self.pinned_of(slot) {
            self.change(bucket_key, |bucket, hasher| {
                bucket.writing = false;
                bucket.shrink(most_bytes, hasher);
            });
        }
    }

    fn pinned_of(&self, slot: Slot) -> Vec<BucketKey> {
        self.pinned.range((slot, 0)..=(slot, u64::MAX)).copied().collect()
    }

    /// Changes a bucket, made if need be, and keeps the books: use, sums, lists, budget.
    fn change<R>(&mut self, key: BucketKey, change: impl FnOnce(&mut Bucket, &RandomState) -> R) -> R {
        let bucket = match self.buckets.entry(key) {
            Entry::Occupied(occupied) => occupied.into_mut(),
            Entry::Vacant(vacant) => {
                self.bytes += BUCKET_BYTES;
                vacant.insert(Bucket { large: self.large.contains(&key), ..Bucket::default() })
            }
        };
        self.bytes -= bucket.bytes();
        self.entries -= bucket.table.len();
        let result = change(bucket, &self.hasher);
        self.bytes += bucket.bytes();
        self.entries += bucket.table.len();
        self.uses += 1;
        bucket.used = self.uses;
        file(key, bucket, &mut self.droppable, &mut self.pinned);
        self.drop_over_budget(key);
        result
    }

    /// Drops least recently used buckets until the budget holds, but never `kept`, which was just asked for:
    /// otherwise a bucket larger than the budget would be read for ever.
    fn drop_over_budget(&mut self, kept: BucketKey) {
        while self.bytes > self.budget_bytes && self.drop_first(Some(kept)) {}
    }

    /// Drops the bucket that is filed as used least recently, or files it anew if it was used since. False when there is
    /// none but `kept`.
    fn drop_first(&mut self, kept: Option<BucketKey>) -> bool {
        let Some((filed, key)) = self.droppable.pop_first() else { return false };
        let bucket = self.buckets.get_mut(&key).expect("a droppable bucket is in the map");
        if bucket.used != filed {
            bucket.filed = Some(bucket.used);
            self.droppable.insert(bucket.used, key);
        } else if Some(key) == kept {
            self.droppable.insert(filed, key);
            return false;
        } else {
            self.bytes -= bucket.bytes();
            self.entries -= bucket.table.len();
            self.buckets.remove(&key);
        }
        true
    }
}

/// Enters a bucket in the lists it belongs to now, and takes it out of the others.
fn file(
    key: BucketKey,
    bucket: &mut Bucket,
    droppable: &mut BTreeMap<u64, BucketKey>,
    pinned: &mut BTreeSet<BucketKey>,
) {
    match (bucket.is_droppable(), bucket.filed) {
        (true, None) => {
            droppable.insert(bucket.used, key);
            bucket.filed = Some(bucket.used);
        }
        (false, Some(filed)) => {
            droppable.remove(&filed);
            bucket.filed = None;
        }
        (true, Some(_)) | (false, None) => {}
    }
    if bucket.is_pinned() != bucket.listed_pinned {
        bucket.listed_pinned = bucket.is_pinned();
        if bucket.listed_pinned {
            pinned.insert(key)
        } else {
            pinned.remove(&key)
        };
    }
}

#[cfg(test)]
#[path = "dedup_tests.rs"]
mod tests;
