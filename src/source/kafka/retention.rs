//! Whether ids are kept longer than the topics keep their records.
//!
//! A record that is read again after its id has gone is taken for a new one and delivered twice. So ids must outlive
//! every followed topic's `retention.ms` by a day.

use std::collections::BTreeMap;

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use super::context::{Context, Happening};
use super::refusal;
use super::settings::KafkaSettings;
use crate::source::topic::TopicKind;
use crate::types::{Duration, limits};

/// How long a topic keeps its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicRetention {
    /// So long, at least.
    For(Duration),
    /// For ever: `retention.ms` is -1, or nothing is deleted by time.
    Ever,
}

/// A topic whose records outlive the ids of their events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlivedTopic {
    /// Which.
    pub topic: String,
    /// How long it keeps its records.
    pub keeps: TopicRetention,
}

/// Why the topics' retention is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetentionUnknown {
    /// The brokers turn this hub away.
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

/// The followed topics and how long each keeps its records, asked of the brokers. Blocks for some seconds at most.
///
/// # Errors
/// [`RetentionUnknown`] when the brokers do not tell.
pub fn topic_retentions(settings: &KafkaSettings) -> Result<BTreeMap<String, TopicRetention>, RetentionUnknown> {
    let topics = followed(settings)?;
    if topics.is_empty() {
        return Ok(BTreeMap::new());
    }
    let no_answer = |error: &dyn std::fmt::Display| RetentionUnknown::NoAnswer(error.to_string());
    let admin: AdminClient<DefaultClientContext> = settings.connection().create().map_err(|error| no_answer(&error))?;
    let timeout = limits::KAFKA_REQUEST_TIMEOUT.to_std();
    let options = AdminOptions::new().request_timeout(Some(timeout)).operation_timeout(Some(timeout));
    let asked: Vec<ResourceSpecifier<'_>> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
    let answered = futures_lite::future::block_on(admin.describe_configs(&asked, &options));
    let answered = answered.map_err(|error| no_answer(&error))?;
    answered.into_iter().map(|resource| read(&resource.map_err(|error| no_answer(&error))?)).collect()
}

/// The topics that ids kept for `ids` do not outlive by a day.
#[must_use]
pub fn outlived(topics: &BTreeMap<String, TopicRetention>, ids: Duration) -> Vec<OutlivedTopic> {
    let is_outlived = |keeps: &TopicRetention| match keeps {
        TopicRetention::For(retention) => *retention + limits::IDS_OUTLIVE_TOPICS > ids,
        TopicRetention::Ever => true,
    };
    let outlived = topics.iter().filter(|(_, keeps)| is_outlived(keeps));
    outlived.map(|(topic, keeps)| OutlivedTopic { topic: topic.clone(), keeps: *keeps }).collect()
}

impl std::fmt::Display for OutlivedTopic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let topic = &self.topic;
        match self.keeps {
            TopicRetention::For(span) => {
                let hours = (span + limits::IDS_OUTLIVE_TOPICS).as_secs().div_ceil(3_600);
                write!(
                    f,
                    "topic {topic} keeps its records for {} s (retention.ms), and ids are gone before: set \
                     retention.event to {hours}h at least, or a record that is read again is delivered again",
                    span.as_secs()
                )
            }
            TopicRetention::Ever => write!(
                f,
                "topic {topic} keeps its records for ever (retention.ms, cleanup.policy), and no retention.event \
                 outlives that: a record that is read again after its id is gone is delivered again"
            ),
        }
    }
}

/// The topics followed for delivery.
fn followed(settings: &KafkaSettings) -> Result<Vec<String>, RetentionUnknown> {
    let made = settings.client_config("streaming-hub.look").create_with_context(Context::default());
    let client: BaseConsumer<Context> = made.map_err(|error| RetentionUnknown::NoAnswer(error.to_string()))?;
    let metadata = match client.fetch_metadata(None, limits::KAFKA_REQUEST_TIMEOUT.to_std()) {
        Ok(metadata) => metadata,
        Err(error) => return Err(why(&client, &error.to_string())),
    };
    let names = metadata.topics().iter().map(rdkafka::metadata::MetadataTopic::name);
    let events = names.filter(|name| matches!(settings.topics.kind(name), TopicKind::Events(_)));
    Ok(events.map(str::to_owned).collect())
}

/// What the client has said meanwhile explains better than a request that ran out of time.
fn why(client: &BaseConsumer<Context>, error: &str) -> RetentionUnknown {
    while client.poll(limits::KAFKA_TURN.to_std()).is_some() {}
    for happening in client.context().take() {
        if let Happening::Failed(code, words) = happening
            && let Some(settings) = refusal::settings_of(code)
        {
            return RetentionUnknown::Refused { settings, error: words };
        }
    }
    RetentionUnknown::NoAnswer(error.to_owned())
}

fn read(resource: &ConfigResource) -> Result<(String, TopicRetention), RetentionUnknown> {
    let OwnedResourceSpecifier::Topic(topic) = &resource.specifier else {
        return Err(RetentionUnknown::NoAnswer("the answer is about no topic".to_owned()));
    };
    let value = |name: &str| resource.get(name).and_then(|entry| entry.value.as_deref());
    let deletes = value("cleanup.policy").is_none_or(|policy| policy.contains("delete"));
    let retention = value("retention.ms").and_then(|text| text.parse::<i64>().ok());
    let missing = || RetentionUnknown::NoAnswer(format!("the brokers do not tell retention.ms of {topic}"));
    let keeps = match u64::try_from(retention.ok_or_else(missing)?) {
        Ok(millis) if deletes => TopicRetention::For(Duration::from_millis(millis)),
        Ok(_) | Err(_) => TopicRetention::Ever,
    };
    Ok((topic.clone(), keeps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(keeps: TopicRetention) -> BTreeMap<String, TopicRetention> {
        BTreeMap::from([("lerian.streaming.loans".to_owned(), keeps)])
    }

    #[test]
    fn ids_outlive_a_topic_by_a_day() {
        let week = TopicRetention::For(Duration::from_hours(168));
        assert!(outlived(&topics(week), Duration::from_hours(192)).is_empty());
        let found = outlived(&topics(week), Duration::from_hours(191));
        let text = found[0].to_string();
        for part in ["lerian.streaming.loans", "604800 s", "retention.ms", "retention.event", "192h"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(outlived(&topics(TopicRetention::Ever), Duration(u64::MAX)).len(), 1);
    }
}
