//! Subscriptions: the body of `/v1/subscriptions` and `/v1/connections`.

use serde::Serialize;
use serde_json::Value;

use crate::api::input::{Field, Fields};
use crate::api::problem::Faults;
use crate::engine::filter::Filter;
use crate::types::destination::{Ordering, OrderingKey};
use crate::types::subscription::{DisabledReason, EventPattern, EventPatternError, FilterRule, VerificationState};
use crate::types::{DestinationId, RetryPolicy, SourceId, Subscription, SubscriptionId, TenantId, limits};

use super::destination::DestinationChange;
use super::{Rules, SOURCE_NAME_RULE, is_source_name, labels, retry};

const READ_ONLY: [&str; 7] =
    ["id", "verification_state", "disabled_reason", "disabled_at", "created_at", "updated_at", "warnings"];

/// Under which name a subscription is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `/v1/subscriptions`.
    Subscription,
    /// `/v1/connections`: pinned to a source.
    Connection,
}

/// What a body says about a subscription.
#[derive(Debug)]
pub struct SubscriptionChange {
    name: Field<String>,
    description: Field<String>,
    origin: Field<String>,
    source_id: Field<SourceId>,
    event_types: Field<Vec<EventPattern>>,
    schema_major: Field<u32>,
    filter_rules: Field<Vec<FilterRule>>,
    destination_id: Field<DestinationId>,
    /// The inline destination, if the body has one.
    pub destination: Option<DestinationChange>,
    enabled: Field<bool>,
    retry: Field<RetryPolicy>,
    ordering: Field<Ordering>,
    ordering_key: Field<OrderingKey>,
}

impl SubscriptionChange {
    /// Reads a body, noting every fault; `stored` is what a PATCH changes.
    #[must_use]
    pub fn read(mut fields: Fields, stored: Option<&Subscription>, rules: Rules<'_>, faults: &mut Faults) -> Self {
        let (name, description) = labels(&mut fields, faults);
        let stored_retry = stored.and_then(|stored| stored.retry.as_ref());
        let change = Self {
            name,
            description,
            origin: origin(&mut fields, faults),
            source_id: id(&mut fields, "source_id", faults),
            event_types: event_types(&mut fields, faults),
            schema_major: fields.whole("schema_major", 0..=u32::MAX, faults),
            filter_rules: filter_rules(&mut fields, faults),
            destination_id: id(&mut fields, "destination_id", faults),
            destination: destination(&mut fields, rules, faults),
            enabled: fields.flag("enabled", faults),
            retry: retry::take_with_flat(&mut fields, stored_retry, rules.payload_retention_s, faults),
            ordering: fields.word("ordering", "fifo, strict, parallel", faults),
            ordering_key: fields.word("ordering_key", "subscription, subject", faults),
        };
        change.check_destination(stored.is_some(), faults);
        fields.later(&["transform"], faults);
        fields.read_only(&READ_ONLY, faults);
        fields.finish(faults);
        change
    }

    fn check_destination(&self, stored: bool, faults: &mut Faults) {
        match (&self.destination_id, &self.destination) {
            (_, Some(_)) if stored => faults.add("/destination", "is given at creation only; PATCH the destination"),
            (Field::Set(_), Some(_)) => faults.add("/destination", "must not be given beside `destination_id`"),
            (Field::Null, _) if stored => faults.add("/destination_id", "must not be null"),
            (Field::Absent | Field::Null, None)
                if !stored && !faults.names("/destination_id") && !faults.names("/destination") =>
            {
                faults.add("/destination_id", "is required, or an inline `destination`");
            }
            (Field::Absent | Field::Null | Field::Set(_), Some(_) | None) => {}
        }
    }

    /// The subscription that a POST makes; `None` when a fault was noted. An inline destination's id comes as
    /// `inline`.
    pub fn create(
        self,
        id: SubscriptionId,
        tenant: &TenantId,
        (name, inline): (Name, Option<DestinationId>),
        rules: Rules<'_>,
        faults: &mut Faults,
    ) -> Option<Subscription> {
        if name == Name::Connection && !matches!(self.source_id, Field::Set(_)) && !faults.names("/source_id") {
            faults.add("/source_id", "is required for a connection");
        }
        let destination_id = match &self.destination_id {
            Field::Set(id) => *id,
            Field::Absent | Field::Null => inline?,
        };
        let blank = Subscription {
            id,
            tenant: tenant.clone(),
            name: None,
            description: None,
            origin: None,
            source_id: None,
            event_types: Vec::new(),
            schema_major: None,
            filter_rules: Vec::new(),
            destination_id,
            enabled: true,
            disabled_reason: None,
            disabled_at: None,
            verification_state: VerificationState::Pending,
            retry: None,
            ordering: None,
            ordering_key: None,
            created_at: rules.now,
            updated_at: rules.now,
            version: 0,
        };
        self.apply(blank, rules, faults)
    }

    /// The stored subscription as a PATCH leaves it; `None` when a fault was noted. Another destination must
    /// consent first; enabling clears why the hub disabled it.
    pub fn apply(self, stored: Subscription, rules: Rules<'_>, faults: &mut Faults) -> Option<Subscription> {
        let destination_id = self.destination_id.over(stored.destination_id, stored.destination_id);
        let moved = destination_id != stored.destination_id;
        let enabling = matches!(self.enabled, Field::Set(true));
        let changed = Subscription {
            name: self.name.over_optional(stored.name),
            description: self.description.over_optional(stored.description),
            origin: self.origin.over_optional(stored.origin),
            source_id: self.source_id.over_optional(stored.source_id),
            event_types: self.event_types.over(stored.event_types, Vec::new()),
            schema_major: self.schema_major.over_optional(stored.schema_major),
            filter_rules: self.filter_rules.over(stored.filter_rules, Vec::new()),
            destination_id,
            enabled: self.enabled.over(stored.enabled, true),
            disabled_reason: stored.disabled_reason.filter(|_| !enabling),
            disabled_at: stored.disabled_at.filter(|_| !enabling),
            verification_state: if moved { VerificationState::Pending } else { stored.verification_state },
            retry: self.retry.over_optional(stored.retry),
            ordering: self.ordering.over_optional(stored.ordering),
            ordering_key: self.ordering_key.over_optional(stored.ordering_key),
            updated_at: rules.now,
            version: stored.version + 1,
            ..stored
        };
        faults.is_empty().then_some(changed)
    }
}

fn origin(fields: &mut Fields, faults: &mut Faults) -> Field<String> {
    let at = fields.pointer("origin");
    fields.text("origin", limits::SOURCE_NAME_MAX_BYTES, faults).and_then(|text| {
        let valid = is_source_name(&text);
        if !valid {
            faults.add(at, SOURCE_NAME_RULE);
        }
        valid.then_some(text)
    })
}

fn id<T: std::str::FromStr>(fields: &mut Fields, name: &str, faults: &mut Faults) -> Field<T>
where
    T::Err: std::fmt::Display,
{
    let at = fields.pointer(name);
    let text = fields.text(name, limits::NAME_MAX_BYTES, faults);
    text.and_then(|text| text.parse().map_err(|rule: T::Err| faults.add(at, rule.to_string())).ok())
}

fn event_types(fields: &mut Fields, faults: &mut Faults) -> Field<Vec<EventPattern>> {
    let at = fields.pointer("event_types");
    fields.list("event_types", limits::EVENT_PATTERNS_MAX, faults).and_then(|list| {
        let mut patterns: Vec<EventPattern> = Vec::with_capacity(list.len());
        for (index, item) in list.into_iter().enumerate() {
            match serde_json::from_value(item) {
                Ok(pattern) => patterns.push(pattern),
                Err(_) => faults.add(format!("{at}/{index}"), EventPatternError.to_string()),
            }
        }
        Some(patterns)
    })
}

fn filter_rules(fields: &mut Fields, faults: &mut Faults) -> Field<Vec<FilterRule>> {
    let at = fields.pointer("filter_rules");
    fields.list("filter_rules", limits::FILTER_RULES_MAX, faults).and_then(|list| {
        let count = list.len();
        let rules: Vec<FilterRule> = (list.into_iter().enumerate())
            .filter_map(|(index, item)| filter_rule(format!("{at}/{index}"), item, faults))
            .collect();
        (rules.len() == count && compiles(&rules, &at, faults)).then_some(rules)
    })
}

fn compiles(rules: &[FilterRule], at: &str, faults: &mut Faults) -> bool {
    let Err(found) = Filter::compile(rules) else { return true };
    for fault in found {
        let member = if fault.member.is_empty() { String::new() } else { format!("/{}", fault.member) };
        faults.add(format!("{at}/{}{member}", fault.index), fault.detail);
    }
    false
}

fn filter_rule(at: String, item: Value, faults: &mut Faults) -> Option<FilterRule> {
    let mut fields = Fields::of_value(at, item, faults)?;
    let (field_at, op_at, value_at) = (fields.pointer("field"), fields.pointer("op"), fields.pointer("value"));
    let present = [(fields.has("field"), field_at), (fields.has("op"), op_at), (fields.has("value"), value_at)];
    for (_, at) in present.into_iter().filter(|(present, _)| !present) {
        faults.add(at, "is required");
    }
    let field = fields.text("field", limits::DESCRIPTION_MAX_BYTES, faults).value();
    let op = fields.word("op", "eq, neq, contains, gt, gte, lt, lte, exists, in", faults).value();
    let value = fields.has("value").then(|| fields.take("value").over(Value::Null, Value::Null));
    fields.finish(faults);
    Some(FilterRule { field: field?, op: op?, value: value? })
}

fn destination(fields: &mut Fields, rules: Rules<'_>, faults: &mut Faults) -> Option<DestinationChange> {
    let inline = fields.object("destination", faults).value()?;
    Some(DestinationChange::read(inline, rules, faults))
}

/// A subscription as its tenant reads it.
#[derive(Debug, Serialize)]
pub struct SubscriptionView<'a> {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<SourceId>,
    event_types: &'a [EventPattern],
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_major: Option<u32>,
    filter_rules: &'a [FilterRule],
    destination_id: DestinationId,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<super::DestinationView<'a>>,
    enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_reason: Option<DisabledReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_at: Option<String>,
    verification_state: VerificationState,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'a RetryPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering: Option<Ordering>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering_key: Option<OrderingKey>,
    created_at: String,
    updated_at: String,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

impl<'a> SubscriptionView<'a> {
    /// The view.
    #[must_use]
    pub fn of(subscription: &'a Subscription) -> Self {
        Self {
            id: subscription.id.to_string(),
            name: subscription.name.as_deref(),
            description: subscription.description.as_deref(),
            origin: subscription.origin.as_deref(),
            source_id: subscription.source_id,
            event_types: &subscription.event_types,
            schema_major: subscription.schema_major,
            filter_rules: &subscription.filter_rules,
            destination_id: subscription.destination_id,
            destination: None,
            enabled: subscription.enabled,
            disabled_reason: subscription.disabled_reason,
            disabled_at: subscription.disabled_at.map(|at| at.to_rfc3339()),
            verification_state: subscription.verification_state,
            retry: subscription.retry.as_ref(),
            ordering: subscription.ordering,
            ordering_key: subscription.ordering_key,
            created_at: subscription.created_at.to_rfc3339(),
            updated_at: subscription.updated_at.to_rfc3339(),
            warnings: &[],
        }
    }

    /// The same with the destination that was made along with it.
    #[must_use]
    pub fn with_destination(mut self, destination: super::DestinationView<'a>) -> Self {
        self.destination = Some(destination);
        self
    }

    /// The same with what the tenant should know.
    #[must_use]
    pub const fn with_warnings(mut self, warnings: &'a [String]) -> Self {
        self.warnings = warnings;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::RULES;
    use super::*;
    use serde_json::json;

    type Outcome = Result<Subscription, Vec<String>>;
    const DST: &str = "dst_00000000000000000000000000000001";

    fn fields(body: Value) -> Fields {
        Fields::of_value(String::new(), body, &mut Faults::default()).expect("an object")
    }

    fn outcome(subscription: Option<Subscription>, faults: Faults) -> Outcome {
        faults.check().map_err(|p| p.errors.into_iter().map(|f| f.pointer).collect::<Vec<_>>())?;
        Ok(subscription.expect("no fault was noted"))
    }

    fn create_as(name: Name, body: Value) -> Outcome {
        let mut faults = Faults::default();
        let tenant = TenantId::new("acme").expect("a tenant");
        let change = SubscriptionChange::read(fields(body), None, RULES, &mut faults);
        let id = SubscriptionId(uuid::Uuid::nil());
        let inline = change.destination.as_ref().map(|_| DestinationId(uuid::Uuid::nil()));
        let made = change.create(id, &tenant, (name, inline), RULES, &mut faults);
        outcome(made, faults)
    }

    fn create(body: Value) -> Outcome {
        create_as(Name::Subscription, body)
    }

    fn patch(stored: &Subscription, body: Value) -> Outcome {
        let mut faults = Faults::default();
        let change = SubscriptionChange::read(fields(body), Some(stored), RULES, &mut faults);
        let changed = change.apply(stored.clone(), RULES, &mut faults);
        outcome(changed, faults)
    }

    fn fault(mut body: Value, expected: &[&str]) {
        body.as_object_mut().expect("an object").insert("destination_id".to_owned(), json!(DST));
        let expected: Vec<String> = expected.iter().map(|at| (*at).to_owned()).collect();
        assert_eq!(create(body.clone()), Err(expected), "{body}");
    }

    #[test]
    fn a_destination_is_enough() {
        let made = create(json!({"destination_id": DST})).expect("a subscription");
        assert!(made.enabled && made.verification_state == VerificationState::Pending);
        let view = serde_json::to_value(SubscriptionView::of(&made)).expect("JSON");
        let expected = json!({
            "id": "sub_00000000000000000000000000000000", "event_types": [], "filter_rules": [],
            "destination_id": DST, "enabled": true, "verification_state": "pending",
            "created_at": "1970-01-01T00:00:01.000Z", "updated_at": "1970-01-01T00:00:01.000Z",
        });
        assert_eq!(view, expected);
        assert!(create(json!({"destination": {"url": "https://r.test"}})).is_ok());
    }

    #[test]
    fn every_fault_has_its_pointer() {
        fault(
            json!({"origin": "A", "source_id": "src_1", "schema_major": -1}),
            &["/origin", "/source_id", "/schema_major"],
        );
        fault(json!({"event_types": ["a.b", "a*b", 7]}), &["/event_types/1", "/event_types/2"]);
        fault(json!({"event_types": vec!["a.b"; 101]}), &["/event_types"]);
        fault(json!({"enabled": 1, "ordering": "x", "ordering_key": "y"}), &["/enabled", "/ordering", "/ordering_key"]);
        fault(json!({"transform": "payload"}), &["/transform"]);
        fault(
            json!({"verification_state": "active", "disabled_reason": null}),
            &["/verification_state", "/disabled_reason"],
        );
        fault(json!({"retry": {"type": "curve", "steps_s": []}}), &["/retry/steps_s"]);
        fault(json!({"retry_max_attempts": 0}), &["/retry_max_attempts"]);
        fault(json!({"name": "n".repeat(257), "colour": 1}), &["/name", "/colour"]);
        fault(json!({"destination": {"url": "https://r.test"}}), &["/destination"]);
        assert_eq!(create(json!({})), Err(vec!["/destination_id".to_owned()]));
        let inline = json!({"destination": {"url": "x", "timeout_ms": 1}});
        assert_eq!(create(inline), Err(vec!["/destination/url".to_owned(), "/destination/timeout_ms".to_owned()]));
        assert_eq!(create(json!({"destination_id": "x"})), Err(vec!["/destination_id".to_owned()]));
        assert_eq!(create(json!({"destination": 7})), Err(vec!["/destination".to_owned()]));
    }

    #[test]
    fn filter_rules_are_checked_one_by_one() {
        let rules = json!([{"field": "payload.a", "op": "eq", "value": null}, 7, {"op": "like"}, {
            "field": "x", "op": "eq", "value": 1, "not": true,
        }]);
        let expected = [
            "/filter_rules/1",
            "/filter_rules/2/field",
            "/filter_rules/2/value",
            "/filter_rules/2/op",
            "/filter_rules/3/not",
        ];
        fault(json!({"filter_rules": rules}), &expected);
        let uncompiled =
            json!([{"field": "colour", "op": "eq", "value": 1}, {"field": "method", "op": "gt", "value": "x"}]);
        fault(json!({"filter_rules": uncompiled}), &["/filter_rules/0/field", "/filter_rules/1/value"]);
        let rule = json!({"field": "method", "op": "eq", "value": "POST"});
        fault(json!({"filter_rules": vec![rule; 33]}), &["/filter_rules"]);
    }

    #[test]
    fn a_connection_needs_its_source() {
        let body = json!({"destination_id": DST});
        assert_eq!(create_as(Name::Connection, body), Err(vec!["/source_id".to_owned()]));
        let body = json!({"destination_id": DST, "source_id": "src_00000000000000000000000000000001"});
        assert!(create_as(Name::Connection, body).is_ok());
    }

    #[test]
    fn a_patch_keeps_clears_moves_and_enables() {
        let mut stored = create(json!({"destination_id": DST, "name": "n", "event_types": ["a.b"]})).expect("made");
        stored.verification_state = VerificationState::Active;
        stored.enabled = false;
        stored.disabled_reason = Some(DisabledReason::Gone);
        stored.disabled_at = Some(RULES.now);
        let kept = patch(&stored, json!({"name": null, "event_types": null})).expect("changed");
        assert_eq!((kept.name, kept.event_types, kept.version), (None, Vec::new(), 2));
        assert_eq!(kept.disabled_reason, Some(DisabledReason::Gone));
        assert_eq!(kept.verification_state, VerificationState::Active);
        let enabled = patch(&stored, json!({"enabled": true})).expect("changed");
        assert_eq!((enabled.enabled, enabled.disabled_reason, enabled.disabled_at), (true, None, None));
        let other = "dst_00000000000000000000000000000002";
        let moved = patch(&stored, json!({"destination_id": other})).expect("changed");
        assert_eq!(moved.verification_state, VerificationState::Pending);
        assert_eq!(patch(&stored, json!({"destination_id": null})), Err(vec!["/destination_id".to_owned()]));
        let inline = json!({"destination": {"url": "https://r.test"}});
        assert_eq!(patch(&stored, inline), Err(vec!["/destination".to_owned()]));
    }
}
