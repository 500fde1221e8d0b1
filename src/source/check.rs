//! Whether collected attributes are those of an event: the rules of contracts.md section 2, in the order of its reasons.

use uuid::{Uuid, Variant};

use super::attribute::Attribute;
use super::collect::Collected;
use super::reason::{Fault, Reason};
use super::rfc3339::is_rfc3339;
use super::topic::{after_prefix, is_source_name};
use crate::types::Attributes;

/// What an event's attributes say, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checked<'a> {
    pub(super) id: Uuid,
    /// `<resource>.<event>`.
    pub(super) key: &'a str,
    pub(super) schema_major: u32,
}

/// Checks all but the tenant and the payload. `topic_source` is the topic's `<source>`: absent for HTTP, empty when
/// the topic has none.
pub(super) fn check<'a>(
    collected: &Collected<'a>,
    type_prefix: &str,
    topic_source: Option<&str>,
) -> Result<Checked<'a>, Fault> {
    if let Some(fault) = collected.first_fault() {
        return Err(fault);
    }
    let required = |attribute| collected.value(attribute).ok_or_else(|| Fault::of(Reason::MissingHeader, attribute));
    demand(required(Attribute::SpecVersion)? == "1.0", Reason::BadSpecversion, Attribute::SpecVersion)?;
    let id = uuid_v7(required(Attribute::Id)?).ok_or_else(|| Fault::of(Reason::BadId, Attribute::Id))?;
    let source = required(Attribute::Source)?;
    demand(is_source_name(source), Reason::BadSource, Attribute::Source)?;
    demand(topic_source.is_none_or(|topic| topic == source), Reason::TopicMismatch, Attribute::Source)?;
    let (type_source, key) = split_type(required(Attribute::Type)?, type_prefix)
        .ok_or_else(|| Fault::of(Reason::BadType, Attribute::Type))?;
    let agrees =
        type_source == source && is_key_of(key, required(Attribute::ResourceType)?, required(Attribute::EventType)?);
    demand(agrees, Reason::TypeMismatch, Attribute::Type)?;
    demand(is_rfc3339(required(Attribute::Time)?), Reason::BadTime, Attribute::Time)?;
    let schema_major = schema_major(required(Attribute::SchemaVersion)?)
        .ok_or_else(|| Fault::of(Reason::BadSchemaVersion, Attribute::SchemaVersion))?;
    Ok(Checked { id, key, schema_major })
}

/// The attributes to keep: known ones first, the id in lower case, then the extensions in their order.
pub(super) fn pack(collected: &Collected<'_>, id: Uuid) -> Attributes {
    let mut buffer = Uuid::encode_buffer();
    let id: &str = id.hyphenated().encode_lower(&mut buffer);
    let known = Attribute::kept().filter_map(|attribute| {
        let value = collected.value(attribute)?;
        Some((attribute.name(), if attribute == Attribute::Id { id } else { value }))
    });
    Attributes::pack(known.chain(collected.extensions()))
}

fn demand(holds: bool, reason: Reason, attribute: Attribute) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(Fault::of(reason, attribute)) }
}

/// A UUIDv7 (RFC 9562) in canonical text, any case. Its time is not looked at.
fn uuid_v7(text: &str) -> Option<Uuid> {
    const CANONICAL_BYTES: usize = 36;
    if text.len() != CANONICAL_BYTES {
        return None;
    }
    let id = Uuid::try_parse(text).ok()?;
    (id.get_version_num() == 7 && id.get_variant() == Variant::RFC4122).then_some(id)
}

/// `<prefix>.<source>.<resource>.<event>` → (`<source>`, `<resource>.<event>`).
fn split_type<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    let (source, key) = after_prefix(text, prefix)?.split_once('.')?;
    let (resource, event) = key.split_once('.')?;
    (is_source_name(source) && !resource.is_empty() && !event.is_empty()).then_some((source, key))
}

fn is_key_of(key: &str, resource: &str, event: &str) -> bool {
    after_prefix(key, resource) == Some(event)
}

/// The first number of `1`, `v1`, `1.2`, `1.2.0` or `v1.2.0`.
fn schema_major(text: &str) -> Option<u32> {
    let numbers = text.strip_prefix('v').unwrap_or(text);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let well_formed = numbers.split('.').all(is_number) && numbers.split('.').count() <= 3;
    if well_formed { numbers.split('.').next()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_uuid_v7_in_canonical_text() {
        let vector = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
        assert!(uuid_v7(vector).is_some());
        assert_eq!(uuid_v7(&vector.to_uppercase()), uuid_v7(vector));
        for bad in [
            "",
            "017f22e279b07cc398c4dc0c0c07398f",
            "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}",
            "urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-18c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-d8c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
            "017f22e27-9b0-7cc3-98c4-dc0c0c07398f",
        ] {
            assert_eq!(uuid_v7(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_type_is_split_behind_its_prefix() {
        let split = |text| split_type(text, "studio.lerian");
        assert_eq!(split("studio.lerian.loans.loan.approved"), Some(("loans", "loan.approved")));
        assert_eq!(split("studio.lerian.loans.loan.approved.twice"), Some(("loans", "loan.approved.twice")));
        for bad in [
            "",
            "studio.lerian",
            "studio.lerian.loans",
            "studio.lerian.loans.loan",
            "studio.lerian.loans.loan.",
            "studio.lerian.loans..approved",
            "studio.lerian..loan.approved",
            "studio.lerian.Loans.loan.approved",
            "studio.lerianloans.loan.approved.x",
            "com.other.loans.loan.approved",
        ] {
            assert_eq!(split(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_schema_version_begins_with_its_major() {
        for (text, major) in [("1", 1), ("v1", 1), ("1.2.0", 1), ("v12.2.0", 12), ("0", 0), ("4294967295", u32::MAX)] {
            assert_eq!(schema_major(text), Some(major), "{text}");
        }
        for bad in ["", "v", "1.", ".1", "1.x", "1.2.3.4", "-1", "+1", "V1", "vv1", "1 ", "4294967296", "1.2.0-beta"] {
            assert_eq!(schema_major(bad), None, "{bad}");
        }
    }
}
