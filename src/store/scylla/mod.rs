//! The store of a cluster, on any server that speaks CQL (protocol v4): `ScyllaDB`, Apache Cassandra.
//!
//! The tables stand in `schema.cql`. One thread runs the driver; each engine hands it batches and reads through a
//! [`ScyllaPort`] of its own and waits for nothing. The first read of a slot takes it, which gives its owner an epoch;
//! from then on its batches are cut into phases and carried out, one batch of a unit at a time. What the API asks of any
//! node, of its own slots or others', it asks through [`Scylla::queries`].
//!
//! Pure, and known without the crates that touch the world: [`plan`] cuts a batch into writes of single partitions, in
//! an order in which every prefix is harmless; [`epoch`] keeps the writes of two owners apart; [`statement`],
//! [`query`] and [`api_query`] have every statement; [`schema`] knows the steps of `schema.cql` and judges a keyspace by them.
//!
//! Invariants: nobody is told `Committed` before all phases are acknowledged by a quorum of the local datacenter; a
//! request whose fate is unknown refuses its batch as unavailable, never as rejected; nothing is deleted row by row but
//! cursors, destinations, configuration, and what is left of a tenant that is erased (`erase.rs`). How the configuration changes stands in `feed.rs`.

#[cfg(feature = "serve")]
mod answers;
pub mod api_query;
#[cfg(feature = "serve")]
mod configure;
#[cfg(feature = "serve")]
mod connect;
#[cfg(feature = "serve")]
mod deployment;
pub mod epoch;
#[cfg(feature = "serve")]
mod erase;
pub mod erase_statement;
#[cfg(feature = "serve")]
mod feed;
#[cfg(feature = "serve")]
mod handle;
#[cfg(feature = "serve")]
mod migrate;
pub mod part;
pub mod phase;
pub mod plan;
#[cfg(feature = "serve")]
mod port;
#[cfg(feature = "serve")]
mod queries;
pub mod query;
#[cfg(feature = "serve")]
mod read;
pub mod rows;
pub mod schema;
#[cfg(feature = "serve")]
mod session;
pub mod statement;
#[cfg(feature = "serve")]
mod take;

#[cfg(feature = "serve")]
pub use connect::{ClusterError, ClusterSettings};
pub use epoch::Epoch;
#[cfg(feature = "serve")]
pub use erase::{Doomed, Erased, Field};
#[cfg(feature = "serve")]
pub use feed::{ConfigureError, FollowError};
#[cfg(feature = "serve")]
pub use handle::{Scylla, ScyllaSettings};
#[cfg(feature = "serve")]
pub use migrate::{Keyspace, MigrateOptions, Migrated, Server, migrate};
#[cfg(feature = "serve")]
pub use port::ScyllaPort;
#[cfg(feature = "serve")]
pub use queries::Queries;
#[cfg(feature = "serve")]
pub use session::Failure;
#[cfg(feature = "serve")]
pub use take::{TakeError, Taken, token};
