//! HTTP header values as the sources need them.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use percent_encoding::percent_decode;

use super::text::plain_text;
use crate::types::limits;

/// The first header `name` as text without control characters, if it is one of at most `max_bytes`.
pub(super) fn plain_header<'h>(headers: &'h HeaderMap, name: &str, max_bytes: usize) -> Option<&'h str> {
    let value = headers.get(name)?.as_bytes();
    if value.len() <= max_bytes { plain_text(value).ok() } else { None }
}

/// The body's coding, all of its header's lines in order; absent when there is none but `identity`.
pub(super) fn content_encoding(headers: &HeaderMap) -> Option<Box<str>> {
    let lines: Vec<&str> = headers.get_all(CONTENT_ENCODING).iter().filter_map(|line| line.to_str().ok()).collect();
    let joined = lines.join(", ");
    let is_coded = !joined.is_empty() && !joined.eq_ignore_ascii_case("identity");
    (is_coded && joined.len() <= limits::DATA_CONTENT_TYPE_MAX_BYTES).then(|| joined.into_boxed_str())
}

/// An attribute's bytes out of its header: unquoted, then percent-decoded once (CloudEvents HTTP binding, 3.1.3.2).
pub(super) fn attribute_value(value: &[u8]) -> Cow<'_, [u8]> {
    match unquoted(value) {
        Cow::Borrowed(bytes) => percent_decode(bytes).into(),
        Cow::Owned(bytes) => Cow::Owned(percent_decode(&bytes).collect()),
    }
}

/// A quoted string's content (RFC 9110, 5.6.4); anything else as it is.
fn unquoted(value: &[u8]) -> Cow<'_, [u8]> {
    let Some(inner) = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return Cow::Borrowed(value);
    };
    if !inner.contains(&b'\\') {
        return Cow::Borrowed(inner);
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.iter();
    while let Some(&byte) = rest.next() {
        let escaped = if byte == b'\\' { rest.next().copied() } else { None };
        bytes.push(escaped.unwrap_or(byte));
    }
    Cow::Owned(bytes)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn attributes_are_unquoted_and_decoded_once() {
        for (written, meant) in [
            ("plain", "plain"),
            ("Euro%20%E2%82%AC", "Euro €"),
            ("%2525", "%25"),
            ("100%", "100%"),
            (r#""a \"b\" \\ c""#, r#"a "b" \ c"#),
            (r#""%20""#, " "),
            ("\"", "\""),
            ("", ""),
        ] {
            assert_eq!(attribute_value(written.as_bytes()), meant.as_bytes(), "{written}");
        }
    }

    #[test]
    fn codings_are_joined_and_identity_is_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(content_encoding(&headers), None);
        headers.append(CONTENT_ENCODING, HeaderValue::from_static("identity"));
        assert_eq!(content_encoding(&headers), None);
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(CONTENT_ENCODING, HeaderValue::from_static("br"));
        assert_eq!(content_encoding(&headers).as_deref(), Some("gzip, br"));
    }
}
