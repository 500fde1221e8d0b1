//! An event as its tenant reads it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::store::codec::fold::FoldedEvent;
use crate::types::{Event, HttpRequest, SourceId, limits};

use super::{DeliveryView, HeaderView};

/// One event; its payload as JSON, verbatim, when it is that, else in base64.
#[derive(Debug, Serialize)]
pub struct EventView<'a> {
    id: String,
    event_type: &'a str,
    origin: &'a str,
    schema_major: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_id: Option<SourceId>,
    ce: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_encoding: Option<&'a str>,
    received_at: String,
    sequence: u64,
    size: u64,
    lane: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<RequestView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<Vec<DeliveryView<'a>>>,
}

#[derive(Debug, Serialize)]
struct RequestView<'a> {
    method: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a str>,
    headers: Vec<HeaderView<'a>>,
    source_ip: String,
}

impl<'a> EventView<'a> {
    /// The view, as lists show it. An expired payload is absent; its size stays.
    #[must_use]
    pub fn of(folded: &'a FoldedEvent) -> Self {
        Self { size: folded.payload_size, ..Self::of_event(&folded.logged.event) }
    }

    fn of_event(event: &'a Event) -> Self {
        let data = json_payload(event);
        let encode = data.is_none() && !event.payload.is_empty();
        Self {
            id: event.public_id(),
            event_type: &event.key,
            origin: event.origin(),
            schema_major: event.schema_major,
            source_id: event.source_id,
            ce: event.attributes.iter().collect(),
            content_type: event.content_type(),
            content_encoding: event.content_encoding.as_deref(),
            received_at: event.received_at.to_rfc3339(),
            sequence: event.sequence.0,
            size: event.payload.len() as u64,
            lane: &event.lane.0,
            data,
            data_base64: encode.then(|| STANDARD.encode(&event.payload)),
            request: event.request.as_deref().map(RequestView::of),
            deliveries: None,
        }
    }

    /// The same with its jobs, as the single read shows it.
    #[must_use]
    pub fn with_deliveries(mut self, deliveries: Vec<DeliveryView<'a>>) -> Self {
        self.deliveries = Some(deliveries);
        self
    }
}

impl<'a> RequestView<'a> {
    fn of(request: &'a HttpRequest) -> Self {
        Self {
            method: &request.method,
            path: &request.path,
            query: request.query.as_deref(),
            headers: HeaderView::list(&request.headers),
            source_ip: request.source_ip.to_string(),
        }
    }
}

/// The payload as JSON: when the content type says so (or says nothing, as in CloudEvents' JSON format), it is
/// not encoded, it parses, and it nests at most 128 deep.
fn json_payload(event: &Event) -> Option<&RawValue> {
    let claims_json = event.content_type().is_none_or(is_json) && event.content_encoding.is_none();
    if !claims_json || !is_shallow(&event.payload) {
        return None;
    }
    serde_json::from_slice(&event.payload).ok()
}

/// `application/json`, `text/json`, or any type with the suffix `+json` (RFC 6839).
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
}

/// Whether brackets outside strings nest at most [`limits::JSON_DEPTH_MAX`] deep.
fn is_shallow(payload: &[u8]) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in payload {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limits::JSON_DEPTH_MAX {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use serde_json::json;

    fn text(event: &Event) -> String {
        serde_json::to_string(&EventView::of_event(event)).expect("JSON")
    }

    #[test]
    fn an_event_has_the_contracts_members() {
        let event = samples::event("application/json", b"{}");
        let view = serde_json::to_value(EventView::of_event(&event).with_deliveries(Vec::new())).expect("JSON");
        let expected = json!({
            "id": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "event_type": "loan.approved", "origin": "loans",
            "schema_major": 1, "content_type": "application/json", "received_at": "2022-02-22T19:22:22.000Z",
            "sequence": 7, "size": 2, "lane": "kafka/lerian.streaming.loans/3", "data": {}, "deliveries": [],
            "ce": {
                "id": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "source": "loans", "datacontenttype": "application/json",
            },
        });
        assert_eq!(view, expected);
    }

    #[test]
    fn json_is_shown_verbatim() {
        let big = br#"{"n": 12345678901234567890.123456789,"n":1e999}"#;
        for content_type in ["application/json", "application/problem+json; charset=utf-8", ""] {
            let shown = text(&samples::event(content_type, big));
            assert!(shown.contains(r#""data":{"n": 12345678901234567890.123456789,"n":1e999}"#), "{shown}");
        }
    }

    #[test]
    fn anything_else_is_base64_and_nothing_is_absent() {
        assert!(text(&samples::event("text/plain", b"{}")).contains(r#""data_base64":"e30=""#));
        assert!(text(&samples::event("application/json", b"{")).contains(r#""data_base64":"ew==""#));
        assert!(text(&samples::event("application/json", b"\"\xff\"")).contains(r#""data_base64":"Iv8i""#));
        let mut encoded = samples::event("application/json", b"{}");
        encoded.content_encoding = Some("gzip".into());
        assert!(text(&encoded).contains(r#""data_base64":"e30=""#));
        let empty = serde_json::to_value(EventView::of_event(&samples::event("text/plain", b""))).expect("JSON");
        assert_eq!((empty.get("data"), empty.get("data_base64")), (None, None));
    }

    #[test]
    fn depth_is_bounded_and_brackets_in_strings_do_not_count() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(is_shallow(nested(128).as_bytes()));
        assert!(!is_shallow(nested(129).as_bytes()));
        assert!(is_shallow(format!("\"\\\"{}\"", nested(129)).as_bytes()));
    }

    #[test]
    fn an_http_event_shows_its_request() {
        let mut event = samples::event("text/plain", b"x");
        event.request = Some(Box::new(HttpRequest {
            method: "PUT".into(),
            path: "/a".into(),
            query: Some("b=1".into()),
            headers: vec![("x-text".into(), "t".into()), ("x-bytes".into(), vec![0xff].into())],
            source_ip: std::net::Ipv4Addr::LOCALHOST.into(),
        }));
        let view = serde_json::to_value(EventView::of_event(&event)).expect("JSON");
        assert_eq!(view["id"], "evt_017f22e279b07cc398c4dc0c0c07398f");
        let expected = json!({
            "method": "PUT", "path": "/a", "query": "b=1", "source_ip": "127.0.0.1",
            "headers": [{"name": "x-text", "value": "t"}, {"name": "x-bytes", "value_base64": "/w=="}],
        });
        assert_eq!(view["request"], expected);
    }
}
