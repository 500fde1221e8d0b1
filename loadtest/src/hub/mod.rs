//! The hub under test: a process of its own with temporary data, or one that runs already; and what is set up in it.

mod api;
mod binary;
mod directory;
mod process;
mod stage;
mod topic;

pub use api::Api;
pub use binary::locate;
pub use directory::Directory;
pub use process::{Hub, HubSettings};
pub use stage::{Setting, Sources, Stage};
pub use topic::{create as create_topic, wait_until_followed};
