//! How many batches a shard has on their way at once, and whose turn is next.
//!
//! On a cluster a slot's batch is a request of its own, and costs the servers much the same with one row as with many. So of a
//! shard's slots only some send at a time, first come, first served, while the rows of the others gather: the slower the
//! servers answer, the more goes into one request, and who sends little waits for nobody. A batch that takes long gives
//! up its place, so that a slot whose replicas are slow or gone stops no other.

use std::collections::VecDeque;

use super::rows::Unit;
use crate::types::{Time, limits};

/// Batches on their way, and units whose batch is ready.
#[derive(Debug)]
pub(super) struct Window {
    places: usize,
    /// In the order in which they were sent.
    taken: VecDeque<(Time, Unit)>,
    line: VecDeque<Unit>,
}

impl Window {
    /// Without a bound.
    pub(super) const fn unbounded() -> Self {
        Self { places: usize::MAX, taken: VecDeque::new(), line: VecDeque::new() }
    }

    /// For a shard with so many slots of a cluster.
    pub(super) fn resize(&mut self, slots: usize) {
        self.places = (slots / limits::SLOTS_PER_BATCH).max(limits::BATCHES_AT_ONCE_MIN);
    }

    /// A batch is ready. Each unit waits once.
    pub(super) fn line_up(&mut self, unit: Unit) {
        self.line.push_back(unit);
    }

    /// The unit that may send now, if one waits and there is a place, which it then has.
    pub(super) fn admit(&mut self, now: Time) -> Option<Unit> {
        while self.taken.front().is_some_and(|(sent, _)| *sent + limits::BATCH_SLOW <= now) {
            self.taken.pop_front();
        }
        if self.taken.len() >= self.places {
            return None;
        }
        let unit = self.line.pop_front()?;
        self.taken.push_back((now, unit));
        Some(unit)
    }

    /// The unit's batch is not on its way any more.
    pub(super) fn leave(&mut self, unit: Unit) {
        self.taken.retain(|(_, other)| *other != unit);
    }

    /// When the next unit in line has a place at the latest.
    pub(super) fn opens_at(&self) -> Option<Time> {
        self.line.front()?;
        self.taken.front().map(|(sent, _)| *sent + limits::BATCH_SLOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Slot;

    fn slot(number: u16) -> Unit {
        Unit::Slot(Slot(number))
    }

    fn full() -> Window {
        let mut window = Window::unbounded();
        window.resize(1);
        assert_eq!(window.places, 2);
        (0..5).for_each(|number| window.line_up(slot(number)));
        assert_eq!([window.admit(Time(1)), window.admit(Time(2))], [Some(slot(0)), Some(slot(1))]);
        window
    }

    #[test]
    fn a_place_that_is_left_is_the_next_one_s() {
        let mut window = full();
        assert_eq!(window.admit(Time(3)), None);
        window.leave(slot(1));
        window.line_up(slot(1));
        assert_eq!([window.admit(Time(4)), window.admit(Time(4))], [Some(slot(2)), None]);
        for next in [3, 4, 1] {
            window.leave(slot(0));
            window.leave(slot(2));
            assert_eq!(window.admit(Time(5)), Some(slot(next)));
            window.leave(slot(next));
        }
        assert_eq!((window.admit(Time(5)), window.opens_at()), (None, None));
    }

    #[test]
    fn a_slow_batch_gives_its_place_up() {
        let mut window = full();
        let at = window.opens_at().expect("one waits");
        assert_eq!(at, Time(1) + limits::BATCH_SLOW);
        assert_eq!([window.admit(at), window.admit(at)], [Some(slot(2)), None]);
        window.leave(slot(0));
        assert_eq!(window.admit(at), None, "it had no place any more");
    }

    #[test]
    fn a_sole_owner_s_batches_all_go_at_once() {
        let mut window = Window::unbounded();
        (0..100).for_each(|number| window.line_up(slot(number)));
        assert!((0..100).all(|number| window.admit(Time(1)) == Some(slot(number))));
        assert_eq!(window.opens_at(), None);
    }
}
