//! A job: one event for one subscription, and what the log keeps of it.

use super::ids::{AttemptId, DestinationId, RunId, Sequence, Slot, SubscriptionId};
use super::outcome::{AttemptOutcome, ErrorKind};
use super::time::Time;

/// Where a job stands in the log: its event's number and its own number within the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// The tenant's slot.
    pub slot: Slot,
    /// The event's arrival number.
    pub sequence: Sequence,
    /// 0.. for the jobs matching made, in order of subscription; then those of later runs.
    pub ordinal: u16,
}

/// What started a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// The match at acceptance.
    #[default]
    Match,
    /// A manual retry.
    Manual,
    /// A replay.
    Replay,
}

impl Trigger {
    /// The name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Manual => "manual",
            Self::Replay => "replay",
        }
    }
}

/// An attempt that was claimed: durable before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRecord {
    /// The attempt's id, sent as `X-Lerian-Delivery-Id`.
    pub attempt: AttemptId,
    /// When it was claimed.
    pub claimed_at: Time,
    /// By when it must have ended.
    pub until: Time,
    /// It ran alone on its shard, as a suspect of crashing it.
    pub alone: bool,
}

/// An attempt that ended, one row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// From 1, in order of start.
    pub number: u32,
    /// The claim it answers.
    pub claim: ClaimRecord,
    /// The destination it went to.
    pub destination: DestinationId,
    /// Where it went.
    pub url: Box<str>,
    /// What came back.
    pub outcome: AttemptOutcome,
    /// It used a step of the schedule.
    pub counted: bool,
    /// A claim found open after a crash, not an attempt that came back.
    pub reclaim: bool,
    /// When the job is due again; absent when it ended.
    pub next_at: Option<Time>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A 2xx.
    Delivered,
    /// Its subscription or destination was deleted.
    Cancelled,
    /// Without success.
    DeadLettered(EndReason),
}

impl End {
    /// The status in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Cancelled => "cancelled",
            Self::DeadLettered(_) => "dead_lettered",
        }
    }

    /// Which of two ends of one job stands: delivered beats cancelled beats dead-lettered.
    #[must_use]
    pub const fn stronger(self, other: Self) -> Self {
        if other.strength() > self.strength() { other } else { self }
    }

    /// How strong it is, weakest first: what the store tells rows of two ends apart by.
    #[must_use]
    pub const fn strength(self) -> u8 {
        match self {
            Self::Delivered => 2,
            Self::Cancelled => 1,
            Self::DeadLettered(_) => 0,
        }
    }
}

/// Why a job was dead-lettered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The schedule's last attempt failed.
    Exhausted,
    /// It ran alone when the process died, after more than five crashes in all.
    Poison,
    /// It waited for an open circuit until its deadline.
    CircuitOpen,
    /// The destination answered 410.
    Gone,
    /// It was held, or met the hub's own faults, until its deadline; or its payload is about to expire.
    Expired,
}

impl EndReason {
    /// The name in the API and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Poison => "poison",
            Self::CircuitOpen => "circuit_open",
            Self::Gone => "gone",
            Self::Expired => "expired",
        }
    }
}

/// A job as the store knows it, folded from its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// Where it stands.
    pub key: JobKey,
    /// Whose events it carries.
    pub subscription: SubscriptionId,
    /// Where it went when it was matched; where it goes now is read from the subscription.
    pub destination: DestinationId,
    /// [`RunId::MATCH`], or the command that started it.
    pub run: RunId,
    /// What started it.
    pub trigger: Trigger,
    /// When the job was made: the event's arrival, or the command's time.
    pub created_at: Time,
    /// Attempts that ended.
    pub attempts: u32,
    /// Attempts that used a step.
    pub counted: u32,
    /// Claims found open after a crash.
    pub reclaims: u32,
    /// The claim without an outcome, if there is one.
    pub open_claim: Option<ClaimRecord>,
    /// When it is due again, from its last attempt.
    pub next_at: Option<Time>,
    /// The status of the last response.
    pub last_status: Option<u16>,
    /// The last error's kind.
    pub last_error_kind: Option<ErrorKind>,
    /// How and when it ended.
    pub end: Option<(End, Time)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivered_beats_cancelled_beats_dead_lettered() {
        let dead = End::DeadLettered(EndReason::Exhausted);
        assert_eq!(dead.stronger(End::Cancelled), End::Cancelled);
        assert_eq!(End::Cancelled.stronger(End::Delivered), End::Delivered);
        assert_eq!(End::Delivered.stronger(dead), End::Delivered);
        assert_eq!(dead.stronger(End::DeadLettered(EndReason::Gone)), dead);
    }
}
