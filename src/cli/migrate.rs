//! `migrate`: prepares a cluster for the hub. It finds out what the nodes are, makes the keyspace where it is told how
//! many copies to keep, applies the steps of `schema.cql` that are missing, makes the deployment that all nodes share and,
//! where brokers are set, the slot topic, and says what it did. Running it again changes nothing.

use clap::Args;

use super::kafka::settings_of;
use super::settings::ConfigArguments;
use super::{CommandError, Surroundings};
use crate::config::{Config, KafkaConfig, ScyllaConfig};
use crate::source::kafka::{Membership, SlotTopic, TopicError, TopicMade, make_slot_topic};
use crate::source::topic::Followed;
use crate::store::Kek;
use crate::store::codec::deployment::Deployment;
use crate::store::scylla::{ClusterError, ClusterSettings, Keyspace, MigrateOptions, Migrated, migrate};
use crate::types::limits;

/// Prepare a cluster
#[derive(Debug, Args)]
pub struct Arguments {
    /// Copies of each row in the local datacenter, for a keyspace that is not there yet; 3 survive the loss of a node
    #[arg(long, value_name = "COPIES", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::CQL_REPLICATION_MAX)))]
    replication_factor: Option<u32>,
    /// Slots of a cluster that is not there yet, 256 if not told: what its tenants are spread over, for ever
    #[arg(long, value_name = "SLOTS", value_parser = clap::value_parser!(u16).range(1..=i64::from(limits::CLUSTER_SLOTS_MAX)))]
    slots: Option<u16>,
    /// Copies of the slot topic, where it is not there yet; 3 survive the loss of a broker while another restarts
    #[arg(long, value_name = "COPIES", default_value_t = limits::SLOT_TOPIC_COPIES,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(limits::SLOT_TOPIC_COPIES_MAX)))]
    topic_replication: u16,
    #[command(flatten)]
    config: ConfigArguments,
}

/// Prepares the cluster of the settings.
///
/// # Errors
/// [`CommandError::Config`] without nodes; [`CommandError::Failed`] names the setting, its value and the rule.
pub fn run(arguments: Arguments, surroundings: &mut Surroundings<'_>) -> Result<(), CommandError> {
    let config = arguments.config.load(surroundings)?;
    let Some(cluster) = &config.store.scylla else {
        let fault = config.fault("store.scylla_nodes", "must be set: `migrate` needs a cluster");
        return Err(CommandError::Config(vec![fault]));
    };
    let settings = cluster_settings(cluster);
    let options = MigrateOptions {
        factor: arguments.replication_factor,
        slots: arguments.slots,
        kek: key_encryption_key(&config),
    };
    let migrated = migrate(&settings, &options, surroundings.clock.now())?;
    write!(surroundings.output, "{}", told(&settings, &migrated))?;
    let topic = topic(config.kafka.as_ref(), migrated.deployment.slots, arguments.topic_replication)?;
    writeln!(surroundings.output, "{topic}")?;
    Ok(())
}

/// Makes the slot topic; what to say of it.
fn topic(kafka: Option<&KafkaConfig>, slots: u16, replication: u16) -> Result<String, TopicError> {
    let Some(kafka) = kafka else { return Ok("slot topic: kafka.brokers is not set, nothing done".to_owned()) };
    let name = kafka.slot_topic.as_str();
    let followed = Followed::Slots(name.into());
    let group = ("kafka.slot_group", kafka.slot_group.as_str());
    let settings = settings_of(kafka, group, followed, (String::new(), Membership::Nodes));
    Ok(match make_slot_topic(&settings, SlotTopic { name, slots }, replication)? {
        TopicMade::Found => format!("slot topic {name}: was there, with {slots} partitions"),
        TopicMade::Made(copies) => format!("slot topic {name}: made, {slots} partitions, copies: {copies}"),
    })
}

/// How the cluster is reached.
pub(super) fn cluster_settings(cluster: &ScyllaConfig) -> ClusterSettings {
    ClusterSettings {
        nodes: cluster.nodes.clone(),
        keyspace: cluster.keyspace.clone(),
        login: cluster.login.clone(),
        datacenter: cluster.datacenter.clone(),
        authority: cluster.authority.clone(),
    }
}

/// The key that secrets are sealed with, if one is named.
pub(super) fn key_encryption_key(config: &Config) -> Option<Kek> {
    let key = config.security.key_encryption_key.as_ref()?;
    key.expose().try_into().ok().map(Kek::new)
}

impl From<ClusterError> for CommandError {
    fn from(error: ClusterError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<TopicError> for CommandError {
    fn from(error: TopicError) -> Self {
        Self::Failed(error.to_string())
    }
}

fn told(settings: &ClusterSettings, migrated: &Migrated) -> String {
    let name = &settings.keyspace;
    let keyspace = match &migrated.keyspace {
        Keyspace::Found => format!("keyspace {name}: was there, its replication is left as it is"),
        Keyspace::Made { datacenter, factor } => format!("keyspace {name}: made, copies in {datacenter}: {factor}"),
    };
    let version = migrated.version;
    let schema = if migrated.applied.is_empty() {
        format!("schema: version {version}, nothing to do")
    } else {
        let steps: Vec<String> = migrated.applied.iter().map(ToString::to_string).collect();
        format!("schema: applied step {}, now version {version}", steps.join(", "))
    };
    let Deployment { id, slots, .. } = migrated.deployment;
    let deployment = format!("deployment: {id}, {slots} slots");
    format!("{}: {}\n{keyspace}\n{schema}\n{deployment}\n", settings.nodes.join(","), migrated.server)
}

#[cfg(test)]
mod tests {
    use crate::cli::tests::ran;
    use crate::cli::{FAILED, MISUSED};

    #[test]
    fn what_stands_in_the_way_is_named() {
        let (code, _, errors) = ran(&["migrate"], &[], b"");
        assert_eq!(code, MISUSED);
        assert!(errors.contains("store.scylla_nodes") && errors.contains("must be set"), "{errors}");
        let (code, _, errors) = ran(&["migrate", "--store.scylla_nodes", "127.0.0.1:9"], &[], b"");
        assert_eq!(code, FAILED);
        assert!(errors.contains("store.scylla_nodes = \"127.0.0.1:9\": at least one"), "{errors}");
        for none in ["--replication-factor", "--slots", "--topic-replication"] {
            let arguments = ["migrate", none, "0", "--store.scylla_nodes", "127.0.0.1:9"];
            assert_eq!(ran(&arguments, &[], b"").0, MISUSED);
        }
    }
}
