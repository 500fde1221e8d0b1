//! What the operator sets that the API goes by.

use ipnet::IpNet;

use crate::config::Config;
use crate::deliver::Guard;
use crate::types::destination::RateLimit;
use crate::types::{Duration, LaneName};

use super::auth::KeyHash;

/// The API's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long payloads are kept.
    pub payload_retention: Duration,
    /// `verification: none` is allowed.
    pub allow_unverified: bool,
    /// How long an `Idempotency-Key` is remembered.
    pub idempotency_ttl: Duration,
    /// How long a rotated-out secret keeps signing, unless the request says otherwise.
    pub secret_overlap: Duration,
    /// The outbound guard.
    pub guard: Guard,
    /// Subscriptions of one tenant.
    pub subscriptions_per_tenant: usize,
    /// Destinations of one tenant.
    pub destinations_per_tenant: usize,
    /// Sources of one tenant.
    pub sources_per_tenant: usize,
    /// Pulls of one tenant.
    pub pull: RateLimit,
    /// The admin key's hash; without one the operator's endpoints answer 401.
    pub admin_key: Option<KeyHash>,
    /// What `ce-type` begins with, without a dot at its end.
    pub type_prefix: String,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Slots of the deployment.
    pub slots: u16,
    /// This process' name in lists.
    pub node: String,
    /// The lane that HTTP events come by.
    pub ingest_lane: LaneName,
}

impl Settings {
    /// The settings that a checked configuration means, in a deployment with `slots` slots.
    #[must_use]
    pub fn of(config: &Config, slots: u16, node: String) -> Self {
        let (security, bounds) = (&config.security, &config.limits);
        let admin_key = security.admin_key.as_ref().and_then(|key| std::str::from_utf8(key.expose()).ok());
        Self {
            payload_retention: config.retention.payload,
            allow_unverified: security.allow_unverified,
            idempotency_ttl: config.retention.idempotency,
            secret_overlap: config.delivery.secret_overlap,
            guard: Guard::new(security.allow_private_sinks, security.egress_allow.clone()),
            subscriptions_per_tenant: bounds.subscriptions_per_tenant,
            destinations_per_tenant: bounds.destinations_per_tenant,
            sources_per_tenant: bounds.sources_per_tenant,
            pull: RateLimit { per_second: bounds.pull_rate, burst: bounds.pull_burst },
            admin_key: admin_key.map(KeyHash::of),
            type_prefix: config.type_prefix.clone(),
            trusted_proxies: config.http.trusted_proxies.clone(),
            slots,
            node,
            ingest_lane: LaneName("http/0".into()),
        }
    }
}
