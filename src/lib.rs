//! Streaming Hub: a high-throughput, multi-tenant event hub.
//!
//! The map of the crate, the way of one event and the invariants stand in `src/ARCHITECTURE.md`.

#[cfg(feature = "serve")]
pub mod api;
#[cfg(feature = "serve")]
pub mod cli;
#[cfg(feature = "serve")]
pub mod config;
pub mod deliver;
pub mod engine;
#[cfg(feature = "serve")]
pub mod runtime;
#[cfg(feature = "serve")]
pub mod shard;
pub mod source;
pub mod store;
#[cfg(feature = "serve")]
pub mod telemetry;
pub mod types;
