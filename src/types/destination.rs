//! A destination: where deliveries go, its secret, limits and circuit settings.

use serde::{Deserialize, Serialize};
use url::Url;

use super::ids::{DestinationId, TenantId};
use super::limits;
use super::retry::RetryPolicy;
use super::secret::Secret;
use super::time::{Duration, Time};

/// A checked destination of type `http`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// `dst_…`.
    pub id: DestinationId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Free text, at most 256 bytes.
    pub name: Option<String>,
    /// Free text, at most 1024 bytes.
    pub description: Option<String>,
    /// http or https, no userinfo, at most 2 048 bytes.
    pub url: Url,
    /// The request's method.
    pub method: Method,
    /// Static headers: names in lower case and unique, values checked.
    pub headers: Vec<StaticHeader>,
    /// What a 410 does.
    pub on_410: On410,
    /// Credentials sent along.
    pub auth: Auth,
    /// Signing secrets, newest first; all but the first expire.
    pub secrets: Vec<SigningSecret>,
    /// One deadline for DNS, connect, TLS, write, headers and body: 1 000 to 60 000 ms.
    pub timeout_ms: u32,
    /// At most so many attempts at once: 1 to 1 024.
    pub max_in_flight: u32,
    /// Tokens a second and burst, if limited.
    pub rate_limit: Option<RateLimit>,
    /// The retry schedule.
    pub retry: RetryPolicy,
    /// Order of its subscriptions' jobs.
    pub ordering: Ordering,
    /// Order is kept per subscription or per subject.
    pub ordering_key: OrderingKey,
    /// Circuit breaker settings.
    pub circuit: CircuitSettings,
    /// How subscriptions to it are verified.
    pub verification: Verification,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// Counts changes, from 1: the `ETag`, and what connections and caches are kept under.
    pub version: u64,
}

impl Destination {
    /// The deadline of one attempt.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms as u64)
    }

    /// The secrets that sign at `now`, newest first.
    pub fn signing_secrets(&self, now: Time) -> impl Iterator<Item = &Secret> {
        self.secrets.iter().filter(move |secret| secret.expires_at.is_none_or(|end| now < end)).map(|s| &s.secret)
    }
}

/// The methods a delivery may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// POST, the default.
    #[default]
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
}

/// One static header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticHeader {
    /// Lower case.
    pub name: String,
    /// Never read back through the API.
    pub value: Secret,
}

/// What the answer 410 Gone does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On410 {
    /// Ends the job as `gone` and disables the subscription.
    #[default]
    Disable,
    /// A failure like any other.
    Retry,
}

/// Credentials sent with each attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Auth {
    /// None.
    #[default]
    None,
    /// `Authorization: Bearer <token>`.
    Bearer {
        /// The token.
        token: Secret,
    },
    /// `Authorization: Basic <base64>`.
    Basic {
        /// The user name, without a colon.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A header of the tenant's choice.
    ApiKey {
        /// The header's name, lower case.
        header: String,
        /// The key.
        value: Secret,
    },
}

/// A signing secret and, once rotated out, its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningSecret {
    /// The decoded key.
    pub secret: Secret,
    /// Until when it signs beside its successor.
    pub expires_at: Option<Time>,
}

/// A token bucket's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Tokens a second, 1 to 100 000.
    pub per_second: u32,
    /// The bucket's size, 1 to 100 000.
    pub burst: u32,
}

/// In which order the jobs of a subscription start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ordering {
    /// One attempt at a time, first attempts in arrival order; a failed job steps aside to its retry.
    #[default]
    Fifo,
    /// No later job starts before the earlier has ended.
    Strict,
    /// Up to `max_in_flight` at once.
    Parallel,
}

/// Within what the order holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderingKey {
    /// The whole subscription.
    #[default]
    Subscription,
    /// Each `ce-subject` of the subscription by itself.
    Subject,
}

/// Circuit breaker settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CircuitSettings {
    /// Off: failures never open it.
    pub enabled: bool,
    /// Consecutive failures that open it, 1 to 100.
    pub threshold: u32,
    /// How long it stays open at first, 1 000 to 3 600 000 ms.
    pub cooldown_ms: u32,
}

impl Default for CircuitSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold: limits::CIRCUIT_THRESHOLD_DEFAULT,
            cooldown_ms: limits::CIRCUIT_COOLDOWN_DEFAULT_MS,
        }
    }
}

/// How a subscription to a destination is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verification {
    /// A signed POST whose challenge must come back.
    #[default]
    Challenge,
    /// Not at all; only where the operator allows it.
    None,
}
