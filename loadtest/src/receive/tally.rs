//! What came of one route: exact, at one bit an event. Pure.

/// What a delivery is to its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The event's first.
    First,
    /// One more of an event that had come.
    Repeated,
}

/// The deliveries of one route.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// A bit for each sequence that came.
    came: Vec<u64>,
    highest: Option<u64>,
    /// Events that came.
    pub delivered: u64,
    /// Deliveries beyond an event's first.
    pub repeated: u64,
    /// First deliveries after that of a later event.
    pub out_of_order: u64,
}

impl Tally {
    /// Takes a delivery in.
    pub fn note(&mut self, sequence: u64) -> Arrival {
        let (word, bit) = ((sequence / 64) as usize, 1_u64 << (sequence % 64));
        if word >= self.came.len() {
            self.came.resize(word + 1, 0);
        }
        if self.came[word] & bit != 0 {
            self.repeated += 1;
            return Arrival::Repeated;
        }
        self.came[word] |= bit;
        self.delivered += 1;
        if self.highest.is_some_and(|highest| sequence < highest) {
            self.out_of_order += 1;
        }
        self.highest = self.highest.max(Some(sequence));
        Arrival::First
    }

    /// Whether that event came.
    #[must_use]
    pub fn has(&self, sequence: u64) -> bool {
        self.came.get((sequence / 64) as usize).is_some_and(|word| word & (1 << (sequence % 64)) != 0)
    }

    /// Of `issued` events those that did not come, but for the `given_up` ones.
    #[must_use]
    pub fn lost(&self, issued: u64, given_up: &[u64]) -> u64 {
        let excused = given_up.iter().filter(|sequence| !self.has(**sequence)).count() as u64;
        issued - self.delivered - excused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(sequences: &[u64]) -> Tally {
        let mut tally = Tally::default();
        sequences.iter().for_each(|sequence| {
            tally.note(*sequence);
        });
        tally
    }

    #[test]
    fn what_does_not_come_is_lost() {
        assert_eq!(tally(&[0, 1, 2]).lost(3, &[]), 0);
        assert_eq!(tally(&[0, 2]).lost(3, &[]), 1);
        assert_eq!(tally(&[]).lost(1_000, &[]), 1_000);
        assert_eq!(tally(&[63, 64, 65]).lost(66, &[]), 63);
    }

    #[test]
    fn what_was_given_up_is_not_lost_whether_it_came_or_not() {
        assert_eq!(tally(&[0, 1]).lost(3, &[2]), 0);
        assert_eq!(tally(&[0, 1, 2]).lost(3, &[2]), 0);
        assert_eq!(tally(&[0, 2]).lost(3, &[2]), 1);
    }

    #[test]
    fn a_second_delivery_is_a_repeat_and_nothing_else() {
        let mut tally = tally(&[0, 1]);
        assert_eq!(tally.note(0), Arrival::Repeated);
        assert_eq!((tally.delivered, tally.repeated, tally.out_of_order), (2, 1, 0));
        assert_eq!(tally.note(2), Arrival::First);
    }

    #[test]
    fn an_event_behind_a_later_one_is_out_of_order() {
        assert_eq!(tally(&[0, 1, 3, 2, 4]).out_of_order, 1);
        assert_eq!(tally(&[3, 0, 1, 2]).out_of_order, 3);
        // A gap alone is a loss, not disorder.
        assert_eq!(tally(&[0, 5, 9]).out_of_order, 0);
    }
}
