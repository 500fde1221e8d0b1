//! Writes down what the shards disabled by themselves: subscriptions of a destination that is gone or failing.

use std::rc::Rc;

use crate::runtime::sleep;
use crate::shard::{Disabled, Shards};
use crate::types::limits;

use super::service::Service;

/// Follows the shards until they have all ended. While the store takes nothing, it tries again and the shards'
/// requests wait.
pub async fn follow(api: Rc<Service>, shards: Shards) {
    while let Some(Disabled { tenant, subscriptions, reason }) = shards.next_disabled().await {
        while let Err(problem) = api.writer.disable(&tenant, &subscriptions, reason, api.now()).await {
            tracing::warn!(reason = %problem.detail, "disabled subscriptions could not be written down yet");
            sleep(limits::STORE_RETRY_MAX.to_std()).await;
        }
    }
}
