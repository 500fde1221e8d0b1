//! Making and checking the keyspace: numbered steps, each noted once it is applied, all of them repeatable.

use std::fmt;

use scylla::client::session::Session as Driver;
use scylla::deserialize::row::DeserializeRow;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;

use super::connect::{ClusterError, ClusterSettings, connect, use_keyspace};
use super::deployment;
use super::schema::{SchemaFault, judge, steps, version};
use super::session::Failure;
use crate::store::codec::deployment::Deployment;
use crate::store::seal::Kek;
use crate::types::{Time, limits};

/// What a cluster's nodes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// `ScyllaDB`.
    Scylla,
    /// Apache Cassandra of this version, or another server that says so.
    Cassandra(String),
}

/// How the keyspace is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keyspace {
    /// It was there.
    Found,
    /// It was made.
    Made {
        /// Where its copies are.
        datacenter: String,
        /// How many.
        factor: u32,
    },
}

/// What is asked for beside the schema.
#[derive(Clone, Debug, Default)]
pub struct MigrateOptions {
    /// Copies of each row, for a keyspace that is not there yet.
    pub factor: Option<u32>,
    /// The number of slots, for a deployment that is not there yet; what is there must have as many.
    pub slots: Option<u16>,
    /// The key-encryption key of all nodes.
    pub kek: Option<Kek>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Whom it was done to.
    pub server: Server,
    /// The keyspace.
    pub keyspace: Keyspace,
    /// The steps applied now, in order; none when all were before.
    pub applied: Vec<u32>,
    /// The schema's version now.
    pub version: u32,
    /// The deployment, made now or before.
    pub deployment: Deployment,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scylla => f.write_str("ScyllaDB"),
            Self::Cassandra(version) => write!(f, "Apache Cassandra {version}"),
        }
    }
}

/// Makes the keyspace where copies are asked for, applies the steps that it lacks, and makes the deployment. Waits for the
/// cluster.
///
/// # Errors
/// [`ClusterError`] names the setting, its value and what it must be.
pub fn migrate(settings: &ClusterSettings, options: &MigrateOptions, now: Time) -> Result<Migrated, ClusterError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let driver = connect(settings).await?;
        let server = server(&driver).await?;
        let keyspace = make_keyspace(&driver, settings, options.factor, &server).await?;
        use_keyspace(&driver, settings).await?;
        let applied = apply(&driver, &settings.keyspace, now).await?;
        let deployment = deployment::make(&driver, &settings.keyspace, options.slots, options.kek.as_ref()).await?;
        Ok(Migrated { server, keyspace, applied, version: version(), deployment })
    })
}

/// Whether the keyspace's schema is this program's.
///
/// # Errors
/// [`ClusterError::Schema`] when it is not; [`ClusterError::Request`].
pub(super) async fn check_schema(driver: &Driver, keyspace: &str) -> Result<(), ClusterError> {
    let noted = noted(driver, keyspace).await?;
    judge(&noted, version()).map_err(|fault| ClusterError::Schema { keyspace: keyspace.to_owned(), fault })
}

/// Only `ScyllaDB` has this table.
async fn server(driver: &Driver) -> Result<Server, Failure> {
    if has_table(driver, "system", "scylla_local").await? {
        return Ok(Server::Scylla);
    }
    let text = "SELECT release_version FROM system.local WHERE key = 'local'";
    let version: Vec<(Option<String>,)> = rows(driver, text, ()).await?;
    let version = version.into_iter().next().and_then(|(version,)| version);
    Ok(Server::Cassandra(version.unwrap_or_else(|| "of unknown version".to_owned())))
}

async fn make_keyspace(
    driver: &Driver,
    settings: &ClusterSettings,
    factor: Option<u32>,
    server: &Server,
) -> Result<Keyspace, ClusterError> {
    let name = &settings.keyspace;
    let text = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let found: Vec<(String,)> = rows(driver, text, (name.as_str(),)).await?;
    if !found.is_empty() {
        return Ok(Keyspace::Found);
    }
    let factor = factor.ok_or_else(|| ClusterError::UnknownKeyspace(name.clone()))?;
    let datacenter = local_datacenter(driver, settings).await?;
    let state = driver.get_cluster_state();
    let is_local = |node: &&std::sync::Arc<_>| is_in(node, &datacenter);
    let nodes = state.get_nodes_info().iter().filter(is_local).count();
    if factor as usize > nodes {
        return Err(ClusterError::Replication { factor, datacenter, nodes });
    }
    change(driver, &keyspace_text(name, &datacenter, factor, server)).await?;
    Ok(Keyspace::Made { datacenter, factor })
}

fn is_in(node: &scylla::cluster::Node, datacenter: &str) -> bool {
    node.datacenter.as_deref() == Some(datacenter)
}

/// On `ScyllaDB` without tablets: slots are taken by conditional writes, which not every version does with them.
fn keyspace_text(name: &str, datacenter: &str, factor: u32, server: &Server) -> String {
    let datacenter = datacenter.replace('\'', "''");
    let replication = format!("{{'class': 'NetworkTopologyStrategy', '{datacenter}': {factor}}}");
    let tablets = match server {
        Server::Scylla => " AND tablets = {'enabled': false}",
        Server::Cassandra(_) => "",
    };
    format!("CREATE KEYSPACE IF NOT EXISTS \"{name}\" WITH replication = {replication}{tablets}")
}

/// The datacenter of the settings, or that of the node that answers.
async fn local_datacenter(driver: &Driver, settings: &ClusterSettings) -> Result<String, Failure> {
    if let Some(datacenter) = &settings.datacenter {
        return Ok(datacenter.clone());
    }
    let own: Vec<(String,)> = rows(driver, "SELECT data_center FROM system.local WHERE key = 'local'", ()).await?;
    let own = own.into_iter().next().map(|(datacenter,)| datacenter);
    own.ok_or_else(|| Failure::Unavailable("the node does not say where it is".to_owned()))
}

async fn apply(driver: &Driver, keyspace: &str, now: Time) -> Result<Vec<u32>, ClusterError> {
    let noted = noted(driver, keyspace).await?;
    if let Err(fault @ SchemaFault::TooNew { .. }) = judge(&noted, version()) {
        return Err(ClusterError::Schema { keyspace: keyspace.to_owned(), fault });
    }
    let mut applied = Vec::new();
    for step in steps().into_iter().filter(|step| !noted.contains(&step.version)) {
        for statement in &step.statements {
            change(driver, statement).await?;
        }
        let (note, at) = (i64::from(step.version), i64::try_from(now.0).unwrap_or(i64::MAX));
        let text = "INSERT INTO schema_version (part, version, applied_at) VALUES ('hub', ?, ?)";
        let note = i32::try_from(note).expect("steps are few");
        driver.query_unpaged(text, (note, at)).await.map_err(|error| Failure::from(&error))?;
        applied.push(step.version);
    }
    Ok(applied)
}

/// The versions noted in the keyspace; none without the table of them.
async fn noted(driver: &Driver, keyspace: &str) -> Result<Vec<u32>, Failure> {
    if !has_table(driver, keyspace, "schema_version").await? {
        return Ok(Vec::new());
    }
    let text = "SELECT version FROM schema_version WHERE part = 'hub'";
    let noted: Vec<(i32,)> = rows(driver, text, ()).await?;
    Ok(noted.into_iter().filter_map(|(version,)| u32::try_from(version).ok()).collect())
}

async fn has_table(driver: &Driver, keyspace: &str, table: &str) -> Result<bool, Failure> {
    let text = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
    let found: Vec<(String,)> = rows(driver, text, (keyspace, table)).await?;
    Ok(!found.is_empty())
}

/// Changes the schema; the driver waits until all nodes agree.
async fn change(driver: &Driver, text: &str) -> Result<(), Failure> {
    let mut statement = Statement::new(text);
    statement.set_request_timeout(Some(limits::CQL_SCHEMA_TIMEOUT.to_std()));
    driver.query_unpaged(statement, ()).await.map(|_| ()).map_err(|error| Failure::from(&error))
}

async fn rows<R>(driver: &Driver, text: &str, values: impl SerializeRow) -> Result<Vec<R>, Failure>
where
    R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
{
    let result = driver.query_unpaged(text, values).await.map_err(|error| Failure::from(&error))?;
    super::session::rows_of(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scylladb_is_told_to_do_without_tablets() {
        let cassandra = keyspace_text("hub", "it's", 3, &Server::Cassandra("5.0.8".into()));
        let expected = "CREATE KEYSPACE IF NOT EXISTS \"hub\" \
                        WITH replication = {'class': 'NetworkTopologyStrategy', 'it''s': 3}";
        assert_eq!(cassandra, expected);
        assert_eq!(
            keyspace_text("hub", "it's", 3, &Server::Scylla),
            format!("{expected} AND tablets = {{'enabled': false}}")
        );
    }
}
