//! What a filter rule looks at, and what an event has there.

use std::borrow::Cow;

use serde_json::Value;

use super::payload::{PayloadView, number_order};
use crate::types::{Event, HttpRequest, limits};

/// What a filter rule looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A place in the JSON payload.
    Payload(Box<[PathSegment]>),
    /// A header of the HTTP request, lower case.
    Header(Box<str>),
    /// A context attribute.
    Attribute(Box<str>),
    /// The HTTP request's method.
    Method,
    /// The payload's content type.
    ContentType,
    /// The client's address.
    SourceIp,
}

/// One segment of a payload's dot path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSegment {
    name: Box<str>,
    /// Set when the name is a number, which indexes an array.
    index: Option<usize>,
}

/// What a field holds in one event.
pub enum Found<'a> {
    /// A text from outside the payload.
    Text(Cow<'a, str>),
    /// A value of the payload.
    Json(&'a Value),
}

impl Field {
    /// Parses a rule's `field`.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "method" => return Ok(Self::Method),
            "content_type" => return Ok(Self::ContentType),
            "source_ip" => return Ok(Self::SourceIp),
            _ => {}
        }
        match text.split_once('.') {
            Some(("payload", path)) => parse_path(path).map(Self::Payload),
            Some(("headers" | "ce", "")) => Err(format!("`{text}` names nothing")),
            Some(("headers", name)) => Ok(Self::Header(name.to_ascii_lowercase().into_boxed_str())),
            Some(("ce", name)) => Ok(Self::Attribute(name.into())),
            Some(_) | None => Err("must be `payload.<path>`, `headers.<name>`, `ce.<attribute>`, `method`, \
                                   `content_type` or `source_ip`"
                .to_owned()),
        }
    }

    /// Whether it needs the payload to be parsed.
    pub const fn is_of_payload(&self) -> bool {
        matches!(self, Self::Payload(_))
    }

    /// What finding it in `event` looks at, in bytes, roughly; parsing the payload is apart.
    pub fn cost(&self, event: &Event) -> usize {
        match self {
            Self::Header(_) => {
                let headers = event.request.iter().flat_map(|request| &request.headers);
                headers.map(|(name, value)| name.len() + value.len()).sum()
            }
            Self::Payload(_) | Self::Attribute(_) | Self::Method | Self::ContentType | Self::SourceIp => 0,
        }
    }

    /// What `event` has there. `view` must be of this event.
    pub fn find<'a>(&self, event: &'a Event, view: &'a mut PayloadView) -> Option<Found<'a>> {
        let request = event.request.as_deref();
        match self {
            Self::Payload(path) => view.json(event).and_then(|json| walk(json, path)).map(Found::Json),
            Self::Header(name) => request.and_then(|request| header(request, name)).map(Found::Text),
            Self::Attribute(name) => event.attributes.value(name).map(Found::text),
            Self::Method => request.map(|request| Found::text(&request.method)),
            Self::ContentType => event.content_type().map(Found::text),
            Self::SourceIp => request.map(|request| Found::Text(request.source_ip.to_string().into())),
        }
    }
}

fn parse_path(path: &str) -> Result<Box<[PathSegment]>, String> {
    if path.split('.').count() > limits::FILTER_PATH_SEGMENTS_MAX {
        return Err(format!("a path has at most {} segments", limits::FILTER_PATH_SEGMENTS_MAX));
    }
    if path.split('.').any(str::is_empty) {
        return Err("a path needs a name between all dots".to_owned());
    }
    Ok(path.split('.').map(PathSegment::new).collect())
}

impl PathSegment {
    fn new(name: &str) -> Self {
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        Self { name: name.into(), index: if is_number { name.parse().ok() } else { None } }
    }
}

fn walk<'a>(json: &'a Value, path: &[PathSegment]) -> Option<&'a Value> {
    path.iter().try_fold(json, |value, segment| match value {
        Value::Object(members) => members.get(&*segment.name),
        Value::Array(items) => items.get(segment.index?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// A header's value; repeated headers are one list (RFC 9110, section 5.3). Bytes that are no UTF-8 are replaced.
fn header<'a>(request: &'a HttpRequest, name: &str) -> Option<Cow<'a, str>> {
    let mut values = request.headers.iter().filter(|(other, _)| **other == *name);
    let first = String::from_utf8_lossy(&values.next()?.1);
    Some(values.fold(first, |list, (_, value)| list + ", " + String::from_utf8_lossy(value)))
}

impl<'a> Found<'a> {
    const fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Json(value) => value.as_str(),
        }
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<&serde_json::Number> {
        match self {
            Self::Text(_) => None,
            Self::Json(value) => value.as_number(),
        }
    }

    /// Whether it equals a rule's value.
    pub fn equals(&self, value: &Value) -> bool {
        match self {
            Self::Text(text) => value.as_str() == Some(&**text),
            Self::Json(json) => json_equals(json, value),
        }
    }
}

/// Structural equality in which numbers are equal by value: 1 and 1.0 are.
fn json_equals(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => number_order(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| json_equals(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let same = |(name, value): (&String, &Value)| right.get(name).is_some_and(|o| json_equals(value, o));
            left.len() == right.len() && left.iter().all(same)
        }
        (left, right) => left == right,
    }
}
