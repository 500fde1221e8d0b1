//! The store: makes a shard's batches durable, reads them back, and keeps configuration.
//!
//! The contract, as the shell sees it. An engine's [`crate::engine::Batch`]es go in by [`Port::submit`] and its
//! [`crate::engine::Read`]s by [`Port::read`]; both return at once. What became of them comes back on the port's
//! channel as [`StoreEvent`]s. Batches of one unit become durable in the order submitted; an answer reflects every
//! batch whose [`StoreEvent::Committed`] was sent before. The API asks through [`Queries`].
//!
//! Not here: what rows mean (the engine), and when to write them.
//!
//! - [`codec`] is the stored form of every record, pure.
//! - [`embedded`] is the store of one machine, on fjall.
//! - [`memory`] is the reference: it says what rows and reads mean, and the simulation runs on it.
//! - [`queries`] is what the API asks, of either.
//! - [`scylla`] is the store of a cluster, on any server that speaks CQL.
//! - [`seal`] keeps secrets; [`sealed`] is a configuration record as it is stored.

pub mod codec;
pub mod configuration;
#[cfg(feature = "serve")]
pub mod embedded;
#[cfg(feature = "serve")]
mod handle;
pub mod memory;
pub mod page;
#[cfg(feature = "serve")]
pub mod queries;
pub mod retention;
pub mod scylla;
#[cfg(feature = "serve")]
pub mod seal;
#[cfg(feature = "serve")]
pub mod sealed;

#[cfg(any(test, feature = "real"))]
pub mod tests;

use crate::engine::{BatchNumber, ReadAnswer, ReadId, Refusal, Unit};

#[cfg(feature = "serve")]
pub use self::handle::{Port, Store};
#[cfg(feature = "serve")]
pub use self::scylla::{ConfigureError, FollowError, Scylla, ScyllaSettings};
pub use configuration::{ApiKey, ConfigKey, ConfigRecord, ConfigWrite, FeedNumber, ObjectId};
#[cfg(feature = "serve")]
pub use embedded::{Embedded, EmbeddedSettings, OpenError};
pub use memory::Memory;
pub use page::{Cursor, CursorError, Page};
#[cfg(feature = "serve")]
pub use queries::Queries;
pub use retention::Retention;
#[cfg(feature = "serve")]
pub use seal::Kek;

/// What the store tells a shard.
#[derive(Debug)]
pub enum StoreEvent {
    /// These batches are durable.
    Committed(Vec<(Unit, BatchNumber)>),
    /// These batches were not stored, or their fate is unknown.
    Refused(Vec<(Unit, BatchNumber)>, Refusal),
    /// The answer to a read.
    Loaded(ReadId, Box<ReadAnswer>),
}

/// Why the store could not answer or write.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The queue is full: try again later.
    #[error("the store is busy")]
    Busy,
    /// The store has stopped; the process is about to end.
    #[error("the store has stopped")]
    Stopped,
    /// Stored bytes are not the record they should be.
    #[error(transparent)]
    Codec(#[from] codec::CodecError),
    /// A cursor is not one of this list's.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The database failed.
    #[cfg(feature = "serve")]
    #[error("the database failed: {0}")]
    Database(#[from] fjall::Error),
    /// The cluster does not answer, or not as it should.
    #[cfg(feature = "serve")]
    #[error("the cluster failed: {0}")]
    Cluster(#[from] scylla::Failure),
    /// A file of the data directory failed.
    #[error("the data directory failed: {0}")]
    Io(#[from] std::io::Error),
    /// A secret could not be sealed or opened.
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Seal(#[from] seal::SealError),
}

/// The store can't go on: nothing that was not acknowledged is certain, and the process must end.
#[derive(Debug, thiserror::Error)]
#[error("the store can't go on: {0}; nothing acknowledged is lost: free disk space or repair the disk, then restart")]
pub struct StoreFault(pub String);
