//! One pass over headers into a fixed set of attributes, with the first fault of each kind that can be seen in passing.
//!
//! Borrows everything; allocates only where there are extensions. Whether the attributes are right together is
//! for [`super::check`].

use super::attribute::Attribute;
use super::reason::{Fault, Reason};
use super::text::{TextFault, plain_text};
use crate::types::limits;

/// The attributes of one event as they came.
#[derive(Debug, Default)]
pub(super) struct Collected<'a> {
    values: [Option<&'a str>; Attribute::COUNT],
    /// Bit n: attribute n has come, whatever its value.
    seen: u16,
    extensions: Vec<(&'a str, &'a str)>,
    pub(super) traceparent: Option<&'a str>,
    pub(super) tracestate: Option<&'a str>,
    content_type: Option<&'a [u8]>,
    /// There was a header with the attributes' prefix.
    pub(super) has_attributes: bool,
    /// A content type begins with `application/cloudevents`.
    pub(super) is_structured: bool,
    bytes: usize,
    duplicate: Option<&'a [u8]>,
    /// The system mark came twice: then it marks nothing.
    is_mark_repeated: bool,
    invalid_utf8: Option<&'a [u8]>,
    control_character: Option<&'a [u8]>,
    too_long: Option<&'a [u8]>,
}

/// Which header prefixes mark an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefixes {
    /// `ce-`.
    Hyphen,
    /// `ce-` and `ce_`.
    HyphenAndUnderscore,
}

impl<'a> Collected<'a> {
    /// Collects `headers`, in order, names as written.
    pub(super) fn from_headers(
        headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        prefixes: Prefixes,
    ) -> Self {
        let mut collected = Self::default();
        for (header, value) in headers {
            collected.take(header, value, prefixes);
        }
        collected.adopt_content_type();
        collected
    }

    /// The value of `attribute`, if it came and is text.
    pub(super) fn value(&self, attribute: Attribute) -> Option<&'a str> {
        self.values[attribute as usize]
    }

    /// The extensions in order.
    pub(super) fn extensions(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.extensions.iter().copied()
    }

    /// `ce-systemevent` is `true`, and came once.
    pub(super) fn is_system_event(&self) -> bool {
        self.value(Attribute::SystemEvent) == Some("true") && !self.is_mark_repeated
    }

    /// The first fault, in the contract's order, of those that concern single values.
    pub(super) fn first_fault(&self) -> Option<Fault> {
        if let Some(missing) = Attribute::REQUIRED.into_iter().find(|attribute| self.is_missing(*attribute)) {
            return Some(Fault::of(Reason::MissingHeader, missing));
        }
        let found = [
            (Reason::DuplicateHeader, self.duplicate),
            (Reason::InvalidUtf8, self.invalid_utf8),
            (Reason::ControlCharacter, self.control_character),
            (Reason::TooLong, self.too_long),
        ];
        found.into_iter().find_map(|(reason, header)| header.map(|header| Fault::written(reason, header)))
    }

    /// The words of the event key have no reason of their own for being empty: they count as missing.
    fn is_missing(&self, attribute: Attribute) -> bool {
        let is_word = matches!(attribute, Attribute::ResourceType | Attribute::EventType);
        self.seen & bit(attribute) == 0 || (is_word && self.value(attribute) == Some(""))
    }

    fn take(&mut self, header: &'a [u8], value: Option<&'a [u8]>, prefixes: Prefixes) {
        if let Some(name) = attribute_name(header, prefixes) {
            self.has_attributes = true;
            match Attribute::named(name) {
                Some(attribute) => self.take_attribute(attribute, header, value),
                None => self.take_extension(name, header, value),
            }
            return;
        }
        match (header, value) {
            (b"content-type", Some(value)) => self.take_content_type(value),
            (b"traceparent", Some(value)) if self.traceparent.is_none() => self.traceparent = self.trace(header, value),
            (b"tracestate", Some(value)) if self.tracestate.is_none() => self.tracestate = self.trace(header, value),
            _ => {}
        }
    }

    fn take_attribute(&mut self, attribute: Attribute, header: &'a [u8], value: Option<&'a [u8]>) {
        let Some(value) = value else { return };
        if self.seen & bit(attribute) != 0 {
            self.duplicate.get_or_insert(header);
            self.is_mark_repeated |= attribute == Attribute::SystemEvent;
            return;
        }
        self.seen |= bit(attribute);
        self.values[attribute as usize] = self.text(header, value, attribute.max_bytes());
    }

    fn take_extension(&mut self, name: &'a [u8], header: &'a [u8], value: Option<&'a [u8]>) {
        let (Some(name), Some(value)) = (extension_name(name), value) else { return };
        if self.extensions.iter().any(|(other, _)| *other == name) {
            self.duplicate.get_or_insert(header);
        } else if self.extensions.len() == limits::EXTENSIONS_MAX {
            self.too_long.get_or_insert(header);
        } else if let Some(text) = self.text(header, value, limits::EXTENSION_MAX_BYTES) {
            self.extensions.push((name, text));
        }
    }

    fn take_content_type(&mut self, value: &'a [u8]) {
        const STRUCTURED: &[u8] = b"application/cloudevents";
        let head = value.trim_ascii_start().get(..STRUCTURED.len());
        self.is_structured |= head.is_some_and(|head| head.eq_ignore_ascii_case(STRUCTURED));
        self.content_type.get_or_insert(value);
    }

    /// In binary mode the transport's content type is the data's (CloudEvents bindings), unless that came by itself.
    fn adopt_content_type(&mut self) {
        let Some(value) = self.content_type else { return };
        if self.is_structured || self.seen & bit(Attribute::DataContentType) != 0 || value.is_empty() {
            return;
        }
        self.take_attribute(Attribute::DataContentType, b"content-type", Some(value));
    }

    fn trace(&mut self, header: &'a [u8], value: &'a [u8]) -> Option<&'a str> {
        self.text(header, value, limits::EXTENSION_MAX_BYTES)
    }

    /// The value as text, or the fault noted.
    fn text(&mut self, header: &'a [u8], value: &'a [u8], max_bytes: usize) -> Option<&'a str> {
        self.bytes += header.len() + value.len();
        if value.len() > max_bytes || self.bytes > limits::ATTRIBUTES_MAX_BYTES {
            self.too_long.get_or_insert(header);
        }
        match plain_text(value) {
            Ok(text) => return Some(text),
            Err(TextFault::InvalidUtf8) => self.invalid_utf8.get_or_insert(header),
            Err(TextFault::ControlCharacter) => self.control_character.get_or_insert(header),
        };
        None
    }
}

const fn bit(attribute: Attribute) -> u16 {
    1 << attribute as u16
}

fn attribute_name(header: &[u8], prefixes: Prefixes) -> Option<&[u8]> {
    match header {
        [b'c', b'e', b'-', name @ ..] => Some(name),
        [b'c', b'e', b'_', name @ ..] if prefixes == Prefixes::HyphenAndUnderscore => Some(name),
        _ => None,
    }
}

/// An extension's name: lower-case letters and digits (CloudEvents 1.0, "Attribute Naming Convention"); `data` is
/// not an attribute.
fn extension_name(name: &[u8]) -> Option<&str> {
    let fits =
        (1..=limits::EXTENSION_NAME_MAX_BYTES).contains(&name.len()) && !matches!(name, b"data" | b"data_base64");
    let plain = name.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if fits && plain { std::str::from_utf8(name).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect<'a>(headers: &[(&'a str, &'a [u8])], prefixes: Prefixes) -> Collected<'a> {
        Collected::from_headers(headers.iter().map(|(name, value)| (name.as_bytes(), Some(*value))), prefixes)
    }

    #[test]
    fn names_are_compared_exactly_in_lower_case() {
        let collected = collect(&[("Ce-Id", b"1"), ("ce_id", b"2"), ("ce-id", b"3")], Prefixes::Hyphen);
        assert_eq!(collected.value(Attribute::Id), Some("3"));
        let both = collect(&[("ce_id", b"2"), ("ce-id", b"3")], Prefixes::HyphenAndUnderscore);
        assert_eq!(both.duplicate, Some(b"ce-id".as_slice()));
    }

    #[test]
    fn the_content_type_is_the_datas_unless_that_came_by_itself() {
        let collected = collect(&[("content-type", b"text/plain")], Prefixes::Hyphen);
        assert_eq!(collected.value(Attribute::DataContentType), Some("text/plain"));
        let both = collect(&[("content-type", b"text/plain"), ("ce-datacontenttype", b"a/b")], Prefixes::Hyphen);
        assert_eq!(both.value(Attribute::DataContentType), Some("a/b"));
        assert_eq!(both.duplicate, None);
    }

    #[test]
    fn extensions_outside_the_grammar_are_not_kept_and_their_number_is_bounded() {
        let collected =
            collect(&[("ce-my-ext", b"1"), ("ce-data", b"1"), ("ce-", b"1"), ("ce-ok1", b"2")], Prefixes::Hyphen);
        assert_eq!(collected.extensions().collect::<Vec<_>>(), [("ok1", "2")]);
        let names: Vec<String> = (0..=limits::EXTENSIONS_MAX).map(|n| format!("ce-x{n}")).collect();
        let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"".as_slice())).collect();
        assert_eq!(collect(&many[1..], Prefixes::Hyphen).too_long, None);
        assert_eq!(collect(&many, Prefixes::Hyphen).too_long, Some(b"ce-x64".as_slice()));
    }

    #[test]
    fn a_repeated_system_mark_marks_nothing() {
        let once = collect(&[("ce-systemevent", b"true"), ("ce-id", b"1"), ("ce-id", b"1")], Prefixes::Hyphen);
        assert!(once.is_system_event());
        let twice = collect(
            &[("ce-id", b"1"), ("ce-id", b"1"), ("ce-systemevent", b"true"), ("ce-systemevent", b"false")],
            Prefixes::Hyphen,
        );
        assert!(!twice.is_system_event());
    }
}
