//! Which ids a shard has accepted, in memory: the fast half of "consume once".
//!
//! Ids lie in buckets of (slot, minute of the id's own time). Memory decides for a bucket once this owner has
//! read it from the store; until then only a hit is an answer. Ids that are not in the store yet pin their
//! bucket; beyond the memory budget the least recently used of the others are dropped and read again when
//! an id asks for them. Who waits for which bucket is the caller's business.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use ahash::RandomState;

use super::id_table::IdTable;
use crate::types::{Sequence, Slot};

pub use super::dedup_key::{bucket_minute, dedup_key, tenant_mask};

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

    const fn bytes(&self) -> usize {
        BUCKET_BYTES + self.table.bytes() + self.unwritten.capacity() * size_of::<(u128, Sequence)>()
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

    /// What memory knows of an id.
    pub fn look(&mut self, slot: Slot, minute: u64, key: u128) -> Look {
        let Some(bucket) = self.buckets.get_mut(&(slot, minute)) else { return Look::Unread };
        self.uses += 1;
        bucket.used = self.uses;
        match (bucket.table.find(key, &self.hasher), bucket.reading) {
            (Some(sequence), _) => Look::Duplicate(sequence),
            (None, Reading::Read) => Look::Fresh,
            (None, Reading::Unread | Reading::Asked) => Look::Unread,
        }
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

    /// Takes what the store has of a bucket. From now on memory decides for it.
    pub fn loaded(&mut self, slot: Slot, minute: u64, entries: &[(u128, Sequence)]) {
        self.change((slot, minute), |bucket, hasher| {
            bucket.table.reserve(entries.len(), hasher);
            for (key, sequence) in entries {
                bucket.table.insert(*key, *sequence, hasher);
            }
            bucket.reading = Reading::Read;
        });
    }

    /// Enters an accepted id that is not in the store yet; its bucket stays in memory until it is.
    pub fn insert(&mut self, slot: Slot, minute: u64, key: u128, sequence: Sequence) {
        self.change((slot, minute), |bucket, hasher| {
            if bucket.table.insert(key, sequence, hasher) {
                bucket.unwritten.push((key, sequence));
            }
        });
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
        for bucket_key in self.pinned_of(slot) {
            self.change(bucket_key, |bucket, _| bucket.writing = false);
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
                vacant.insert(Bucket::default())
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
        while self.bytes > self.budget_bytes {
            let Some((filed, key)) = self.droppable.pop_first() else { return };
            let bucket = self.buckets.get_mut(&key).expect("a droppable bucket is in the map");
            if bucket.used != filed {
                bucket.filed = Some(bucket.used);
                self.droppable.insert(bucket.used, key);
            } else if key == kept {
                self.droppable.insert(filed, key);
                return;
            } else {
                self.bytes -= bucket.bytes();
                self.entries -= bucket.table.len();
                self.buckets.remove(&key);
            }
        }
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
mod tests {
    use super::*;
    use crate::engine::properties::same_cases;
    use proptest::prelude::*;

    const SLOT: Slot = Slot(3);
    const ROOMY: usize = 1 << 20;

    fn read(dedup: &mut Dedup, minute: u64, entries: &[(u128, Sequence)]) {
        assert!(dedup.begin_read(SLOT, minute));
        dedup.loaded(SLOT, minute, entries);
    }

    /// Writes everything of the slot.
    fn flush(dedup: &mut Dedup) {
        dedup.take_unwritten(SLOT, Sequence(u64::MAX));
        dedup.written(SLOT);
    }

    #[test]
    fn memory_decides_once_the_bucket_is_read() {
        let mut dedup = Dedup::new(ROOMY, 1);
        assert_eq!(dedup.look(SLOT, 5, 10), Look::Unread);
        assert!(dedup.begin_read(SLOT, 5));
        assert!(!dedup.begin_read(SLOT, 5), "a read is on its way");
        assert_eq!(dedup.look(SLOT, 5, 10), Look::Unread);
        dedup.loaded(SLOT, 5, &[(11, Sequence(1))]);
        assert_eq!(dedup.look(SLOT, 5, 10), Look::Fresh);
        assert_eq!(dedup.look(SLOT, 5, 11), Look::Duplicate(Sequence(1)));
        assert_eq!(dedup.look(SLOT, 6, 11), Look::Unread);
        assert_eq!(dedup.look(Slot(4), 5, 11), Look::Unread);
        assert!(!dedup.begin_read(SLOT, 5), "it has been read");
    }

    #[test]
    fn a_hit_counts_before_the_bucket_is_read() {
        let mut dedup = Dedup::new(ROOMY, 1);
        dedup.insert(SLOT, 5, 10, Sequence(7));
        dedup.insert_written(SLOT, 5, 11, Sequence(8));
        assert_eq!(dedup.look(SLOT, 5, 10), Look::Duplicate(Sequence(7)));
        assert_eq!(dedup.look(SLOT, 5, 11), Look::Duplicate(Sequence(8)));
        assert_eq!(dedup.look(SLOT, 5, 12), Look::Unread);
    }

    #[test]
    fn the_lowest_sequence_counts() {
        let mut dedup = Dedup::new(ROOMY, 1);
        dedup.insert_written(SLOT, 5, 10, Sequence(7));
        read(&mut dedup, 5, &[(10, Sequence(9)), (11, Sequence(6)), (11, Sequence(4))]);
        assert_eq!(dedup.look(SLOT, 5, 10), Look::Duplicate(Sequence(7)));
        assert_eq!(dedup.look(SLOT, 5, 11), Look::Duplicate(Sequence(4)));
        assert_eq!(dedup.entries(), 2);
    }

    #[test]
    fn a_failed_copy_leaves_nothing_behind() {
        let mut dedup = Dedup::new(ROOMY, 1);
        read(&mut dedup, 5, &[]);
        dedup.insert(SLOT, 5, 10, Sequence(7));
        dedup.remove(SLOT, 5, 10);
        assert_eq!(dedup.look(SLOT, 5, 10), Look::Fresh);
        assert_eq!(dedup.take_unwritten(SLOT, Sequence(100)), []);
        dedup.remove(SLOT, 6, 10);
        assert_eq!(dedup.look(SLOT, 6, 10), Look::Unread);
    }

    #[test]
    fn unwritten_ids_come_once_in_order_below_the_bound() {
        let mut dedup = Dedup::new(ROOMY, 1);
        for (minute, key, sequence) in [(6, 1, 4), (5, 2, 3), (6, 3, 2), (5, 4, 9)] {
            dedup.insert(SLOT, minute, key, Sequence(sequence));
        }
        dedup.insert(Slot(4), 5, 5, Sequence(1));
        dedup.insert_written(SLOT, 5, 6, Sequence(1));
        let taken = dedup.take_unwritten(SLOT, Sequence(9));
        assert_eq!(taken, [(5, vec![(2, Sequence(3))]), (6, vec![(3, Sequence(2)), (1, Sequence(4))])]);
        assert_eq!(dedup.take_unwritten(SLOT, Sequence(9)), []);
        assert_eq!(dedup.take_unwritten(SLOT, Sequence(10)), [(5, vec![(4, Sequence(9))])]);
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut dedup = Dedup::new(ROOMY, 1);
        for minute in [1, 2, 3] {
            read(&mut dedup, minute, &[(1, Sequence(1))]);
        }
        assert_eq!(dedup.look(SLOT, 1, 1), Look::Duplicate(Sequence(1)));
        dedup.budget_bytes = dedup.bytes();
        read(&mut dedup, 4, &[(1, Sequence(1))]);
        let known = |minute| dedup.buckets.contains_key(&(SLOT, minute));
        assert_eq!([1, 2, 3, 4].map(known), [true, false, true, true]);
        assert!(dedup.bytes() <= dedup.budget_bytes);
        assert_eq!(dedup.entries(), 3);
    }

    #[test]
    fn unwritten_and_asked_buckets_stay_whatever_the_budget() {
        let mut dedup = Dedup::new(0, 1);
        dedup.insert(SLOT, 1, 1, Sequence(1));
        assert!(dedup.begin_read(SLOT, 2));
        read(&mut dedup, 3, &[]);
        assert_eq!(dedup.look(SLOT, 3, 1), Look::Fresh, "what was just asked for is spared");
        assert_eq!(dedup.take_unwritten(SLOT, Sequence(2)).len(), 1);
        read(&mut dedup, 4, &[]);
        assert_eq!(dedup.look(SLOT, 3, 1), Look::Unread);
        assert_eq!(dedup.look(SLOT, 1, 1), Look::Duplicate(Sequence(1)), "being written");
        assert!(!dedup.begin_read(SLOT, 2), "still on its way");
        dedup.written(SLOT);
        dedup.insert(SLOT, 5, 1, Sequence(1));
        assert_eq!(dedup.look(SLOT, 1, 1), Look::Unread);
    }

    #[test]
    fn ids_of_forged_minutes_keep_the_budget() {
        let mut dedup = Dedup::new(ROOMY, 1);
        for minute in 0..20_000 {
            dedup.insert(SLOT, minute, 1, Sequence(minute + 1));
            if minute % 100 == 0 {
                flush(&mut dedup);
            }
            assert!(dedup.bytes() <= ROOMY);
        }
        assert!(dedup.entries() > 1_000);
    }

    /// A shard as its caller drives it, with the store's ids beside it.
    struct World {
        dedup: Dedup,
        store: BTreeMap<(u64, u128), Sequence>,
        accepted: BTreeMap<(u64, u128), Sequence>,
        writing: Vec<(u64, Vec<(u128, Sequence)>)>,
        next: Sequence,
    }

    impl World {
        fn arrive(&mut self, minute: u64, key: u128) {
            if self.dedup.look(SLOT, minute, key) == Look::Unread {
                let range = (minute, 0)..=(minute, u128::MAX);
                let entries: Vec<_> = self.store.range(range).map(|((_, key), seq)| (*key, *seq)).collect();
                read(&mut self.dedup, minute, &entries);
            }
            let known = self.accepted.get(&(minute, key)).copied();
            let expected = known.map_or(Look::Fresh, Look::Duplicate);
            assert_eq!(self.dedup.look(SLOT, minute, key), expected);
            if known.is_none() {
                self.next = self.next.next();
                self.accepted.insert((minute, key), self.next);
                self.dedup.insert(SLOT, minute, key, self.next);
            }
        }

        fn fail(&mut self, choice: usize) {
            let unwritten: Vec<_> = self.accepted.keys().filter(|id| !self.store.contains_key(id)).copied().collect();
            let is_writing = |(minute, key): &(u64, u128)| {
                self.writing.iter().any(|(m, entries)| m == minute && entries.iter().any(|(k, _)| k == key))
            };
            if let Some(id) = unwritten.get(choice % unwritten.len().max(1)).filter(|id| !is_writing(id)) {
                self.accepted.remove(id);
                self.dedup.remove(SLOT, id.0, id.1);
            }
        }

        fn finish_writing(&mut self) {
            for (minute, entries) in self.writing.drain(..) {
                self.store.extend(entries.into_iter().map(|(key, sequence)| ((minute, key), sequence)));
            }
            self.dedup.written(SLOT);
        }
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn no_id_is_ever_accepted_twice_or_lost(
            budget in 0usize..6_000, seed: u64,
            steps in prop::collection::vec((0u8..8, 0u64..8, 0u128..12), 0..300),
        ) {
            let dedup = Dedup::new(budget, seed);
            let (store, accepted) = (BTreeMap::new(), BTreeMap::new());
            let mut world = World { dedup, store, accepted, writing: Vec::new(), next: Sequence(0) };
            for (kind, minute, key) in steps {
                match kind {
                    0 if world.writing.is_empty() => {
                        world.writing = world.dedup.take_unwritten(SLOT, Sequence(world.next.0.saturating_sub(2)));
                    }
                    1 => world.finish_writing(),
                    2 => world.fail(usize::try_from(key).expect("small")),
                    _ => world.arrive(minute, key),
                }
                let tables = || world.dedup.buckets.values();
                prop_assert_eq!(world.dedup.bytes(), tables().map(Bucket::bytes).sum::<usize>());
                prop_assert_eq!(world.dedup.entries(), tables().map(|bucket| bucket.table.len()).sum::<usize>());
            }
        }
    }
}
