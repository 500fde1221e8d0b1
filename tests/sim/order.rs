//! What is in flight, and the order of first attempts.

use std::collections::BTreeMap;

use streaming_hub::engine::JobToken;
use streaming_hub::types::destination::{Destination, Ordering, OrderingKey};
use streaming_hub::types::{
    ClaimRecord, ConfigChange, DestinationId, Sequence, ShardId, Subscription, SubscriptionId, Time,
};

use crate::checks::JobPlace;
use crate::config::{Config, SubscriptionPlace};

/// One attempt in flight.
#[derive(Clone, Debug)]
pub struct Flight {
    pub job: JobPlace,
    pub subscription: SubscriptionId,
    pub destination: DestinationId,
    /// Within what the order holds.
    pub lane: String,
    pub claim: ClaimRecord,
}

/// Attempts in flight and attempts begun.
#[derive(Default)]
pub struct Order {
    pub flights: BTreeMap<(ShardId, JobToken), Flight>,
    /// The latest event whose first attempt began.
    firsts: BTreeMap<(SubscriptionId, String), Sequence>,
    /// Since when a shard knows that it must hold a subscription's jobs.
    held_since: BTreeMap<SubscriptionPlace, Time>,
}

/// The order in force for a subscription.
pub fn ordering(subscription: &Subscription, destination: &Destination) -> Ordering {
    subscription.ordering.unwrap_or(destination.ordering)
}

/// Which of the subscription's orders an event with `subject` is in.
pub fn order_lane(subscription: &Subscription, destination: &Destination, subject: &str) -> String {
    match subscription.ordering_key.unwrap_or(destination.ordering_key) {
        OrderingKey::Subscription => String::new(),
        OrderingKey::Subject => subject.to_owned(),
    }
}

impl Order {
    /// Nothing is in flight any more, as far as the new life knows.
    pub fn begin_life(&mut self) {
        self.flights.clear();
        self.held_since.clear();
    }

    /// A shard has been told of a change.
    pub fn configured(&mut self, change: &ConfigChange, applied: &Config, now: Time) {
        let of_tenant = applied.subscriptions.keys().filter(|place| place.0 == *change.tenant());
        for place in of_tenant {
            if applied.lets_through(place) {
                self.held_since.remove(place);
            } else {
                self.held_since.entry(place.clone()).or_insert(now);
            }
        }
    }

    /// Since when the subscription's jobs are held, if they are.
    pub fn held_since(&self, place: &SubscriptionPlace) -> Option<Time> {
        self.held_since.get(place).copied()
    }

    /// How many attempts to this destination are in flight.
    pub fn to_destination(&self, id: DestinationId) -> usize {
        self.flights.values().filter(|flight| flight.destination == id).count()
    }

    /// How many attempts of this order are in flight.
    pub fn in_lane(&self, subscription: SubscriptionId, lane: &str) -> usize {
        self.flights.values().filter(|flight| flight.subscription == subscription && flight.lane == lane).count()
    }

    /// A first attempt begins; false when a later event's has begun before.
    pub fn begin_first(&mut self, subscription: SubscriptionId, lane: &str, sequence: Sequence) -> bool {
        let latest = self.firsts.entry((subscription, lane.to_owned())).or_default();
        let in_order = sequence > *latest;
        *latest = sequence.max(*latest);
        in_order
    }
}
