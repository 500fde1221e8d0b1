//! The slot topic: the hub's own, whose partitions are a cluster's slots and whose records are what came in.
//!
//! `migrate` makes it, `serve` looks whether it still is what it must be. It must keep every record until the hub itself
//! deletes it, have one partition for each slot, and take the largest record.

use std::collections::BTreeMap;
use std::fmt;

use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::MetadataTopic;

use super::inquiry::{self, Unanswered};
use super::settings::KafkaSettings;
use crate::types::limits;

/// Which topic it is.
#[derive(Clone, Copy, Debug)]
pub struct SlotTopic<'a> {
    /// As `kafka.slot_topic` has it.
    pub name: &'a str,
    /// How many partitions it must have.
    pub slots: u16,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicMade {
    /// It was there, and is what it must be.
    Found,
    /// It was made, with so many copies of each partition.
    Made(u16),
}

/// Why there is no slot topic for the hub.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// It is not there.
    #[error("kafka.slot_topic = {0:?}: must be a topic of the brokers: run `streaming-hub migrate`")]
    Absent(String),
    /// It is there and not what it must be.
    #[error("kafka.slot_topic = {topic:?}: the topic is not what it must be: {faults}")]
    Shape {
        /// As set.
        topic: String,
        /// What is, and what must be.
        faults: Faults,
    },
    /// The brokers do not make it.
    #[error(
        "kafka.slot_topic = {topic:?}, --topic-replication {replication}: the brokers do not make the topic: {error}"
    )]
    NotMade {
        /// As set.
        topic: String,
        /// As asked.
        replication: u16,
        /// The client's words.
        error: String,
    },
    /// The brokers do not tell.
    #[error("kafka.brokers: {0}")]
    Unanswered(#[from] Unanswered),
}

/// What is wrong with a topic, at least one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<String>);

/// A topic as the brokers have it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    partitions: usize,
    /// Of the partition with the fewest.
    copies: usize,
    settings: BTreeMap<String, String>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

/// Makes the topic with `replication` copies where there is none. Blocks for a minute at most.
///
/// # Errors
/// [`TopicError`]: one that is there is another, or the brokers do not do it.
pub fn make_slot_topic(
    settings: &KafkaSettings,
    topic: SlotTopic<'_>,
    replication: u16,
) -> Result<TopicMade, TopicError> {
    match check_slot_topic(settings, topic) {
        Ok(()) => Ok(TopicMade::Found),
        Err(TopicError::Absent(_)) => make(settings, topic, replication),
        Err(error @ (TopicError::Shape { .. } | TopicError::NotMade { .. } | TopicError::Unanswered(_))) => Err(error),
    }
}

/// Whether the topic is there and what it must be. Blocks for some seconds at most.
///
/// # Errors
/// [`TopicError`] names what is and what must be.
pub fn check_slot_topic(settings: &KafkaSettings, topic: SlotTopic<'_>) -> Result<(), TopicError> {
    let metadata = inquiry::metadata(settings)?;
    let known = metadata.topics().iter().find(|known| known.name() == topic.name);
    let known = known.ok_or_else(|| TopicError::Absent(topic.name.to_owned()))?;
    let shape = shape_of(settings, known)?;
    let faults = judge(&shape, topic.slots);
    if faults.is_empty() {
        return Ok(());
    }
    Err(TopicError::Shape { topic: topic.name.to_owned(), faults: Faults(faults) })
}

fn make(settings: &KafkaSettings, topic: SlotTopic<'_>, replication: u16) -> Result<TopicMade, TopicError> {
    let (record_max, in_sync) =
        (limits::SLOT_RECORD_MAX_BYTES.to_string(), in_sync_wanted(replication.into()).to_string());
    let new = NewTopic::new(topic.name, topic.slots.into(), TopicReplication::Fixed(replication.into()))
        .set("retention.ms", "-1")
        .set("retention.bytes", "-1")
        .set("cleanup.policy", "delete")
        .set("min.insync.replicas", &in_sync)
        .set("max.message.bytes", &record_max);
    let administrator = inquiry::administrator(settings)?;
    let options = inquiry::patience(limits::KAFKA_TOPIC_TIMEOUT);
    let made = futures_lite::future::block_on(administrator.create_topics([&new], &options));
    let not_made = |error: String| TopicError::NotMade { topic: topic.name.to_owned(), replication, error };
    match made.map_err(|error| not_made(error.to_string()))?.into_iter().next() {
        Some(Ok(_)) => listed(settings, topic).map(|()| TopicMade::Made(replication)),
        // Another `migrate` was faster.
        Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => listed(settings, topic).map(|()| TopicMade::Found),
        Some(Err((_, code))) => Err(not_made(code.to_string())),
        None => Err(not_made("they do not say what became of it".to_owned())),
    }
}

/// Waits until the brokers list a topic that there is, and looks at it: they know of it some time after their controller.
fn listed(settings: &KafkaSettings, topic: SlotTopic<'_>) -> Result<(), TopicError> {
    for _ in 0..limits::KAFKA_TOPIC_LOOKS {
        match check_slot_topic(settings, topic) {
            Err(TopicError::Absent(_)) => std::thread::sleep(limits::KAFKA_RETRY.to_std()),
            looked => return looked,
        }
    }
    check_slot_topic(settings, topic)
}

fn shape_of(settings: &KafkaSettings, topic: &MetadataTopic) -> Result<Shape, Unanswered> {
    let answered = inquiry::topic_settings(settings, &[topic.name()])?;
    let entries = answered.into_iter().flat_map(|resource| resource.entries);
    let copies = topic.partitions().iter().map(|partition| partition.replicas().len()).min();
    Ok(Shape {
        partitions: topic.partitions().len(),
        copies: copies.unwrap_or(0),
        settings: entries.filter_map(|entry| Some((entry.name, entry.value?))).collect(),
    })
}

/// A record is acknowledged by two brokers, where there is more than one copy.
const fn in_sync_wanted(copies: usize) -> usize {
    if copies > 1 { 2 } else { 1 }
}

/// What is wrong with a topic for `slots` slots.
fn judge(shape: &Shape, slots: u16) -> Vec<String> {
    let mut faults = Vec::new();
    if shape.partitions != usize::from(slots) {
        let found = shape.partitions;
        faults.push(format!("it has {found} partitions and must have {slots}, one for each slot of the deployment"));
    }
    let setting = |name: &str| shape.settings.get(name).map_or("not told", String::as_str);
    let reasons = [
        ("retention.ms", "-1", "only the hub deletes records"),
        ("retention.bytes", "-1", "only the hub deletes records"),
        ("cleanup.policy", "delete", "records of one tenant have one key"),
    ];
    for (name, wanted, reason) in reasons {
        let found = setting(name);
        if found != wanted {
            faults.push(format!("{name} is {found} and must be {wanted}: {reason}"));
        }
    }
    let least = [
        ("min.insync.replicas", in_sync_wanted(shape.copies), "what is acknowledged must survive a broker"),
        ("max.message.bytes", limits::SLOT_RECORD_MAX_BYTES, "the largest event must fit"),
    ];
    for (name, wanted, reason) in least {
        let found = setting(name);
        if found.parse::<usize>().is_ok_and(|found| found >= wanted) {
            continue;
        }
        faults.push(format!("{name} is {found} and must be at least {wanted}: {reason}"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(copies: usize, changed: &[(&str, &str)]) -> Shape {
        let record_max = limits::SLOT_RECORD_MAX_BYTES.to_string();
        let good = [
            ("retention.ms", "-1"),
            ("retention.bytes", "-1"),
            ("cleanup.policy", "delete"),
            ("min.insync.replicas", "2"),
            ("max.message.bytes", record_max.as_str()),
        ];
        let settings = good.iter().chain(changed).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Shape { partitions: 256, copies, settings: settings.collect() }
    }

    #[test]
    fn a_topic_is_what_the_hub_makes_or_safer() {
        assert!(judge(&shape(3, &[]), 256).is_empty());
        assert!(judge(&shape(1, &[("min.insync.replicas", "1")]), 256).is_empty(), "one copy can't have two in sync");
        assert!(judge(&shape(5, &[("min.insync.replicas", "3"), ("max.message.bytes", "99999999")]), 256).is_empty());
    }

    #[test]
    fn every_fault_is_told_with_what_is_and_what_must_be() {
        let bad = [
            ("retention.ms", "604800000"),
            ("retention.bytes", "1"),
            ("cleanup.policy", "compact"),
            ("min.insync.replicas", "1"),
            ("max.message.bytes", "1048588"),
        ];
        let faults = judge(&shape(3, &bad), 64);
        assert_eq!(faults.len(), 6);
        assert!(faults[0].contains("256 partitions and must have 64"), "{}", faults[0]);
        for ((name, value), fault) in bad.iter().zip(&faults[1..]) {
            assert!(fault.starts_with(&format!("{name} is {value} and must be ")), "{fault}");
        }
        let untold = judge(&Shape { settings: BTreeMap::new(), ..shape(3, &[]) }, 256);
        assert_eq!(untold.len(), 5);
        assert!(untold[0].contains("retention.ms is not told"), "{}", untold[0]);
    }
}
