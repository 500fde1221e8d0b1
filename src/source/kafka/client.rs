//! Opening and closing of the client, each bounded.
//!
//! Dropping the last handle on a client leaves the group and may wait for the brokers. That must never happen on a
//! shard's thread, nor hold up a shutdown: a thread of its own waits until the readers are gone and then drops it.

use std::sync::Arc;

use rdkafka::consumer::{BaseConsumer, Consumer, RebalanceProtocol};
use rdkafka::error::KafkaError;

use super::context::Context;
use super::settings::KafkaSettings;
use crate::types::{Duration, limits};

/// A client, shared with the readers of its partitions.
pub(super) type Client = Arc<BaseConsumer<Context>>;

/// A client that has subscribed to the topics of `pattern`.
pub(super) fn open(settings: &KafkaSettings, pattern: &str, client_id: &str) -> Result<Client, KafkaError> {
    let config = settings.client_config(client_id);
    let client: BaseConsumer<Context> = config.create_with_context(Context::default())?;
    client.subscribe(&[pattern])?;
    Ok(Arc::new(client))
}

/// Closes a client and waits for it, at most `limit`; whether it was closed by then.
pub(super) fn close(client: Client, limit: Duration) -> bool {
    abandon(client).is_some_and(|closed| closed.recv_timeout(limit.to_std()).is_ok())
}

/// Gives back whatever is assigned. A cooperative group takes only the incremental call for it.
fn unassign_all(client: &Client) -> Result<(), KafkaError> {
    match client.rebalance_protocol() {
        RebalanceProtocol::Cooperative => client.incremental_unassign(&client.assignment()?),
        RebalanceProtocol::None | RebalanceProtocol::Eager => client.unassign(),
    }
}

/// Closes a client once its readers are gone; the receiver is told. A rebalance not answered yet is answered here,
/// without which the client would wait for it for ever.
pub(super) fn abandon(client: Client) -> Option<flume::Receiver<()>> {
    client.context().close();
    if let Err(error) = unassign_all(&client) {
        tracing::info!(%error, "kafka unassign before closing");
    }
    let (done, closed) = flume::bounded(1);
    let wait_and_drop = move || {
        while Arc::strong_count(&client) > 1 {
            std::thread::sleep(limits::KAFKA_TURN.to_std());
        }
        drop(client);
        let _nobody_may_wait = done.send(());
    };
    match std::thread::Builder::new().name("kafka-close".to_owned()).spawn(wait_and_drop) {
        Ok(_) => Some(closed),
        Err(error) => {
            tracing::warn!(%error, "no thread to close the kafka client");
            None
        }
    }
}
