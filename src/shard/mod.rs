//! The shell: one loop per shard on one pinned core, moving bytes between the engine and the world.
//!
//! It decides nothing. What a shard is told arrives as a [`handle::Message`], as a store event, as a finished
//! attempt or as a record of a lane; what the engine wants goes to the store, to the client, to another shard,
//! or back to whoever asked. Shards share nothing but their bounded inboxes.
//!
//! - [`boot`] makes the store's, the shards' and the client's threads and watches over them.
//! - [`pump`] is the loop; [`lanes`] its Kafka lanes.
//! - On a cluster's node a shard has two loops: one for the slots it is given, where [`Inlet`] is the one way in, and
//!   one that relays producers' events into the slots of all nodes.
//! - [`handle`] is what the API holds of the shards.

mod book;
pub mod boot;
mod disabled;
pub mod handle;
pub mod inlet;
pub mod lanes;
mod leases;
mod life;
pub mod outbox;
pub mod pump;
pub mod replies;
mod seat;
mod slot_reader;
pub mod watch;

pub use boot::{BootSettings, Hub, HubError};
pub use handle::{Disabled, Shards};
pub use inlet::Inlet;
