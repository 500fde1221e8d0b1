//! What producers, HTTP clients and API clients do to the world.

use streaming_hub::engine::{Arrival, CommandId, Input, Ticket};
use streaming_hub::types::{ConfigChange, Duration, LaneName, RunId, TenantId};
use uuid::Uuid;

use crate::clients::{Asked, CommandNumber, Request, TRIES, Wish};
use crate::config::Config;
use crate::events::{EventPlan, source_of, tenant};
use crate::faults::Fault;
use crate::happening::{Happening, Life, Place};
use crate::log::Written;
use crate::scenario::{START, chance};
use crate::world::World;

impl World {
    /// A producer appends a burst of records.
    pub fn produce(&mut self) {
        for _ in 0..self.rng.u32(1..=self.scenario.burst_records) {
            self.produce_one();
        }
    }

    fn produce_one(&mut self) {
        let written = match self.rng.u32(0..20) {
            0 => Written::Nothing,
            1 => Written::Malformed,
            _ => Written::Event(self.draw_event(None)),
        };
        let partition = self.rng.u16(0..self.scenario.partitions);
        let offset = self.partitions[usize::from(partition)].append(written.clone(), &mut self.rng);
        self.say(format_args!("partition {partition} offset {offset}: {written:?}"));
        if let Some((life, lane)) = self.life(0).and_then(|life| Some((life, self.nodes[0].lane_of(partition)?.0))) {
            self.fetch_soon(life, lane);
        }
    }

    /// A new event, or one that was sent before.
    fn draw_event(&mut self, of: Option<&TenantId>) -> EventPlan {
        let earlier: Vec<EventPlan> =
            self.checks.plans.values().filter(|plan| of.is_none_or(|of| plan.tenant == *of)).cloned().collect();
        if !earlier.is_empty() && chance(&mut self.rng, self.scenario.duplicate_percent) {
            let repeated = earlier[self.rng.usize(0..earlier.len())].clone();
            let other = tenant(self.rng.usize(0..self.scenario.tenants));
            let plan = if of.is_none() && self.rng.bool() { repeated.for_tenant(other) } else { repeated };
            return self.known(plan);
        }
        let mut plan = EventPlan::draw(&mut self.rng, &self.scenario, self.now);
        if let Some(of) = of {
            plan.tenant = of.clone();
            plan.source_id = Some(source_of(of));
        }
        if self.scenario.quarrel && of.is_none() {
            plan.tenant = tenant(usize::from(chance(&mut self.rng, 15)));
        }
        plan.lethal = self.scenario.lethal && self.checks.plans.is_empty();
        self.known(plan)
    }

    /// The first plan for an id counts.
    fn known(&mut self, plan: EventPlan) -> EventPlan {
        self.checks.plans.entry((plan.tenant.clone(), plan.id)).or_insert(plan).clone()
    }

    /// A client sends its request, or sends it again.
    pub fn request(&mut self, number: u64) {
        if !self.clients.requests.contains_key(&number) {
            let of = tenant(self.rng.usize(0..self.scenario.tenants));
            let events = (0..self.rng.u32(1..=3)).map(|_| self.draw_event(Some(&of))).collect();
            self.clients.requests.insert(number, Request { events, tries: 0, open: None, acknowledged: false });
        }
        let Some(life) = self.life(0).filter(|_| !self.nodes[0].draining) else {
            return self.request_again(number);
        };
        let now = self.now;
        let Some(request) = self.clients.requests.get_mut(&number) else { return };
        request.open = Some(life);
        let lane = LaneName("http/0".into());
        let events: Vec<_> = request.events.iter().map(|plan| plan.event(now, lane.clone())).collect();
        let shard = self.owner(&events[0].tenant);
        self.say(format_args!("request {number}: {:?}", events.iter().map(|event| event.id).collect::<Vec<_>>()));
        let arrival = Arrival { events, ticket: Ticket::Request(number) };
        self.input(Place { life, shard }, Input::Arrival(arrival));
    }

    /// The client asks again later, unless it has given up.
    pub fn request_again(&mut self, number: u64) {
        let pause = Duration::from_millis(self.rng.u64(1..4_000));
        let Some(request) = self.clients.requests.get_mut(&number) else { return };
        request.open = None;
        request.tries += 1;
        if request.tries < TRIES {
            self.after(pause, Happening::Request(number));
        }
    }

    /// A client changes the configuration.
    pub fn reconfigure(&mut self) {
        let drawn = if chance(&mut self.rng, 10) { None } else { self.config.draw_change(&mut self.rng, self.now) };
        if let Some(change) = drawn {
            self.change(&change);
        }
    }

    /// A change is stored, and told to its shard within a second.
    pub fn change(&mut self, change: &ConfigChange) {
        self.say(format_args!("configuration: {}", describe(change)));
        self.take_configuration(change);
        let delay = Duration::from_micros(self.rng.u64(0..900_000));
        if let Some(life) = self.life(0) {
            let place = Place { life, shard: self.owner(change.tenant()) };
            let way = format!("configuration {} {}", life.generation, change.tenant());
            let deletes = matches!(change, ConfigChange::DeleteDestination(..) | ConfigChange::DeleteSubscription(..));
            if deletes && self.fault == Some(Fault::CancelledSends) {
                self.checks.applied.apply(change);
                return self.after(Duration::from_secs(60), Happening::Configured(place, change.clone()));
            }
            self.after_in_order(way, delay, Happening::Configured(place, change.clone()));
        }
    }

    /// A change is stored.
    pub fn take_configuration(&mut self, change: &ConfigChange) {
        if let ConfigChange::PutDestination(destination) = change {
            let end = START + self.scenario.span;
            self.receivers.add(destination.url.as_str(), &mut self.rng, self.now, end);
            if self.scenario.quarrel {
                self.receivers.set_hanging(destination.url.as_str(), destination.tenant == tenant(0));
            }
        }
        self.config.apply(change);
    }

    /// Enables and resumes whatever is held.
    pub fn enable_everything(&mut self) {
        let Config { subscriptions, paused, .. } = self.config.clone();
        for tenant in paused {
            self.change(&ConfigChange::ResumeTenant(tenant));
        }
        for mut subscription in subscriptions.into_values().filter(|subscription| !subscription.is_live()) {
            subscription.enabled = true;
            subscription.verification_state = streaming_hub::types::subscription::VerificationState::Active;
            subscription.version += 1;
            self.change(&ConfigChange::PutSubscription(Box::new(subscription)));
        }
    }

    /// A client sends its command, or sends it again.
    pub fn command(&mut self, number: CommandNumber) {
        if !self.clients.commands.contains_key(&number) {
            let Some(wish) = self.draw_wish() else { return };
            self.clients.commands.insert(number, Asked { wish, tries: 0, open: None, done: false });
        }
        let Some(life) = self.life(0).filter(|_| !self.nodes[0].draining) else {
            return self.command_again(number);
        };
        let Some(asked) = self.clients.commands.get_mut(&number) else { return };
        asked.open = Some(life);
        let wish = asked.wish.clone();
        self.say(format_args!("command {number}: {wish:?}"));
        let place = Place { life, shard: self.owner(wish.tenant()) };
        self.wished(&wish);
        self.input(place, Input::Command(CommandId(number), wish.command()));
    }

    fn wished(&mut self, wish: &Wish) {
        match wish {
            Wish::Retry { tenant, key, run } => {
                self.checks.allowed_runs.insert(*run);
                if let Some(job) = self.checks.jobs.get_mut(&(tenant.clone(), *key)) {
                    job.commanded = true;
                }
            }
            Wish::Reset(_, destination) | Wish::Clear(_, destination) => {
                self.checks.circuits.reset(*destination, self.now);
            }
        }
    }

    fn draw_wish(&mut self) -> Option<Wish> {
        if self.rng.bool() && !self.config.destinations.is_empty() {
            let (tenant, id) =
                self.config.destinations.keys().nth(self.rng.usize(0..self.config.destinations.len()))?;
            let (tenant, id) = (tenant.clone(), *id);
            return Some(if self.rng.bool() { Wish::Reset(tenant, id) } else { Wish::Clear(tenant, id) });
        }
        let jobs = self.checks.jobs.len();
        let (tenant, key) = self.checks.jobs.keys().nth(self.rng.usize(0..jobs.max(1)))?.clone();
        Some(Wish::Retry { tenant, key, run: RunId(Uuid::from_u128(self.rng.u128(..))) })
    }

    /// The client asks again later, unless it has given up.
    pub fn command_again(&mut self, number: CommandNumber) {
        let pause = Duration::from_millis(self.rng.u64(1..4_000));
        let Some(asked) = self.clients.commands.get_mut(&number) else { return };
        asked.open = None;
        asked.tries += 1;
        if asked.tries < TRIES {
            self.after(pause, Happening::Command(number));
        }
    }

    /// A process has ended: whoever waited for it asks again.
    pub fn disappoint_clients(&mut self, life: Life) {
        let requests: Vec<u64> =
            self.clients.requests.iter().filter(|(_, r)| r.open == Some(life)).map(|(number, _)| *number).collect();
        let commands: Vec<u64> =
            self.clients.commands.iter().filter(|(_, c)| c.open == Some(life)).map(|(number, _)| *number).collect();
        for number in requests {
            self.request_again(number);
        }
        for number in commands {
            self.command_again(number);
        }
    }
}

/// A change in a few words.
pub fn describe(change: &ConfigChange) -> String {
    match change {
        ConfigChange::PutDestination(d) => format!("put {} of {} version {}: {}", d.id, d.tenant, d.version, d.url),
        ConfigChange::PutSubscription(s) => {
            format!("put {} of {} version {} enabled {} {:?}", s.id, s.tenant, s.version, s.enabled, s.event_types)
        }
        ConfigChange::DeleteDestination(tenant, id) => format!("delete {id} of {tenant}"),
        ConfigChange::DeleteSubscription(tenant, id) => format!("delete {id} of {tenant}"),
        ConfigChange::PauseTenant(tenant) => format!("pause {tenant}"),
        ConfigChange::ResumeTenant(tenant) => format!("resume {tenant}"),
    }
}
