//! Who takes part: three tenants with a source each, and seven receivers of different tempers.
//!
//! What a role wants is said twice: to the hub, as a subscription, and in [`Role::wants`], by which the demo
//! judges what the hub did.

use serde_json::{Value, json};

use super::publication::Publication;
use super::receiver::Temper;

/// A tenant and its source.
#[derive(Debug)]
pub struct Tenant {
    /// Its name.
    pub name: &'static str,
    /// The slug of its source, which is the `ce-source` of its events.
    pub slug: &'static str,
    /// What its source takes.
    pub takes: Takes,
}

/// What a source takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// CloudEvents over HTTP.
    CloudEvents,
    /// Any webhook; its event key stands in [`EVENT_KEY_HEADER`].
    Webhooks,
}

/// The header that names a plain webhook's event key.
pub const EVENT_KEY_HEADER: &str = "x-shop-event";

/// The tenants.
pub const TENANTS: [Tenant; 3] = [
    Tenant { name: "acme", slug: "loans", takes: Takes::CloudEvents },
    Tenant { name: "globex", slug: "shop", takes: Takes::Webhooks },
    Tenant { name: "initech", slug: "people", takes: Takes::CloudEvents },
];

/// A receiver's part: whose it is, how it behaves, what it wants.
#[derive(Debug)]
pub struct Role {
    /// Whose it is.
    pub tenant: &'static str,
    /// Its name.
    pub name: &'static str,
    /// How it answers.
    pub temper: Temper,
    /// The order that its destination asks for.
    pub order: Order,
    /// The event keys it wants.
    pub events: &'static [&'static str],
    /// It wants events with an amount above this only.
    pub above: Option<u64>,
    /// The failures in a row that open its circuit.
    pub threshold: u32,
}

/// The order of a destination's deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First attempts in order of arrival.
    Fifo,
    /// No delivery begins before the one before it has ended.
    Strict,
    /// None.
    Parallel,
}

impl Order {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Strict => "strict",
            Self::Parallel => "parallel",
        }
    }
}

const fn role(
    (tenant, name): (&'static str, &'static str),
    temper: Temper,
    order: Order,
    events: &'static [&'static str],
) -> Role {
    Role { tenant, name, temper, order, events, above: None, threshold: 5 }
}

/// The receivers.
pub const ROLES: [Role; 7] = [
    role(("acme", "ledger"), Temper::Healthy, Order::Fifo, &["loan.approved", "loan.rejected"]),
    Role { above: Some(5_000), ..role(("acme", "risk-desk"), Temper::Healthy, Order::Fifo, &["loan.requested"]) },
    Role { threshold: 100, ..role(("acme", "crm"), Temper::Failing, Order::Fifo, &["loan.rejected"]) },
    role(("globex", "warehouse"), Temper::Healthy, Order::Parallel, &["order.created", "order.paid"]),
    Role { threshold: 3, ..role(("globex", "old-erp"), Temper::Hanging, Order::Fifo, &["order.paid"]) },
    role(("initech", "audit"), Temper::Challenged, Order::Fifo, &["employee.hired", "employee.moved"]),
    Role {
        threshold: 2,
        ..role(("initech", "payroll"), Temper::Recovering { failures: 2 }, Order::Strict, &["employee.hired"])
    },
];

impl Role {
    /// What its destination is made of.
    #[must_use]
    pub fn destination(&self, url: &str) -> Value {
        let verification = if self.temper == Temper::Challenged { "challenge" } else { "none" };
        json!({
            "name": self.name, "url": url, "verification": verification, "ordering": self.order.as_str(),
            "timeout_ms": self.timeout_ms(), "retry": {"type": "fixed", "intervals_s": [1], "max_retries": self.retries()},
            "circuit": {"threshold": self.threshold, "cooldown_ms": self.cooldown_ms()},
        })
    }

    /// What its subscription is made of.
    #[must_use]
    pub fn subscription(&self, destination_id: &str) -> Value {
        let rule = |above: &u64| json!({"field": "payload.amount", "op": "gt", "value": above});
        let rules: Vec<Value> = self.above.iter().map(rule).collect();
        json!({
            "name": format!("{} wants {}", self.name, self.events.join(", ")),
            "destination_id": destination_id, "event_types": self.events, "filter_rules": rules,
        })
    }

    /// Whether an event of its tenant is for it.
    #[must_use]
    pub fn wants(&self, publication: &Publication) -> bool {
        self.events.contains(&publication.event) && self.above.is_none_or(|above| publication.amount > above)
    }

    /// Retries after the first attempt.
    #[must_use]
    pub const fn retries(&self) -> u32 {
        match self.temper {
            Temper::Failing => 1,
            Temper::Healthy | Temper::Recovering { .. } | Temper::Hanging | Temper::Challenged => 5,
        }
    }

    /// Short where nothing will ever come, so that it is seen.
    const fn timeout_ms(&self) -> u32 {
        match self.temper {
            Temper::Hanging => 1_000,
            Temper::Healthy | Temper::Failing | Temper::Recovering { .. } | Temper::Challenged => 10_000,
        }
    }

    /// Short where the demo shows the circuit closing again, else as by default.
    const fn cooldown_ms(&self) -> u32 {
        match self.temper {
            Temper::Recovering { .. } => 1_000,
            Temper::Healthy | Temper::Failing | Temper::Hanging | Temper::Challenged => 60_000,
        }
    }

    /// Its temper in words.
    #[must_use]
    pub fn temper_text(&self) -> String {
        match self.temper {
            Temper::Healthy => "answers 200".to_owned(),
            Temper::Failing => "answers 500".to_owned(),
            Temper::Recovering { failures } => format!("200 after {failures} failures"),
            Temper::Hanging => "never answers".to_owned(),
            Temper::Challenged => "200, once challenged".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::publication::script;

    #[test]
    fn every_role_belongs_to_a_tenant_and_wants_some_of_its_events() {
        for role in &ROLES {
            let tenant = TENANTS.iter().find(|tenant| tenant.name == role.tenant).expect("a tenant");
            let wanted = script(tenant).iter().filter(|publication| role.wants(publication)).count();
            assert!(wanted >= 20, "{} wants {wanted} events", role.name);
        }
    }

    #[test]
    fn a_filter_holds_against_the_amount() {
        let risk = &ROLES[1];
        let asked = |amount| Publication { n: 1, event: "loan.requested", amount };
        assert!(risk.wants(&asked(5_001)) && !risk.wants(&asked(5_000)));
        assert_eq!(risk.subscription("dst_1")["filter_rules"][0]["value"], 5_000);
        assert_eq!(ROLES[0].subscription("dst_1")["filter_rules"], json!([]));
    }
}
