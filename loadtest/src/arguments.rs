//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::failure::Failure;
use crate::scenario::Scenario;

/// Loads a hub and reports what it does: as JSON, and as a page with plots. Exits 1 when the scenario does not pass.
#[derive(Clone, Debug, Parser)]
#[command(name = "loadtest", arg_required_else_help = true)]
pub struct Arguments {
    /// What to play
    #[arg(value_enum)]
    pub scenario: Scenario,
    /// Where events come in
    #[arg(long = "in", value_enum, default_value = "http")]
    pub intake: IntakeKind,
    /// The hub's store
    #[arg(long, value_enum, default_value = "embedded")]
    pub store: StoreKind,
    /// Hubs side by side on one cluster, with `--store scylla`
    #[arg(long, default_value_t = 1)]
    pub nodes: u32,
    /// The CQL server for `--store scylla`, which also takes the broker of `--kafka`; `tests/real/servers up` starts both
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:19042")]
    pub scylla_nodes: String,
    /// Its user
    #[arg(long, env = "STREAMING_HUB_SCYLLA_USERNAME", default_value = "cassandra")]
    pub scylla_username: String,
    /// The user's password
    #[arg(long, env = "STREAMING_HUB_SCYLLA_PASSWORD", hide_env_values = true, default_value = "cassandra")]
    pub scylla_password: String,
    /// Delivery shards of the hub; unset: the hub decides
    #[arg(long)]
    pub shards: Option<u16>,
    /// Measured seconds of each phase; unset: the scenario's own
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Events a second of open loops; unset: the scenario's own
    #[arg(long)]
    pub rate: Option<f64>,
    /// Let the rate grow, or fall, from `--rate` to this during the warm-up and the measured seconds
    #[arg(long, requires = "rate")]
    pub ramp_to: Option<f64>,
    /// Events of each phase, or pending ones; unset: the scenario's own
    #[arg(long)]
    pub events: Option<u64>,
    /// Events published and not yet delivered in closed loops
    #[arg(long, default_value_t = 1_024)]
    pub outstanding: u64,
    /// A payload's size, at least 160; unset: 1 KiB, or the scenario's own
    #[arg(long)]
    pub payload_bytes: Option<usize>,
    /// Connections of the generator to HTTP ingest
    #[arg(long, default_value_t = 128)]
    pub connections: usize,
    /// Events of one tenant in one ingest request, at most; unset: 1, or the scenario's own
    #[arg(long)]
    pub batch: Option<usize>,
    /// Tenants of `many`; unset: 10 000
    #[arg(long)]
    pub tenants: Option<usize>,
    /// How often each measurement is made, to tell its spread
    #[arg(long)]
    pub repeats: Option<usize>,
    /// The broker for `--in kafka` and `--store scylla`; `tests/real/servers up` starts this one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:19092")]
    pub kafka: String,
    /// Drive the hub that runs there, instead of one of its own; its destinations must be allowed on loopback, without
    /// verification
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<SocketAddr>,
    /// The operator's key of the hub at `--address`
    #[arg(long, env = "STREAMING_HUB_ADMIN_KEY", hide_env_values = true)]
    pub admin_key: Option<String>,
    /// The process of the hub at `--address`, on this machine: without it its processor time and memory are not measured
    #[arg(long)]
    pub process_id: Option<u32>,
    /// The hub's binary; unset: built if cargo runs this, and found beside it
    #[arg(long)]
    pub hub_binary: Option<PathBuf>,
    /// An earlier report to compare with
    #[arg(long, value_name = "JSON")]
    pub baseline: Option<PathBuf>,
    /// Where the report goes
    #[arg(long, value_name = "DIRECTORY", default_value = "target/loadtest")]
    pub out: PathBuf,
}

/// Where events come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IntakeKind {
    /// A Kafka topic
    Kafka,
    /// HTTP ingest
    Http,
}

/// The hub's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// The one in the hub's own process
    Embedded,
    /// A cluster of `ScyllaDB` or Apache Cassandra, and Kafka
    Scylla,
}

impl Arguments {
    /// Refuses what does not go together.
    ///
    /// # Errors
    /// Names the argument and the rule.
    pub fn check(&self) -> Result<(), Failure> {
        let refused = |argument, rule: &str| Err(Failure::Argument { argument, rule: rule.to_owned() });
        if self.nodes == 0 {
            return refused("--nodes", "must be at least 1");
        }
        match self.store {
            StoreKind::Embedded if self.nodes > 1 => {
                return refused("--nodes", "must be 1: the embedded store has one process; `--store scylla` has many");
            }
            StoreKind::Scylla if self.address.is_some() => {
                return refused("--address", "a running hub has a store already: leave `--store` out");
            }
            StoreKind::Scylla if matches!(self.scenario, Scenario::Restart | Scenario::Smoke) => {
                let rule = "`restart` and `smoke` kill a hub and start it on its data directory, which a node has not; \
                            `cargo test --features real --test real cluster::kills` kills nodes";
                return refused("--store", rule);
            }
            StoreKind::Embedded | StoreKind::Scylla => {}
        }
        if self.address.is_some() && self.intake == IntakeKind::Kafka {
            return refused("--address", "a running hub is driven by `--in http`: its topics are its own");
        }
        if self.connections == 0 || self.batch == Some(0) || self.outstanding == 0 {
            return refused("--connections, --batch, --outstanding", "must be at least 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The argument that is refused, if one is.
    fn refused(line: &str) -> Option<&'static str> {
        let arguments = Arguments::parse_from(std::iter::once("loadtest").chain(line.split(' ')));
        match arguments.check() {
            Ok(()) => None,
            Err(Failure::Argument { argument, .. }) => Some(argument),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_cluster_has_as_many_nodes_as_asked_and_other_stores_one() {
        assert_eq!(refused("closed --store scylla --nodes 3"), None);
        assert_eq!(refused("steady --store scylla"), None);
        assert_eq!(refused("closed"), None);
        assert_eq!(refused("closed --nodes 2"), Some("--nodes"));
        assert_eq!(refused("closed --store scylla --nodes 0"), Some("--nodes"));
    }

    #[test]
    fn what_makes_no_sense_on_a_cluster_is_refused() {
        for scenario in ["restart", "smoke"] {
            assert_eq!(refused(&format!("{scenario} --store scylla")), Some("--store"));
            assert_eq!(refused(scenario), None);
        }
        assert_eq!(refused("closed --store scylla --address 127.0.0.1:80"), Some("--address"));
    }

    #[test]
    fn nothing_is_driven_with_nothing() {
        assert_eq!(refused("closed --address 127.0.0.1:80 --in kafka"), Some("--address"));
        for none in ["--connections", "--batch", "--outstanding"] {
            assert!(refused(&format!("closed {none} 0")).is_some());
        }
    }
}
