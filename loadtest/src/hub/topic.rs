//! The topic that events go through.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use streaming_hub::runtime::{Clock, sleep};

use super::api::Api;
use super::process::Hub;
use crate::failure::Failure;

/// Of a topic of events: enough for every shard to have some.
pub const PARTITIONS: i32 = 8;
const BROKER_PATIENCE: Duration = Duration::from_secs(10);
const JOIN_PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Makes a topic.
///
/// # Errors
/// When there is no broker, or it does not make it.
pub async fn create(brokers: &str, topic: &str) -> Result<(), Failure> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    admin.inner().fetch_metadata(None, BROKER_PATIENCE)?;
    let topic = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
    let made = admin.create_topics([&topic], &AdminOptions::new()).await?;
    let refused = made.into_iter().find_map(Result::err);
    refused.map_or(Ok(()), |(_, code)| Err(KafkaError::AdminOp(code).into()))
}

/// Deletes a topic.
///
/// # Errors
/// When there is no broker, or it does not do it.
pub async fn delete(brokers: &str, topic: &str) -> Result<(), Failure> {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new().set("bootstrap.servers", brokers).create()?;
    let deleted = admin.delete_topics(&[topic], &AdminOptions::new()).await?;
    let refused = deleted.into_iter().find_map(Result::err);
    refused.map_or(Ok(()), |(_, code)| Err(KafkaError::AdminOp(code).into()))
}

/// Waits until the hubs together follow all `partitions` of the topic.
///
/// # Errors
/// When they do not, or do not answer.
pub async fn wait_until_followed(hubs: &[Hub], topic: &str, partitions: i32, clock: Clock) -> Result<(), Failure> {
    let begun = clock.now();
    loop {
        let mut count = 0;
        for hub in hubs {
            let lanes = Api::new(hub.address).read("/admin/lanes", &hub.admin_key).await?;
            let of_topic = |lane: &&serde_json::Value| lane["lane"].as_str().is_some_and(|lane| lane.contains(topic));
            count += lanes["items"].as_array().map_or(0, |items| items.iter().filter(of_topic).count());
        }
        if i32::try_from(count).is_ok_and(|count| count >= partitions) {
            return Ok(());
        }
        if clock.now().since(begun).to_std() > JOIN_PATIENCE {
            return Err(Failure::Late { what: format!("lanes of {topic}"), seconds: JOIN_PATIENCE.as_secs() });
        }
        sleep(POLL).await;
    }
}
