//! A subscription: which events of a tenant go to which destination.

use serde::{Deserialize, Serialize};

use super::destination::{Ordering, OrderingKey};
use super::ids::{DestinationId, SourceId, SubscriptionId, TenantId};
use super::retry::RetryPolicy;
use super::time::Time;

/// A checked subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// `sub_…`.
    pub id: SubscriptionId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Free text, at most 256 bytes.
    pub name: Option<String>,
    /// Free text, at most 1024 bytes.
    pub description: Option<String>,
    /// Pins the producer; any when absent.
    pub origin: Option<String>,
    /// Pins an HTTP source; any when absent.
    pub source_id: Option<SourceId>,
    /// Event keys, `resource.*` or `*`; all when empty.
    pub event_types: Vec<EventPattern>,
    /// Pins the schema's major version; any when absent.
    pub schema_major: Option<u32>,
    /// All must hold.
    pub filter_rules: Vec<FilterRule>,
    /// Where its jobs go.
    pub destination_id: DestinationId,
    /// Cleared by auto-disable and by a 410.
    pub enabled: bool,
    /// Why the hub disabled it.
    pub disabled_reason: Option<DisabledReason>,
    /// When the hub disabled it.
    pub disabled_at: Option<Time>,
    /// Whether the destination has consented.
    pub verification_state: VerificationState,
    /// Overrides the destination's schedule.
    pub retry: Option<RetryPolicy>,
    /// Overrides the destination's order.
    pub ordering: Option<Ordering>,
    /// Overrides the destination's ordering key.
    pub ordering_key: Option<OrderingKey>,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// Counts changes, from 1: the `ETag`.
    pub version: u64,
}

impl Subscription {
    /// Whether new events are matched against it at all.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.enabled && matches!(self.verification_state, VerificationState::Active)
    }
}

/// Which event keys a subscription names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum EventPattern {
    /// `*`.
    Any,
    /// `resource.*`: every event key that begins with `resource.`; holds `resource`.
    Resource(String),
    /// One event key.
    Exact(String),
}

/// The text is no event pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an event key such as `loan.approved`, `resource.*` or `*`, at most 257 bytes")]
pub struct EventPatternError;

impl EventPattern {
    /// Whether `key` is one of the pattern's event keys.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Resource(resource) => {
                key.strip_prefix(resource.as_str()).is_some_and(|rest| rest.len() > 1 && rest.starts_with('.'))
            }
            Self::Exact(exact) => exact == key,
        }
    }
}

impl TryFrom<String> for EventPattern {
    type Error = EventPatternError;
    fn try_from(text: String) -> Result<Self, EventPatternError> {
        let malformed =
            text.is_empty() || text.len() > 257 || text.chars().any(|c| c.is_control() || c.is_whitespace());
        if malformed {
            return Err(EventPatternError);
        }
        if text == "*" {
            return Ok(Self::Any);
        }
        match text.strip_suffix(".*") {
            Some(resource) if resource.is_empty() || resource.contains('*') => Err(EventPatternError),
            Some(resource) => Ok(Self::Resource(resource.to_owned())),
            None if text.contains('*') => Err(EventPatternError),
            None => Ok(Self::Exact(text)),
        }
    }
}

impl From<EventPattern> for String {
    fn from(pattern: EventPattern) -> Self {
        match pattern {
            EventPattern::Any => "*".to_owned(),
            EventPattern::Resource(resource) => format!("{resource}.*"),
            EventPattern::Exact(key) => key,
        }
    }
}

/// One condition on an event (contracts: "Filters and transforms").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterRule {
    /// `payload.<path>`, `headers.<name>`, `ce.<attribute>`, `method`, `content_type` or `source_ip`.
    pub field: String,
    /// How the field is compared.
    pub op: FilterOp,
    /// What it is compared with.
    pub value: serde_json::Value,
}

/// The comparisons of a filter rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilterOp {
    /// Equal.
    Eq,
    /// Not equal; true when the field is missing.
    Neq,
    /// A string that contains the value.
    Contains,
    /// A number greater than the value.
    Gt,
    /// A number greater than or equal to the value.
    Gte,
    /// A number less than the value.
    Lt,
    /// A number less than or equal to the value.
    Lte,
    /// Present (true) or missing (false).
    Exists,
    /// Equal to one of an array's entries.
    In,
}

/// Why the hub, not the tenant, disabled a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    /// The destination answered 410.
    Gone,
    /// The destination failed for too long.
    AutoDisabled,
}

impl DisabledReason {
    /// The name in the API and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::AutoDisabled => "auto_disabled",
        }
    }
}

/// Whether the destination has consented to a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerificationState {
    /// Not asked yet, or being asked.
    #[default]
    Pending,
    /// Consented.
    Active,
    /// Asked three times in vain.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Result<EventPattern, EventPatternError> {
        EventPattern::try_from(text.to_owned())
    }

    #[test]
    fn patterns_match_keys_resources_and_all() {
        assert!(pattern("*").is_ok_and(|p| p.matches("loan.approved")));
        let resource = pattern("loan.*").expect("a resource pattern");
        assert!(resource.matches("loan.approved"));
        assert!(!resource.matches("loan."));
        assert!(!resource.matches("loans.approved"));
        let exact = pattern("loan.approved").expect("an exact pattern");
        assert!(exact.matches("loan.approved"));
        assert!(!exact.matches("loan.approved.twice"));
        for bad in ["", ".*", "a*b", "*.approved", "a b"] {
            assert_eq!(pattern(bad), Err(EventPatternError), "{bad}");
        }
    }
}
