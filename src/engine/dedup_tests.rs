//! Tests of the ids in memory.

use super::*;
use crate::engine::properties::same_cases;
use proptest::prelude::*;

const SLOT: Slot = Slot(3);
const ROOMY: usize = 1 << 20;

fn read(dedup: &mut Dedup, minute: u64, entries: &[(u128, Sequence)]) {
    assert!(dedup.begin_read(SLOT, minute));
    assert_eq!(dedup.page(SLOT, minute, entries, None), Paged::Done);
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
    assert_eq!(dedup.page(SLOT, 5, &[(11, Sequence(1))], None), Paged::Done);
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
fn a_bucket_that_nobody_asks_for_leaves_memory_once_it_is_written() {
    let mut dedup = Dedup::new(ROOMY, 1);
    read(&mut dedup, 5, &[(10, Sequence(1))]);
    read(&mut dedup, 6, &[]);
    dedup.insert(SLOT, 6, 20, Sequence(2));
    read(&mut dedup, 7, &[(30, Sequence(3))]);
    let mark = dedup.uses();
    assert_eq!(dedup.look(SLOT, 7, 30), Look::Duplicate(Sequence(3)));
    dedup.drop_unused_since(mark + 1);
    assert_eq!(dedup.look(SLOT, 5, 10), Look::Unread, "it is read again");
    assert_eq!(dedup.look(SLOT, 6, 20), Look::Duplicate(Sequence(2)), "nobody else has it yet");
    assert_eq!(dedup.look(SLOT, 7, 30), Look::Duplicate(Sequence(3)), "it was asked for since");
    flush(&mut dedup);
    dedup.drop_unused_since(dedup.uses() + 1);
    assert_eq!((dedup.entries(), dedup.bytes()), (0, 0));
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

#[test]
fn a_bucket_larger_than_memory_keeps_the_budget_and_every_answer() {
    const BUDGET: usize = 200_000;
    const STORED: u64 = 100_000;
    let mut dedup = Dedup::new(BUDGET, 1);
    let page =
        |from: u64| (from..from + 1_000).map(|number| (u128::from(number), Sequence(number))).collect::<Vec<_>>();
    let scan = |dedup: &mut Dedup, sought: &[u128]| {
        assert!(dedup.begin_read(SLOT, 5));
        if dedup.is_large(SLOT, 5) {
            dedup.seek(SLOT, 5, sought.iter().copied());
        }
        let (mut from, mut pages) = (1, 0);
        loop {
            let next = Some(Sequence(from + 1_000)).filter(|next| next.0 <= STORED);
            pages += 1;
            match dedup.page(SLOT, 5, &page(from), next) {
                Paged::More(next) => from = next.0,
                Paged::TooLarge => {
                    dedup.seek(SLOT, 5, sought.iter().copied());
                    from = 1;
                }
                Paged::Done => return pages,
            }
            assert!(dedup.bytes() <= BUDGET, "{} bytes", dedup.bytes());
        }
    };
    let first = scan(&mut dedup, &[7, STORED.into(), 1_000_000]);
    assert!((101..110).contains(&first), "{first} pages: it is found to be large at once");
    assert_eq!(dedup.look(SLOT, 5, 7), Look::Duplicate(Sequence(7)));
    assert_eq!(dedup.look(SLOT, 5, STORED.into()), Look::Duplicate(Sequence(STORED)));
    assert_eq!(dedup.look(SLOT, 5, 1_000_000), Look::Fresh);
    assert_eq!(dedup.look(SLOT, 5, 1_000_001), Look::Unread, "nobody sought it");
    dedup.insert(SLOT, 5, 1_000_000, Sequence(STORED + 1));
    assert_eq!(dedup.look(SLOT, 5, 1_000_000), Look::Duplicate(Sequence(STORED + 1)));
    assert_eq!(scan(&mut dedup, &[1_000_001]), 100, "it is known to be large");
    assert_eq!(dedup.look(SLOT, 5, 1_000_000), Look::Duplicate(Sequence(STORED + 1)), "not written yet");
    assert_eq!(dedup.look(SLOT, 5, 1_000_001), Look::Fresh);
}

#[test]
fn a_bucket_that_outgrows_memory_by_what_is_accepted_keeps_the_budget() {
    let mut dedup = Dedup::new(100_000, 1);
    read(&mut dedup, 5, &[]);
    for number in 1..=20_000_u64 {
        dedup.insert(SLOT, 5, number.into(), Sequence(number));
        if number % 500 == 0 {
            flush(&mut dedup);
        }
        assert!(dedup.bytes() <= 100_000, "{} bytes after {number}", dedup.bytes());
    }
    assert!(dedup.is_large(SLOT, 5));
    assert_eq!(dedup.look(SLOT, 5, 30_000), Look::Unread);
    assert_eq!(dedup.look(SLOT, 5, 20_000), Look::Duplicate(Sequence(20_000)));
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
    /// Reads a bucket in pages of five, for one id.
    fn read(&mut self, minute: u64, key: u128) {
        let range = (minute, 0)..=(minute, u128::MAX);
        let mut stored: Vec<_> = self.store.range(range).map(|((_, key), sequence)| (*key, *sequence)).collect();
        stored.sort_by_key(|(_, sequence)| *sequence);
        assert!(self.dedup.begin_read(SLOT, minute));
        if self.dedup.is_large(SLOT, minute) {
            self.dedup.seek(SLOT, minute, [key]);
        }
        let mut from = Sequence(0);
        loop {
            let page: Vec<_> = stored.iter().filter(|(_, sequence)| *sequence >= from).take(5).copied().collect();
            let next = page.last().filter(|_| page.len() == 5).map(|(_, last)| last.next());
            from = match self.dedup.page(SLOT, minute, &page, next) {
                Paged::More(from) => from,
                Paged::TooLarge => {
                    self.dedup.seek(SLOT, minute, [key]);
                    Sequence(0)
                }
                Paged::Done => return,
            };
        }
    }

    fn arrive(&mut self, minute: u64, key: u128) {
        if self.dedup.look(SLOT, minute, key) == Look::Unread {
            self.read(minute, key);
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
        steps in prop::collection::vec((0u8..8, 0u64..4, 0u128..100), 0..400),
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
