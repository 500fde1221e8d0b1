//! Rate limits, counted independently.

use std::collections::BTreeMap;

use streaming_hub::types::destination::RateLimit;
use streaming_hub::types::{DestinationId, Time};

/// A token's worth of the integer bucket.
const TOKEN: u64 = 1_000_000;

/// A bucket per destination, full at the beginning of a life.
#[derive(Default)]
pub struct Rates {
    buckets: BTreeMap<DestinationId, (u64, Time)>,
}

impl Rates {
    /// Takes a token at `at`; false when there is none.
    pub fn take(&mut self, destination: DestinationId, limit: RateLimit, at: Time) -> bool {
        let full = u64::from(limit.burst) * TOKEN;
        let (tokens, since) = self.buckets.entry(destination).or_insert((full, at));
        *tokens = full.min(*tokens + at.since(*since).0 * u64::from(limit.per_second));
        *since = at.max(*since);
        // One microsecond of rounding is forgiven.
        let price = TOKEN - u64::from(limit.per_second);
        let affordable = *tokens >= price;
        *tokens = tokens.saturating_sub(TOKEN);
        affordable
    }
}
