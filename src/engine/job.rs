//! A job in memory: at most 200 bytes beside its event.

use super::arena::Handle;
use super::subscriber::Subscriber;
use super::target::Target;
use super::tenant::Tenant;
use super::wheel::TimerId;
use crate::types::{
    ClaimRecord, Destination, End, ErrorKind, Event, JobKey, JobRecord, RunId, Sequence, Time, Trigger,
};
use std::rc::Rc;

/// An event that some job in memory needs.
#[derive(Debug)]
pub(super) struct HeldEvent {
    pub(super) event: Rc<Event>,
    pub(super) tenant: Handle<Tenant>,
    pub(super) jobs: u32,
}

/// What makes sure that a restart finds the job again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// The tail of the log, from low-water on, is replayed.
    Tail,
    /// Its subscription's overflow cursor stands at or before it.
    Cursor,
    /// A due row of this time.
    Due(Time),
}

/// Where a job in memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// In its queue, among the first attempts or the retries.
    Queued,
    /// Waits for its time.
    Sleeping(TimerId),
    /// Taken from its queue to be attempted alone on the shard.
    Suspect,
    /// Its claim is on the way to the store.
    Claimed(ClaimRecord),
    /// Its attempt is under way since then.
    Started(ClaimRecord, Time),
    /// A former owner claimed it, and the attempt may be under way until the claim runs out.
    Foreign(ClaimRecord),
}

/// Which of the two shares of attempts a job belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// First attempts (and, under `strict`, all attempts).
    First,
    /// Retries and runs.
    Retry,
}

impl Class {
    pub(super) const BOTH: [Self; 2] = [Self::First, Self::Retry];

    pub(super) const fn other(self) -> Self {
        match self {
            Self::First => Self::Retry,
            Self::Retry => Self::First,
        }
    }

    pub(super) const fn index(self) -> usize {
        match self {
            Self::First => 0,
            Self::Retry => 1,
        }
    }
}

/// A job in memory.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) key: JobKey,
    pub(super) tenant: Handle<Tenant>,
    pub(super) subscriber: Handle<Subscriber>,
    pub(super) held: Handle<HeldEvent>,
    pub(super) run: RunId,
    pub(super) trigger: Trigger,
    pub(super) created_at: Time,

    pub(super) phase: Phase,
    pub(super) class: Class,
    pub(super) cover: Cover,
    /// Its group in the subscription's queue.
    pub(super) group: u64,
    /// It has been let out of its queue and holds its group.
    pub(super) out: bool,
    /// When it may be tried again; long ago when now.
    pub(super) next_at: Time,
    /// Waiting for a circuit, held, or for the hub itself, it ends then.
    pub(super) deadline: Time,
    /// Since when it has not moved: what the sweep looks at.
    pub(super) rested_at: Time,

    pub(super) attempts: u32,
    pub(super) counted: u32,
    pub(super) reclaims: u32,
    /// The hub's own faults in a row.
    pub(super) faults: u32,
    /// This step's one fresh try after a stale connection is used.
    pub(super) stale_used: bool,
    /// The next attempt takes no pooled connection.
    pub(super) fresh_connection: bool,
    /// Where the attempt under way goes, as it was when it was claimed.
    pub(super) sent_to: Option<(Handle<Target>, Rc<Destination>)>,
    /// The attempt under way is its circuit's probe.
    pub(super) probe: bool,
    pub(super) last_status: Option<u16>,
    pub(super) last_error_kind: Option<ErrorKind>,
}

impl Job {
    /// Whether an attempt of it is claimed or under way, here or at a former owner.
    pub(super) const fn in_flight(&self) -> bool {
        matches!(self.phase, Phase::Claimed(_) | Phase::Started(..) | Phase::Foreign(_))
    }

    /// In order of arrival.
    pub(super) const fn place(&self) -> (Sequence, u16) {
        (self.key.sequence, self.key.ordinal)
    }

    /// As its dead letter keeps it.
    pub(super) fn record(
        &self,
        subscription: crate::types::SubscriptionId,
        destination: crate::types::DestinationId,
        end: End,
        at: Time,
    ) -> JobRecord {
        JobRecord {
            key: self.key,
            subscription,
            destination,
            run: self.run,
            trigger: self.trigger,
            created_at: self.created_at,
            attempts: self.attempts,
            counted: self.counted,
            reclaims: self.reclaims,
            open_claim: None,
            next_at: None,
            last_status: self.last_status,
            last_error_kind: self.last_error_kind,
            end: Some((end, at)),
        }
    }
}
