//! The real binary against a real Kafka broker and what foreign libraries make and check.
//!
//! `tests/real/servers up` starts the broker before, `down` stops it after. One file per promise; each test has
//! topics, consumer groups and a data directory of its own. All but those that stop the broker run side by side.

#[path = "../it/harness/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with tests/it, which stands on other parts of it")]
mod harness;

mod broker;
mod changes;
mod cluster;
mod cooperative;
mod foreign;
mod once;
mod outage;
mod ownership;
mod patience;
mod pressure;
mod producers_letters;
mod quarantine;
mod record;
mod retention;
mod secure;
mod server;
mod stage;
mod tally;
