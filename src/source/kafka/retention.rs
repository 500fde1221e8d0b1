//! Whether ids are kept longer than the topics keep their records.
//!
//! A record that is read again after its id has gone is taken for a new one and delivered twice. So ids must outlive
//! every followed topic's `retention.ms` by a day.

use std::collections::BTreeMap;

use rdkafka::admin::{ConfigResource, OwnedResourceSpecifier};

use super::inquiry::{self, Unanswered};
use super::settings::KafkaSettings;
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

/// The followed topics and how long each keeps its records, asked of the brokers. Blocks for some seconds at most.
///
/// # Errors
/// [`Unanswered`] when the brokers do not tell.
pub fn topic_retentions(settings: &KafkaSettings) -> Result<BTreeMap<String, TopicRetention>, Unanswered> {
    let topics = followed(settings)?;
    let asked: Vec<&str> = topics.iter().map(String::as_str).collect();
    inquiry::topic_settings(settings, &asked)?.iter().map(read).collect()
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
fn followed(settings: &KafkaSettings) -> Result<Vec<String>, Unanswered> {
    let metadata = inquiry::metadata(settings)?;
    let names = metadata.topics().iter().map(rdkafka::metadata::MetadataTopic::name);
    let events = names.filter(|name| settings.followed.includes(name));
    Ok(events.map(str::to_owned).collect())
}

fn read(resource: &ConfigResource) -> Result<(String, TopicRetention), Unanswered> {
    let OwnedResourceSpecifier::Topic(topic) = &resource.specifier else {
        return Err(Unanswered::NoAnswer("the answer is about no topic".to_owned()));
    };
    let value = |name: &str| resource.get(name).and_then(|entry| entry.value.as_deref());
    let deletes = value("cleanup.policy").is_none_or(|policy| policy.contains("delete"));
    let retention = value("retention.ms").and_then(|text| text.parse::<i64>().ok());
    let missing = || Unanswered::NoAnswer(format!("the brokers do not tell retention.ms of {topic}"));
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
