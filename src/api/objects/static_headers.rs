//! The `headers` member of a destination: static headers, their values written but never read back.

use serde_json::Value;

use crate::api::input::{Field, Fields};
use crate::api::problem::Faults;
use crate::deliver::headers::check_static_header;
use crate::types::destination::StaticHeader;
use crate::types::{Secret, limits};

/// One item of a body's `headers`.
#[derive(Clone, Debug)]
pub struct HeaderChange {
    at: String,
    name: String,
    value: Option<Secret>,
}

/// Takes `headers`.
pub fn take(fields: &mut Fields, faults: &mut Faults) -> Field<Vec<HeaderChange>> {
    let at = fields.pointer("headers");
    fields.list("headers", limits::STATIC_HEADERS_MAX, faults).and_then(|list| {
        let mut headers: Vec<HeaderChange> = Vec::with_capacity(list.len());
        for (index, item) in list.into_iter().enumerate() {
            let Some(header) = header(format!("{at}/{index}"), item, faults) else { continue };
            if headers.iter().any(|other| other.name == header.name) {
                faults.add(format!("{}/name", header.at), "must be unique, in any case of letters");
            }
            headers.push(header);
        }
        Some(headers)
    })
}

fn header(at: String, item: Value, faults: &mut Faults) -> Option<HeaderChange> {
    let mut fields = Fields::of_value(at.clone(), item, faults)?;
    let name_at = fields.pointer("name");
    let value_at = fields.pointer("value");
    let name = fields.text("name", limits::NAME_MAX_BYTES, faults);
    let missing = matches!(name, Field::Null) || name.is_absent() && !faults.names(&name_at);
    let value = fields.text("value", limits::STATIC_HEADER_VALUE_MAX_BYTES, faults).value();
    fields.finish(faults);
    if missing {
        faults.add(name_at.clone(), "is required");
    }
    let name = header_name(&name.value()?).map_err(|rule| faults.add(name_at, rule)).ok()?;
    if value.as_deref().is_some_and(|value| http::HeaderValue::from_str(value).is_err()) {
        faults.add(value_at, "must have no control characters");
    }
    Some(HeaderChange { at, name, value: value.map(|text| Secret::new(text.into_bytes())) })
}

/// The lower-case form of a header name that a tenant may set.
///
/// # Errors
/// The rule that is broken: no name at all, or one that the hub or the connection owns.
pub fn header_name(text: &str) -> Result<String, String> {
    check_static_header(text, b"").map_err(|error| error.to_string())?;
    Ok(text.to_ascii_lowercase())
}

/// The headers afterwards: an item without a value keeps the stored one of its name.
pub fn apply(
    change: Field<Vec<HeaderChange>>,
    mut stored: Vec<StaticHeader>,
    faults: &mut Faults,
) -> Vec<StaticHeader> {
    let list = match change {
        Field::Absent => return stored,
        Field::Null => return Vec::new(),
        Field::Set(list) => list,
    };
    let mut value_of = |header: &mut HeaderChange| {
        let kept = stored.iter().position(|other| other.name == header.name);
        header.value.take().or_else(|| kept.map(|index| stored.swap_remove(index).value))
    };
    let mut merged = Vec::with_capacity(list.len());
    for mut header in list {
        match value_of(&mut header) {
            Some(value) => merged.push(StaticHeader { name: header.name, value }),
            None => faults.add(format!("{}/value", header.at), "is required for a new header"),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(body: &str, expected: &[&str]) {
        let mut faults = Faults::default();
        let body: Value = serde_json::from_str(body).expect("JSON");
        let mut fields = Fields::of_value(String::new(), body, &mut faults).expect("an object");
        let change = take(&mut fields, &mut faults);
        apply(change, Vec::new(), &mut faults);
        let pointers: Vec<String> =
            faults.check().expect_err("faults").errors.into_iter().map(|fault| fault.pointer).collect();
        assert_eq!(pointers, expected);
    }

    #[test]
    fn headers_are_checked_one_by_one() {
        fault(r#"{"headers": {}}"#, &["/headers"]);
        fault(
            r#"{"headers": [7, {"value": "v"}, {"name": "a"}]}"#,
            &["/headers/0", "/headers/1/name", "/headers/2/value"],
        );
        fault(r#"{"headers": [{"name": "X Y", "value": "v"}]}"#, &["/headers/0/name"]);
        fault(r#"{"headers": [{"name": "x-a", "value": "a\r\nX-Evil: 1"}]}"#, &["/headers/0/value"]);
        fault(r#"{"headers": [{"name": "x-a", "value": "1"}, {"name": "X-A", "value": "2"}]}"#, &["/headers/1/name"]);
        for owned in ["Host", "Content-Length", "Transfer-Encoding", "Connection", "X-Lerian-Event-Id", "webhook-id"] {
            fault(&format!("{{\"headers\": [{{\"name\": \"{owned}\", \"value\": \"v\"}}]}}"), &["/headers/0/name"]);
        }
    }
}
