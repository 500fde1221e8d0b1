//! The store on a real CQL server, and `migrate` against it.
//!
//! `tests/real/servers up` starts Apache Cassandra before, `down` stops it after. One keyspace serves all tests of a run;
//! each has slots of its own. All but the one that freezes the server run side by side.

mod answers;
mod cassandra;
mod configuration;
mod conformance;
mod lists;
mod migration;
mod outage;
mod ownership;
mod proxy;
mod raw;
mod tls;

/// Counts the slots that were given out: tests share a keyspace and never a slot.
static SLOTS: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);

/// A slot that no other test uses. Its neighbour is nobody's.
pub fn fresh_slot() -> streaming_hub::types::Slot {
    streaming_hub::types::Slot(SLOTS.fetch_add(2, std::sync::atomic::Ordering::Relaxed))
}
