//! The CloudEvents context attributes that have rules of their own, in the order in which they are kept.

use crate::types::limits;

/// A context attribute with rules of its own; all others are extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    SpecVersion,
    Id,
    Source,
    Type,
    Time,
    SchemaVersion,
    ResourceType,
    EventType,
    Subject,
    DataContentType,
    DataSchema,
    TenantId,
    SystemEvent,
}

impl Attribute {
    /// How many there are.
    pub(super) const COUNT: usize = 13;

    /// All of them, in order.
    pub(super) const ALL: [Self; Self::COUNT] = [
        Self::SpecVersion,
        Self::Id,
        Self::Source,
        Self::Type,
        Self::Time,
        Self::SchemaVersion,
        Self::ResourceType,
        Self::EventType,
        Self::Subject,
        Self::DataContentType,
        Self::DataSchema,
        Self::TenantId,
        Self::SystemEvent,
    ];

    /// Those an event must have, the tenant aside.
    pub(super) const REQUIRED: [Self; 8] = [
        Self::SpecVersion,
        Self::Id,
        Self::Source,
        Self::Type,
        Self::Time,
        Self::SchemaVersion,
        Self::ResourceType,
        Self::EventType,
    ];

    /// Those kept with the event: all but the tenant and the system mark.
    pub(super) fn kept() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|attribute| !matches!(attribute, Self::TenantId | Self::SystemEvent))
    }

    /// The attribute of this name, without the `ce-` prefix.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"specversion" => Self::SpecVersion,
            b"id" => Self::Id,
            b"source" => Self::Source,
            b"type" => Self::Type,
            b"time" => Self::Time,
            b"schemaversion" => Self::SchemaVersion,
            b"resourcetype" => Self::ResourceType,
            b"eventtype" => Self::EventType,
            b"subject" => Self::Subject,
            b"datacontenttype" => Self::DataContentType,
            b"dataschema" => Self::DataSchema,
            b"tenantid" => Self::TenantId,
            b"systemevent" => Self::SystemEvent,
            _ => return None,
        })
    }

    /// Its header, `ce-…`.
    pub(super) const fn header(self) -> &'static str {
        match self {
            Self::SpecVersion => "ce-specversion",
            Self::Id => "ce-id",
            Self::Source => "ce-source",
            Self::Type => "ce-type",
            Self::Time => "ce-time",
            Self::SchemaVersion => "ce-schemaversion",
            Self::ResourceType => "ce-resourcetype",
            Self::EventType => "ce-eventtype",
            Self::Subject => "ce-subject",
            Self::DataContentType => "ce-datacontenttype",
            Self::DataSchema => "ce-dataschema",
            Self::TenantId => "ce-tenantid",
            Self::SystemEvent => "ce-systemevent",
        }
    }

    /// Its name, without the prefix.
    pub(super) fn name(self) -> &'static str {
        &self.header()[3..]
    }

    /// Its longest value in bytes. Those without a bound of their own are bounded by all attributes together.
    pub(super) const fn max_bytes(self) -> usize {
        match self {
            Self::Source => limits::SOURCE_NAME_MAX_BYTES,
            Self::ResourceType | Self::EventType => limits::EVENT_WORD_MAX_BYTES,
            Self::TenantId => limits::TENANT_ID_MAX_BYTES,
            Self::Subject => limits::SUBJECT_MAX_BYTES,
            Self::DataContentType => limits::DATA_CONTENT_TYPE_MAX_BYTES,
            Self::DataSchema => limits::DATA_SCHEMA_MAX_BYTES,
            Self::SpecVersion | Self::Id | Self::Type | Self::Time | Self::SchemaVersion | Self::SystemEvent => {
                limits::ATTRIBUTES_MAX_BYTES
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_is_found_by_its_name_and_stands_at_its_number() {
        for (number, attribute) in Attribute::ALL.into_iter().enumerate() {
            assert_eq!(Attribute::named(attribute.name().as_bytes()), Some(attribute));
            assert_eq!(attribute as usize, number);
        }
        assert_eq!(Attribute::named(b"Id"), None);
    }
}
