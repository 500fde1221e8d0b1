//! What is published: for each tenant a list of events, and the HTTP request that each of them is.

use serde_json::{Value, json};
use uuid::Uuid;

use super::client::Request;
use super::plan::{EVENT_KEY_HEADER, Takes, Tenant};
use crate::types::Time;

/// One event of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Its number within the tenant, from 1, in order of publishing.
    pub n: u64,
    /// The event key.
    pub event: &'static str,
    /// What filters look at.
    pub amount: u64,
}

/// An event that every subscription of acme filters out.
pub const FILTERED: (&str, u64) = ("loan.requested", 10);
/// An event that no subscription of initech asks for.
pub const UNWANTED: (&str, u64) = ("visitor.arrived", 0);

/// The events of a tenant, in order.
#[must_use]
pub fn script(tenant: &Tenant) -> Vec<Publication> {
    let (count, event): (u64, fn(u64) -> &'static str) = match tenant.name {
        "acme" => (180, loan_event),
        "globex" => (120, |n| if n.is_multiple_of(3) { "order.paid" } else { "order.created" }),
        _ => (100, |n| if n.is_multiple_of(4) { "employee.hired" } else { "employee.moved" }),
    };
    (1..=count).map(|n| Publication { n, event: event(n), amount: n * 7_919 % 10_000 }).collect()
}

fn loan_event(n: u64) -> &'static str {
    match n % 9 {
        0 => "loan.rejected",
        1 | 4 | 7 => "loan.requested",
        _ => "loan.approved",
    }
}

/// How a CloudEvent goes over HTTP (CloudEvents HTTP binding, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Attributes in headers, the body is the data.
    Binary,
    /// All in one JSON object.
    Structured,
}

impl Publication {
    /// The data: what a receiver finds in the body.
    #[must_use]
    pub fn data(&self) -> Value {
        json!({"n": self.n, "amount": self.amount, "text": format!("{} number {}", self.event, self.n)})
    }

    /// The CloudEvent of this id to the source at `path`.
    #[must_use]
    pub fn cloud_event<'a>(&self, tenant: &Tenant, path: &'a str, id: Uuid, now: Time, mode: Mode) -> Request<'a> {
        let attributes = self.attributes(tenant.slug, id, now);
        match mode {
            Mode::Binary => {
                let content_type = ("content-type", "application/json".to_owned());
                let headers = attributes.into_iter().chain([content_type]).collect();
                Request { method: "POST", path, headers, body: self.data().to_string().into_bytes() }
            }
            Mode::Structured => {
                let member = |(name, value): (&str, String)| (name.trim_start_matches("ce-").to_owned(), value.into());
                let data = ("data".to_owned(), self.data());
                let body: serde_json::Map<String, Value> = attributes.into_iter().map(member).chain([data]).collect();
                let headers = vec![("content-type", "application/cloudevents+json".to_owned())];
                Request { method: "POST", path, headers, body: Value::Object(body).to_string().into_bytes() }
            }
        }
    }

    fn attributes(&self, slug: &str, id: Uuid, now: Time) -> Vec<(&'static str, String)> {
        let (resource, event) = self.event.split_once('.').expect("the demo's event keys have two words");
        vec![
            ("ce-specversion", "1.0".to_owned()),
            ("ce-id", id.to_string()),
            ("ce-source", slug.to_owned()),
            ("ce-type", format!("studio.lerian.{slug}.{}", self.event)),
            ("ce-time", now.to_rfc3339()),
            ("ce-schemaversion", "1.0.0".to_owned()),
            ("ce-resourcetype", resource.to_owned()),
            ("ce-eventtype", event.to_owned()),
        ]
    }

    /// The plain webhook to the source at `path`.
    #[must_use]
    pub fn webhook<'a>(&self, path: &'a str) -> Request<'a> {
        let headers = vec![("content-type", "application/json".to_owned()), (EVENT_KEY_HEADER, self.event.to_owned())];
        Request { method: "POST", path, headers, body: self.data().to_string().into_bytes() }
    }

    /// The request as the tenant's source takes it; one CloudEvent in ten is structured.
    #[must_use]
    pub fn request<'a>(&self, tenant: &Tenant, path: &'a str, id: Uuid, now: Time) -> Request<'a> {
        let mode = if self.n.is_multiple_of(10) { Mode::Structured } else { Mode::Binary };
        match tenant.takes {
            Takes::CloudEvents => self.cloud_event(tenant, path, id, now, mode),
            Takes::Webhooks => self.webhook(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::plan::TENANTS;

    const FIRST: Publication = Publication { n: 1, event: "loan.approved", amount: 5 };

    #[test]
    fn a_structured_event_has_the_attributes_of_the_binary_one() {
        let request = |mode| FIRST.cloud_event(&TENANTS[0], "/in", Uuid::nil(), Time::ZERO, mode);
        let (binary, structured) = (request(Mode::Binary), request(Mode::Structured));
        let body: Value = serde_json::from_slice(&structured.body).expect("JSON");
        assert_eq!(body["data"], FIRST.data());
        assert_eq!(binary.body, FIRST.data().to_string().into_bytes());
        for (name, value) in binary.headers.iter().filter(|(name, _)| name.starts_with("ce-")) {
            assert_eq!(body[&name[3..]], *value.as_str(), "{name}");
        }
        assert_eq!(body["type"], "studio.lerian.loans.loan.approved");
    }

    #[test]
    fn events_are_numbered_from_one_without_gaps() {
        for tenant in &TENANTS {
            let numbers: Vec<u64> = script(tenant).iter().map(|publication| publication.n).collect();
            assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_source_of_webhooks_gets_its_key_in_a_header() {
        let request = FIRST.request(&TENANTS[1], "/in", Uuid::nil(), Time::ZERO);
        assert!(request.headers.contains(&(EVENT_KEY_HEADER, "loan.approved".to_owned())));
        assert!(!request.headers.iter().any(|(name, _)| name.starts_with("ce-")));
    }
}
