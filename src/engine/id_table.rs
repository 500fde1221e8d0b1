//! A table from 16-byte keys to sequences at 22 bytes a slot: what one dedup bucket is made of.
//!
//! Open addressing in order: the slots are sorted by the keys' hashes, with gaps, and a key never stands
//! before its home, nor after an empty slot behind its home. So a search for a missing key ends early even when the table is
//! nearly full, and growing is a walk. The hash is keyed by the caller, since tenants choose the ids.

use ahash::RandomState;

use crate::types::Sequence;

/// Homes are filled up to this many percent.
const LOAD_PERCENT: usize = 85;
/// Homes after growing, in percent of those needed at full load: growing costs memory, so little at a time.
const GROWTH_PERCENT: usize = 115;
/// The fewest homes of a table that grows.
const HOMES_MIN: usize = 4;
/// The fewest and most slots behind the last home, where the last keys may be pushed to; else a 16th.
const SPILL: (usize, usize) = (4, 64);
/// A sequence's 48 bits; zero marks an empty slot.
type Packed = [u8; 6];
const EMPTY: Packed = [0; 6];

/// Keys and their sequences.
#[derive(Debug, Default)]
pub struct IdTable {
    homes: usize,
    len: usize,
    keys: Vec<u128>,
    sequences: Vec<Packed>,
}

/// Where a key stands, or where it belongs.
enum Spot {
    Here(usize),
    Missing(usize),
}

impl IdTable {
    /// How many keys it has.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Its memory in bytes.
    pub const fn bytes(&self) -> usize {
        self.keys.len() * (size_of::<u128>() + size_of::<Packed>())
    }

    /// The sequence of `key`.
    pub fn find(&self, key: u128, hasher: &RandomState) -> Option<Sequence> {
        match self.spot(key, hasher) {
            Spot::Here(slot) => Some(unpack(self.sequences[slot])),
            Spot::Missing(_) => None,
        }
    }

    /// Enters `key`; of two sequences the lower stands. Returns whether anything changed. Sequences are 1 to
    /// 2^48 − 1; others change nothing.
    pub fn insert(&mut self, key: u128, sequence: Sequence, hasher: &RandomState) -> bool {
        let Some(packed) = pack(sequence) else { return false };
        match self.spot(key, hasher) {
            Spot::Here(slot) => {
                let lower = sequence < unpack(self.sequences[slot]);
                if lower {
                    self.sequences[slot] = packed;
                }
                lower
            }
            Spot::Missing(slot) => {
                if self.needed_homes(1) > self.homes || !self.place(slot, key, packed) {
                    self.grow(key, packed, hasher);
                }
                self.len += 1;
                true
            }
        }
    }

    /// Takes `key` out; returns whether it was there.
    pub fn remove(&mut self, key: u128, hasher: &RandomState) -> bool {
        let Spot::Here(mut slot) = self.spot(key, hasher) else { return false };
        while slot + 1 < self.keys.len() && self.is_displaced(slot + 1, hasher) {
            self.keys[slot] = self.keys[slot + 1];
            self.sequences[slot] = self.sequences[slot + 1];
            slot += 1;
        }
        self.sequences[slot] = EMPTY;
        self.len -= 1;
        true
    }

    /// Makes room for `more` keys at once.
    pub fn reserve(&mut self, more: usize, hasher: &RandomState) {
        let needed = self.needed_homes(more);
        if needed > self.homes {
            self.rebuild(needed, hasher);
        }
    }

    const fn needed_homes(&self, more: usize) -> usize {
        ((self.len + more) * 100).div_ceil(LOAD_PERCENT)
    }

    /// Grows until a missing key has a place, and puts it there.
    fn grow(&mut self, key: u128, packed: Packed, hasher: &RandomState) {
        loop {
            self.rebuild((self.homes * GROWTH_PERCENT / 100 + 1).max(HOMES_MIN), hasher);
            let (Spot::Here(slot) | Spot::Missing(slot)) = self.spot(key, hasher);
            if self.place(slot, key, packed) {
                return;
            }
        }
    }

    fn spot(&self, key: u128, hasher: &RandomState) -> Spot {
        if self.homes == 0 {
            return Spot::Missing(0);
        }
        let hash = hasher.hash_one(key);
        let mut slot = self.home(hash);
        while slot < self.keys.len() && self.sequences[slot] != EMPTY {
            if self.keys[slot] == key {
                return Spot::Here(slot);
            }
            if hasher.hash_one(self.keys[slot]) > hash {
                break;
            }
            slot += 1;
        }
        Spot::Missing(slot)
    }

    /// Puts a missing key where it belongs, pushing others on; false when there is no empty slot behind.
    fn place(&mut self, slot: usize, key: u128, packed: Packed) -> bool {
        let empty = (slot..self.keys.len()).find(|slot| self.sequences[*slot] == EMPTY);
        if let Some(empty) = empty {
            self.keys.copy_within(slot..empty, slot + 1);
            self.sequences.copy_within(slot..empty, slot + 1);
            (self.keys[slot], self.sequences[slot]) = (key, packed);
        }
        empty.is_some()
    }

    /// Takes all keys, in order, into a table of at least `homes` homes.
    fn rebuild(&mut self, mut homes: usize, hasher: &RandomState) {
        loop {
            if let Some(rebuilt) = self.copy(homes, hasher) {
                *self = rebuilt;
                return;
            }
            homes = homes * GROWTH_PERCENT / 100 + 1;
        }
    }

    /// A table of `homes` homes with all keys; `None` when the last ones would be pushed off its end.
    fn copy(&self, homes: usize, hasher: &RandomState) -> Option<Self> {
        let slots = homes + (homes / 16).clamp(SPILL.0, SPILL.1);
        let mut copy = Self { homes, len: self.len, keys: vec![0; slots], sequences: vec![EMPTY; slots] };
        let mut free = 0;
        for (key, packed) in self.keys.iter().zip(&self.sequences).filter(|(_, packed)| **packed != EMPTY) {
            let slot = copy.home(hasher.hash_one(key)).max(free);
            *copy.keys.get_mut(slot)? = *key;
            copy.sequences[slot] = *packed;
            free = slot + 1;
        }
        Some(copy)
    }

    fn is_displaced(&self, slot: usize, hasher: &RandomState) -> bool {
        self.sequences[slot] != EMPTY && self.home(hasher.hash_one(self.keys[slot])) < slot
    }

    /// The first slot that a hash may stand in; grows with the hash.
    fn home(&self, hash: u64) -> usize {
        let homes = u128::try_from(self.homes).expect("a usize fits 128 bits");
        usize::try_from((u128::from(hash) * homes) >> 64).expect("below the number of homes")
    }
}

fn pack(sequence: Sequence) -> Option<Packed> {
    let [high, top, low @ ..] = sequence.0.to_be_bytes();
    (high == 0 && top == 0 && low != EMPTY).then_some(low)
}

fn unpack([a, b, c, d, e, f]: Packed) -> Sequence {
    Sequence(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::properties::same_cases;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn hasher() -> RandomState {
        RandomState::with_seeds(1, 2, 3, 4)
    }

    #[test]
    fn an_empty_table_finds_nothing() {
        let mut table = IdTable::default();
        assert_eq!(table.find(7, &hasher()), None);
        assert!(!table.remove(7, &hasher()));
        assert_eq!(table.bytes(), 0);
    }

    #[test]
    fn the_lower_sequence_stands() {
        let (mut table, hasher) = (IdTable::default(), hasher());
        assert!(table.insert(7, Sequence(20), &hasher));
        assert!(!table.insert(7, Sequence(30), &hasher));
        assert!(table.insert(7, Sequence(10), &hasher));
        assert_eq!((table.find(7, &hasher), table.len()), (Some(Sequence(10)), 1));
    }

    #[test]
    fn sequences_outside_48_bits_change_nothing() {
        let (mut table, hasher) = (IdTable::default(), hasher());
        assert!(!table.insert(7, Sequence(0), &hasher));
        assert!(!table.insert(7, Sequence(1 << 48), &hasher));
        assert!(table.insert(7, Sequence((1 << 48) - 1), &hasher));
        assert_eq!(table.find(7, &hasher), Some(Sequence((1 << 48) - 1)));
    }

    #[test]
    fn an_entry_costs_at_most_32_bytes() {
        let (mut table, hasher) = (IdTable::default(), hasher());
        for key in 1..=50_000u128 {
            table.insert(key << 64, Sequence(1), &hasher);
            assert!(key < 100 || table.bytes() <= 32 * table.len(), "{} for {key}", table.bytes());
        }
        let mut loaded = IdTable::default();
        loaded.reserve(1_000, &hasher);
        assert!(loaded.bytes() <= 32 * 1_000);
    }

    #[test]
    fn keys_pushed_off_the_end_make_it_grow() {
        for seed in 0..2_000 {
            let hasher = RandomState::with_seeds(seed, 2, 3, 4);
            let mut table = IdTable::default();
            for key in 1..=60u128 {
                assert!(table.insert(key, Sequence(1), &hasher));
            }
            assert!((1..=60).all(|key| table.find(key, &hasher).is_some()), "a key is lost with seed {seed}");
        }
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn agrees_with_an_ordered_map(
            steps in prop::collection::vec((0u8..4, 0u128..60, 1u64..1_000), 0..400), seed: u64,
        ) {
            let hasher = RandomState::with_seeds(seed, 2, 3, 4);
            let mut table = IdTable::default();
            let mut model = BTreeMap::new();
            for (kind, key, sequence) in steps {
                match kind {
                    0 => prop_assert_eq!(table.remove(key, &hasher), model.remove(&key).is_some()),
                    1 => table.reserve(usize::try_from(key).expect("small"), &hasher),
                    _ => {
                        let lower = model.get(&key).is_none_or(|old| sequence < *old);
                        prop_assert_eq!(table.insert(key, Sequence(sequence), &hasher), lower);
                        if lower {
                            model.insert(key, sequence);
                        }
                    }
                }
                prop_assert_eq!(table.len(), model.len());
            }
            for key in 0..60 {
                prop_assert_eq!(table.find(key, &hasher), model.get(&key).copied().map(Sequence));
            }
        }
    }
}
