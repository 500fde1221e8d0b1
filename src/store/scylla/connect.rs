//! How a cluster is reached, and what is said when it is not.

use std::path::{Path, PathBuf};

use openssl::error::ErrorStack;
use openssl::ssl::{SslConnector, SslConnectorBuilder, SslMethod, SslVersion};
use openssl::x509::X509;
use openssl::x509::store::X509StoreBuilder;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::{OpenSsl010Config, Session as Driver, TlsContext};
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, MetadataError, NewSessionError,
};
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::statement::{Consistency, SerialConsistency};

use super::schema::SchemaFault;
use super::session::Failure;
use crate::store::codec::CodecError;
use crate::store::seal::SealError;
use crate::types::{Secret, limits};

/// Where a cluster is and who asks.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// `host:port`, at least one.
    pub nodes: Vec<String>,
    /// The hub's keyspace.
    pub keyspace: String,
    /// User and password, where the cluster wants one.
    pub login: Option<(String, Secret)>,
    /// Only nodes of this datacenter are asked; absent: all.
    pub datacenter: Option<String>,
    /// A PEM file of the authorities whose certificates its nodes have: then TLS, else plain text. Names are not compared.
    pub authority: Option<PathBuf>,
}

/// Why a cluster can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No node answers.
    #[error("store.scylla_nodes = {nodes:?}: at least one of them must accept connections: {reason}")]
    Unreachable {
        /// As set.
        nodes: String,
        /// What the last one said.
        reason: String,
    },
    /// User or password are wrong, or missing.
    #[error("store.scylla_username = {username}: user and `store.scylla_password` must be the cluster's: {reason}")]
    Login {
        /// As set.
        username: String,
        /// What the server said.
        reason: String,
    },
    /// The authority's file is none.
    #[error("store.scylla_ca_file = {path:?}: must be a file with certificates in PEM: {reason}")]
    Authority {
        /// As set.
        path: PathBuf,
        /// Why it is not.
        reason: String,
    },
    /// There is no such keyspace.
    #[error(
        "store.scylla_keyspace = {0:?}: must be a keyspace of the cluster: `migrate --replication-factor` makes it"
    )]
    UnknownKeyspace(String),
    /// There is no such datacenter.
    #[error("store.scylla_datacenter = {datacenter:?}: must be one of the cluster's: {known}")]
    UnknownDatacenter {
        /// As set.
        datacenter: String,
        /// The cluster's, separated by commas.
        known: String,
    },
    /// More copies than nodes.
    #[error(
        "--replication-factor {factor}: the datacenter {datacenter:?} has {nodes} node(s), and each keeps one copy"
    )]
    Replication {
        /// As asked.
        factor: u32,
        /// Where.
        datacenter: String,
        /// How many there are.
        nodes: usize,
    },
    /// The keyspace is not this program's.
    #[error("store.scylla_keyspace = {keyspace:?}: {fault}")]
    Schema {
        /// As set.
        keyspace: String,
        /// What is wrong with it.
        fault: SchemaFault,
    },
    /// `migrate` was never run to its end.
    #[error("store.scylla_keyspace = {0:?}: it has no deployment of the hub: run `streaming-hub migrate`")]
    NoDeployment(String),
    /// The deployment's own record is damaged.
    #[error("store.scylla_keyspace = {keyspace:?}: the record of the hub's deployment can't be read: {source}")]
    DamagedDeployment {
        /// As set.
        keyspace: String,
        /// How.
        source: CodecError,
    },
    /// A keyspace keeps its number of slots.
    #[error("--slots {asked}: the keyspace {keyspace:?} was made with {found} slots and keeps them")]
    Slots {
        /// As asked.
        asked: u16,
        /// As set.
        keyspace: String,
        /// Its own.
        found: u16,
    },
    /// No key-encryption key.
    #[error(
        "security.kek_source: must be set (in `local`, `security.dev_kek` will do): all nodes of a cluster share one \
         key-encryption key"
    )]
    KeyMissing,
    /// Another key-encryption key.
    #[error(
        "security.kek_source: the key-encryption key must be the one that the keyspace {0:?} was made with; it is another"
    )]
    OtherKey(String),
    /// No randomness for an identity.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A request failed.
    #[error("the cluster does not answer as it should: {0}")]
    Request(#[from] Failure),
    /// No thread or no runtime for it.
    #[error("the cluster's thread can't be started: {0}")]
    Thread(#[from] std::io::Error),
    /// The cluster's thread is gone: the hub's own fault.
    #[error("the cluster's thread has stopped")]
    Stopped,
}

/// Connects; no keyspace is in use yet.
///
/// # Errors
/// [`ClusterError::Unreachable`], [`ClusterError::Login`], [`ClusterError::UnknownDatacenter`].
pub(super) async fn connect(settings: &ClusterSettings) -> Result<Driver, ClusterError> {
    let mut balancing = DefaultPolicy::builder().token_aware(true).permit_dc_failover(false);
    if let Some(datacenter) = &settings.datacenter {
        balancing = balancing.prefer_datacenter(datacenter.clone());
    }
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::LocalQuorum)
        .serial_consistency(Some(SerialConsistency::LocalSerial))
        .request_timeout(Some(limits::CQL_REQUEST_TIMEOUT.to_std()))
        .load_balancing_policy(balancing.build())
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.nodes)
        .default_execution_profile_handle(profile.into_handle())
        .keyspaces_to_fetch([&settings.keyspace])
        .connection_timeout(limits::CQL_CONNECT_TIMEOUT.to_std());
    if let Some(path) = &settings.authority {
        builder = builder.tls_context(Some(trusting(path)?));
    }
    if let Some((username, password)) = &settings.login {
        builder = builder.user(username, String::from_utf8_lossy(password.expose()));
    }
    let driver = builder.build().await.map_err(|error| refused(settings, &error))?;
    check_datacenter(settings, &driver)?;
    Ok(driver)
}

/// TLS 1.2 or later with certificates of the authorities in `path`, and of no others: the public ones may give one to
/// anybody, and the driver does not compare names.
fn trusting(path: &Path) -> Result<TlsContext, ClusterError> {
    let refused = |reason: String| ClusterError::Authority { path: path.to_owned(), reason };
    let pem = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    let certificates = X509::stack_from_pem(&pem).map_err(|error| refused(error.to_string()))?;
    if certificates.is_empty() {
        return Err(refused("it has none".to_owned()));
    }
    let context = || -> Result<SslConnectorBuilder, ErrorStack> {
        let mut store = X509StoreBuilder::new()?;
        for certificate in certificates {
            store.add_cert(certificate)?;
        }
        let mut context = SslConnector::builder(SslMethod::tls_client())?;
        context.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        context.set_cert_store(store.build());
        Ok(context)
    };
    let context = context().map_err(|error| refused(error.to_string()))?;
    Ok(OpenSsl010Config::new(context).into())
}

/// Uses the keyspace of the settings from now on.
///
/// # Errors
/// [`ClusterError::UnknownKeyspace`].
pub(super) async fn use_keyspace(driver: &Driver, settings: &ClusterSettings) -> Result<(), ClusterError> {
    let row = driver
        .query_unpaged(
            "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?",
            (settings.keyspace.as_str(),),
        )
        .await;
    let found = row.map_err(|error| Failure::from(&error))?.into_rows_result().map_err(|e| Failure::unreadable(&e))?;
    if found.rows_num() == 0 {
        return Err(ClusterError::UnknownKeyspace(settings.keyspace.clone()));
    }
    driver.use_keyspace(&settings.keyspace, true).await.map_err(|error| Failure::unreadable(&error).into())
}

fn check_datacenter(settings: &ClusterSettings, driver: &Driver) -> Result<(), ClusterError> {
    let Some(wanted) = &settings.datacenter else { return Ok(()) };
    let state = driver.get_cluster_state();
    let mut known: Vec<&str> = state.get_nodes_info().iter().filter_map(|node| node.datacenter.as_deref()).collect();
    known.sort_unstable();
    known.dedup();
    if known.contains(&wanted.as_str()) {
        return Ok(());
    }
    Err(ClusterError::UnknownDatacenter { datacenter: wanted.clone(), known: known.join(", ") })
}

fn refused(settings: &ClusterSettings, error: &NewSessionError) -> ClusterError {
    if is_login(error) {
        let username = settings.login.as_ref().map_or("(not set)".to_owned(), |(name, _)| format!("{name:?}"));
        return ClusterError::Login { username, reason: reason(error) };
    }
    ClusterError::Unreachable { nodes: settings.nodes.join(","), reason: reason(error) }
}

/// Whether the server refused who asks.
fn is_login(error: &NewSessionError) -> bool {
    let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
        last_connection_error: ConnectionError::ConnectionSetupRequestError(setup),
    })) = error
    else {
        return false;
    };
    matches!(
        setup.get_error(),
        ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError | DbError::Unauthorized, _)
            | ConnectionSetupRequestErrorKind::MissingAuthentication
    )
}

/// The innermost cause: the driver's outer ones say that it could not connect.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
