//! Why a load test ends before its end.

use std::io;

/// What stands in the way. That a scenario does not pass is no failure but a result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// An argument that cannot be met.
    #[error("{argument}: {rule}")]
    Argument {
        /// Which.
        argument: &'static str,
        /// What it must be.
        rule: String,
    },
    /// The system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The hub ended, did not start or answered what it must not.
    #[error("the hub {0}")]
    Hub(String),
    /// A thread of the load test itself.
    #[error("the {name} has failed: {reason}")]
    Thread {
        /// Which.
        name: &'static str,
        /// Why.
        reason: String,
    },
    /// Kafka.
    #[error("Kafka: {0} (`tests/real/servers up` starts one)")]
    Kafka(#[from] rdkafka::error::KafkaError),
    /// The CQL server.
    #[error("CQL: {0} (`tests/real/servers up` starts a server)")]
    Cql(String),
    /// Something took longer than it may.
    #[error("waited {seconds} s in vain for {what}")]
    Late {
        /// For what.
        what: String,
        /// How long.
        seconds: u64,
    },
}

impl Failure {
    /// For an operation on a file or socket.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
