//! Streaming Hub: a high-throughput, multi-tenant event hub.
//!
//! The map of the crate, the way of one event and the invariants stand in `src/ARCHITECTURE.md`.

pub mod deliver;
pub mod engine;
#[cfg(feature = "serve")]
pub mod runtime;
pub mod source;
pub mod store;
pub mod types;
