//! Filter rules, checked once and then held against events: contracts, section 5.
//!
//! A value has the type the payload gives it: texts are never read as numbers. Integers up to 64 bits and
//! floating-point numbers compare by their exact values.

use std::cmp::Ordering;

use serde_json::Value;

use super::field::{Field, Found};
use super::payload::number_order;
use super::work::Work;
use crate::types::subscription::{FilterOp, FilterRule};
use crate::types::{Event, limits};

pub use super::payload::PayloadView;

/// Rules that must all hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    rules: Box<[Rule]>,
}

/// Why a rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter_rules/{index}/{member}: {detail}")]
pub struct FilterFault {
    /// The rule's place in the list.
    pub index: usize,
    /// `field` or `value`; empty when the whole rule is too much.
    pub member: &'static str,
    /// What is wrong with it.
    pub detail: String,
}

/// What judging a rule costs beside what it looks at, in bytes.
const RULE_COST: usize = 64;

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    field: Field,
    test: Test,
    /// Its own text in bytes: comparing never looks at more than that.
    size: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Equal(Value),
    NotEqual(Value),
    Contains(Box<str>),
    Number(Comparison, serde_json::Number),
    Exists(bool),
    OneOf(Box<[Value]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Filter {
    /// Checks rules.
    ///
    /// # Errors
    /// All faults of all rules.
    pub fn compile(rules: &[FilterRule]) -> Result<Self, Vec<FilterFault>> {
        let mut faults = excess_faults(rules);
        let mut compiled = Vec::new();
        for (index, rule) in rules.iter().enumerate().take(limits::FILTER_RULES_MAX) {
            let mut fault = |member, detail| faults.push(FilterFault { index, member, detail });
            let field = Field::parse(&rule.field).map_err(|detail| fault("field", detail)).ok();
            let test = Test::parse(rule.op, &rule.value).map_err(|detail| fault("value", detail)).ok();
            let size = rule.field.len() + rule.value.to_string().len();
            compiled.extend(field.zip(test).map(|(field, test)| Rule { field, test, size }));
        }
        if faults.is_empty() { Ok(Self { rules: compiled.into_boxed_slice() }) } else { Err(faults) }
    }

    /// Whether it has no rules, so that it holds for every event.
    #[must_use]
    pub const fn matches_all(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether all rules hold for `event`. `view` must be of this event; it is filled only when a rule needs it.
    pub fn holds(&self, event: &Event, view: &mut PayloadView) -> bool {
        self.go_on(event, view, &mut 0, &mut Work::unlimited()).unwrap_or(false)
    }

    /// Goes on judging from the rule `next`, as far as `work` reaches: whether all hold, or `None` when it is spent.
    pub fn go_on(&self, event: &Event, view: &mut PayloadView, next: &mut usize, work: &mut Work) -> Option<bool> {
        while let Some(rule) = self.rules.get(*next) {
            if work.is_spent() {
                return None;
            }
            *next += 1;
            if !rule.holds(event, view, work) {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// Too many rules, or too many bytes of them: the first rule beyond the bound is to blame.
fn excess_faults(rules: &[FilterRule]) -> Vec<FilterFault> {
    let mut faults = Vec::new();
    if rules.len() > limits::FILTER_RULES_MAX {
        let detail = format!("at most {} rules are allowed", limits::FILTER_RULES_MAX);
        faults.push(FilterFault { index: limits::FILTER_RULES_MAX, member: "", detail });
    }
    let mut sizes = rules.iter().take(limits::FILTER_RULES_MAX).scan(0, |total, rule| {
        *total += rule.field.len() + rule.value.to_string().len();
        Some(*total)
    });
    if let Some(index) = sizes.position(|total| total > limits::FILTER_RULES_MAX_BYTES) {
        let detail = format!("all rules together have at most {} bytes", limits::FILTER_RULES_MAX_BYTES);
        faults.push(FilterFault { index, member: "", detail });
    }
    faults
}

impl Rule {
    fn holds(&self, event: &Event, view: &mut PayloadView, work: &mut Work) -> bool {
        work.charge(RULE_COST + self.size + self.field.cost(event));
        if self.field.is_of_payload() && view.is_unread() {
            work.charge_parsing(event.payload.len());
        }
        let found = self.field.find(event, view);
        if let (Test::Contains(_), Some(text)) = (&self.test, found.as_ref().and_then(Found::as_str)) {
            work.charge(text.len());
        }
        self.test.holds(found.as_ref())
    }
}

impl Test {
    fn parse(op: FilterOp, value: &Value) -> Result<Self, String> {
        let number = |comparison| match value {
            Value::Number(number) => Ok(Self::Number(comparison, number.clone())),
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                Err("must be a number for this op".to_owned())
            }
        };
        match op {
            FilterOp::Eq => Ok(Self::Equal(value.clone())),
            FilterOp::Neq => Ok(Self::NotEqual(value.clone())),
            FilterOp::Contains => {
                let text = value.as_str().ok_or_else(|| "must be a string for `contains`".to_owned())?;
                Ok(Self::Contains(text.into()))
            }
            FilterOp::Gt => number(Comparison::Greater),
            FilterOp::Gte => number(Comparison::GreaterOrEqual),
            FilterOp::Lt => number(Comparison::Less),
            FilterOp::Lte => number(Comparison::LessOrEqual),
            FilterOp::Exists => {
                let expected = value.as_bool().ok_or_else(|| "must be true or false for `exists`".to_owned())?;
                Ok(Self::Exists(expected))
            }
            FilterOp::In => {
                let list = value.as_array().ok_or_else(|| "must be an array for `in`".to_owned())?;
                Ok(Self::OneOf(list.as_slice().into()))
            }
        }
    }

    fn holds(&self, found: Option<&Found<'_>>) -> bool {
        let Some(found) = found else {
            return matches!(self, Self::NotEqual(_) | Self::Exists(false));
        };
        match self {
            Self::Equal(value) => found.equals(value),
            Self::NotEqual(value) => !found.equals(value),
            Self::Contains(part) => found.as_str().is_some_and(|text| contains(text, part)),
            Self::Number(comparison, value) => {
                found.number().is_some_and(|number| comparison.holds(number_order(number, value)))
            }
            Self::Exists(expected) => *expected,
            Self::OneOf(values) => values.iter().any(|value| found.equals(value)),
        }
    }
}

/// Finds a part of a text in a time that grows with the text alone, whatever both say.
fn contains(text: &str, part: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some()
}

impl Comparison {
    const fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::event::Attributes;
    use crate::types::{HttpRequest, LaneName, Sequence, TenantId, Time};
    use bytes::Bytes;
    use serde_json::json;

    const OPS: [FilterOp; 9] = [
        FilterOp::Eq,
        FilterOp::Neq,
        FilterOp::Contains,
        FilterOp::Gt,
        FilterOp::Gte,
        FilterOp::Lt,
        FilterOp::Lte,
        FilterOp::Exists,
        FilterOp::In,
    ];

    fn event(payload: &str) -> Event {
        let headers = [("x-kind", "gold"), ("x-list", "a"), ("x-list", "b")];
        let request = HttpRequest {
            method: "POST".into(),
            path: "".into(),
            query: None,
            headers: headers.map(|(name, value)| (name.into(), Bytes::from_static(value.as_bytes()))).into(),
            source_ip: "192.0.2.7".parse().expect("an address"),
        };
        Event {
            tenant: TenantId::new("acme").expect("a tenant id"),
            id: uuid::Uuid::from_u128(1),
            sequence: Sequence(1),
            received_at: Time::ZERO,
            key: "loan.approved".into(),
            schema_major: 1,
            attributes: Attributes::pack([("id", "42"), ("source", "loans"), ("datacontenttype", "text/plain")]),
            traceparent: None,
            tracestate: None,
            content_encoding: None,
            source_id: None,
            request: Some(Box::new(request)),
            lane: LaneName("http/0".into()),
            payload: Bytes::copy_from_slice(payload.as_bytes()),
        }
    }

    fn rule(field: &str, op: FilterOp, value: Value) -> FilterRule {
        FilterRule { field: field.to_owned(), op, value }
    }

    fn holds(event: &Event, field: &str, op: FilterOp, value: Value) -> bool {
        let filter = Filter::compile(&[rule(field, op, value)]).expect("a valid rule");
        filter.holds(event, &mut PayloadView::new())
    }

    fn faults(rules: &[FilterRule]) -> Vec<(usize, &'static str)> {
        let faults = Filter::compile(rules).expect_err("faults");
        faults.iter().map(|fault| (fault.index, fault.member)).collect()
    }

    #[test]
    fn all_rules_must_hold_and_none_means_all() {
        let event = event(r#"{"a":1}"#);
        let (yes, no) = (rule("payload.a", FilterOp::Eq, json!(1)), rule("payload.a", FilterOp::Eq, json!(2)));
        let both = Filter::compile(&[yes.clone(), no]).expect("valid");
        assert!(!both.holds(&event, &mut PayloadView::new()));
        assert!(Filter::compile(&[yes.clone(), yes]).expect("valid").holds(&event, &mut PayloadView::new()));
        let none = Filter::compile(&[]).expect("valid");
        assert!(none.matches_all() && none.holds(&event, &mut PayloadView::new()));
        assert!(!both.matches_all());
    }

    #[test]
    fn each_op_compares_its_own_way() {
        let event = event(r#"{"n":5,"s":"hello","b":true,"z":null,"l":[1,{"x":2}]}"#);
        let cases = [
            ("payload.n", FilterOp::Eq, json!(5), true),
            ("payload.n", FilterOp::Eq, json!(5.0), true),
            ("payload.n", FilterOp::Eq, json!("5"), false),
            ("payload.s", FilterOp::Eq, json!("hello"), true),
            ("payload.b", FilterOp::Eq, json!(true), true),
            ("payload.z", FilterOp::Eq, json!(null), true),
            ("payload.l", FilterOp::Eq, json!([1.0, {"x": 2}]), true),
            ("payload.l", FilterOp::Eq, json!([1, {"x": 2, "y": 3}]), false),
            ("payload.n", FilterOp::Neq, json!(6), true),
            ("payload.n", FilterOp::Neq, json!(5), false),
            ("payload.s", FilterOp::Contains, json!("ell"), true),
            ("payload.s", FilterOp::Contains, json!("ELL"), false),
            ("payload.n", FilterOp::Contains, json!("5"), false),
            ("payload.n", FilterOp::Gt, json!(4), true),
            ("payload.n", FilterOp::Gt, json!(5), false),
            ("payload.n", FilterOp::Gte, json!(5), true),
            ("payload.n", FilterOp::Gte, json!(5.1), false),
            ("payload.n", FilterOp::Lt, json!(5.1), true),
            ("payload.n", FilterOp::Lt, json!(5), false),
            ("payload.n", FilterOp::Lte, json!(5), true),
            ("payload.n", FilterOp::Lte, json!(4), false),
            ("payload.z", FilterOp::Exists, json!(true), true),
            ("payload.z", FilterOp::Exists, json!(false), false),
            ("payload.n", FilterOp::In, json!(["5", 5]), true),
            ("payload.n", FilterOp::In, json!(["5", 6]), false),
            ("payload.n", FilterOp::In, json!([]), false),
        ];
        for (field, op, value, expected) in cases {
            assert_eq!(holds(&event, field, op, value.clone()), expected, "{field} {op:?} {value}");
        }
    }

    #[test]
    fn texts_are_never_numbers() {
        let event = event(r#"{"n":"5"}"#);
        for field in ["payload.n", "ce.id"] {
            for op in [FilterOp::Gt, FilterOp::Gte, FilterOp::Lt, FilterOp::Lte] {
                assert!(!holds(&event, field, op, json!(5)), "{field} {op:?}");
            }
        }
        assert!(!holds(&event, "ce.id", FilterOp::Eq, json!(42)));
        assert!(holds(&event, "ce.id", FilterOp::Eq, json!("42")));
    }

    #[test]
    fn of_a_missing_value_only_neq_and_absence_hold() {
        let event = event(r#"{"a":{"b":1}}"#);
        for field in ["payload.x", "payload.a.b.c", "headers.x-none", "ce.subject", "ce.tenantid"] {
            for op in OPS {
                let value = match op {
                    FilterOp::Eq | FilterOp::Neq => json!(null),
                    FilterOp::Contains => json!(""),
                    FilterOp::Gt | FilterOp::Gte | FilterOp::Lt | FilterOp::Lte => json!(0),
                    FilterOp::Exists => json!(true),
                    FilterOp::In => json!([null]),
                };
                assert_eq!(holds(&event, field, op, value), op == FilterOp::Neq, "{field} {op:?}");
            }
            assert!(holds(&event, field, FilterOp::Exists, json!(false)), "{field}");
        }
    }

    #[test]
    fn a_path_walks_objects_and_arrays() {
        let event = event(r#"{"items":[{"sku":"x"},{"sku":"y"}],"0":{"1":"z"}}"#);
        assert!(holds(&event, "payload.items.1.sku", FilterOp::Eq, json!("y")));
        assert!(holds(&event, "payload.items.2", FilterOp::Exists, json!(false)));
        assert!(holds(&event, "payload.items.sku", FilterOp::Exists, json!(false)));
        assert!(holds(&event, "payload.0.1", FilterOp::Eq, json!("z")), "a number may name a member");
    }

    #[test]
    fn every_root_is_found() {
        let event = event("");
        let cases = [
            ("headers.X-Kind", "gold"),
            ("headers.x-list", "a, b"),
            ("ce.source", "loans"),
            ("method", "POST"),
            ("content_type", "text/plain"),
            ("source_ip", "192.0.2.7"),
        ];
        for (field, value) in cases {
            assert!(holds(&event, field, FilterOp::Eq, json!(value)), "{field}");
        }
        let kafka = Event { request: None, ..event };
        for field in ["headers.x-kind", "method", "source_ip"] {
            assert!(holds(&kafka, field, FilterOp::Exists, json!(false)), "{field}");
        }
    }

    #[test]
    fn large_numbers_keep_their_last_digit() {
        let event = event(r#"{"n":12345678901234567890,"m":9007199254740993}"#);
        assert!(holds(&event, "payload.n", FilterOp::Eq, json!(12_345_678_901_234_567_890_u64)));
        assert!(!holds(&event, "payload.n", FilterOp::Eq, json!(12_345_678_901_234_567_891_u64)));
        assert!(holds(&event, "payload.n", FilterOp::Lt, json!(12_345_678_901_234_567_891_u64)));
        assert!(!holds(&event, "payload.m", FilterOp::Eq, json!(9_007_199_254_740_992.0)));
        assert!(holds(&event, "payload.m", FilterOp::Gt, json!(9_007_199_254_740_992.0)));
    }

    #[test]
    fn every_fault_is_told_at_once() {
        let ok = rule("method", FilterOp::Eq, json!("GET"));
        let bad_fields = ["", "payload", "payload.", "payload.a..b", "headers.", "ce.", "header.x", "Method", "path"];
        let mut rules: Vec<_> = bad_fields.iter().map(|field| rule(field, FilterOp::Eq, json!(1))).collect();
        rules.insert(1, ok);
        let expected: Vec<_> = (0..10).filter(|index| *index != 1).map(|index| (index, "field")).collect();
        assert_eq!(faults(&rules), expected);
        assert_eq!(faults(&[rule("nothing", FilterOp::In, json!(1))]), [(0, "field"), (0, "value")]);
    }

    #[test]
    fn each_op_checks_its_value() {
        let wrong = [
            (FilterOp::Contains, json!(1)),
            (FilterOp::Gt, json!("1")),
            (FilterOp::Gte, json!(null)),
            (FilterOp::Lt, json!([1])),
            (FilterOp::Lte, json!(true)),
            (FilterOp::Exists, json!("true")),
            (FilterOp::In, json!("a")),
        ];
        for (op, value) in wrong {
            assert_eq!(faults(&[rule("method", op, value)]), [(0, "value")], "{op:?}");
        }
    }

    #[test]
    fn each_bound_is_kept() {
        let one = rule("method", FilterOp::Eq, json!("GET"));
        assert!(Filter::compile(&vec![one.clone(); 32]).is_ok());
        assert_eq!(faults(&vec![one; 33]), [(32, "")]);
        let deep = |segments: usize| rule(&format!("payload{}", ".a".repeat(segments)), FilterOp::Eq, json!(1));
        assert!(Filter::compile(&[deep(32)]).is_ok());
        assert_eq!(faults(&[deep(33)]), [(0, "field")]);
        let long = |bytes| rule("method", FilterOp::Eq, json!("x".repeat(bytes)));
        assert!(Filter::compile(&[long(32_700), long(32_700)]).is_ok());
        assert_eq!(faults(&[long(32_700), long(32_900)]), [(1, "")]);
    }
}
