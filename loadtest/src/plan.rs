//! Who takes part: tenants, destinations, and routes, each a subscription with event keys of its own. Pure.

use serde_json::{Value, json};

/// How a receiver treats a group of destinations, and what is told of it apart from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Ordinary ones, of which figures are judged.
    Healthy,
    /// Those that may answer slowly.
    Slow,
    /// Those that may not answer at all.
    Silent,
    /// That of the tenant that sends more than others.
    Hot,
}

impl Group {
    /// Every group, in order.
    pub const ALL: [Self; 4] = [Self::Healthy, Self::Slow, Self::Silent, Self::Hot];

    /// As reports name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Slow => "slow",
            Self::Silent => "silent",
            Self::Hot => "hot",
        }
    }

    /// Its place in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A destination and what it is made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// Whose it is.
    pub tenant: usize,
    /// How receivers treat it.
    pub group: Group,
    /// Members of the API's object beside URL, secret and verification.
    pub settings: Value,
}

/// A subscription to one event key of its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination it ends at, by number.
    pub destination: u32,
}

/// In which order routes take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// One after the other.
    Even,
    /// Every second event is of route 0, the others take turns.
    HalfToTheFirst,
}

impl Spread {
    /// The route of the event of that number.
    #[must_use]
    pub const fn route(self, event: u64, routes: u64) -> u64 {
        match self {
            Self::HalfToTheFirst if routes > 1 => {
                if event.is_multiple_of(2) {
                    0
                } else {
                    1 + (event / 2) % (routes - 1)
                }
            }
            Self::Even | Self::HalfToTheFirst => event % routes,
        }
    }
}

/// Whether the hub promises an order within a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First in, first out.
    Kept,
    /// None.
    Free,
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How many tenants.
    pub tenants: usize,
    /// Every destination.
    pub destinations: Vec<Destination>,
    /// Every route.
    pub routes: Vec<Route>,
    /// What is promised.
    pub order: Order,
}

impl Plan {
    /// One tenant with one destination, many attempts at once.
    #[must_use]
    pub fn one_parallel() -> Self {
        let settings = json!({"ordering": "parallel", "max_in_flight": 256});
        Self {
            tenants: 1,
            destinations: vec![Destination { tenant: 0, group: Group::Healthy, settings }],
            routes: vec![Route { destination: 0 }],
            order: Order::Free,
        }
    }

    /// So many tenants with so many `fifo` destinations each.
    #[must_use]
    pub fn fifo(tenants: usize, per_tenant: usize) -> Self {
        Self::each(tenants, per_tenant, |_| Group::Healthy, &json!({"ordering": "fifo"}), Order::Kept)
    }

    /// So many tenants with one `fifo` destination each, to which each has so many subscriptions.
    #[must_use]
    pub fn shared(tenants: usize, subscriptions: usize) -> Self {
        let destination = |number: usize| u32::try_from(number % tenants).expect("plans are small");
        let routes = (0..tenants * subscriptions).map(|number| Route { destination: destination(number) }).collect();
        Self { routes, ..Self::fifo(tenants, 1) }
    }

    /// Destinations in turn over the tenants, with a route each; `group` says of which group a number is.
    #[must_use]
    pub fn each(
        tenants: usize,
        per_tenant: usize,
        group: impl Fn(usize) -> Group,
        settings: &Value,
        order: Order,
    ) -> Self {
        let count = tenants * per_tenant;
        let destination =
            |number: usize| Destination { tenant: number % tenants, group: group(number), settings: settings.clone() };
        let route = |number: usize| Route { destination: u32::try_from(number).expect("plans are small") };
        Self {
            tenants,
            destinations: (0..count).map(destination).collect(),
            routes: (0..count).map(route).collect(),
            order,
        }
    }

    /// The destination of a route.
    #[must_use]
    pub fn destination_of(&self, route: u32) -> &Destination {
        &self.destinations[self.routes[route as usize].destination as usize]
    }

    /// Whose route it is.
    #[must_use]
    pub fn tenant_of(&self, route: u32) -> usize {
        self.destination_of(route).tenant
    }
}

/// The `ce-resourcetype` of every event here.
pub const RESOURCE: &str = "load";

/// The `ce-eventtype` of a route's events.
#[must_use]
pub fn event_name(route: u32) -> String {
    format!("kind-{route}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_take_turns() {
        let even: Vec<u64> = (0..5).map(|event| Spread::Even.route(event, 3)).collect();
        assert_eq!(even, [0, 1, 2, 0, 1]);
        let half: Vec<u64> = (0..6).map(|event| Spread::HalfToTheFirst.route(event, 3)).collect();
        assert_eq!(half, [0, 1, 0, 2, 0, 1]);
        assert_eq!(Spread::HalfToTheFirst.route(7, 1), 0);
    }

    #[test]
    fn destinations_are_spread_over_tenants() {
        let plan = Plan::fifo(20, 10);
        assert_eq!((plan.destinations.len(), plan.routes.len()), (200, 200));
        assert_eq!((plan.tenant_of(0), plan.tenant_of(21), plan.tenant_of(199)), (0, 1, 19));
    }

    #[test]
    fn subscriptions_share_their_tenants_destination() {
        let plan = Plan::shared(3, 2);
        assert_eq!((plan.destinations.len(), plan.routes.len()), (3, 6));
        assert_eq!((plan.tenant_of(1), plan.tenant_of(4)), (1, 1));
    }

    #[test]
    fn groups_stand_at_their_index() {
        assert!(Group::ALL.iter().enumerate().all(|(index, group)| group.index() == index));
    }
}
