//! A hierarchical timer wheel: inserting and cancelling cost O(1), advancing skips empty time at once.
//!
//! Time moves in ticks of 1 ms. Level l has 64 slots of 64^l ticks. A timer stands on the lowest level on which
//! its tick and the current one differ, so the timers of a lower level are all due before those of a higher
//! one; when the current tick enters a slot of a higher level, its timers move down. What lies beyond the
//! top level waits in ordered blocks. A timer never fires before its time. Timers fire in order of tick,
//! those of one tick in order of insertion; one inserted for the past belongs to the current tick.

use std::collections::BTreeMap;

use crate::types::Time;

const MICROS_PER_TICK: u64 = 1_000;
/// log2 of a level's slots.
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Six levels of 64 reach 2^36 ms, two years; a shard's timers lie within hours.
const LEVELS: usize = 6;
/// log2 of the ticks that the levels reach.
const REACH_BITS: u32 = 36;
/// No entry: the end of a list.
const NONE: u32 = u32::MAX;

/// Names a timer until it has fired or is cancelled; afterwards it names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

/// The wheel. `T` is what a timer is for.
#[derive(Debug)]
pub struct Wheel<T> {
    /// Everything before this tick has fired.
    current: u64,
    levels: Box<[Level; LEVELS]>,
    /// By tick >> 36.
    beyond: BTreeMap<u64, List>,
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    /// Bit s: slot s has timers.
    occupied: u64,
    slots: [List; SLOTS],
}

/// A doubly linked list through the entries.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

#[derive(Debug)]
struct Entry<T> {
    /// Absent when the entry is free.
    item: Option<T>,
    tick: u64,
    generation: u32,
    previous: u32,
    next: u32,
    place: Place,
}

/// In which list an entry stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    Slot { level: u8, slot: u8 },
    Beyond,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE };

    const fn is_empty(self) -> bool {
        self.first == NONE
    }
}

impl<T> Wheel<T> {
    /// An empty wheel that stands at `now`.
    #[must_use]
    pub fn new(now: Time) -> Self {
        let level = Level { occupied: 0, slots: [List::EMPTY; SLOTS] };
        Self {
            current: now.0 / MICROS_PER_TICK,
            levels: Box::new([level; LEVELS]),
            beyond: BTreeMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// How many timers wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether no timer waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets a timer for `at`, rounded up to the next tick.
    pub fn insert(&mut self, at: Time, item: T) -> TimerId {
        let tick = at.0.div_ceil(MICROS_PER_TICK).max(self.current);
        let index = self.occupy(item, tick);
        self.link(index);
        TimerId { index, generation: self.entries[at_index(index)].generation }
    }

    /// Takes a timer back; `None` once it has fired or was cancelled.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        let entry = self.entries.get(at_index(id.index))?;
        if entry.generation != id.generation || entry.item.is_none() {
            return None;
        }
        self.unlink(id.index);
        self.vacate(id.index)
    }

    /// The next timer that is due at `now`; to be called until `None`.
    pub fn pop_expired(&mut self, now: Time) -> Option<T> {
        let now_tick = now.0 / MICROS_PER_TICK;
        while self.current <= now_tick {
            let due = self.levels[0].slots[slot_of(self.current, 0)];
            if !due.is_empty() {
                self.unlink(due.first);
                return self.vacate(due.first);
            }
            if !self.advance(now_tick) {
                self.current = now_tick;
                return None;
            }
        }
        None
    }

    /// When to call [`Wheel::pop_expired`] next: never later than the next timer. It may be earlier, when timers
    /// have to move down a level, and that call brings it nearer.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let tick = match self.next_slot() {
            Some((level, slot)) => self.start_of(level, slot).max(self.current),
            None => *self.beyond.first_key_value()?.0 << REACH_BITS,
        };
        Some(Time(tick.saturating_mul(MICROS_PER_TICK)))
    }

    /// Moves to the next slot or block that begins at or before `limit`, and its timers down; false if there is
    /// none.
    fn advance(&mut self, limit: u64) -> bool {
        let (start, list) = match (self.next_slot(), self.beyond.first_key_value()) {
            (Some((0, slot)), _) => (self.start_of(0, slot), List::EMPTY),
            (Some((level, slot)), _) => (self.start_of(level, slot), self.levels[level].slots[slot]),
            (None, Some((block, list))) => (block << REACH_BITS, *list),
            (None, None) => return false,
        };
        if start <= limit {
            self.current = self.current.max(start);
            self.move_down(list);
        }
        start <= limit
    }

    /// Files the timers of a list anew, now that the current tick has entered its slot.
    fn move_down(&mut self, list: List) {
        let mut index = list.first;
        while index != NONE {
            let next = self.entries[at_index(index)].next;
            self.unlink(index);
            self.link(index);
            index = next;
        }
    }

    /// The earliest slot with timers: the first one of the lowest level that has any.
    fn next_slot(&self) -> Option<(usize, usize)> {
        let level = self.levels.iter().position(|level| level.occupied != 0)?;
        let slot = self.levels[level].occupied.trailing_zeros();
        Some((level, at_index(slot)))
    }

    /// The first tick of a slot, seen from the current tick.
    fn start_of(&self, level: usize, slot: usize) -> u64 {
        let shift = shift_of(level);
        let above = self.current >> (shift + SLOT_BITS) << SLOT_BITS;
        (above | u64::try_from(slot).expect("a slot is below 64")) << shift
    }

    fn place_of(&self, tick: u64) -> Place {
        let differing = u64::BITS - (tick ^ self.current).leading_zeros();
        if differing > REACH_BITS {
            return Place::Beyond;
        }
        let level = differing.saturating_sub(1) / SLOT_BITS;
        let level = u8::try_from(level).expect("below six");
        let slot = u8::try_from(slot_of(tick, level.into())).expect("below 64");
        Place::Slot { level, slot }
    }

    fn list_mut(&mut self, place: Place, tick: u64) -> &mut List {
        match place {
            Place::Slot { level, slot } => &mut self.levels[usize::from(level)].slots[usize::from(slot)],
            Place::Beyond => self.beyond.entry(tick >> REACH_BITS).or_insert(List::EMPTY),
        }
    }

    /// Appends an entry to the list where its tick belongs.
    fn link(&mut self, index: u32) {
        let tick = self.entries[at_index(index)].tick;
        let place = self.place_of(tick);
        let list = self.list_mut(place, tick);
        let previous = list.last;
        list.last = index;
        if previous == NONE {
            list.first = index;
        } else {
            self.entries[at_index(previous)].next = index;
        }
        if let Place::Slot { level, slot } = place {
            self.levels[usize::from(level)].occupied |= 1 << slot;
        }
        let entry = &mut self.entries[at_index(index)];
        (entry.previous, entry.next, entry.place) = (previous, NONE, place);
    }

    /// Takes an entry out of its list.
    fn unlink(&mut self, index: u32) {
        let Entry { tick, previous, next, place, .. } = self.entries[at_index(index)];
        if previous != NONE {
            self.entries[at_index(previous)].next = next;
        }
        if next != NONE {
            self.entries[at_index(next)].previous = previous;
        }
        let list = self.list_mut(place, tick);
        if previous == NONE {
            list.first = next;
        }
        if next == NONE {
            list.last = previous;
        }
        if list.is_empty() {
            self.forget_list(place, tick);
        }
    }

    fn forget_list(&mut self, place: Place, tick: u64) {
        match place {
            Place::Slot { level, slot } => self.levels[usize::from(level)].occupied &= !(1 << slot),
            Place::Beyond => drop(self.beyond.remove(&(tick >> REACH_BITS))),
        }
    }

    fn occupy(&mut self, item: T, tick: u64) -> u32 {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[at_index(index)];
            (entry.item, entry.tick) = (Some(item), tick);
            return index;
        }
        let index = u32::try_from(self.entries.len()).expect("a shard has far fewer timers than 2^32");
        let place = Place::Beyond;
        self.entries.push(Entry { item: Some(item), tick, generation: 0, previous: NONE, next: NONE, place });
        index
    }

    fn vacate(&mut self, index: u32) -> Option<T> {
        let entry = &mut self.entries[at_index(index)];
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
        entry.item.take()
    }
}

fn shift_of(level: usize) -> u32 {
    SLOT_BITS * u32::try_from(level).expect("below six")
}

fn slot_of(tick: u64, level: usize) -> usize {
    let slot = (tick >> shift_of(level)) % (1 << SLOT_BITS);
    usize::try_from(slot).expect("below 64")
}

fn at_index(index: u32) -> usize {
    usize::try_from(index).expect("a usize has at least 32 bits on the platforms served")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::properties::same_cases;
    use proptest::prelude::*;

    const START: Time = Time::from_millis(1_645_557_742_123);

    fn after_ms(ms: u64) -> Time {
        Time(START.0 + ms * MICROS_PER_TICK)
    }

    fn drain<T>(wheel: &mut Wheel<T>, now: Time) -> Vec<T> {
        std::iter::from_fn(|| wheel.pop_expired(now)).collect()
    }

    #[test]
    fn timers_fire_in_order_and_never_early() {
        let mut wheel = Wheel::new(START);
        for (item, ms) in [70_000u64, 5, 4_000_000, 5, 64, 63].into_iter().enumerate() {
            wheel.insert(after_ms(ms), item);
        }
        assert_eq!(drain(&mut wheel, after_ms(4)), Vec::<usize>::new());
        assert_eq!(drain(&mut wheel, after_ms(5)), [1, 3]);
        assert_eq!(drain(&mut wheel, after_ms(69_999)), [5, 4]);
        assert_eq!(drain(&mut wheel, after_ms(4_000_000)), [0, 2]);
        assert!(wheel.is_empty());
    }

    #[test]
    fn a_part_of_a_tick_is_rounded_up() {
        let mut wheel = Wheel::new(START);
        wheel.insert(Time(START.0 + 1), ());
        assert_eq!(wheel.pop_expired(Time(START.0 + 999)), None);
        assert_eq!(wheel.next_deadline(), Some(after_ms(1)));
        assert_eq!(wheel.pop_expired(after_ms(1)), Some(()));
    }

    #[test]
    fn the_past_is_due_at_once() {
        let mut wheel = Wheel::new(START);
        wheel.insert(Time::ZERO, 'a');
        assert_eq!(wheel.next_deadline(), Some(Time(START.0)));
        assert_eq!(drain(&mut wheel, START), ['a']);
        assert_eq!(drain(&mut wheel, after_ms(10)), Vec::<char>::new());
        wheel.insert(START, 'b');
        assert_eq!(wheel.pop_expired(after_ms(9)), None, "a clock that goes back fires nothing");
        assert_eq!(drain(&mut wheel, after_ms(10)), ['b']);
    }

    #[test]
    fn an_id_is_good_once() {
        let mut wheel = Wheel::new(START);
        let first = wheel.insert(after_ms(1), 'a');
        assert_eq!(wheel.cancel(first), Some('a'));
        assert_eq!(wheel.cancel(first), None);
        let second = wheel.insert(after_ms(1), 'b');
        assert_ne!(first, second);
        assert_eq!(wheel.cancel(first), None, "the entry has another timer now");
        assert_eq!(drain(&mut wheel, after_ms(1)), ['b']);
        assert_eq!(wheel.cancel(second), None);
        assert_eq!(wheel.next_deadline(), None);
    }

    #[test]
    fn what_lies_beyond_the_levels_fires_too() {
        let mut wheel = Wheel::new(START);
        let reach = 1 << REACH_BITS;
        wheel.insert(after_ms(3 * reach), 3);
        wheel.insert(after_ms(reach), 1);
        let gone = wheel.insert(after_ms(2 * reach), 2);
        let last = wheel.insert(Time::MAX, 4);
        assert_eq!(wheel.cancel(gone), Some(2));
        assert_eq!(drain(&mut wheel, after_ms(reach - 1)), Vec::<i32>::new());
        assert_eq!(drain(&mut wheel, after_ms(reach)), [1]);
        assert_eq!(drain(&mut wheel, after_ms(4 * reach)), [3]);
        assert_eq!(wheel.cancel(last), Some(4));
        assert!(wheel.is_empty());
    }

    #[test]
    fn following_the_deadlines_takes_few_steps() {
        let mut wheel = Wheel::new(START);
        let at = after_ms((1 << REACH_BITS) + 123_456_789);
        wheel.insert(at, ());
        let mut steps = 0;
        while let Some(deadline) = wheel.next_deadline() {
            assert!(deadline <= at);
            steps += 1;
            assert!(steps <= LEVELS + 2, "each call brings the deadline nearer");
            if wheel.pop_expired(deadline).is_some() {
                assert_eq!(deadline, at);
            }
        }
        assert!(wheel.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Cancel(usize),
        Advance(u64),
        FollowDeadline,
    }

    fn step() -> impl Strategy<Value = Step> {
        let span = prop_oneof![0u64..3_000, 0u64..300_000, 0u64..90_000_000_000, 0u64..(1 << 48)];
        prop_oneof![
            4 => span.clone().prop_map(Step::Insert),
            1 => any::<usize>().prop_map(Step::Cancel),
            2 => span.prop_map(Step::Advance),
            2 => Just(Step::FollowDeadline),
        ]
    }

    /// The wheel beside a map from (tick, order of insertion) to what [`Wheel::insert`] gave.
    struct Pair {
        wheel: Wheel<usize>,
        model: BTreeMap<(u64, usize), TimerId>,
        now: Time,
    }

    impl Pair {
        fn insert(&mut self, number: usize, span: u64) {
            let at = Time(self.now.0 + span);
            let tick = at.0.div_ceil(MICROS_PER_TICK).max(self.now.0 / MICROS_PER_TICK);
            self.model.insert((tick, number), self.wheel.insert(at, number));
        }

        fn cancel(&mut self, choice: usize) {
            let chosen = self.model.keys().nth(choice % self.model.len().max(1)).copied();
            if let Some(key) = chosen {
                let id = self.model.remove(&key).expect("just found");
                assert_eq!(self.wheel.cancel(id), Some(key.1));
                assert_eq!(self.wheel.cancel(id), None);
            }
        }

        fn advance(&mut self, now: Time) {
            self.now = now;
            let later = self.model.split_off(&(now.0 / MICROS_PER_TICK + 1, 0));
            let due: Vec<usize> = std::mem::replace(&mut self.model, later).into_keys().map(|(_, n)| n).collect();
            assert_eq!(drain(&mut self.wheel, now), due);
        }

        fn follow_deadline(&mut self) {
            let before = self.wheel.next_deadline();
            if let Some(deadline) = before {
                self.advance(deadline.max(self.now));
                assert!(self.wheel.next_deadline().is_none_or(|next| next > deadline), "progress");
            }
        }

        fn check(&self) {
            assert_eq!(self.wheel.len(), self.model.len());
            let first = self.model.keys().next().map(|(tick, _)| Time(tick * MICROS_PER_TICK));
            assert_eq!(self.wheel.next_deadline().is_some(), first.is_some());
            assert!(self.wheel.next_deadline() <= first, "never later than the next timer");
        }
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn agrees_with_an_ordered_map(steps in prop::collection::vec(step(), 1..150)) {
            let mut pair = Pair { wheel: Wheel::new(START), model: BTreeMap::new(), now: START };
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(span) => pair.insert(number, span),
                    Step::Cancel(choice) => pair.cancel(choice),
                    Step::Advance(span) => pair.advance(Time(pair.now.0 + span)),
                    Step::FollowDeadline => pair.follow_deadline(),
                }
                pair.check();
            }
        }
    }
}
