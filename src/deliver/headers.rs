//! The request headers of a delivery (contracts, "A delivery"), and which static headers a tenant may set.
//!
//! What a destination's version fixes is made once ([`fixed_headers`]); what an attempt adds is written into one
//! buffer that all its values share ([`add_delivery_headers`]).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, BytesMut};
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use url::Url;

use super::sign::Signer;
use crate::engine::Dispatch;
use crate::types::destination::Auth;
use crate::types::limits::STATIC_HEADER_VALUE_MAX_BYTES;
use crate::types::{AttemptId, Destination, Event, SubscriptionId, Time};

/// What `User-Agent` says.
pub const USER_AGENT_TEXT: &str = concat!("streaming-hub/", env!("CARGO_PKG_VERSION"));
/// A header name's bytes: more is a mistake.
const NAME_MAX_BYTES: usize = 256;
/// What the values of one attempt take in the usual case.
const VALUES_BYTES: usize = 1_024;
/// What the CloudEvents HTTP binding (section 3.1.3.2) asks to encode; everything beyond ASCII is, too.
pub const CE_VALUE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

static EVENT_ID: HeaderName = HeaderName::from_static("x-lerian-event-id");
static SUBSCRIPTION_ID: HeaderName = HeaderName::from_static("x-lerian-subscription-id");
static DELIVERY_ID: HeaderName = HeaderName::from_static("x-lerian-delivery-id");
static EVENT_TYPE: HeaderName = HeaderName::from_static("x-lerian-event-type");
static TIMESTAMP: HeaderName = HeaderName::from_static("x-lerian-timestamp");
static SIGNATURE: HeaderName = HeaderName::from_static("x-lerian-signature");
static WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
static WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
static WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
static HOOKSTREAM_EVENT_ID: HeaderName = HeaderName::from_static("x-hookstream-event-id");
static HOOKSTREAM_ATTEMPT: HeaderName = HeaderName::from_static("x-hookstream-delivery-attempt");
static HOOKSTREAM_TIMESTAMP: HeaderName = HeaderName::from_static("x-hookstream-timestamp");
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
static CE_ID: HeaderName = HeaderName::from_static("ce-id");
static CE_SOURCE: HeaderName = HeaderName::from_static("ce-source");
static CE_SPECVERSION: HeaderName = HeaderName::from_static("ce-specversion");
static CE_TYPE: HeaderName = HeaderName::from_static("ce-type");
static CE_TIME: HeaderName = HeaderName::from_static("ce-time");
static CE_SUBJECT: HeaderName = HeaderName::from_static("ce-subject");
static CE_DATASCHEMA: HeaderName = HeaderName::from_static("ce-dataschema");
static CE_SCHEMAVERSION: HeaderName = HeaderName::from_static("ce-schemaversion");
static CE_RESOURCETYPE: HeaderName = HeaderName::from_static("ce-resourcetype");
static CE_EVENTTYPE: HeaderName = HeaderName::from_static("ce-eventtype");
static APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Headers that frame the message or belong to the connection, and those the hub writes itself.
const RESERVED_NAMES: [&str; 17] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "content-type",
    "content-encoding",
    "traceparent",
    "tracestate",
    "user-agent",
    "proxy-authorization",
    "http2-settings",
];
/// Beginnings of the hub's own header names.
const RESERVED_PREFIXES: [&str; 4] = ["x-lerian-", "x-hookstream-", "webhook-", "ce-"];

/// Why a static header is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StaticHeaderError {
    /// The name is not a token (RFC 9110, section 5.6.2) of at most 256 bytes.
    #[error("`{0}` is not a header name")]
    Name(String),
    /// The name is one that the hub or the connection writes.
    #[error("the header `{0}` is written by the hub")]
    Reserved(String),
    /// The value has control characters such as CR, LF or NUL.
    #[error("the value of `{0}` has control characters")]
    Value(String),
    /// The value is longer than 4 096 bytes.
    #[error("the value of `{0}` is longer than {STATIC_HEADER_VALUE_MAX_BYTES} bytes")]
    TooLong(String),
}

/// Checks a tenant's static header; also right for the header of `api_key` credentials.
///
/// # Errors
/// [`StaticHeaderError`] names the rule. The value is never part of it.
pub fn check_static_header(name: &str, value: &[u8]) -> Result<(), StaticHeaderError> {
    let lower = name.to_ascii_lowercase();
    if name.len() > NAME_MAX_BYTES || HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(StaticHeaderError::Name(name.chars().take(NAME_MAX_BYTES).collect()));
    }
    let reserved = RESERVED_NAMES.contains(&lower.as_str()) || RESERVED_PREFIXES.iter().any(|p| lower.starts_with(p));
    if reserved {
        return Err(StaticHeaderError::Reserved(lower));
    }
    if value.len() > STATIC_HEADER_VALUE_MAX_BYTES {
        return Err(StaticHeaderError::TooLong(lower));
    }
    HeaderValue::from_bytes(value).map(|_| ()).map_err(|_| StaticHeaderError::Value(lower))
}

/// The headers that a destination's version fixes: `Host`, `User-Agent`, static headers and credentials.
///
/// # Errors
/// [`StaticHeaderError`] when a stored header or credential cannot be sent.
pub fn fixed_headers(destination: &Destination) -> Result<HeaderMap, StaticHeaderError> {
    let mut headers = url_headers(&destination.url)?;
    for header in &destination.headers {
        check_static_header(&header.name, header.value.expose())?;
        headers.insert(name(&header.name)?, secret_value(&header.name, header.value.expose())?);
    }
    add_auth(&mut headers, &destination.auth)?;
    Ok(headers)
}

/// `Host` (the URL's authority, with a port that is not the scheme's own) and `User-Agent`.
///
/// # Errors
/// [`StaticHeaderError::Value`] when the host cannot be a header's value.
pub fn url_headers(url: &Url) -> Result<HeaderMap, StaticHeaderError> {
    let host = url.host_str().unwrap_or_default();
    let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let value = HeaderValue::try_from(authority).map_err(|_| StaticHeaderError::Value("host".to_owned()))?;
    let mut headers = HeaderMap::with_capacity(32);
    headers.insert(HOST, value);
    headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_TEXT));
    Ok(headers)
}

/// Adds what one attempt says of its event, signed at the attempt's start.
pub fn add_delivery_headers(headers: &mut HeaderMap, signer: &Signer, dispatch: &Dispatch) {
    let mut values = Values::new();
    let event = &*dispatch.event;
    let id = values.text(|out| write!(out, "{}", event.id.as_hyphenated()));
    let message = Message {
        id: &id,
        attempt: dispatch.attempt,
        event_type: &event.key,
        subscription: dispatch.subscription.id,
        at: dispatch.started_at,
        body: &event.payload,
    };
    let seconds = add_message(headers, &mut values, signer, &message);
    if dispatch.subscription.source_id.is_some() {
        headers.insert(HOOKSTREAM_EVENT_ID.clone(), values.bytes(event.public_id().as_bytes()));
        headers.insert(HOOKSTREAM_ATTEMPT.clone(), values.text(|out| write!(out, "{}", dispatch.number)));
        headers.insert(HOOKSTREAM_TIMESTAMP.clone(), seconds);
    }
    add_content(headers, &mut values, event);
    add_attributes(headers, &mut values, event, &id);
}

/// What a signed request says of itself, whether it carries an event or a verification.
#[derive(Debug)]
pub struct Message<'a> {
    /// `webhook-id` and `X-Lerian-Event-Id`.
    pub id: &'a HeaderValue,
    /// `X-Lerian-Delivery-Id`.
    pub attempt: AttemptId,
    /// `X-Lerian-Event-Type`.
    pub event_type: &'a str,
    /// `X-Lerian-Subscription-Id`.
    pub subscription: SubscriptionId,
    /// When it is signed.
    pub at: Time,
    /// What is signed.
    pub body: &'a [u8],
}

/// Adds identity, time and both signatures.
pub fn add_message_headers(headers: &mut HeaderMap, signer: &Signer, message: &Message<'_>) {
    add_message(headers, &mut Values::new(), signer, message);
}

/// Returns the seconds it was signed at.
fn add_message(headers: &mut HeaderMap, values: &mut Values, signer: &Signer, message: &Message<'_>) -> HeaderValue {
    let seconds = values.text(|out| write!(out, "{}", message.at.as_secs()));
    let id_text = message.id.to_str().unwrap_or_default();
    let seconds_text = seconds.to_str().expect("digits are text");
    let lerian = values.with(|out| signer.write_lerian(out, message.at, seconds_text, message.body));
    let standard = values.with(|out| signer.write_standard(out, message.at, id_text, seconds_text, message.body));
    headers.insert(EVENT_ID.clone(), message.id.clone());
    headers.insert(SUBSCRIPTION_ID.clone(), values.text(|out| write!(out, "{}", message.subscription)));
    headers.insert(DELIVERY_ID.clone(), values.text(|out| write!(out, "{}", message.attempt)));
    headers.insert(EVENT_TYPE.clone(), values.bytes(message.event_type.as_bytes()));
    headers.insert(TIMESTAMP.clone(), seconds.clone());
    headers.insert(SIGNATURE.clone(), lerian);
    headers.insert(WEBHOOK_ID.clone(), message.id.clone());
    headers.insert(WEBHOOK_TIMESTAMP.clone(), seconds.clone());
    headers.insert(WEBHOOK_SIGNATURE.clone(), standard);
    seconds
}

fn add_content(headers: &mut HeaderMap, values: &mut Values, event: &Event) {
    let content_type = event.content_type().map(|text| values.bytes(text.as_bytes()));
    headers.insert(CONTENT_TYPE, content_type.unwrap_or_else(|| APPLICATION_JSON.clone()));
    let kept = [
        (&CONTENT_ENCODING, &event.content_encoding),
        (&TRACEPARENT, &event.traceparent),
        (&TRACESTATE, &event.tracestate),
    ];
    for (name, text) in kept {
        if let Some(text) = text {
            headers.insert(name.clone(), values.bytes(text.as_bytes()));
        }
    }
}

/// `ce-*` for each attribute. `datacontenttype` is `Content-Type` in the HTTP binding; the tenant stays inside.
fn add_attributes(headers: &mut HeaderMap, values: &mut Values, event: &Event, id: &HeaderValue) {
    for (attribute, text) in event.attributes.iter() {
        match attribute {
            "datacontenttype" | "tenantid" | "systemevent" => {}
            "id" if text.as_bytes() == id.as_bytes() => {
                headers.insert(CE_ID.clone(), id.clone());
            }
            attribute => add_attribute(headers, values, attribute, text),
        }
    }
}

fn add_attribute(headers: &mut HeaderMap, values: &mut Values, attribute: &str, text: &str) {
    let name = match known_attribute(attribute) {
        Some(name) => name.clone(),
        None => match extension_header(attribute) {
            Some(name) => name,
            None => return,
        },
    };
    let value = values.with(|out| utf8_percent_encode(text, CE_VALUE).for_each(|part| out.put_slice(part.as_bytes())));
    headers.insert(name, value);
}

fn known_attribute(attribute: &str) -> Option<&'static HeaderName> {
    match attribute {
        "id" => Some(&CE_ID),
        "source" => Some(&CE_SOURCE),
        "specversion" => Some(&CE_SPECVERSION),
        "type" => Some(&CE_TYPE),
        "time" => Some(&CE_TIME),
        "subject" => Some(&CE_SUBJECT),
        "dataschema" => Some(&CE_DATASCHEMA),
        "schemaversion" => Some(&CE_SCHEMAVERSION),
        "resourcetype" => Some(&CE_RESOURCETYPE),
        "eventtype" => Some(&CE_EVENTTYPE),
        _ => None,
    }
}

/// The header of an extension; `None` when the name cannot be in one, or differs from another attribute's in
/// case only, which header names do not.
fn extension_header(attribute: &str) -> Option<HeaderName> {
    if attribute.bytes().any(|b| b.is_ascii_uppercase()) {
        return None;
    }
    HeaderName::try_from(format!("ce-{attribute}")).ok()
}

fn add_auth(headers: &mut HeaderMap, auth: &Auth) -> Result<(), StaticHeaderError> {
    let (name, value) = match auth {
        Auth::None => return Ok(()),
        Auth::Bearer { token } => (AUTHORIZATION, [b"Bearer ", token.expose()].concat()),
        Auth::Basic { username, password } => {
            let pair = [username.as_bytes(), b":", password.expose()].concat();
            (AUTHORIZATION, format!("Basic {}", STANDARD.encode(pair)).into_bytes())
        }
        Auth::ApiKey { header, value } => {
            check_static_header(header, value.expose())?;
            (name(header)?, value.expose().to_vec())
        }
    };
    let value = secret_value(name.as_str(), &value)?;
    headers.insert(name, value);
    Ok(())
}

fn name(text: &str) -> Result<HeaderName, StaticHeaderError> {
    HeaderName::try_from(text).map_err(|_| StaticHeaderError::Name(text.to_owned()))
}

fn secret_value(name: &str, bytes: &[u8]) -> Result<HeaderValue, StaticHeaderError> {
    let mut value = HeaderValue::from_bytes(bytes).map_err(|_| StaticHeaderError::Value(name.to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Makes header values that share one buffer. A value that cannot be in a header is sent empty: the decoders
/// let none through.
struct Values(BytesMut);

impl Values {
    fn new() -> Self {
        Self(BytesMut::with_capacity(VALUES_BYTES))
    }

    fn with(&mut self, write: impl FnOnce(&mut BytesMut)) -> HeaderValue {
        write(&mut self.0);
        HeaderValue::from_maybe_shared(self.0.split().freeze()).unwrap_or(HeaderValue::from_static(""))
    }

    fn text(&mut self, write: impl FnOnce(&mut BytesMut) -> std::fmt::Result) -> HeaderValue {
        self.with(|out| write(out).expect("a growing buffer takes any text"))
    }

    fn bytes(&mut self, bytes: &[u8]) -> HeaderValue {
        self.with(|out| out.put_slice(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::sample;
    use crate::types::Secret;
    use crate::types::destination::StaticHeader;

    fn sent(dispatch: &Dispatch) -> HeaderMap {
        let mut headers = fixed_headers(&dispatch.destination).unwrap();
        add_delivery_headers(&mut headers, &Signer::new(&dispatch.destination.secrets), dispatch);
        headers
    }

    fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
        headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[test]
    fn a_delivery_carries_the_contracts_headers() {
        let dispatch = sample::dispatch("http://name.test:8099/hook", &[("subject", "a b")]);
        let headers = sent(&dispatch);
        let id = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
        for (name, value) in [
            ("host", "name.test:8099"),
            ("user-agent", USER_AGENT_TEXT),
            ("x-lerian-event-id", id),
            ("webhook-id", id),
            ("ce-id", id),
            ("x-lerian-event-type", "loan.approved"),
            ("x-lerian-timestamp", "1700000000"),
            ("webhook-timestamp", "1700000000"),
            ("content-type", "application/json"),
            ("ce-subject", "a%20b"),
            ("ce-source", "loans"),
        ] {
            assert_eq!(text(&headers, name), value, "{name}");
        }
        assert_eq!(text(&headers, "x-lerian-subscription-id"), dispatch.subscription.id.to_string());
        assert_eq!(text(&headers, "x-lerian-delivery-id"), dispatch.attempt.to_string());
        assert!(text(&headers, "x-lerian-signature").starts_with("v1,sha256="));
        assert!(text(&headers, "webhook-signature").starts_with("v1,"));
        assert!(headers.keys().all(|name| !name.as_str().starts_with("x-hookstream")));
        assert!(!headers.contains_key("ce-tenantid"));
    }

    #[test]
    fn attributes_are_percent_encoded_and_extensions_cannot_replace_or_inject() {
        let attributes = [
            ("subject", "é€ \"%"),
            ("datacontenttype", "text/plain; charset=utf-8"),
            ("tenantid", "t"),
            ("region", "eu"),
            ("bad name", "x"),
            ("ID", "forged"),
            ("TenantId", "forged"),
        ];
        let headers = sent(&sample::dispatch("https://name.test/", &attributes));
        assert_eq!(text(&headers, "ce-subject"), "%C3%A9%E2%82%AC%20%22%25");
        assert_eq!(text(&headers, "content-type"), "text/plain; charset=utf-8");
        assert_eq!(text(&headers, "ce-region"), "eu");
        assert_eq!(text(&headers, "ce-id"), "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
        assert_eq!(text(&headers, "host"), "name.test");
        for absent in ["ce-tenantid", "ce-datacontenttype"] {
            assert!(!headers.contains_key(absent), "{absent}");
        }
    }

    #[test]
    fn static_headers_and_credentials_are_sent() {
        let mut destination = sample::destination("https://name.test/");
        destination.headers = vec![StaticHeader { name: "x-team".to_owned(), value: Secret::new(b"loans".to_vec()) }];
        destination.auth = Auth::Basic { username: "user".to_owned(), password: Secret::new(b"pass".to_vec()) };
        let headers = fixed_headers(&destination).unwrap();
        assert_eq!(text(&headers, "x-team"), "loans");
        assert_eq!(text(&headers, "authorization"), "Basic dXNlcjpwYXNz");
        destination.auth = Auth::Bearer { token: Secret::new(b"a\nb".to_vec()) };
        assert_eq!(fixed_headers(&destination), Err(StaticHeaderError::Value("authorization".to_owned())));
        destination.auth = Auth::ApiKey { header: "x-key".to_owned(), value: Secret::new(b"k".to_vec()) };
        assert_eq!(text(&fixed_headers(&destination).unwrap(), "x-key"), "k");
    }

    #[test]
    fn a_static_header_cannot_break_the_message_or_pose_as_the_hub() {
        assert_eq!(check_static_header("X-Team", b"loans"), Ok(()));
        assert_eq!(check_static_header("authorization", b"\xc3\xa9"), Ok(()));
        for name in ["X Y", "", "a:b", "é", "a\r\nb"] {
            assert_eq!(check_static_header(name, b"1"), Err(StaticHeaderError::Name(name.to_owned())), "{name:?}");
        }
        for name in [
            "Host",
            "Content-Length",
            "Transfer-Encoding",
            "Connection",
            "X-Lerian-Event-Id",
            "CE-id",
            "Webhook-Signature",
            "X-Hookstream-Timestamp",
            "expect",
        ] {
            assert_eq!(check_static_header(name, b"1"), Err(StaticHeaderError::Reserved(name.to_ascii_lowercase())));
        }
        for value in [&b"a\r\nX-Evil: 1"[..], b"a\0", b"\x7f", b"a\n"] {
            assert_eq!(check_static_header("x-a", value), Err(StaticHeaderError::Value("x-a".to_owned())));
        }
        let long = vec![b'x'; STATIC_HEADER_VALUE_MAX_BYTES + 1];
        assert_eq!(check_static_header("x-a", &long), Err(StaticHeaderError::TooLong("x-a".to_owned())));
    }
}
