//! What the nodes of a cluster share: a keyspace and a slot topic of this run's own, which go with their value.

use std::io::Write as _;
use std::path::Path;

use futures_lite::future::block_on;

use super::keyspace::{CqlServer, Keyspace};
use super::process::HubSettings;
use super::topic;
use crate::failure::Failure;

/// The slots of a cluster: a few for each shard that fits on one machine.
pub const SLOTS: u16 = 16;

/// A prepared cluster without nodes.
#[derive(Debug)]
pub struct Cluster {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// The slot topic.
    pub topic: String,
    brokers: String,
}

impl Cluster {
    /// Has `migrate` make it; `name` is in the names of all of it.
    ///
    /// # Errors
    /// When a server is missing, or `migrate` refuses.
    pub fn make(binary: &Path, server: CqlServer, brokers: &str, name: &str) -> Result<Self, Failure> {
        let topic = format!("{name}-slots");
        let more = HubSettings::default().with("KAFKA_BROKERS", brokers).with("KAFKA_SLOT_TOPIC", &topic);
        let keyspace = Keyspace::make(binary, server, name.replace('-', "_"), SLOTS, more)?;
        Ok(Self { keyspace, topic, brokers: brokers.to_owned() })
    }

    /// What each node is told.
    #[must_use]
    pub fn settings(&self) -> HubSettings {
        let settings = self.keyspace.server.settings(&self.keyspace.name);
        settings.with("KAFKA_SLOT_TOPIC", &self.topic).with("KAFKA_SLOT_GROUP", &self.topic)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(failure) = block_on(topic::delete(&self.brokers, &self.topic)) {
            // A closed standard error has nobody to tell.
            let _ = writeln!(std::io::stderr(), "loadtest: the topic {} is left behind: {failure}", self.topic);
        }
    }
}
