//! A tenant's doings: making sources, destinations and subscriptions, publishing, and looking what became of it.

use serde_json::{Value, json};

use super::api::{Answer, Api};
use super::cloud_event::CloudEvent;
use super::receiver::Receiver;
use super::time::{eventually, eventually_some};

/// A tenant of a hub.
pub struct Tenant {
    pub api: Api,
    anybody: Api,
}

/// A source of a tenant.
#[derive(Clone)]
pub struct Source {
    pub id: String,
    pub slug: String,
    anybody: Api,
}

impl Source {
    pub fn path(&self) -> String {
        format!("/v1/ingest/{}", self.id)
    }

    /// Posts any request.
    pub fn post(&self, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.anybody.send("POST", &self.path(), headers, body)
    }

    /// Publishes an event in binary mode, whatever the answer.
    pub fn publish(&self, event: &CloudEvent) -> Answer {
        let headers = event.headers(&self.slug);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.post(&headers, &event.data)
    }

    /// Publishes that many new events, each again and again until it is acknowledged; gives their ids.
    pub fn publish_stubbornly(&self, count: usize) -> Vec<String> {
        let publish = |_| {
            let event = CloudEvent::new("order", "paid");
            eventually("an event to be acknowledged", || self.try_publish(&event).is_ok_and(|status| status == 200));
            event.id
        };
        (0..count).map(publish).collect()
    }

    fn try_publish(&self, event: &CloudEvent) -> std::io::Result<u16> {
        let headers = event.headers(&self.slug);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        Ok(self.anybody.try_send("POST", &self.path(), &headers, &event.data)?.status)
    }

    /// Publishes that many new events of the key `order.paid`, each acknowledged; gives their ids in order.
    pub fn publish_many(&self, count: usize) -> Vec<String> {
        let publish = |number: usize| {
            let event = CloudEvent::new("order", "paid").with_data(format!("{{\"number\":{number}}}"));
            self.publish(&event).expect(200);
            event.id
        };
        (0..count).map(publish).collect()
    }
}

impl Tenant {
    pub const fn new(api: Api, anybody: Api) -> Self {
        Self { api, anybody }
    }

    /// A source of type `cloudevents`.
    pub fn source(&self, slug: &str) -> Source {
        self.source_with(&json!({"slug": slug, "type": "cloudevents"}))
    }

    pub fn source_with(&self, body: &Value) -> Source {
        let made = self.api.post("/v1/sources", body).expect(201);
        Source { id: text(&made, "id"), slug: text(&made, "slug"), anybody: self.anybody.clone() }
    }

    /// A destination at `receiver`, signed with its secret; `more` members go on top.
    pub fn destination(&self, receiver: &Receiver, more: Value) -> String {
        let body = json!({"url": receiver.url(), "secret": receiver.secret(), "verification": "none"});
        text(&self.api.post("/v1/destinations", &merged(body, more)).expect(201), "id")
    }

    /// A subscription of everything to `destination`; `more` members go on top.
    pub fn subscription(&self, destination: &str, more: Value) -> String {
        let body = merged(json!({"destination_id": destination}), more);
        let made = self.api.post("/v1/subscriptions", &body).expect(201);
        assert_eq!(made["verification_state"], "active", "{made}");
        text(&made, "id")
    }

    /// A source whose every event goes to `receiver`; `more` is the destination's.
    pub fn pipeline(&self, receiver: &Receiver, more: Value) -> (Source, String) {
        let destination = self.destination(receiver, more);
        self.subscription(&destination, json!({}));
        (self.source("shop"), destination)
    }

    /// Every delivery that `query` (`status=pending`, or nothing) selects, newest first.
    pub fn deliveries(&self, query: &str) -> Vec<Value> {
        self.all("/v1/deliveries", query)
    }

    /// Every entry of a list that ends.
    pub fn all(&self, list: &str, query: &str) -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.api.get(&format!("{list}?limit=100&{query}&cursor={cursor}")).expect(200);
            items.extend(page["items"].as_array().expect("a page has items").iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => return items,
            }
        }
    }

    /// Waits until every one of `count` deliveries has this status.
    pub fn wait_for_all(&self, count: usize, status: &str) -> Vec<Value> {
        eventually_some(&format!("{count} deliveries to be {status}"), || {
            let all = self.deliveries("");
            let done = all.len() == count && all.iter().all(|delivery| delivery["status"] == status);
            done.then_some(all)
        })
    }

    /// How many deliveries are recorded as delivered.
    pub fn count_delivered(&self) -> usize {
        self.deliveries("status=delivered").len()
    }

    /// Waits until at least `count` deliveries are recorded as delivered.
    pub fn wait_for_delivered(&self, count: usize) {
        eventually(&format!("{count} recorded deliveries"), || self.count_delivered() >= count);
    }

    /// Waits until some delivery has had an attempt with an outcome.
    pub fn wait_for_attempt_recorded(&self) {
        eventually("a recorded attempt", || {
            self.deliveries("").iter().any(|delivery| delivery["attempt_count"].as_u64() > Some(0))
        });
    }

    /// One delivery with its attempts.
    pub fn delivery(&self, listed: &Value) -> Value {
        self.api.get(&format!("/v1/deliveries/{}", text(listed, "id"))).expect(200)
    }

    /// Waits until the tenant's only delivery has had `count` attempts with an outcome; gives it with them.
    pub fn wait_for_attempts(&self, count: usize) -> Value {
        eventually_some(&format!("{count} attempts"), || {
            let all = self.deliveries("");
            let [only] = all.as_slice() else { return None };
            let delivery = self.delivery(only);
            (delivery["attempts"].as_array()?.len() >= count).then_some(delivery)
        })
    }
}

/// `body` with the members of `more` in it.
pub fn merged(mut body: Value, more: Value) -> Value {
    let (Some(members), Value::Object(more)) = (body.as_object_mut(), more) else { panic!("both must be objects") };
    members.extend(more);
    body
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_else(|| panic!("no `{member}` in {value}")).to_owned()
}
