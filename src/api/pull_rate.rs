//! How often a tenant may pull events: a token bucket for each, bounded in number.

use std::collections::BTreeMap;

use crate::engine::rate::TokenBucket;
use crate::types::destination::RateLimit;
use crate::types::{TenantId, Time, limits};

use super::problem::Problem;

/// The buckets of all tenants that pull.
#[derive(Debug)]
pub struct PullRate {
    limit: RateLimit,
    buckets: BTreeMap<TenantId, TokenBucket>,
}

impl PullRate {
    /// No tenant has pulled yet.
    #[must_use]
    pub const fn new(limit: RateLimit) -> Self {
        Self { limit, buckets: BTreeMap::new() }
    }

    /// Forgets a tenant.
    pub fn forget(&mut self, tenant: &TenantId) {
        self.buckets.remove(tenant);
    }

    /// Takes a token of the tenant's.
    ///
    /// # Errors
    /// 429 `rate_limited` with `Retry-After` when there is none.
    pub fn take(&mut self, tenant: &TenantId, now: Time) -> Result<(), Problem> {
        if self.buckets.len() >= limits::PULL_TENANTS_MAX && !self.buckets.contains_key(tenant) {
            self.buckets.clear();
        }
        let bucket = self.buckets.entry(tenant.clone()).or_insert_with(|| TokenBucket::new(self.limit, now));
        if bucket.take(now) {
            return Ok(());
        }
        let wait_s = bucket.ready_at(now).since(now).as_secs() + 1;
        let retry_after_s = Some(u32::try_from(wait_s).unwrap_or(u32::MAX));
        let rule = format!("at most {} pulls a second, {} in a burst", self.limit.per_second, self.limit.burst);
        Err(Problem { retry_after_s, ..Problem::new(429, "rate_limited", rule) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Duration;

    #[test]
    fn each_tenant_has_its_burst_and_its_rate() {
        let limit = RateLimit { per_second: limits::PULL_PER_SECOND, burst: limits::PULL_BURST };
        let (mut rate, now) = (PullRate::new(limit), Time::from_millis(1_000));
        let [acme, other] = ["acme", "other"].map(|name| TenantId::new(name).expect("a tenant"));
        for _ in 0..limits::PULL_BURST {
            assert_eq!(rate.take(&acme, now), Ok(()));
        }
        let refused = rate.take(&acme, now).expect_err("the burst is used up");
        assert_eq!((refused.status, refused.retry_after_s), (429, Some(1)));
        assert_eq!(rate.take(&other, now), Ok(()));
        assert_eq!(rate.take(&acme, now + Duration::from_millis(10)), Ok(()));
        assert!(rate.take(&acme, now + Duration::from_millis(10)).is_err());
    }
}
