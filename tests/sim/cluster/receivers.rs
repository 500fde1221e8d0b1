//! The receivers of a cluster's runs: their requests in flight, whoever sent them.

use streaming_hub::engine::JobToken;
use streaming_hub::types::{AttemptOutcome, Time};

use super::node::Place;

/// A request on its way, or answered.
pub struct Sent {
    pub place: Place,
    pub token: JobToken,
    pub url: String,
    pub deadline: Time,
    pub claim: streaming_hub::types::AttemptId,
    /// The process died before the request left.
    pub cut: bool,
    /// The receiver has answered.
    pub answered: bool,
    pub outcome: AttemptOutcome,
}
