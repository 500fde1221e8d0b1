//! Setting the stage over the hub's API: keys, sources, receivers, destinations, subscriptions.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::Client;
use super::plan::{EVENT_KEY_HEADER, ROLES, Role, TENANTS, Takes, Tenant};
use super::receiver::Receiver;
use crate::runtime::Clock;
use crate::types::{Secret, Time};

/// How long the hub may take until it is ready, and a subscription until it is verified.
const PATIENCE: crate::types::Duration = crate::types::Duration::from_secs(8);
/// Between two looks at the same thing.
const PAUSE: Duration = Duration::from_millis(50);

/// Everything in its place.
pub struct Stage {
    /// The hub's address.
    pub address: SocketAddr,
    /// The tenants with their keys.
    pub members: Vec<Member>,
    /// The receivers with their subscriptions.
    pub actors: Vec<Actor>,
}

/// A tenant that has a key and a source.
#[derive(Clone, Debug)]
pub struct Member {
    /// The tenant.
    pub tenant: &'static Tenant,
    /// Its API key.
    pub key: String,
    /// The path of its source.
    pub ingest: String,
}

/// A receiver that has a destination and a subscription.
pub struct Actor {
    /// Its part.
    pub role: &'static Role,
    /// The server.
    pub receiver: Receiver,
    /// Its destination's id.
    pub destination: String,
    /// Its subscription's id.
    pub subscription: String,
    /// What its deliveries are signed with.
    pub secret: Secret,
}

impl Stage {
    /// Makes everything.
    ///
    /// # Errors
    /// One line that says what the hub refused.
    pub fn set(address: SocketAddr, admin_key: &str, clock: Clock) -> Result<Self, String> {
        let mut operator = Client::new(address, Some(admin_key.to_owned()));
        let deadline = clock.now() + PATIENCE;
        wait("the hub to be ready", clock, deadline, || Ok(operator.read("/readyz").is_ok()))?;
        let members: Vec<Member> =
            TENANTS.iter().map(|tenant| member(address, &mut operator, tenant)).collect::<Result<_, _>>()?;
        let mut stage = Self { address, members, actors: Vec::new() };
        for role in &ROLES {
            let actor = actor(&mut stage.client(role.tenant), role)?;
            stage.actors.push(actor);
        }
        stage.await_consent(clock, deadline)?;
        Ok(stage)
    }

    /// The tenant of that name.
    ///
    /// # Panics
    /// When the plan has none: names are the plan's own.
    #[must_use]
    pub fn member(&self, tenant: &str) -> &Member {
        self.members.iter().find(|member| member.tenant.name == tenant).expect("the plan's own names")
    }

    /// The receiver of that name.
    ///
    /// # Panics
    /// When the plan has none: names are the plan's own.
    #[must_use]
    pub fn actor(&self, name: &str) -> &Actor {
        self.actors.iter().find(|actor| actor.role.name == name).expect("the plan's own names")
    }

    /// A client with the key of that tenant.
    #[must_use]
    pub fn client(&self, tenant: &str) -> Client {
        Client::new(self.address, Some(self.member(tenant).key.clone()))
    }

    /// Waits until every receiver that must be asked has consented.
    fn await_consent(&self, clock: Clock, deadline: Time) -> Result<(), String> {
        for actor in &self.actors {
            let mut client = self.client(actor.role.tenant);
            let path = format!("/v1/subscriptions/{}", actor.subscription);
            wait("a subscription to be verified", clock, deadline, || {
                Ok(client.read(&path)?["verification_state"] == "active")
            })?;
        }
        Ok(())
    }
}

fn wait(
    what: &str,
    clock: Clock,
    deadline: Time,
    mut done: impl FnMut() -> Result<bool, String>,
) -> Result<(), String> {
    while !done()? {
        if clock.now() >= deadline {
            return Err(format!("waited {} s in vain for {what}", PATIENCE.as_secs()));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn member(address: SocketAddr, operator: &mut Client, tenant: &'static Tenant) -> Result<Member, String> {
    let made = operator.create(&format!("/admin/tenants/{}/keys", tenant.name), &json!({"name": "demo"}))?;
    let key = text(&made, "key")?;
    let mut client = Client::new(address, Some(key.clone()));
    let source = client.create("/v1/sources", &source(tenant))?;
    Ok(Member { tenant, key, ingest: format!("/v1/ingest/{}", text(&source, "id")?) })
}

fn source(tenant: &Tenant) -> Value {
    match tenant.takes {
        Takes::CloudEvents => json!({"slug": tenant.slug, "type": "cloudevents"}),
        Takes::Webhooks => json!({"slug": tenant.slug, "type": "http", "event_key_header": EVENT_KEY_HEADER}),
    }
}

fn actor(client: &mut Client, role: &'static Role) -> Result<Actor, String> {
    let receiver = Receiver::start(role.temper).map_err(|error| format!("can't start a receiver: {error}"))?;
    let made = client.create("/v1/destinations", &role.destination(&receiver.url()))?;
    let destination = text(&made, "id")?;
    let secret =
        Secret::parse_whsec(&text(&made, "secret")?).map_err(|rule| format!("a destination's secret {rule}"))?;
    let subscription = text(&client.create("/v1/subscriptions", &role.subscription(&destination))?, "id")?;
    Ok(Actor { role, receiver, destination, subscription, secret })
}

/// The member `name` of an answer.
///
/// # Errors
/// When it is no text.
pub fn text(answer: &Value, name: &str) -> Result<String, String> {
    answer[name].as_str().map(str::to_owned).ok_or_else(|| format!("an answer has no `{name}`: {answer}"))
}
