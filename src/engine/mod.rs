//! The engine: one shard's brain, pure.
//!
//! [`Shard`] decides everything and does nothing. The shell drives it:
//!
//! ```text
//! handle(input, now) ─▶ … ─▶ poll_output() until None        after every input
//! poll_timeout() ─▶ sleep until then ─▶ handle_timeout(now)   whenever nothing else comes
//! ```
//!
//! No async, I/O, clock, lock, `Arc`, operating-system randomness or hash-order iteration: the same inputs
//! give the same outputs. `now` never goes backwards. Nothing a tenant sends can reach an assertion.
//!
//! What the shell owes the engine:
//! - every [`Output::Commit`] is answered by [`Input::Committed`] once durable, or [`Input::Refused`] when it
//!   certainly or possibly was not stored (writing it again is harmless);
//! - every [`Output::Read`] is answered by [`Input::Loaded`], which reflects all batches committed before;
//! - every [`Output::Dispatch`] is answered by [`Input::AttemptEnded`], whatever happened;
//! - all stored configuration, deletions included, is put in before the first [`Input::Loaded`];
//! - a [`Settled`] of another shard's lane is carried to that shard as [`Input::Settled`].

mod admit;
mod arena;
mod attempt;
pub mod autodisable;
mod behind;
mod bucket;
mod cancel;
pub mod circuit;
mod command;
mod configure;
mod cooldown;
mod decide;
pub mod dedup;
pub mod dedup_key;
mod due;
mod field;
pub mod filter;
mod flow;
mod foreign;
mod id_table;
mod intake;
mod job;
mod jobs;
pub mod lane;
mod load;
pub mod matching;
pub mod outcome;
mod overdue;
mod parked;
pub mod payload;
mod pick;
mod pipeline;
#[cfg(test)]
mod properties;
mod queue;
pub mod rate;
mod refill;
mod report;
pub mod retry;
mod room;
pub mod rows;
mod search;
mod settings;
mod shard;
mod slot;
mod step;
mod subscriber;
mod target;
mod tenant;
pub mod waiting;
pub mod wheel;
mod window;
pub mod work;

use std::rc::Rc;

use crate::types::{
    AttemptId, AttemptOutcome, ConfigChange, Destination, DestinationId, Event, JobKey, LaneName, RunId, Sequence,
    ShardId, Slot, Subscription, SubscriptionId, TenantId, Time, Trigger,
};

pub use autodisable::AutoDisable;
pub use intake::LaneReport;
pub use report::{CircuitReport, ShardReport, SlotReport};
pub use rows::{Batch, BatchNumber, Read, ReadAnswer, ReadId, Row, Unit};
pub use settings::{Bounds, ShardSettings, Tenure};
pub use shard::{Shard, TimeoutReason};
pub use waiting::{JobQuestion, Standing, WaitingFor};

/// What the shell tells the engine.
#[derive(Debug)]
pub enum Input {
    /// A tenant's configuration changed (durably, already).
    Config(ConfigChange),
    /// A lane now belongs to this shard and begins at `position` (the next offset to read).
    LaneAssigned {
        /// The shell's number for this assignment; never used again for another.
        lane: LaneNumber,
        /// Its lasting name.
        name: LaneName,
        /// The first offset that will come.
        position: u64,
    },
    /// A slot, and the lane whose offsets number its events, now belong to this shard, which holds slots on a lease: the
    /// slot's former owner has taken nothing more in, nor begun any attempt, for a while. Its tenants' configuration
    /// comes after this and before the first [`Input::Loaded`]. A shard that loses a slot is drained, and another made
    /// in its place for those that are left.
    SlotAssigned {
        /// Which slot.
        slot: Slot,
        /// The shell's number for this assignment of its lane.
        lane: LaneNumber,
        /// The lane's lasting name.
        name: LaneName,
        /// The first offset that will come. An event's sequence is its offset and one.
        position: u64,
    },
    /// Until then the shard may take events in and begin attempts. Only later times count.
    Lease(Time),
    /// A lane was taken away; nothing of it may be committed any more.
    LaneRevoked(LaneNumber),
    /// The shell read a record of a lane: in offset order, gaps allowed.
    Record {
        /// The lane.
        lane: LaneNumber,
        /// The record's offset.
        offset: u64,
        /// What the decoder made of it.
        record: LaneRecord,
    },
    /// Events for slots of this shard: an HTTP request's, or handed over by another shard's lane.
    Arrival(Arrival),
    /// A record that this shard's lane handed to another shard is settled there.
    Settled(Ticket),
    /// A batch is durable.
    Committed(Unit, BatchNumber),
    /// A batch was refused, or its fate is unknown.
    Refused(Unit, BatchNumber, Refusal),
    /// A read came back.
    Loaded(ReadId, ReadAnswer),
    /// An attempt ended.
    AttemptEnded {
        /// Of the dispatch.
        token: JobToken,
        /// The facts.
        outcome: AttemptOutcome,
    },
    /// A command of the API.
    Command(CommandId, Command),
    /// Shutdown began: admit nothing more, start no more attempts.
    Drain,
}

/// What the engine asks of the shell.
#[derive(Debug)]
pub enum Output {
    /// Make these rows durable, all or none. At most one batch per unit is on its way.
    Commit(Batch),
    /// Read from the store.
    Read(ReadId, Read),
    /// Start this attempt now.
    Dispatch(Box<Dispatch>),
    /// An arrival is decided and durable: answer the request, or carry it to the lane's shard.
    Settled(Settled),
    /// An accepted event of one of this shard's lanes belongs to another shard: hand it over, in order.
    Handover(ShardId, Arrival),
    /// This lane may commit up to `position` (exclusive): all before is durable, dropped or quarantined.
    LanePosition {
        /// The lane.
        lane: LaneNumber,
        /// The next offset.
        position: u64,
    },
    /// Stop reading this lane for now.
    PauseLane(LaneNumber),
    /// Go on reading this lane.
    ResumeLane(LaneNumber),
    /// Write down that the hub itself disabled these subscriptions.
    Disable {
        /// Whose.
        tenant: TenantId,
        /// Which.
        subscriptions: Vec<SubscriptionId>,
        /// Why.
        reason: crate::types::subscription::DisabledReason,
    },
    /// A command is done, and what it wrote is durable. Of a lane's command that its slot's former owner had done, or of
    /// which the shard loses the slot before, nothing is told.
    CommandDone(CommandId, CommandResult),
    /// Something an operator or a live view wants to know.
    Notice(Notice),
}

/// Why a batch is not known to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The store did not answer or could not: the same batch is tried again, for ever.
    Unavailable,
    /// The store answered that it will not take this batch: its parts are tried alone.
    Rejected,
}

/// The shell's number for one assignment of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneNumber(pub u32);

/// The engine's handle on a job in flight; opaque to the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobToken(pub u64);

/// The shell's number for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// What the decoder made of a lane's record.
#[derive(Debug)]
pub enum LaneRecord {
    /// Well formed: store it, match it.
    Accept(Box<Event>),
    /// A system event or a tombstone: counted by the shell, the position advances.
    Drop,
    /// Malformed: to be stored as such before the position advances.
    Quarantine(Box<QuarantineRecord>),
    /// A command of the API, on the lane of the slot that it concerns: carried out when its turn comes, and read again by
    /// the slot's next owner if it is not done by then.
    Command(CommandId, Box<Command>),
}

/// A malformed record, kept for forensics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineRecord {
    /// The Kafka topic.
    pub topic: Box<str>,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: u64,
    /// When the hub met it.
    pub received_at: Time,
    /// The closed set of contracts.md section 2, such as `missing_header`.
    pub reason: &'static str,
    /// The offending header, if one is to blame.
    pub header: Option<Box<str>>,
    /// All headers, as bytes.
    pub headers: Vec<(Box<str>, Option<bytes::Bytes>)>,
    /// The first 64 KiB of the body.
    pub body: bytes::Bytes,
    /// The body's full size in bytes.
    pub size: u64,
    /// SHA-256 of the whole body.
    pub sha256: [u8; 32],
}

impl QuarantineRecord {
    /// The tenant that the record names, as its bytes are.
    #[must_use]
    pub fn tenant(&self) -> Option<&[u8]> {
        let header = self.headers.iter().find(|(name, _)| matches!(&**name, "ce-tenantid" | "ce_tenantid"));
        header.and_then(|(_, value)| value.as_deref())
    }
}

/// Events that arrived together and are stored whole or not at all. All of one tenant.
#[derive(Debug)]
pub struct Arrival {
    /// One, or the events of a CloudEvents batch in order.
    pub events: Vec<Event>,
    /// Whom to tell once they are durable.
    pub ticket: Ticket,
}

/// Whom to tell when an arrival is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ticket {
    /// A record of a lane.
    Lane {
        /// The shard that reads the lane.
        shard: ShardId,
        /// The lane.
        lane: LaneNumber,
        /// The record's offset.
        offset: u64,
    },
    /// An HTTP request, by the shell's number.
    Request(u64),
}

/// An arrival's end: durable, or a duplicate of something durable.
#[derive(Debug, PartialEq, Eq)]
pub struct Settled {
    /// Whom to tell.
    pub ticket: Ticket,
    /// One entry per event, in order.
    pub items: Vec<SettledItem>,
}

/// What became of one event of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettledItem {
    /// It is stored.
    Stored(Sequence),
    /// It was stored before, under this sequence.
    Duplicate(Sequence),
    /// The store refuses it by itself: it is in quarantine as `unstorable`.
    Unstorable,
    /// Nothing was stored: the shard is full or draining. Lanes never get this answer; their records wait.
    Overloaded,
}

/// An attempt to start: everything the shell needs to build and send the request.
#[derive(Debug)]
pub struct Dispatch {
    /// To be given back with the outcome.
    pub token: JobToken,
    /// `X-Lerian-Delivery-Id`.
    pub attempt: AttemptId,
    /// The attempt's number for this job, from 1.
    pub number: u32,
    /// When it starts: what it is signed with.
    pub started_at: Time,
    /// By when it must have ended.
    pub deadline: Time,
    /// The event, payload included.
    pub event: Rc<Event>,
    /// As it stands now.
    pub subscription: Rc<Subscription>,
    /// As it stands now.
    pub destination: Rc<Destination>,
    /// Do not use a pooled connection: the last one was stale.
    pub fresh_connection: bool,
}

/// A command of the API for a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A pending job is due now; an ended one gets a new run under this id.
    Retry {
        /// Whose.
        tenant: TenantId,
        /// Which job.
        key: JobKey,
        /// The new run's id, made once per command, so that executing it twice is one run.
        run: RunId,
        /// What the run is called.
        trigger: Trigger,
    },
    /// Closes a destination's circuit.
    ResetCircuit(TenantId, DestinationId),
    /// A probe succeeded: closes the circuit and clears the failure span.
    ClearFailures(TenantId, DestinationId),
    /// Changes nothing: done once all that came before it for this tenant is durable. On a lane it is done with a key that
    /// holds its own sequence, which all that came before lies below.
    Mark(TenantId),
}

impl Command {
    /// Whose command it is.
    #[must_use]
    pub const fn tenant(&self) -> &TenantId {
        match self {
            Self::Retry { tenant, .. }
            | Self::ResetCircuit(tenant, _)
            | Self::ClearFailures(tenant, _)
            | Self::Mark(tenant) => tenant,
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandResult {
    /// Done; for a retry, this is the job that will be attempted.
    Done(Option<JobKey>),
    /// There is no such job (any more).
    NotFound,
    /// The job's subscription or destination was deleted.
    SubscriptionDeleted,
    /// The event has had its 100 runs for this subscription.
    TooManyRuns,
    /// The event's payload has expired, and no dead letter keeps a copy: nothing could be sent.
    Expired,
    /// The shard is full or draining; try again.
    Busy,
}

/// Something that happened and that an operator or a live view wants to know. Decides nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A circuit changed its state.
    Circuit {
        /// Whose.
        tenant: TenantId,
        /// Which destination.
        destination: DestinationId,
        /// `open` (true) or closed.
        open: bool,
    },
    /// A job was dead-lettered.
    DeadLettered {
        /// Whose.
        tenant: TenantId,
        /// Which job.
        key: JobKey,
        /// Why.
        reason: crate::types::EndReason,
    },
    /// A stored schedule is malformed: the default is used.
    MalformedSchedule(SubscriptionId),
    /// A slot has been loaded and takes events.
    SlotLoaded(Slot),
}
