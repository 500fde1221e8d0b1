//! What is asked of the brokers beside records: which topics there are, and how they are set.

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::metadata::Metadata;

use super::context::{Context, Happening};
use super::refusal;
use super::settings::KafkaSettings;
use crate::types::{Duration, limits};

/// Why the brokers did not tell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// They turn this hub away.
    #[error("the Kafka brokers refuse this hub: {error}; check {settings}")]
    Refused {
        /// The settings to look at.
        settings: &'static str,
        /// The client's words.
        error: String,
    },
    /// They do not answer, or not as they should.
    #[error("{0}")]
    NoAnswer(String),
}

impl Unanswered {
    pub(super) fn no_answer(error: &dyn std::fmt::Display) -> Self {
        Self::NoAnswer(error.to_string())
    }
}

/// All topics. Makes none. Blocks for some seconds at most.
pub(super) fn metadata(settings: &KafkaSettings) -> Result<Metadata, Unanswered> {
    let made = settings.client_config("streaming-hub.look").create_with_context(Context::default());
    let client: BaseConsumer<Context> = made.map_err(|error| Unanswered::no_answer(&error))?;
    let answered = client.fetch_metadata(None, limits::KAFKA_REQUEST_TIMEOUT.to_std());
    answered.map_err(|error| why(&client, &error.to_string()))
}

/// The settings of these topics. Blocks for some seconds at most.
pub(super) fn topic_settings(settings: &KafkaSettings, topics: &[&str]) -> Result<Vec<ConfigResource>, Unanswered> {
    if topics.is_empty() {
        return Ok(Vec::new());
    }
    let asked: Vec<ResourceSpecifier<'_>> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
    let answered = futures_lite::future::block_on(
        administrator(settings)?.describe_configs(&asked, &patience(limits::KAFKA_REQUEST_TIMEOUT)),
    );
    let answered = answered.map_err(|error| Unanswered::no_answer(&error))?;
    answered.into_iter().map(|resource| resource.map_err(|error| Unanswered::no_answer(&error))).collect()
}

/// A client that may make topics.
pub(super) fn administrator(settings: &KafkaSettings) -> Result<AdminClient<DefaultClientContext>, Unanswered> {
    settings.connection().create().map_err(|error| Unanswered::no_answer(&error))
}

/// Waits so long for the brokers and for what they do.
pub(super) fn patience(limit: Duration) -> AdminOptions {
    let limit = limit.to_std();
    AdminOptions::new().request_timeout(Some(limit)).operation_timeout(Some(limit))
}

/// What the client has said meanwhile explains better than a request that ran out of time.
fn why(client: &BaseConsumer<Context>, error: &str) -> Unanswered {
    while client.poll(limits::KAFKA_TURN.to_std()).is_some() {}
    for happening in client.context().take() {
        if let Happening::Failed(code, words) = happening
            && let Some(settings) = refusal::settings_of(code)
        {
            return Unanswered::Refused { settings, error: words };
        }
    }
    Unanswered::NoAnswer(error.to_owned())
}
