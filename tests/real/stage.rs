//! A hub beside the broker, with topics and consumer groups that no other test has.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::broker::ADDRESS;
use super::harness::time::wall_millis;
use super::harness::{Hub, Setup, Tenant, merged};

/// Names that only one test uses, in this run or any before.
pub struct Stage {
    prefix: String,
}

impl Stage {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { prefix: format!("real-{}-{number}", wall_millis()) }
    }

    /// What all topics begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The topic of the producer `source`.
    pub fn topic(&self, source: &str) -> String {
        format!("{}.{source}", self.prefix)
    }

    /// The hub's consumer group.
    pub fn group(&self) -> String {
        format!("{}-hub", self.prefix)
    }

    /// A hub that follows this stage's topics.
    pub fn setup(&self) -> Setup {
        Setup::new()
            .with("KAFKA_BROKERS", ADDRESS)
            .with("TOPIC_PREFIX", &self.prefix)
            .with("KAFKA_GROUP", &self.group())
            .with("DLQ_GROUP", &format!("{}-dlq", self.prefix))
            .with("KAFKA_SESSION_TIMEOUT", "10s")
    }
}

/// Has everything of `tenant` delivered to `url`; `more` are members of the destination. Gives the tenant.
pub fn subscribe(hub: &Hub, tenant: &str, url: &str, more: Value) -> Tenant {
    let destination = merged(json!({"url": url, "verification": "none"}), more);
    let tenant = hub.tenant(tenant);
    tenant.api.post("/v1/subscriptions", &json!({"destination": destination})).expect(201);
    tenant
}

/// The name of a tenant among many.
pub fn tenant_name(number: u64) -> String {
    format!("tenant-{number}")
}

/// Every lane of the hub as `/admin/lanes` shows it.
pub fn lanes(hub: &Hub) -> Vec<Value> {
    let shown = hub.operator().get("/admin/lanes").expect(200);
    shown["items"].as_array().expect("a page has items").clone()
}

/// Whether the hub has as many lanes, and nothing more to read in any.
pub fn is_read_up(hub: &Hub, count: usize) -> bool {
    let lanes = lanes(hub);
    lanes.len() == count && lanes.iter().all(|lane| lane["lag"] == 0)
}

/// The value of a metric line that begins with `name`, labels and all; 0 when there is none.
pub fn metric(hub: &Hub, name: &str) -> f64 {
    let text = hub.anybody().get("/metrics").text();
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}
