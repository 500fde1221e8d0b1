//! What a tenant reads of a destination: everything but secrets and header values.

use serde::Serialize;
use serde_json::Value;

use crate::types::destination::{CircuitSettings, Method, On410, Ordering, OrderingKey, RateLimit, Verification};
use crate::types::{Destination, RetryPolicy};

use super::auth;

/// A destination as its tenant reads it.
#[derive(Debug, Serialize)]
pub struct DestinationView<'a> {
    id: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    url: &'a str,
    method: Method,
    headers: Vec<HeaderView<'a>>,
    on_410: On410,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    signature_kind: &'static str,
    timeout_ms: u32,
    max_in_flight: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit: Option<RateLimit>,
    retry: &'a RetryPolicy,
    ordering: Ordering,
    ordering_key: OrderingKey,
    circuit: CircuitSettings,
    verification: Verification,
    created_at: String,
    updated_at: String,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Debug, Serialize)]
struct HeaderView<'a> {
    name: &'a str,
}

impl<'a> DestinationView<'a> {
    /// The view without any secret.
    #[must_use]
    pub fn of(destination: &'a Destination) -> Self {
        Self {
            id: destination.id.to_string(),
            r#type: "http",
            name: destination.name.as_deref(),
            description: destination.description.as_deref(),
            url: destination.url.as_str(),
            method: destination.method,
            headers: destination.headers.iter().map(|header| HeaderView { name: &header.name }).collect(),
            on_410: destination.on_410,
            auth: auth::view(&destination.auth),
            secret: None,
            signature_kind: "hmac",
            timeout_ms: destination.timeout_ms,
            max_in_flight: destination.max_in_flight,
            rate_limit: destination.rate_limit,
            retry: &destination.retry,
            ordering: destination.ordering,
            ordering_key: destination.ordering_key,
            circuit: destination.circuit,
            verification: destination.verification,
            created_at: destination.created_at.to_rfc3339(),
            updated_at: destination.updated_at.to_rfc3339(),
            warnings: &[],
        }
    }

    /// The same with the newest signing secret: for the answer to its making only.
    #[must_use]
    pub fn with_secret(mut self, destination: &Destination) -> Self {
        self.secret = destination.secrets.first().map(|newest| newest.secret.to_whsec());
        self
    }

    /// The same with what the tenant should know.
    #[must_use]
    pub const fn with_warnings(mut self, warnings: &'a [String]) -> Self {
        self.warnings = warnings;
        self
    }
}
