//! Deliberate faults of a cluster: each takes one mechanism away, so that the checks can be seen to notice.

use super::checks::Rule;

/// One deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Owners go on whatever their lease says.
    NoLease,
    /// A taker counts every claim that it finds open as run out.
    NoClaimWait,
    /// All owners write as one: a late row of a former owner stands.
    NoEpoch,
    /// A new owner knows no id that a former one took in.
    DedupByMemoryAlone,
    /// The slot's record passes events whose jobs nothing else covers.
    LowWaterRunsAhead,
    /// Cursors that low-water counts on are not kept.
    CursorNotDurable,
    /// The bound passes due rows that are still to be read.
    DueBoundRunsAhead,
    /// Positions are committed as soon as records are read.
    PositionRunsAhead,
    /// A command counts as settled once an owner has read it, done or not.
    CommandReadOnce,
    /// Each reading of a command makes a run of its own.
    RunOfItsOwn,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::NoLease,
        Self::NoClaimWait,
        Self::NoEpoch,
        Self::DedupByMemoryAlone,
        Self::LowWaterRunsAhead,
        Self::CursorNotDurable,
        Self::DueBoundRunsAhead,
        Self::PositionRunsAhead,
        Self::CommandReadOnce,
        Self::RunOfItsOwn,
    ];

    /// The rules of which one must be seen broken.
    pub const fn breaks(self) -> &'static [Rule] {
        match self {
            Self::NoLease => &[Rule::SecondSuccess, Rule::Order, Rule::InFlight, Rule::Dedup, Rule::Jobs],
            Self::NoClaimWait => &[Rule::SecondSuccess, Rule::Order, Rule::InFlight],
            Self::NoEpoch => &[Rule::Stuck, Rule::Jobs, Rule::SecondSuccess, Rule::InFlight, Rule::Order],
            Self::DedupByMemoryAlone => &[Rule::Dedup],
            Self::LowWaterRunsAhead => &[Rule::Stuck, Rule::Lost],
            Self::CursorNotDurable | Self::DueBoundRunsAhead => &[Rule::Stuck],
            Self::PositionRunsAhead => &[Rule::Lost],
            Self::CommandReadOnce => &[Rule::Stuck],
            Self::RunOfItsOwn => &[Rule::Runs],
        }
    }
}
