//! Why a record or request is no event: the closed set of contracts.md section 2, in its order.

use std::fmt;

use super::attribute::Attribute;

/// Why a record is in quarantine. Where several apply, the first in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A required attribute is absent, or a word of the event key is empty.
    MissingHeader,
    /// A `ce-` attribute comes twice.
    DuplicateHeader,
    /// A value is not UTF-8.
    InvalidUtf8,
    /// A value has a control character.
    ControlCharacter,
    /// A value, or all of them together, are over their bound.
    TooLong,
    /// `ce-specversion` is not `1.0`.
    BadSpecversion,
    /// `ce-id` is no UUIDv7 in canonical text.
    BadId,
    /// `ce-source` is outside its grammar.
    BadSource,
    /// `ce-source` is not the topic's.
    TopicMismatch,
    /// `ce-type` has not the shape `<prefix>.<source>.<resource>.<event>`.
    BadType,
    /// `ce-type` disagrees with `ce-source`, `ce-resourcetype` or `ce-eventtype`.
    TypeMismatch,
    /// `ce-time` is not RFC 3339.
    BadTime,
    /// `ce-schemaversion` is not `1`, `v1`, `1.2.0` or the like.
    BadSchemaVersion,
    /// `ce-tenantid` is absent or empty.
    MissingTenant,
    /// The payload is over the limit.
    Oversize,
    /// The record is in structured mode.
    StructuredMode,
    /// The store refuses it by itself. Never given by a decoder.
    Unstorable,
}

impl Reason {
    /// The contract's name of it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingHeader => "missing_header",
            Self::DuplicateHeader => "duplicate_header",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::ControlCharacter => "control_character",
            Self::TooLong => "too_long",
            Self::BadSpecversion => "bad_specversion",
            Self::BadId => "bad_id",
            Self::BadSource => "bad_source",
            Self::TopicMismatch => "topic_mismatch",
            Self::BadType => "bad_type",
            Self::TypeMismatch => "type_mismatch",
            Self::BadTime => "bad_time",
            Self::BadSchemaVersion => "bad_schema_version",
            Self::MissingTenant => "missing_tenant",
            Self::Oversize => "oversize",
            Self::StructuredMode => "structured_mode",
            Self::Unstorable => "unstorable",
        }
    }

    /// The broken rule, as a sentence's end: "`ce-id` must …".
    #[must_use]
    pub const fn rule(self) -> &'static str {
        match self {
            Self::MissingHeader => "is required",
            Self::DuplicateHeader => "must not be repeated",
            Self::InvalidUtf8 => "must be UTF-8",
            Self::ControlCharacter => "must not have control characters",
            Self::TooLong => "is too long",
            Self::BadSpecversion => "must be `1.0`",
            Self::BadId => "must be a UUIDv7 in canonical text",
            Self::BadSource => "must match ^[a-z0-9][a-z0-9_-]*$",
            Self::TopicMismatch => "must be the topic's source",
            Self::BadType => "must be <type prefix>.<source>.<resource>.<event>",
            Self::TypeMismatch => "must agree with ce-source, ce-resourcetype and ce-eventtype",
            Self::BadTime => "must be an RFC 3339 time",
            Self::BadSchemaVersion => "must be a version such as 1, v1, 1.2.0 or v1.2.0",
            Self::MissingTenant => "must name the tenant",
            Self::Oversize => "is over the payload limit",
            Self::StructuredMode => "must not be structured mode",
            Self::Unstorable => "is refused by the store",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A broken rule and the header to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: Reason,
    /// As it was written, or as it should have been.
    pub(super) header: Option<Box<str>>,
}

impl Fault {
    pub(super) fn of(reason: Reason, attribute: Attribute) -> Self {
        Self { reason, header: Some(attribute.header().into()) }
    }

    pub(super) fn written(reason: Reason, header: &[u8]) -> Self {
        Self { reason, header: Some(String::from_utf8_lossy(header).into()) }
    }

    pub(super) fn bare(reason: Reason) -> Self {
        Self { reason, header: None }
    }
}
