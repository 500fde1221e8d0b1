//! The HTTP API: `/v1` for tenants, `/admin` for operators, `/v1/ingest` for producers, health and metrics.
//!
//! The way of a request: [`server`] takes the connection, [`router`] finds the endpoint, [`auth`] the caller, [`body`]
//! reads what was sent within its bounds, a handler in [`v1`] or [`admin`] answers: parse → call → view. Ingest goes
//! its own, shorter way ([`ingest`]).
//!
//! - [`objects`] checks the bodies of configuration objects, every fault at once, and shows them without secrets;
//! - [`views`] shows events, deliveries, attempts, dead letters and the operator's tables;
//! - [`config_writer`] is the only writer of configuration, and keeps the [`directory`] that everything looks up; what
//!   other nodes write comes to it through [`config_store`];
//! - [`verify`] asks destinations whether they want a subscription;
//! - [`thread`] gives it all an executor, [`mod@run`] serves there; [`service`] is what the handlers share.
//!
//! Not here: what becomes of an event. The API hands it to its shard and reads what the store has.
//!
//! Invariants: an answered change is durable and in force; every read and write names its tenant, and another
//! tenant's object is 404; no secret is read back; every error is a [`problem`]; nothing a client sends is unbounded.

pub mod admin;
pub mod answer;
pub mod auth;
pub mod backup;
pub mod body;
pub mod call;
pub mod client_address;
pub mod config_store;
pub mod config_writer;
pub mod directory;
pub mod disabled;
mod dispatch;
mod erasure;
mod erasure_on_cluster;
mod follow;
pub mod head_tap;
pub mod health;
pub mod idempotency;
pub mod ingest;
pub mod input;
pub mod objects;
pub mod page;
pub mod precondition;
pub mod problem;
pub mod pull_rate;
pub mod router;
pub mod run;
pub mod server;
pub mod service;
pub mod settings;
pub mod shards;
pub mod stall;
pub mod thread;
pub mod v1;
pub mod verify;
mod verify_queue;
pub mod views;

pub use service::{Links, Phase, Service};
pub use settings::Settings;
pub use shards::ProcessShards;

#[cfg(test)]
mod tests;
