//! The CloudEvents JSON format: one object, or an array of them, read without building the document.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{CloudEventsRequest, Refusal, Violation};
use crate::source::attribute::Attribute;
use crate::source::collect::{Collected, Prefixes};
use crate::types::{Event, limits};

/// Members kept of one event: all known attributes, all extensions, both forms of data, and one more of each to
/// see that there are too many.
const MEMBERS_MAX: usize = 2 * (Attribute::COUNT + limits::EXTENSIONS_MAX + 2);

/// The event of a structured request.
pub(super) fn single(request: &CloudEventsRequest<'_>) -> Result<Event, Violation> {
    let members = serde_json::from_slice::<Members<'_>>(request.body)
        .map_err(|error| Violation::malformed(String::new(), &format!("the body must be a JSON object: {error}")))?;
    event(request, &members)
}

/// The events of a batch, all of them, or the first violation of each that has one.
pub(super) fn batch(request: &CloudEventsRequest<'_>) -> Result<Vec<Event>, Refusal> {
    let items = serde_json::from_slice::<Items<'_>>(request.body).map_err(|error| {
        Refusal::Single(Violation::malformed(String::new(), &format!("the body must be a JSON array: {error}")))
    })?;
    if items.0.len() > limits::BATCH_MAX_EVENTS {
        return Err(Refusal::Batch(vec![Violation::too_many_events()]));
    }
    let mut events = Vec::with_capacity(items.0.len());
    let mut violations = Vec::new();
    for (index, item) in items.0.iter().enumerate() {
        match item_event(request, item) {
            Ok(event) => events.push(event),
            Err(violation) => violations.push(violation.within(index)),
        }
    }
    if violations.is_empty() { Ok(events) } else { Err(Refusal::Batch(violations)) }
}

fn item_event(request: &CloudEventsRequest<'_>, item: &RawValue) -> Result<Event, Violation> {
    let members = serde_json::from_str::<Members<'_>>(item.get())
        .map_err(|_| Violation::malformed(String::new(), "an event must be a JSON object"))?;
    event(request, &members)
}

fn event(request: &CloudEventsRequest<'_>, members: &Members<'_>) -> Result<Event, Violation> {
    let payload = payload(members)?;
    let attributes = attributes(members)?;
    let traces = ["traceparent", "tracestate"]
        .iter()
        .filter_map(|name| Some((name.as_bytes(), Some(request.headers.get(*name)?.as_bytes()))));
    let headers = attributes.iter().map(|(name, value)| (name.as_bytes(), value.as_deref().map(str::as_bytes)));
    let collected = Collected::from_headers(headers.chain(traces), Prefixes::Hyphen);
    super::event(request, &collected, payload)
}

/// A header's name and value; no value for null.
type AttributeHeader<'a> = (String, Option<Cow<'a, str>>);

/// The attributes as headers would carry them; null is absent (CloudEvents JSON format, section 2.2).
fn attributes<'a>(members: &Members<'a>) -> Result<Vec<AttributeHeader<'a>>, Violation> {
    let named = members.0.iter().filter(|(name, _)| !is_data(name));
    named.map(|(name, value)| Ok((format!("ce-{name}"), scalar(name, value)?))).collect()
}

fn is_data(name: &str) -> bool {
    name == "data" || name == "data_base64"
}

/// An attribute's canonical text: a string's content, a number or boolean as written.
fn scalar<'a>(name: &str, value: &'a RawValue) -> Result<Option<Cow<'a, str>>, Violation> {
    let must = "an attribute must be a string, number or boolean";
    let malformed = || Violation::malformed(format!("/{}", name.replace('~', "~0").replace('/', "~1")), must);
    match value.get().as_bytes().first() {
        Some(b'"') => string(value).map(Some).ok_or_else(malformed),
        Some(b'n') => Ok(None),
        Some(b'{' | b'[') | None => Err(malformed()),
        Some(_) => Ok(Some(Cow::Borrowed(value.get()))),
    }
}

fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(value.get()).ok().map(|text| text.0)
}

/// `data` as written, or `data_base64` decoded; nothing when there is neither. Copied, so that one event of a
/// batch does not keep the whole body.
fn payload(members: &Members<'_>) -> Result<Bytes, Violation> {
    let mut data = members.0.iter().filter(|(name, _)| is_data(name));
    let Some((name, value)) = data.next() else { return Ok(Bytes::new()) };
    if data.next().is_some() {
        return Err(Violation::malformed(
            "/data".to_owned(),
            "an event must have one of `data` and `data_base64`, once",
        ));
    }
    if name == "data" {
        return Ok(Bytes::copy_from_slice(value.get().as_bytes()));
    }
    let decoded = string(value).and_then(|text| STANDARD.decode(text.as_bytes()).ok());
    let malformed = || Violation::malformed("/data_base64".to_owned(), "`data_base64` must be a string of base64");
    decoded.map(Bytes::from).ok_or_else(malformed)
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// An object's members in order, repeated ones too, each value as written; no more than can be judged.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut members = Vec::with_capacity(16);
        while let Some(Text(name)) = map.next_key()? {
            let value = map.next_value::<&RawValue>()?;
            if members.len() < MEMBERS_MAX || is_data(&name) {
                members.push((name, value));
            }
        }
        Ok(Members(members))
    }
}

/// An array's items as written; one more than allowed at most.
struct Items<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ItemsVisitor)
    }
}

struct ItemsVisitor;

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Items<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
        let mut items = Vec::new();
        while items.len() <= limits::BATCH_MAX_EVENTS {
            match seq.next_element::<&RawValue>()? {
                Some(item) => items.push(item),
                None => return Ok(Items(items)),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Items(items))
    }
}
