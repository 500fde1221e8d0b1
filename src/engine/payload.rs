//! An event's payload as JSON, parsed once and only when somebody asks; and how JSON numbers compare.
//!
//! Whether a payload is JSON is told by parsing it, whatever its content type says: at most
//! [`limits::JSON_DEPTH_MAX`] deep and not content-encoded. The bytes themselves are never changed.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::types::{Event, limits};

/// `serde_json` nests at most this deep.
const PARSER_DEPTH_MAX: usize = 127;
const _: () = assert!(limits::JSON_DEPTH_MAX == PARSER_DEPTH_MAX + 1, "parse_deepest() adds exactly one level");

/// One event's payload, parsed when first needed. Use a new one for each event.
#[derive(Debug, Default)]
pub struct PayloadView(State);

#[derive(Debug, Default)]
enum State {
    #[default]
    Unread,
    NotJson,
    Json(Value),
}

impl PayloadView {
    /// A view of an event not looked at yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(State::Unread)
    }

    /// Whether nobody has asked for it yet.
    #[must_use]
    pub const fn is_unread(&self) -> bool {
        matches!(self.0, State::Unread)
    }

    /// The payload of `event`, if it is JSON.
    pub fn json(&mut self, event: &Event) -> Option<&Value> {
        if matches!(self.0, State::Unread) {
            let plain = event.content_encoding.is_none();
            let json = if plain { parse(&event.payload) } else { None };
            self.0 = json.map_or(State::NotJson, State::Json);
        }
        match &self.0 {
            State::Json(json) => Some(json),
            State::Unread | State::NotJson => None,
        }
    }
}

fn parse(payload: &[u8]) -> Option<Value> {
    serde_json::from_slice(payload).ok().or_else(|| parse_deepest(payload))
}

/// The parser stops one level short of what counts as JSON here: so the outermost level is taken off first.
fn parse_deepest(payload: &[u8]) -> Option<Value> {
    let parse_raw = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    match payload.trim_ascii_start().first()? {
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_slice(payload).ok()?;
            items.into_iter().map(parse_raw).collect::<Option<_>>().map(Value::Array)
        }
        b'{' => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_slice(payload).ok()?;
            let members = members.into_iter().map(|(name, raw)| Some((name, parse_raw(raw)?)));
            members.collect::<Option<_>>().map(Value::Object)
        }
        _ => None,
    }
}

/// How two JSON numbers compare, by their exact values.
pub(super) fn number_order(left: &Number, right: &Number) -> Ordering {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => integer_order(left, float(right)),
        (None, Some(right)) => integer_order(right, float(left)).reverse(),
        (None, None) => float(left).partial_cmp(&float(right)).unwrap_or(Ordering::Equal),
    }
}

fn float(number: &Number) -> f64 {
    number.as_f64().expect("a JSON number that is no integer is a finite float")
}

/// Compares an integer of at most 64 bits with a finite float, without rounding either.
fn integer_order(integer: i128, float: f64) -> Ordering {
    const BEYOND: f64 = 36_893_488_147_419_103_232.0; // 2^65
    if float.abs() >= BEYOND {
        return if float > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    let whole = float.trunc();
    #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^65 fits an i128")]
    let order = integer.cmp(&(whole as i128));
    let fraction = 0.0_f64.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal);
    order.then(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::properties::same_cases;
    use crate::types::event::Attributes;
    use crate::types::{LaneName, Sequence, TenantId, Time};
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::json;

    fn event(payload: &[u8]) -> Event {
        Event {
            tenant: TenantId::new("acme").expect("a tenant id"),
            id: uuid::Uuid::from_u128(1),
            sequence: Sequence(1),
            received_at: Time::ZERO,
            key: "a.b".into(),
            schema_major: 1,
            attributes: Attributes::default(),
            traceparent: None,
            tracestate: None,
            content_encoding: None,
            source_id: None,
            request: None,
            lane: LaneName("http/0".into()),
            payload: Bytes::copy_from_slice(payload),
        }
    }

    fn is_json(payload: &[u8]) -> bool {
        PayloadView::new().json(&event(payload)).is_some()
    }

    #[test]
    fn json_is_what_parses() {
        for payload in ["{}", " [1]\n", "1", "\"a\"", "null", r#"{"a":1,"a":2}"#] {
            assert!(is_json(payload.as_bytes()), "{payload}");
        }
        for payload in ["", " ", "{", "[1,]", "{} {}", "a=1&b=2", "[1", "{\"a\":[}"] {
            assert!(!is_json(payload.as_bytes()), "{payload}");
        }
        assert!(!is_json(b"\"\xff\""));
    }

    #[test]
    fn it_nests_128_deep_and_no_deeper() {
        let arrays = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
        let objects = |depth: usize| [r#"{"a":"#.repeat(depth), "1".to_owned(), "}".repeat(depth)].concat();
        for depth in [1, 127, 128] {
            assert!(is_json(arrays(depth).as_bytes()) && is_json(objects(depth).as_bytes()), "{depth}");
        }
        for depth in [129, 100_000] {
            assert!(!is_json(arrays(depth).as_bytes()) && !is_json(objects(depth).as_bytes()), "{depth}");
        }
    }

    #[test]
    fn the_deepest_payload_is_whole() {
        let deep = ["[".repeat(127), "]".repeat(127)].concat();
        let event = event(format!(r#" {{"a":1,"deep":{deep},"a":"last"}} "#).as_bytes());
        let mut view = PayloadView::new();
        let json = view.json(&event).expect("128 deep");
        assert_eq!(json["a"], json!("last"));
        assert!(json["deep"][0][0].is_array());
    }

    #[test]
    fn an_encoded_payload_is_not_looked_into() {
        let encoded = Event { content_encoding: Some("identity".into()), ..event(b"{}") };
        assert_eq!(PayloadView::new().json(&encoded), None);
    }

    #[test]
    fn it_is_parsed_once() {
        let mut view = PayloadView::new();
        assert_eq!(view.json(&event(b"1")), Some(&json!(1)));
        assert_eq!(view.json(&event(b"2")), Some(&json!(1)), "a view belongs to the event it saw first");
    }

    fn number(text: &str) -> Number {
        text.parse().expect("a JSON number")
    }

    #[test]
    fn numbers_compare_by_exact_value() {
        let ascending = [
            "-1e300",
            "-9223372036854775808",
            "-1.5",
            "-1",
            "-0.5",
            "0",
            "0.5",
            "1",
            "1.5",
            "9007199254740992.0",
            "9007199254740993",
            "12345678901234567890",
            "12345678901234567891",
            "18446744073709551615",
            "18446744073709551616",
            "1e300",
        ];
        for (left_index, left) in ascending.iter().enumerate() {
            for (right_index, right) in ascending.iter().enumerate() {
                let order = number_order(&number(left), &number(right));
                assert_eq!(order, left_index.cmp(&right_index), "{left} and {right}");
            }
        }
        for (left, right) in [("0", "-0"), ("1", "1.0"), ("1e2", "100"), ("-0.0", "0.0")] {
            assert_eq!(number_order(&number(left), &number(right)), Ordering::Equal, "{left} and {right}");
        }
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn no_bytes_panic(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            is_json(&payload);
        }

        #[test]
        fn small_integers_and_floats_agree(left in -1_000i32..1_000, right in -4_000i32..4_000) {
            let right = f64::from(right) / 4.0;
            let expected = f64::from(left).partial_cmp(&right).expect("finite");
            let right = Number::from_f64(right).expect("finite");
            prop_assert_eq!(number_order(&Number::from(left), &right), expected);
            prop_assert_eq!(number_order(&right, &Number::from(left)), expected.reverse());
        }
    }
}
