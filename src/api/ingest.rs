//! `ANY /v1/ingest/<source_id>[/*]`: a request becomes events; the answer waits until they are durable.
//!
//! Cheap checks first: source known, enabled, intake open, length. Nothing acknowledged is ever lost, and nothing
//! that is refused is stored.

use std::net::IpAddr;
use std::rc::Rc;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use serde::Serialize;

use crate::engine::SettledItem;
use crate::source::cloudevents::{CloudEventsRequest, Received, Refusal, cloud_events};
use crate::source::request::{IncomingRequest, request_event};
use crate::types::source::SourceKind;
use crate::types::{Event, Source, SourceId, Time};

use super::answer::Answer;
use super::client_address::client_address;
use super::problem::{Fault, Problem};
use super::router::IngestPath;
use super::service::{Phase, Service};

/// A request whose head passed.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The source it came to.
    pub source: Rc<Source>,
    /// What follows the source in the path.
    pub rest: String,
}

/// What came in and how its answer is shaped.
enum Arrived {
    One(Box<Event>),
    Batch(Vec<Event>),
}

#[derive(Debug, Serialize)]
struct OneAnswer {
    event_id: String,
    source_id: SourceId,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    duplicate: bool,
}

#[derive(Debug, Serialize)]
struct BatchAnswer {
    items: Vec<BatchItem>,
}

#[derive(Debug, Serialize)]
struct BatchItem {
    event_id: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    duplicate: bool,
}

/// Looks at a request's head.
///
/// # Errors
/// 404, 403, 413 by its `Content-Length`, 503 when nothing may come in.
pub fn admit(api: &Service, path: &IngestPath<'_>, head: &Parts) -> Result<Admitted, Problem> {
    let source = api.writer.directory().source(path.source).cloned().ok_or_else(Problem::not_found)?;
    if !source.enabled {
        return Err(Problem::new(403, "source_disabled", "the source is disabled"));
    }
    let open = matches!(api.phase(), Phase::Serving | Phase::NotReady) && api.store.intake_allowed();
    if !open {
        return Err(Problem::unavailable("the hub takes no events now"));
    }
    if let Some(why) = api.shards.closed() {
        return Err(Problem::unavailable(why));
    }
    let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > u64::from(source.max_body_bytes)) {
        return Err(too_large(source.max_body_bytes as usize));
    }
    Ok(Admitted { source, rest: path.rest.to_owned() })
}

/// 413 for a body over `limit` bytes.
#[must_use]
pub fn too_large(limit: usize) -> Problem {
    Problem::new(413, "payload_too_large", format!("the body is over {limit} bytes"))
}

/// Takes a whole request in.
///
/// # Errors
/// What is wrong with its events, or 503 when they were not stored.
pub async fn accept(
    api: &Service,
    admitted: &Admitted,
    head: &Parts,
    body: Bytes,
    peer: IpAddr,
) -> Result<Answer, Problem> {
    let arrived = decode(api, admitted, head, body, peer)?;
    let source = admitted.source.id;
    match arrived {
        Arrived::One(event) => {
            let event_id = event.public_id();
            let settled = arrive(api, &admitted.source, vec![*event]).await?;
            let duplicate = settled.iter().any(|item| is_duplicate(*item));
            Ok(Answer::json(200, &OneAnswer { event_id, source_id: source, duplicate }))
        }
        Arrived::Batch(events) => {
            let ids: Vec<String> = events.iter().map(Event::public_id).collect();
            let settled = arrive(api, &admitted.source, events).await?;
            let item = |(event_id, item)| BatchItem { event_id, duplicate: is_duplicate(item) };
            Ok(Answer::json(200, &BatchAnswer { items: ids.into_iter().zip(settled).map(item).collect() }))
        }
    }
}

fn decode(api: &Service, admitted: &Admitted, head: &Parts, body: Bytes, peer: IpAddr) -> Result<Arrived, Problem> {
    let (source, now) = (&*admitted.source, api.now());
    match source.kind {
        SourceKind::Http => Ok(Arrived::One(Box::new(request_event(IncomingRequest {
            source,
            type_prefix: &api.settings.type_prefix,
            method: &head.method,
            path: &admitted.rest,
            query: head.uri.query(),
            headers: &head.headers,
            source_ip: client_address(peer, &head.headers, &api.settings.trusted_proxies),
            body,
            lane: &api.settings.ingest_lane,
            now,
            random: api.random(),
        })))),
        SourceKind::CloudEvents => decode_cloud_events(api, source, head, &body, now),
    }
}

fn decode_cloud_events(
    api: &Service,
    source: &Source,
    head: &Parts,
    body: &Bytes,
    now: Time,
) -> Result<Arrived, Problem> {
    let request = CloudEventsRequest {
        source,
        type_prefix: &api.settings.type_prefix,
        headers: &head.headers,
        body,
        lane: &api.settings.ingest_lane,
        now,
    };
    match cloud_events(&request) {
        Ok(Received::One(event)) => Ok(Arrived::One(event)),
        Ok(Received::Batch(events)) => Ok(Arrived::Batch(events)),
        Err(refusal) => Err(refused(&refusal)),
    }
}

/// A single event's code is that of its violation; a batch names each event's.
fn refused(refusal: &Refusal) -> Problem {
    let violations = refusal.violations();
    let code = match (refusal, violations.first()) {
        (Refusal::Single(_), Some(violation)) => violation.code.as_str(),
        (Refusal::Single(_), None) | (Refusal::Batch(_), _) => "invalid_events",
    };
    let fault = |pointer: &String, detail: String| Fault { pointer: pointer.clone(), detail };
    let errors = violations
        .iter()
        .map(|violation| fault(&violation.pointer, format!("{}: {}", violation.code.as_str(), violation.detail)));
    Problem { errors: errors.collect(), ..Problem::new(refusal.status(), code, refusal.to_string()) }
}

/// Waits until every event is durable.
async fn arrive(api: &Service, source: &Source, events: Vec<Event>) -> Result<Vec<SettledItem>, Problem> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let count = events.len();
    let settled = api.shards.arrive(&source.tenant, events).await;
    if settled.len() != count || settled.contains(&SettledItem::Overloaded) {
        return Err(Problem::unavailable("the hub is overloaded"));
    }
    if settled.contains(&SettledItem::Unstorable) {
        return Err(Problem::new(422, "unstorable", "the store refuses an event; it is in quarantine"));
    }
    Ok(settled)
}

const fn is_duplicate(item: SettledItem) -> bool {
    match item {
        SettledItem::Duplicate(_) => true,
        SettledItem::Stored(_) | SettledItem::Unstorable | SettledItem::Overloaded => false,
    }
}
