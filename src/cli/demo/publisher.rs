//! Publishing a tenant's events, one after the other on one connection, as a producer would.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use uuid::Uuid;

use super::client::{Answer, Client, Request};
use super::publication::{Mode, Publication};
use super::stage::{Member, text};
use crate::runtime::Clock;
use crate::types::ids::uuid_v7;

/// Tries of one event while the hub is overloaded.
const TRIES: u32 = 20;
/// Between them.
const PAUSE: Duration = Duration::from_millis(250);

/// An event that the hub has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// What it was.
    pub publication: Publication,
    /// Its id in the API.
    pub event_id: String,
    /// The `ce-id` that was sent; a webhook has none of its own.
    pub id: Uuid,
}

/// A producer of one tenant.
pub struct Publisher {
    client: Client,
    member: Member,
    clock: Clock,
}

impl Publisher {
    /// A producer that publishes to the tenant's source. It needs no key.
    #[must_use]
    pub const fn new(client: Client, member: Member, clock: Clock) -> Self {
        Self { client, member, clock }
    }

    /// Publishes all of `script` in order, counting each accepted event; ends early when told to.
    ///
    /// # Errors
    /// One line when an event was not accepted.
    pub fn publish_all(
        &mut self,
        script: &[Publication],
        count: &AtomicU64,
        go_on: impl Fn() -> bool,
    ) -> Result<Vec<Accepted>, String> {
        let mut accepted = Vec::with_capacity(script.len());
        for publication in script.iter().take_while(|_| go_on()) {
            accepted.push(self.publish(*publication)?);
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(accepted)
    }

    /// Publishes one event under a new id.
    ///
    /// # Errors
    /// One line when it was not accepted.
    pub fn publish(&mut self, publication: Publication) -> Result<Accepted, String> {
        let id = self.new_id()?;
        let path = self.member.ingest.clone();
        let request = publication.request(self.member.tenant, &path, id, self.clock.now());
        let answer = self.send(&request)?;
        if answer.status != 200 {
            return Err(format!(
                "event {} of {}: {} {}",
                publication.n, self.member.tenant.name, answer.status, answer.json
            ));
        }
        Ok(Accepted { publication, event_id: text(&answer.json, "event_id")?, id })
    }

    /// Publishes an accepted event again, under its id.
    ///
    /// # Errors
    /// One line when there is no answer.
    pub fn repeat(&mut self, accepted: &Accepted) -> Result<Answer, String> {
        let path = self.member.ingest.clone();
        let request = accepted.publication.request(self.member.tenant, &path, accepted.id, self.clock.now());
        self.send(&request)
    }

    /// Publishes a CloudEvent of a version that is none.
    ///
    /// # Errors
    /// One line when there is no answer.
    pub fn publish_malformed(&mut self, publication: Publication) -> Result<Answer, String> {
        let id = self.new_id()?;
        let path = self.member.ingest.clone();
        let mut request = publication.cloud_event(self.member.tenant, &path, id, self.clock.now(), Mode::Binary);
        for (name, value) in &mut request.headers {
            if *name == "ce-specversion" {
                "0.3".clone_into(value);
            }
        }
        self.send(&request)
    }

    /// An overloaded hub says so before it takes anything: the event may be sent again.
    fn send(&mut self, request: &Request<'_>) -> Result<Answer, String> {
        let mut answer = self.client.send(request)?;
        for _ in 1..TRIES {
            if answer.status != 503 {
                break;
            }
            std::thread::sleep(PAUSE);
            answer = self.client.send(request)?;
        }
        Ok(answer)
    }

    fn new_id(&self) -> Result<Uuid, String> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| format!("no randomness: {error}"))?;
        Ok(uuid_v7(self.clock.now(), u128::from_le_bytes(bytes)))
    }
}
