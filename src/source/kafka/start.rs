//! Where a lane begins (contracts.md section 2, "Start"), as pure decisions.

/// Where to begin, before the topic's range is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the smaller of committed and stored position.
    At(u64),
    /// At the only one of the two that is known: to be alarmed.
    AtOnlyOne(u64),
    /// Neither is known.
    Beginning,
}

/// The rule for both positions.
#[must_use]
pub fn start(committed: Option<u64>, stored: Option<u64>) -> Start {
    match (committed, stored) {
        (Some(committed), Some(stored)) => Start::At(committed.min(stored)),
        (Some(one), None) | (None, Some(one)) => Start::AtOnlyOne(one),
        (None, None) => Start::Beginning,
    }
}

/// The nearest position to `position` that a record has or will have next: `position` itself within the range from
/// `low`, the first record's offset, to `high`, the one behind the last.
#[must_use]
pub fn nearest(position: u64, low: u64, high: u64) -> u64 {
    if position > high { high.saturating_sub(1).max(low) } else { position.max(low) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_position_counts_and_one_alone_is_alarmed() {
        assert_eq!(start(Some(5), Some(3)), Start::At(3));
        assert_eq!(start(Some(3), Some(5)), Start::At(3));
        assert_eq!(start(Some(3), None), Start::AtOnlyOne(3));
        assert_eq!(start(None, Some(0)), Start::AtOnlyOne(0));
        assert_eq!(start(None, None), Start::Beginning);
    }

    #[test]
    fn a_position_out_of_range_moves_to_the_nearest_record() {
        assert_eq!(nearest(5, 2, 9), 5);
        assert_eq!(nearest(9, 2, 9), 9);
        assert_eq!(nearest(1, 2, 9), 2);
        assert_eq!(nearest(20, 2, 9), 8);
        assert_eq!(nearest(20, 4, 4), 4);
        assert_eq!(nearest(20, 0, 0), 0);
    }
}
