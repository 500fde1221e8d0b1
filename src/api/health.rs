//! `/healthz`, `/readyz`, `/metrics`: for probes and scrapes, without a key.

use serde_json::json;

use crate::telemetry::metrics;

use super::answer::Answer;
use super::problem::Problem;
use super::service::{Phase, Service};

/// The process runs.
#[must_use]
pub fn health() -> Answer {
    Answer::json(200, &json!({"status": "ok"}))
}

/// The process takes work.
///
/// # Errors
/// 503 while it starts, drains, or its store takes nothing.
pub fn ready(api: &Service) -> Result<Answer, Problem> {
    let why_not = match api.phase() {
        Phase::Starting => Some("starting"),
        Phase::NotReady | Phase::Draining => Some("draining"),
        Phase::Serving if !api.store.intake_allowed() => Some("the store takes no events"),
        Phase::Serving => api.shards.closed(),
    };
    why_not.map_or_else(|| Ok(Answer::json(200, &json!({"status": "ready"}))), |why| Err(Problem::unavailable(why)))
}

/// The metrics of the whole process.
pub async fn metrics(api: &Service) -> Answer {
    Answer::bytes(200, metrics::CONTENT_TYPE, api.shards.metrics(api.store.counters()).await.into_bytes())
}
