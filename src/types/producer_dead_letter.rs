//! A producer's own dead letter, read from its `.dlq` topic for observation only. It never becomes a delivery.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::time::Time;

/// What a record of a producer's `.dlq` topic says. Serialised it is the API's shape (contracts: "Shapes").
///
/// Texts are what the producer wrote, cut to their bounds and made UTF-8; nothing of it is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerDeadLetter {
    /// The `.dlq` topic.
    pub topic: Box<str>,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: u64,
    /// When the hub read it; serialised in milliseconds, the time that `from` and `to` of the list are about.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub received_at: Time,
    /// `ce-tenantid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Box<str>>,
    /// `ce-id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<Box<str>>,
    /// `x-lerian-dlq-source-topic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_topic: Option<Box<str>>,
    /// `x-lerian-dlq-source-partition`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_partition: Option<i32>,
    /// `x-lerian-dlq-source-offset`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_offset: Option<i64>,
    /// `x-lerian-dlq-error-class`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<Box<str>>,
    /// `x-lerian-dlq-error-message`, at most 4096 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<Box<str>>,
    /// `x-lerian-dlq-cause-kind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause_kind: Option<Box<str>>,
    /// `x-lerian-dlq-retry-count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<u64>,
    /// `x-lerian-dlq-first-failure-at`, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure_at: Option<Box<str>>,
    /// `x-lerian-dlq-producer-id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer_id: Option<Box<str>>,
    /// `x-lerian-dlq-payload-omitted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_omitted: Option<bool>,
    /// `x-lerian-dlq-payload-bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u64>,
}

fn write_time<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
    Time::parse_rfc3339(&text).ok_or_else(|| serde::de::Error::custom("must be an RFC 3339 time"))
}
