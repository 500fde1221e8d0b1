//! Any request to a source of type `http` → an event (contracts.md section 3).
//!
//! Total: there is no request that is no event. What comes from outside and does not fit an attribute's rules is
//! left out of the attributes; it is still kept with the request.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::header::{content_encoding, plain_header};
use super::json_path::string_at;
use crate::types::ids::uuid_v7;
use crate::types::subscription::EventPattern;
use crate::types::{Attributes, Event, HttpRequest, LaneName, Sequence, Source, Time, limits};

/// A request that passed the source's checks, with all of its body.
#[derive(Clone, Debug)]
pub struct IncomingRequest<'a> {
    /// The source it came to.
    pub source: &'a Source,
    /// What `ce-type` begins with, without the dot.
    pub type_prefix: &'a str,
    /// Its method.
    pub method: &'a Method,
    /// What follows `/v1/ingest/<source_id>` in the path.
    pub path: &'a str,
    /// The raw query, without the question mark.
    pub query: Option<&'a str>,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// The client's address.
    pub source_ip: IpAddr,
    /// Its body.
    pub body: Bytes,
    /// The ingest lane it came by.
    pub lane: &'a LaneName,
    /// Its arrival.
    pub now: Time,
    /// 74 random bits for its id.
    pub random: u128,
}

/// The event that a request is.
#[must_use]
pub fn request_event(request: IncomingRequest<'_>) -> Event {
    let id = uuid_v7(request.now, request.random);
    let key = event_key(&request);
    Event {
        tenant: request.source.tenant.clone(),
        id,
        sequence: Sequence(0),
        received_at: request.now,
        schema_major: 1,
        attributes: attributes(&request, &id.to_string(), &key),
        key: key.into(),
        traceparent: trace(request.headers, "traceparent"),
        tracestate: trace(request.headers, "tracestate"),
        content_encoding: content_encoding(request.headers),
        source_id: Some(request.source.id),
        request: Some(Box::new(kept_request(&request))),
        lane: request.lane.clone(),
        payload: request.body,
    }
}

/// The key that the source's header or path names, in this order, or `http.<method>`.
fn event_key(request: &IncomingRequest<'_>) -> String {
    let by_header = request.source.event_key_header.as_deref().and_then(|name| {
        let value = plain_header(request.headers, name, limits::EVENT_KEY_MAX_BYTES)?;
        usable_key(value.trim().to_owned())
    });
    by_header.or_else(|| key_by_path(request)).unwrap_or_else(|| format!("http.{}", method_word(request.method)))
}

fn key_by_path(request: &IncomingRequest<'_>) -> Option<String> {
    let path = request.source.event_key_path.as_deref()?;
    if content_encoding(request.headers).is_some() {
        return None;
    }
    usable_key(string_at(&request.body, path)?)
}

/// `text` if a subscription could name it as one event key.
fn usable_key(text: String) -> Option<String> {
    match EventPattern::try_from(text) {
        Ok(EventPattern::Exact(key)) => Some(key),
        Ok(EventPattern::Any | EventPattern::Resource(_)) | Err(_) => None,
    }
}

/// The method in lower case, fit for an event key: a method may be any token, `*` included.
fn method_word(method: &Method) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c.to_ascii_lowercase() } else { '_' };
    method.as_str().chars().take(limits::EVENT_WORD_MAX_BYTES).map(fit).collect()
}

fn attributes(request: &IncomingRequest<'_>, id: &str, key: &str) -> Attributes {
    let slug = request.source.slug.as_str();
    let kind = format!("{}.{slug}.{key}", request.type_prefix);
    let time = request.now.to_rfc3339();
    let content_type = plain_header(request.headers, "content-type", limits::DATA_CONTENT_TYPE_MAX_BYTES);
    let (resource, event) = key.split_once('.').filter(|words| are_words(*words)).unzip();
    let always = [
        ("specversion", Some("1.0")),
        ("id", Some(id)),
        ("source", Some(slug)),
        ("type", Some(&*kind)),
        ("time", Some(&*time)),
        ("schemaversion", Some("1")),
    ];
    let perhaps = [("resourcetype", resource), ("eventtype", event), ("datacontenttype", content_type)];
    Attributes::pack(always.into_iter().chain(perhaps).filter_map(|(name, value)| Some((name, value?))))
}

fn are_words((resource, event): (&str, &str)) -> bool {
    let fits = |word: &str| (1..=limits::EVENT_WORD_MAX_BYTES).contains(&word.len());
    fits(resource) && fits(event)
}

fn trace(headers: &HeaderMap, name: &str) -> Option<Box<str>> {
    plain_header(headers, name, limits::EXTENSION_MAX_BYTES).map(Into::into)
}

fn kept_request(request: &IncomingRequest<'_>) -> HttpRequest {
    let kept = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.as_str().into(), Bytes::copy_from_slice(value.as_bytes()))
    };
    HttpRequest {
        method: request.method.as_str().into(),
        path: request.path.into(),
        query: request.query.map(Into::into),
        headers: request.headers.iter().map(kept).collect(),
        source_ip: request.source_ip,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::test_source;
    use crate::types::source::SourceKind;

    const NOW: Time = Time::from_millis(1_645_557_742_000);

    fn event(source: &Source, method: &Method, headers: &HeaderMap, body: &[u8]) -> Event {
        request_event(IncomingRequest {
            source,
            type_prefix: "studio.lerian",
            method,
            path: "/a/b",
            query: Some("x=1"),
            headers,
            source_ip: IpAddr::from([192, 0, 2, 1]),
            body: Bytes::copy_from_slice(body),
            lane: &LaneName("http/0".into()),
            now: NOW,
            random: 7,
        })
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, http::HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_request_is_an_event_of_its_method() {
        let source = test_source(SourceKind::Http);
        let sent = headers(&[("content-type", "text/plain"), ("x-a", "1"), ("traceparent", "00-1-2-01")]);
        let event = event(&source, &Method::POST, &sent, b"\xff\x00");
        assert_eq!(&*event.key, "http.post");
        assert_eq!(event.id.get_version_num(), 7);
        assert!(event.public_id().starts_with("evt_"));
        let attributes: Vec<_> =
            event.attributes.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let id = event.id.to_string();
        let expected = [
            ("specversion", "1.0"),
            ("id", &id),
            ("source", "shop"),
            ("type", "studio.lerian.shop.http.post"),
            ("time", "2022-02-22T19:22:22.000Z"),
            ("schemaversion", "1"),
            ("resourcetype", "http"),
            ("eventtype", "post"),
            ("datacontenttype", "text/plain"),
        ];
        assert_eq!(attributes, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let request = event.request.expect("an HTTP event keeps its request");
        assert_eq!((&*request.method, &*request.path, request.query.as_deref()), ("POST", "/a/b", Some("x=1")));
        assert_eq!(request.headers.len(), 3);
        assert_eq!(&*event.payload, b"\xff\x00");
        assert_eq!(event.traceparent.as_deref(), Some("00-1-2-01"));
    }

    #[test]
    fn the_key_comes_from_the_header_then_the_path_then_the_method() {
        let mut source = test_source(SourceKind::Http);
        source.event_key_header = Some("X-GitHub-Event".to_owned());
        source.event_key_path = Some("data.type".to_owned());
        let body = br#"{"data":{"type":"invoice.paid"}}"#;
        let by_header = event(&source, &Method::POST, &headers(&[("x-github-event", "push")]), body);
        assert_eq!(&*by_header.key, "push");
        assert_eq!(by_header.attributes.value("type"), Some("studio.lerian.shop.push"));
        assert_eq!(by_header.attributes.value("resourcetype"), None);
        let by_path = event(&source, &Method::POST, &headers(&[("x-github-event", "a b")]), body);
        assert_eq!(&*by_path.key, "invoice.paid");
        let encoded = event(&source, &Method::PUT, &headers(&[("content-encoding", "gzip")]), body);
        assert_eq!(&*encoded.key, "http.put");
        assert_eq!(encoded.content_encoding.as_deref(), Some("gzip"));
        for unusable in ["", "*", "loan.*", "a\tb"] {
            let fallback = event(&source, &Method::GET, &headers(&[("x-github-event", unusable)]), b"[]");
            assert_eq!(&*fallback.key, "http.get", "{unusable}");
        }
    }

    #[test]
    fn any_method_makes_a_key_that_no_pattern_reads_as_a_wildcard() {
        let source = test_source(SourceKind::Http);
        let star = Method::from_bytes(b"*").expect("a token");
        assert_eq!(&*event(&source, &star, &HeaderMap::new(), b"").key, "http._");
        let long = Method::from_bytes(&[b'M'; 5000]).expect("a token");
        assert_eq!(event(&source, &long, &HeaderMap::new(), b"").key.len(), 133);
    }

    proptest! {
        #[test]
        fn no_request_panics_or_smuggles_control_characters(
            key in prop::collection::vec(any::<u8>(), 0..300),
            content_type in prop::collection::vec(any::<u8>(), 0..300),
            body in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut source = test_source(SourceKind::Http);
            source.event_key_header = Some("x-key".to_owned());
            source.event_key_path = Some("a".to_owned());
            let mut sent = HeaderMap::new();
            for (name, value) in [("x-key", &key), ("content-type", &content_type)] {
                if let Ok(value) = http::HeaderValue::from_bytes(value) {
                    sent.insert(name, value);
                }
            }
            let event = event(&source, &Method::POST, &sent, &body);
            prop_assert!(event.attributes.iter().all(|(_, value)| !value.chars().any(char::is_control)));
            prop_assert!(!event.key.is_empty() && event.key.len() <= limits::EVENT_KEY_MAX_BYTES);
        }
    }
}
