//! The store as the process holds it, whichever it is, and an engine's way in.

use uuid::Uuid;

use super::codec::deployment::Deployment;
use super::embedded::Embedded;
use super::scylla::{Scylla, ScyllaPort};
use super::{Queries, StoreEvent, StoreFault};
use crate::engine::{Batch, CommandResult, Read, ReadId};
use crate::types::ShardId;
use crate::types::counters::StoreCounters;

/// The store of the process. Cheap to clone.
#[derive(Clone)]
pub enum Store {
    /// This machine's own.
    Embedded(Embedded),
    /// A cluster's.
    Scylla(Scylla),
}

/// One engine's way in.
pub enum Port {
    /// To this machine's own store: a shard has one engine as long as the process lives.
    Embedded {
        /// The store.
        store: Embedded,
        /// Whose batches these are.
        shard: ShardId,
        /// What became of them.
        events: flume::Receiver<StoreEvent>,
    },
    /// To a cluster's.
    Scylla(ScyllaPort),
}

impl Store {
    /// A way in for an engine of `shard`.
    ///
    /// # Panics
    /// When there is no such shard: the shell numbers them.
    #[must_use]
    pub fn port(&self, shard: ShardId) -> Port {
        match self {
            Self::Embedded(store) => Port::Embedded { store: store.clone(), shard, events: store.events(shard) },
            Self::Scylla(store) => Port::Scylla(store.port()),
        }
    }

    /// What is fixed for the store's life: its id, dedup salt and number of slots. A data directory is a deployment of
    /// its own.
    #[must_use]
    pub fn deployment(&self) -> Deployment {
        match self {
            Self::Embedded(store) => {
                let record = store.record();
                Deployment { id: record.directory_id, dedup_salt: record.dedup_salt, slots: record.slots }
            }
            Self::Scylla(store) => store.deployment(),
        }
    }

    /// This machine's own store, unless it is a cluster's.
    #[must_use]
    pub const fn embedded(&self) -> Option<&Embedded> {
        match self {
            Self::Embedded(store) => Some(store),
            Self::Scylla(_) => None,
        }
    }

    /// What the API asks.
    #[must_use]
    pub fn queries(&self) -> Queries {
        match self {
            Self::Embedded(store) => store.queries(),
            Self::Scylla(store) => store.queries(),
        }
    }

    /// Where the store says that it can't go on; the process must then end.
    #[must_use]
    pub fn faults(&self) -> flume::Receiver<StoreFault> {
        match self {
            Self::Embedded(store) => store.faults(),
            Self::Scylla(store) => store.faults(),
        }
    }

    /// Whether there is room to take in more; a cluster's servers say for themselves when they have none.
    #[must_use]
    pub fn intake_allowed(&self) -> bool {
        match self {
            Self::Embedded(store) => store.intake_allowed(),
            Self::Scylla(_) => true,
        }
    }

    /// What it has done since it was opened.
    #[must_use]
    pub fn counters(&self) -> StoreCounters {
        match self {
            Self::Embedded(store) => StoreCounters { fsyncs: store.fsyncs(), ..StoreCounters::default() },
            Self::Scylla(store) => StoreCounters { cql: store.requests(), ..StoreCounters::default() },
        }
    }
}

impl Store {
    /// Files a command's result where the node that asked for it looks; only on a cluster does one ask another. One that
    /// can't be stored is missed by whoever waits, who is told so.
    pub async fn put_command_result(&self, command: Uuid, result: CommandResult) {
        match self {
            Self::Embedded(_) => {}
            Self::Scylla(store) => {
                if let Err(error) = store.put_command_result(command, result).await {
                    tracing::warn!(%command, %error, "a command's result is not stored");
                }
            }
        }
    }
}

impl From<Embedded> for Store {
    fn from(store: Embedded) -> Self {
        Self::Embedded(store)
    }
}

impl From<Scylla> for Store {
    fn from(store: Scylla) -> Self {
        Self::Scylla(store)
    }
}

impl Port {
    /// Where the engine is told what became of its batches and reads.
    #[must_use]
    pub const fn events(&self) -> &flume::Receiver<StoreEvent> {
        match self {
            Self::Embedded { events, .. } => events,
            Self::Scylla(port) => port.events(),
        }
    }

    /// Begins to make batches of different units durable. Never waits.
    pub fn submit(&self, batches: &[Batch]) {
        match self {
            Self::Embedded { store, shard, .. } => store.submit(*shard, batches),
            Self::Scylla(port) => port.submit(batches),
        }
    }

    /// Begins to answer `read`. Never waits.
    pub fn read(&self, id: ReadId, read: Read) {
        match self {
            Self::Embedded { store, shard, .. } => store.read(*shard, id, read),
            Self::Scylla(port) => port.read(id, read),
        }
    }
}
