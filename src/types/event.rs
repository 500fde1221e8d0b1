//! An accepted event: what came in, byte for byte, under the names CloudEvents gives its parts.

use bytes::Bytes;
use uuid::Uuid;

use super::ids::{LaneName, Sequence, SourceId, TenantId};
use super::time::Time;

/// Separates a name from its value in [`Attributes`]; a control character, which no attribute may contain.
const UNIT: char = '\u{1f}';
/// Ends one attribute in [`Attributes`].
const RECORD: char = '\u{1e}';

/// One accepted event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose it is.
    pub tenant: TenantId,
    /// The `ce-id`; for HTTP events the UUID inside `evt_…`.
    pub id: Uuid,
    /// Its arrival number in the slot; 0 until the slot's owner has numbered it.
    pub sequence: Sequence,
    /// When the hub took it in.
    pub received_at: Time,
    /// The bare event key, `<resource>.<event>`.
    pub key: Box<str>,
    /// The first number of `ce-schemaversion`.
    pub schema_major: u32,
    /// All CloudEvents context attributes but `tenantid` and `systemevent`, without the `ce-` prefix.
    pub attributes: Attributes,
    /// W3C `traceparent`, forwarded.
    pub traceparent: Option<Box<str>>,
    /// W3C `tracestate`, forwarded.
    pub tracestate: Option<Box<str>>,
    /// The payload's `Content-Encoding`, kept and sent on.
    pub content_encoding: Option<Box<str>>,
    /// The HTTP source it came through, if any.
    pub source_id: Option<SourceId>,
    /// The request it came as, for HTTP sources of type `http`.
    pub request: Option<Box<HttpRequest>>,
    /// The lane it came in by.
    pub lane: LaneName,
    /// The payload, opaque.
    pub payload: Bytes,
}

impl Event {
    /// The producing application (`ce-source`): a source's slug for HTTP events.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.attributes.value("source").unwrap_or("")
    }

    /// `ce-datacontenttype`.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.attributes.value("datacontenttype")
    }

    /// `ce-subject`, the finer ordering key.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.attributes.value("subject")
    }

    /// The id as the API shows it: `evt_…` for events of a source of type `http`, the canonical UUID otherwise.
    #[must_use]
    pub fn public_id(&self) -> String {
        if self.request.is_some() { format!("evt_{}", self.id.simple()) } else { self.id.to_string() }
    }

    /// Bytes this event takes in memory, roughly: what byte bounds count.
    #[must_use]
    pub fn weight(&self) -> usize {
        let request = self.request.as_deref().map_or(0, HttpRequest::weight);
        256 + self.payload.len() + self.attributes.packed().len() + request
    }
}

/// What an HTTP source keeps of a request beside its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, upper case.
    pub method: Box<str>,
    /// What follows `/v1/ingest/<source_id>` in the path.
    pub path: Box<str>,
    /// The raw query, without the question mark.
    pub query: Option<Box<str>>,
    /// All headers in order, names in lower case, values as bytes.
    pub headers: Vec<(Box<str>, Bytes)>,
    /// The client's address.
    pub source_ip: std::net::IpAddr,
}

impl HttpRequest {
    fn weight(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
        headers + self.path.len() + self.query.as_deref().map_or(0, str::len)
    }
}

/// CloudEvents context attributes in order, packed into one text.
///
/// Values have no control characters (the decoder's rule), so two of those serve as separators. Packed, an
/// event's attributes cost one allocation and are stored as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Box<str>);

impl Attributes {
    /// Packs (name, value) pairs.
    ///
    /// # Panics
    /// When a name or value has a control character: the decoders reject those before.
    #[must_use]
    pub fn pack<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut text = String::with_capacity(320);
        let mut separators = 0;
        for (name, value) in pairs {
            text.push_str(name);
            text.push(UNIT);
            text.push_str(value);
            text.push(RECORD);
            separators += 2;
        }
        assert_eq!(count_separators(&text), separators, "attributes have no control characters");
        Self(text.into_boxed_str())
    }

    /// Takes a packed text back, as [`Attributes::packed`] gave it; `None` when it is not one.
    #[must_use]
    pub fn from_packed(text: &str) -> Option<Self> {
        let whole = text.is_empty() || text.ends_with(RECORD);
        let paired = text.split_terminator(RECORD).all(|pair| pair.matches(UNIT).count() == 1);
        (whole && paired).then(|| Self(text.into()))
    }

    /// The packed text, for the store.
    #[must_use]
    pub fn packed(&self) -> &str {
        &self.0
    }

    /// The attributes in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.split_terminator(RECORD).filter_map(|pair| pair.split_once(UNIT))
    }

    /// The value of attribute `name`.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }
}

/// Counts bytes, not characters, since both separators are ASCII; in chunks whose count fits a byte, so that it
/// compiles to vector instructions.
fn count_separators(text: &str) -> usize {
    let is_separator = |byte: &u8| u8::from(*byte == UNIT as u8) | u8::from(*byte == RECORD as u8);
    let counts = text.as_bytes().chunks(128).map(|chunk| chunk.iter().map(is_separator).sum::<u8>());
    counts.map(usize::from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_keep_order_and_round_trip() {
        let packed = Attributes::pack([("id", "1"), ("source", "loans"), ("subject", "")]);
        assert_eq!(packed.value("source"), Some("loans"));
        assert_eq!(packed.value("subject"), Some(""));
        assert_eq!(packed.value("sourc"), None);
        assert_eq!(packed.iter().count(), 3);
        assert_eq!(Attributes::from_packed(packed.packed()), Some(packed));
        assert_eq!(Attributes::from_packed("id=1"), None);
    }
}
