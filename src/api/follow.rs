//! Follows what other nodes of a cluster change in the configuration, so that it is in force here within a second.

use std::rc::Rc;

use crate::runtime::sleep;
use crate::types::limits;

use super::erasure;
use super::service::Service;

/// Follows for as long as the API runs; ends at once where nobody else writes. While the store does not answer,
/// the configuration stands as it was.
pub async fn follow(api: Rc<Service>) {
    let mut is_told = false;
    while api.writer.is_shared() {
        match api.writer.follow().await {
            Ok(()) => {
                is_told = false;
                erasure::resume(&api);
            }
            Err(error) if !is_told => {
                tracing::warn!(%error, "changes of the configuration can't be followed; it stands as it was");
                is_told = true;
            }
            Err(_) => {}
        }
        sleep(limits::CONFIG_FOLLOW.to_std()).await;
    }
}
