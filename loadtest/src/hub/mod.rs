//! The hub under test: a process of its own with temporary data, or one that runs already; and what is set up in it.

mod api;
mod binary;
mod cluster;
mod directory;
mod keyspace;
mod process;
mod stage;
mod topic;

pub use binary::locate;
pub use cluster::{Cluster, SLOTS};
pub use directory::Directory;
pub use keyspace::{CqlServer, Keyspace, cql};
pub use process::{Hub, HubSettings};
pub use stage::{Setting, Sources, Stage, wait_until_known};
pub use topic::{PARTITIONS, create as create_topic, wait_until_followed};
