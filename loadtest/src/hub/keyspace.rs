//! A keyspace of this run's own on the CQL server, made by the hub's `migrate`; it is dropped with its value.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;

use super::process::HubSettings;
use crate::arguments::Arguments;
use crate::failure::Failure;

/// Base64 of 32 bytes.
const KEK: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// How the CQL server is reached.
#[derive(Clone, Debug)]
pub struct CqlServer {
    nodes: String,
    username: String,
    password: String,
}

impl CqlServer {
    /// The one that was asked for.
    #[must_use]
    pub fn of(arguments: &Arguments) -> Self {
        Self {
            nodes: arguments.scylla_nodes.clone(),
            username: arguments.scylla_username.clone(),
            password: arguments.scylla_password.clone(),
        }
    }

    /// What a hub is told of it.
    #[must_use]
    pub fn settings(&self, keyspace: &str) -> HubSettings {
        HubSettings::default()
            .with("STORE", "scylla")
            .with("SCYLLA_NODES", &self.nodes)
            .with("SCYLLA_USERNAME", &self.username)
            .with("SCYLLA_PASSWORD", &self.password)
            .with("SCYLLA_KEYSPACE", keyspace)
            .with("DEV_KEK", KEK)
    }

    /// Connects, as the hub does.
    ///
    /// # Errors
    /// When no node takes the user.
    pub async fn connect(&self) -> Result<Session, Failure> {
        let profile = ExecutionProfile::builder().consistency(Consistency::LocalQuorum).build();
        let builder = SessionBuilder::new()
            .known_nodes(self.nodes.split(','))
            .user(&self.username, &self.password)
            .default_execution_profile_handle(profile.into_handle());
        builder.build().await.map_err(cql)
    }
}

/// What the server said, as a failure.
pub fn cql(error: impl std::fmt::Display) -> Failure {
    Failure::Cql(error.to_string())
}

/// The keyspace.
#[derive(Debug)]
pub struct Keyspace {
    /// Where it is.
    pub server: CqlServer,
    /// Its name.
    pub name: String,
}

impl Keyspace {
    /// Has `migrate` make it, with so many slots, and what else `more` asks for.
    ///
    /// # Errors
    /// When there is no server, or `migrate` refuses, with what it says.
    pub fn make(
        binary: &Path,
        server: CqlServer,
        name: String,
        slots: u16,
        more: HubSettings,
    ) -> Result<Self, Failure> {
        let settings = server.settings(&name).and(more);
        let keyspace = Self { server, name };
        let slots = slots.to_string();
        let arguments = ["migrate", "--replication-factor", "1", "--slots", &slots, "--topic-replication", "1"];
        let migrated = Command::new(binary)
            .args(arguments)
            .env_clear()
            .envs(settings.environment())
            .stdin(Stdio::null())
            .output()
            .map_err(Failure::io(format!("starting {}", binary.display())))?;
        if migrated.status.success() {
            return Ok(keyspace);
        }
        Err(Failure::Cql(format!("`migrate` says: {}", String::from_utf8_lossy(&migrated.stderr).trim())))
    }

    fn drop_it(&self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(Failure::io("a thread for CQL"))?.block_on(async {
            let text = format!("DROP KEYSPACE IF EXISTS {}", self.name);
            self.server.connect().await?.query_unpaged(text, ()).await.map(drop).map_err(cql)
        })
    }
}

impl Drop for Keyspace {
    /// A server keeps memory for each table of each keyspace.
    fn drop(&mut self) {
        if let Err(failure) = self.drop_it() {
            // A closed standard error has nobody to tell.
            let _ = writeln!(std::io::stderr(), "loadtest: the keyspace {} is left behind: {failure}", self.name);
        }
    }
}
