//! The real binary over loopback, without services: what clients, receivers and operators see of it.
//!
//! One file per promise. Every test starts a hub of its own; all of them run at once.

#[allow(dead_code, reason = "shared with tests/real, which stands on other parts of it")]
mod harness;

mod backlog;
mod backup;
mod bad_events;
mod bad_requests;
mod changes;
mod circuit;
mod crash;
mod disk;
mod duplicates;
mod erasure;
mod flow;
mod framing;
mod hostile;
mod order;
mod oversize;
mod payloads;
mod pull;
mod shutdown;
mod startup;
mod statuses;
mod tenancy;
mod tls;
mod waiting;
