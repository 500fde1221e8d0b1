//! CloudEvents over HTTP (contracts.md section 3): binary, structured JSON and batch → events, or every violation named.
//!
//! Pure. The tenant is the source's, always; the rules of Kafka records hold, with the source's slug in the place
//! of the topic. Structured payloads are the `data` member's own bytes. The body's limit is the server's business.

mod json;
mod violation;

use std::borrow::Cow;

use bytes::Bytes;
use http::HeaderMap;

use super::attribute::Attribute;
use super::check::{check, pack};
use super::collect::{Collected, Prefixes};
use super::header::{attribute_value, content_encoding};
use crate::types::{Event, LaneName, Sequence, Source, Time};

pub use violation::{Code, Refusal, Violation};

/// A request to a source of type `cloudevents`, with all of its body.
#[derive(Clone, Copy, Debug)]
pub struct CloudEventsRequest<'a> {
    /// The source it came to.
    pub source: &'a Source,
    /// What `ce-type` begins with, without the dot.
    pub type_prefix: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its body.
    pub body: &'a Bytes,
    /// The ingest lane it came by.
    pub lane: &'a LaneName,
    /// Its arrival.
    pub now: Time,
}

/// What a request brought: the answer to a batch has a shape of its own.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// One event, in binary or structured mode.
    One(Box<Event>),
    /// A batch of at most 1 000 events, in order; may be empty.
    Batch(Vec<Event>),
}

impl Received {
    /// The events, in order.
    #[must_use]
    pub fn into_events(self) -> Vec<Event> {
        match self {
            Self::One(event) => vec![*event],
            Self::Batch(events) => events,
        }
    }
}

/// The events of a request.
///
/// # Errors
/// [`Refusal::Single`] (400) names the violation of a single event or of a body that is no JSON,
/// [`Refusal::Batch`] (422) the first violation of each event of a batch.
pub fn cloud_events(request: &CloudEventsRequest<'_>) -> Result<Received, Refusal> {
    let content_type = request.headers.get("content-type").map(|value| value.as_bytes().trim_ascii());
    match Mode::of(content_type.unwrap_or_default()) {
        Mode::Binary => binary(request).map(|event| Received::One(Box::new(event))).map_err(Refusal::Single),
        Mode::Structured => json::single(request).map(|event| Received::One(Box::new(event))).map_err(Refusal::Single),
        Mode::Batch => json::batch(request).map(Received::Batch),
        Mode::OtherFormat => Err(Refusal::Single(Violation::other_format())),
    }
}

/// How a request carries its events, by its content type (CloudEvents HTTP binding, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Binary,
    Structured,
    Batch,
    /// A structured mode in another format than JSON.
    OtherFormat,
}

impl Mode {
    fn of(content_type: &[u8]) -> Self {
        let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        match essence.to_ascii_lowercase().as_slice() {
            b"application/cloudevents+json" => Self::Structured,
            b"application/cloudevents-batch+json" => Self::Batch,
            other if other.starts_with(b"application/cloudevents") => Self::OtherFormat,
            _ => Self::Binary,
        }
    }
}

fn binary(request: &CloudEventsRequest<'_>) -> Result<Event, Violation> {
    let decoded: Vec<(&[u8], Cow<'_, [u8]>)> = request
        .headers
        .iter()
        .map(|(name, value)| {
            let value = value.as_bytes();
            let is_attribute = name.as_str().starts_with("ce-");
            (name.as_str().as_bytes(), if is_attribute { attribute_value(value) } else { Cow::Borrowed(value) })
        })
        .collect();
    let headers = decoded.iter().map(|(name, value)| (*name, Some(&**value)));
    let collected = Collected::from_headers(headers, Prefixes::Hyphen);
    let mut event = event(request, &collected, request.body.clone())?;
    event.content_encoding = content_encoding(request.headers);
    Ok(event)
}

/// The event that collected attributes and a payload are, or the first rule they break.
fn event(request: &CloudEventsRequest<'_>, collected: &Collected<'_>, payload: Bytes) -> Result<Event, Violation> {
    if collected.is_system_event() {
        return Err(Violation::attribute(Code::SystemEvent, Attribute::SystemEvent));
    }
    let checked = check(collected, request.type_prefix, Some(&request.source.slug)).map_err(Violation::of_fault)?;
    let claimed = collected.value(Attribute::TenantId);
    if claimed.is_some_and(|tenant| tenant != request.source.tenant.as_str()) {
        return Err(Violation::attribute(Code::TenantMismatch, Attribute::TenantId));
    }
    Ok(Event {
        tenant: request.source.tenant.clone(),
        id: checked.id,
        sequence: Sequence(0),
        received_at: request.now,
        key: checked.key.into(),
        schema_major: checked.schema_major,
        attributes: pack(collected, checked.id),
        traceparent: collected.traceparent.map(Into::into),
        tracestate: collected.tracestate.map(Into::into),
        content_encoding: None,
        source_id: Some(request.source.id),
        request: None,
        lane: request.lane.clone(),
        payload,
    })
}

#[cfg(test)]
mod tests;
