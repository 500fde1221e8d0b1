//! What can happen next: the entries of the world's heap.

use streaming_hub::engine::{Arrival, BatchNumber, JobToken, LaneNumber, Read, ReadAnswer, ReadId, Ticket, Unit};
use streaming_hub::types::{ConfigChange, ShardId};

use crate::clients::CommandNumber;

/// One life of one node: what is meant for a former life reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    pub node: usize,
    pub generation: u32,
}

/// One shard of one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub life: Life,
    pub shard: ShardId,
}

/// An entry of the heap.
#[derive(Debug)]
pub enum Happening {
    /// A producer appends a burst of records to the log.
    Produce,
    /// An HTTP client sends its request, for the first time or again.
    Request(u64),
    /// An API client changes the configuration.
    Reconfigure,
    /// An API client sends its command, for the first time or again.
    Command(CommandNumber),
    /// The process of this node starts.
    Boot(usize),
    /// It dies.
    Kill(usize),
    /// It dies in the middle of a shard's outputs.
    KillSoon(usize),
    /// It is asked to shut down.
    Drain(usize),
    /// A look whether the shutdown is complete, and the shutdown's grace.
    DrainCheck(Life, u32),
    /// A lane leaves and comes back later.
    Rebalance,
    /// A lane is assigned.
    Assign(Life, u16),
    /// The lane's reader has time.
    Fetch(Life, LaneNumber),
    /// Lane positions are committed to the group.
    CommitPositions(Life),
    /// A shard's own deadline.
    Wake(Place),
    /// A batch reaches the store.
    Stored(Place, Unit),
    /// A batch is called durable before it is: a deliberate fault.
    Early(Place, Unit, BatchNumber),
    /// The store answers a read, as of then.
    Answers(Place, ReadId, Read),
    /// The store answers a read, as of when it was asked.
    Answered(Place, ReadId, ReadAnswer),
    /// Another shard's arrival comes over.
    Handed(Place, Arrival),
    /// A settled ticket comes back to its lane's shard.
    Carried(Place, Ticket),
    /// A configuration change comes to its shard.
    Configured(Place, ConfigChange),
    /// A request reaches its receiver.
    Reaches(usize),
    /// An attempt's outcome is known.
    Ends(Place, JobToken, usize),
    /// All faults end.
    Heal,
    /// A look whether all work is done.
    QuietCheck(u32),
}
