//! Deliberate faults: each breaks one promise, so that the checks can be seen to notice.
//!
//! They sit around the engine, in what the model of the shell and of the store does with its outputs.

use crate::checks::Rule;

/// One deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The store says "durable" on receipt, before it is.
    CommitBeforeDurable,
    /// From some moment on the shard is never woken by its own timers.
    ForgottenTimer,
    /// After a restart an attempt is sent twice.
    DoubleDispatch,
    /// A destination whose circuit is not closed gets a second attempt beside the first.
    TwoProbes,
    /// A lane's position passes a record that is not durable.
    Leapfrog,
    /// The store loses the ids of accepted events.
    ForgottenIds,
    /// A deletion is acknowledged long before the shard hears of it.
    CancelledSends,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::CommitBeforeDurable,
        Self::ForgottenTimer,
        Self::DoubleDispatch,
        Self::TwoProbes,
        Self::Leapfrog,
        Self::ForgottenIds,
        Self::CancelledSends,
    ];

    /// The rules of which one must be seen broken.
    pub fn breaks(self) -> &'static [Rule] {
        match self {
            Self::CommitBeforeDurable => &[Rule::Durable, Rule::Claim, Rule::Position, Rule::Lost],
            Self::ForgottenTimer => &[Rule::Stuck],
            Self::DoubleDispatch => &[Rule::SecondSuccess, Rule::Claim],
            Self::TwoProbes => &[Rule::Probe],
            Self::Leapfrog => &[Rule::Position, Rule::Lost],
            Self::ForgottenIds => &[Rule::Dedup],
            Self::CancelledSends => &[Rule::Deleted],
        }
    }
}
