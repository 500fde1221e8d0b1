//! The store of a cluster, on any server that speaks CQL (protocol v4): `ScyllaDB`, Apache Cassandra.
//!
//! The tables stand in `schema.cql`. Pure, and known without the crates that touch the world: [`plan`] cuts a batch into writes of single partitions, in
//! an order in which every prefix is harmless; [`epoch`] keeps the writes of two owners apart; [`statement`] has every
//! write; [`schema`] knows the steps of `schema.cql` and judges a keyspace by them.

pub mod epoch;
pub mod part;
pub mod phase;
pub mod plan;
pub mod rows;
pub mod schema;
pub mod statement;

pub use epoch::Epoch;
