//! The store of a cluster, on any server that speaks CQL (protocol v4): `ScyllaDB`, Apache Cassandra.
//!
//! Pure, and known without the crates that touch the world: [`plan`] cuts a batch into writes of single partitions, in
//! an order in which every prefix is harmless; [`epoch`] keeps the writes of two owners apart; [`statement`] has every
//! write.

pub mod epoch;
pub mod part;
pub mod phase;
pub mod plan;
pub mod rows;
pub mod statement;

pub use epoch::Epoch;
