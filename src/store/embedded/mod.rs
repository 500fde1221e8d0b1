//! The store of one machine, on fjall: one directory, one process, one committer, a few readers.
//!
//! Threads: the committer merges all shards' batches into one fsync; readers answer the engines' reads
//! and the API's queries, each kind on threads of its own, so that neither starves the other; the keeper
//! watches free disk and removes what has expired; the rotation closes full memtables.
//!
//! Invariants: nobody is told `Committed` before the fsync; rows are visible to readers only when durable; a
//! failed write ends the process and loses nothing that was acknowledged.

mod backup;
mod committer;
mod configure;
mod copies;
mod directory;
mod due;
mod erase;
mod handle;
mod keeper;
mod marks;
mod queries;
mod read;
mod readers;
mod rotation;
mod space;
mod sweep;
mod tables;
mod walk;

#[cfg(test)]
mod tests;

pub use backup::{BackupError, BackupProgress, backup_directory};
pub use directory::OpenError;
pub use handle::{Embedded, EmbeddedSettings};
pub use queries::Queries;

pub use super::queries::{
    DeadLettersQuery, DeliveriesQuery, Delivery, EventsQuery, IdPlace, JobStatus, ListOrder, ProducerDlqQuery,
    QuarantineQuery, StoreReport,
};
