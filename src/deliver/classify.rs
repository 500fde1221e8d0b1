//! From what came back to the facts of an attempt. What the facts mean is decided in the engine.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use http::header::{HeaderMap, LOCATION, RETRY_AFTER};

use crate::types::limits::{ERROR_TEXT_MAX_BYTES, RESPONSE_HEADER_BYTES};
use crate::types::{AttemptOutcome, Duration, ErrorKind, Time};

/// A complete response head and what was kept of the body.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The status code.
    pub status: u16,
    /// All headers.
    pub headers: &'a HeaderMap,
    /// The body's beginning.
    pub body: Bytes,
    /// There was more of the body than is kept, or it never ended.
    pub truncated: bool,
}

/// Why an attempt got no complete response head, before it is an outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The kind.
    pub kind: ErrorKind,
    /// For a person.
    pub text: String,
}

impl Failure {
    /// A failure of `kind`.
    #[must_use]
    pub const fn new(kind: ErrorKind, text: String) -> Self {
        Self { kind, text }
    }
}

/// The outcome of an attempt that got a complete response head: 2xx is a success whatever became of the body.
#[must_use]
pub fn answered(answer: Answer<'_>, ended_at: Time) -> AttemptOutcome {
    let success = (200..300).contains(&answer.status);
    let (response_headers, cut) = kept_headers(answer.headers);
    AttemptOutcome {
        ended_at,
        status: Some(answer.status),
        error_kind: (!success).then_some(ErrorKind::Status),
        error: (!success).then(|| status_text(answer.status, answer.headers)),
        retry_after: retry_after(answer.status, answer.headers, ended_at),
        response_headers,
        response_body: answer.body,
        truncated: answer.truncated || cut,
        stale_connection: false,
    }
}

/// The outcome of an attempt that got no complete response head.
#[must_use]
pub fn failed(failure: &Failure, ended_at: Time) -> AttemptOutcome {
    AttemptOutcome {
        ended_at,
        error_kind: Some(failure.kind),
        error: Some(one_line(&failure.text)),
        ..AttemptOutcome::default()
    }
}

/// `Retry-After` of a 429 or 503 (RFC 9110, section 10.2.3): seconds or a date. Garbage and dates that have
/// passed are no hint. Uncapped.
#[must_use]
pub fn retry_after(status: u16, headers: &HeaderMap, now: Time) -> Option<Duration> {
    if !matches!(status, 429 | 503) {
        return None;
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let at = Time(u64::try_from(date.as_micros()).ok()?);
    (at > now).then(|| at.since(now))
}

/// `text` as one line of at most 512 bytes; control characters become spaces.
#[must_use]
pub fn one_line(text: &str) -> Box<str> {
    let mut line = String::with_capacity(text.len().min(ERROR_TEXT_MAX_BYTES));
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if line.len() + c.len_utf8() > ERROR_TEXT_MAX_BYTES {
            break;
        }
        line.push(c);
    }
    line.into_boxed_str()
}

fn status_text(status: u16, headers: &HeaderMap) -> Box<str> {
    match headers.get(LOCATION).filter(|_| (300..400).contains(&status)) {
        Some(location) => {
            let target = String::from_utf8_lossy(location.as_bytes());
            one_line(&format!("status {status}, not followed to {target}"))
        }
        None => format!("status {status}").into_boxed_str(),
    }
}

/// The first headers that fit into 8 KiB, and whether some did not.
fn kept_headers(headers: &HeaderMap) -> (Vec<(Box<str>, Bytes)>, bool) {
    let mut kept = Vec::with_capacity(headers.len());
    let mut size = 0;
    for (name, value) in headers {
        size += name.as_str().len() + value.len();
        if size > RESPONSE_HEADER_BYTES {
            return (kept, true);
        }
        kept.push((name.as_str().into(), Bytes::copy_from_slice(value.as_bytes())));
    }
    (kept, false)
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderName, HeaderValue};

    use super::*;

    const NOW: Time = Time::from_millis(1_700_000_000_000);

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    fn outcome(status: u16, pairs: &[(&'static str, &str)]) -> AttemptOutcome {
        let headers = headers(pairs);
        answered(Answer { status, headers: &headers, body: Bytes::from_static(b"ok"), truncated: false }, NOW)
    }

    #[test]
    fn a_2xx_is_a_success_and_keeps_what_came() {
        let outcome = outcome(204, &[("x-a", "1")]);
        assert_eq!((outcome.status, outcome.error_kind, outcome.error), (Some(204), None, None));
        assert_eq!(outcome.response_headers, [("x-a".into(), Bytes::from_static(b"1"))]);
        assert_eq!(outcome.response_body, "ok");
    }

    #[test]
    fn any_other_status_is_a_failure_and_a_redirect_names_its_target() {
        for status in [101, 199, 300, 404, 410, 429, 500, 503, 599] {
            assert_eq!(outcome(status, &[]).error_kind, Some(ErrorKind::Status), "{status}");
        }
        let redirect = outcome(301, &[("location", "http://other.test/")]);
        assert_eq!(redirect.error.as_deref(), Some("status 301, not followed to http://other.test/"));
    }

    #[test]
    fn retry_after_is_seconds_or_a_future_date_of_a_429_or_503() {
        let hint = |status, text| outcome(status, &[("retry-after", text)]).retry_after;
        assert_eq!(hint(429, "7"), Some(Duration::from_secs(7)));
        assert_eq!(hint(503, " 7 "), Some(Duration::from_secs(7)));
        assert_eq!(hint(500, "7"), None);
        assert_eq!(hint(200, "7"), None);
        assert_eq!(hint(429, "99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        for garbage in ["-1", "1e9", "abc", "", "7s", "1.5", "0x10"] {
            assert_eq!(hint(429, garbage), None, "{garbage}");
        }
        assert_eq!(hint(429, "Tue, 14 Nov 2023 22:13:30 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(hint(429, "Tue, 14 Nov 2023 22:13:20 GMT"), None);
        assert_eq!(hint(429, "Tue, 14 Nov 1923 22:13:20 GMT"), None);
    }

    #[test]
    fn headers_beyond_the_bound_are_cut_and_said_so() {
        let long = "x".repeat(5_000);
        let outcome = outcome(200, &[("x-a", &long), ("x-b", &long), ("x-c", "1")]);
        assert_eq!(outcome.response_headers.len(), 1);
        assert!(outcome.truncated);
    }

    #[test]
    fn error_texts_are_one_bounded_line() {
        assert_eq!(&*one_line("a\r\nb\u{0}"), "a  b ");
        let long = one_line(&"é".repeat(1_000));
        assert_eq!(long.len(), 512);
        let outcome = failed(&Failure::new(ErrorKind::Dns, "a\nb".to_owned()), NOW);
        assert_eq!((outcome.error_kind, outcome.error.as_deref()), (Some(ErrorKind::Dns), Some("a b")));
    }
}
