//! A Kafka record → a verdict: accept, drop or quarantine (contracts.md section 2).
//!
//! Pure and total: any bytes give a verdict. Everything is borrowed until the verdict stands; an accepted payload
//! is copied once, out of the client's fetch buffer, which it must not keep alive.
//!
//! The order of judgement: a null value without attributes is a tombstone; a system event is dropped whatever else
//! it says, since it has no tenant to be kept for; then the reasons in their order. A structured record without
//! binary attributes is held only to the rules that concern it: size and mode.

mod quarantine;

use bytes::Bytes;

use super::attribute::Attribute;
use super::check::{check, pack};
use super::collect::{Collected, Prefixes};
use super::reason::{Fault, Reason};
use super::topic::{after_prefix, without_dot};
use crate::engine::{LaneRecord, QuarantineRecord};
use crate::types::{Event, LaneName, Sequence, TenantId, Time, limits};

/// A record as the client lends it.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// Its lane.
    pub lane: &'a LaneName,
    /// Its topic.
    pub topic: &'a str,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: u64,
    /// Its headers in order: names as bytes, since producers may write anything.
    pub headers: &'a [(&'a [u8], Option<&'a [u8]>)],
    /// Its key, if any.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` for null.
    pub payload: Option<&'a [u8]>,
}

/// The quarantine record of one that is no record of the hub's own, though its topic is.
#[must_use]
pub fn unreadable(record: &RawRecord<'_>, now: Time) -> QuarantineRecord {
    quarantine::quarantine(record, Fault { reason: Reason::Unstorable, header: None }, now)
}

/// What an operator may set about decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeRules {
    topic_prefix: Box<str>,
    type_prefix: Box<str>,
    prefixes: Prefixes,
    max_payload: usize,
}

impl DecodeRules {
    /// Rules for topics `<topic_prefix>.<source>` and types `<type_prefix>.<source>.…`, payloads of at most 1 MiB.
    #[must_use]
    pub fn new(topic_prefix: &str, type_prefix: &str) -> Self {
        Self {
            topic_prefix: without_dot(topic_prefix).into(),
            type_prefix: without_dot(type_prefix).into(),
            prefixes: Prefixes::Hyphen,
            max_payload: limits::PAYLOAD_DEFAULT_BYTES,
        }
    }

    /// Reads `ce_<name>` too, as the CloudEvents Kafka binding writes it.
    #[must_use]
    pub fn accept_underscore_headers(mut self) -> Self {
        self.prefixes = Prefixes::HyphenAndUnderscore;
        self
    }

    /// Sets the largest payload in bytes.
    #[must_use]
    pub fn with_max_payload(mut self, bytes: usize) -> Self {
        self.max_payload = bytes;
        self
    }

    /// What `ce-type` begins with, without the dot.
    #[must_use]
    pub fn type_prefix(&self) -> &str {
        &self.type_prefix
    }
}

impl Default for DecodeRules {
    fn default() -> Self {
        Self::new("lerian.streaming", "studio.lerian")
    }
}

/// The verdict on a record.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Well formed, tenant present.
    Accept(Box<Event>),
    /// To be counted and forgotten.
    Drop(DropReason),
    /// Malformed: to be kept for forensics.
    Quarantine(Box<QuarantineRecord>),
}

impl Decoded {
    /// The verdict as the engine takes it.
    #[must_use]
    pub fn into_lane_record(self) -> LaneRecord {
        match self {
            Self::Accept(event) => LaneRecord::Accept(event),
            Self::Drop(_) => LaneRecord::Drop,
            Self::Quarantine(record) => LaneRecord::Quarantine(record),
        }
    }
}

/// Why a record is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// `ce-systemevent` is `true`.
    SystemEvent,
    /// A null value without attributes.
    Tombstone,
}

impl DropReason {
    /// Its name, for counters.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SystemEvent => "system_event",
            Self::Tombstone => "tombstone",
        }
    }
}

/// Judges `record`, met at `now`.
#[must_use]
pub fn decode(record: &RawRecord<'_>, rules: &DecodeRules, now: Time) -> Decoded {
    let collected = Collected::from_headers(record.headers.iter().copied(), rules.prefixes);
    if record.payload.is_none() && !collected.has_attributes {
        return Decoded::Drop(DropReason::Tombstone);
    }
    if collected.is_system_event() {
        return Decoded::Drop(DropReason::SystemEvent);
    }
    match accept(record, rules, &collected, now) {
        Ok(event) => Decoded::Accept(event),
        Err(fault) => Decoded::Quarantine(Box::new(quarantine::quarantine(record, fault, now))),
    }
}

fn accept(
    record: &RawRecord<'_>,
    rules: &DecodeRules,
    collected: &Collected<'_>,
    now: Time,
) -> Result<Box<Event>, Fault> {
    let payload = record.payload.unwrap_or_default();
    if collected.is_structured && !collected.has_attributes {
        check_size(payload, rules)?;
        return Err(Fault::written(Reason::StructuredMode, b"content-type"));
    }
    let topic_source = after_prefix(record.topic, &rules.topic_prefix).unwrap_or_default();
    let checked = check(collected, &rules.type_prefix, Some(topic_source))?;
    let tenant = tenant(collected)?;
    check_size(payload, rules)?;
    if collected.is_structured {
        return Err(Fault::written(Reason::StructuredMode, b"content-type"));
    }
    Ok(Box::new(Event {
        tenant,
        id: checked.id,
        sequence: Sequence(0),
        received_at: now,
        key: checked.key.into(),
        schema_major: checked.schema_major,
        attributes: pack(collected, checked.id),
        traceparent: collected.traceparent.map(Into::into),
        tracestate: collected.tracestate.map(Into::into),
        content_encoding: None,
        source_id: None,
        request: None,
        lane: record.lane.clone(),
        payload: Bytes::copy_from_slice(payload),
    }))
}

fn tenant(collected: &Collected<'_>) -> Result<TenantId, Fault> {
    let missing = || Fault::of(Reason::MissingTenant, Attribute::TenantId);
    let text = collected.value(Attribute::TenantId).ok_or_else(missing)?;
    TenantId::new(text).map_err(|_| missing())
}

fn check_size(payload: &[u8], rules: &DecodeRules) -> Result<(), Fault> {
    if payload.len() <= rules.max_payload { Ok(()) } else { Err(Fault::bare(Reason::Oversize)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
    const NOW: Time = Time::from_millis(1_700_000_000_000);

    type Headers = Vec<(String, Option<Vec<u8>>)>;

    fn headers() -> Headers {
        let pairs = [
            ("ce-specversion", "1.0"),
            ("ce-id", ID),
            ("ce-source", "loans"),
            ("ce-type", "studio.lerian.loans.loan_application.approved"),
            ("ce-time", "2026-01-01T00:00:00.5Z"),
            ("ce-schemaversion", "v2.1.0"),
            ("ce-resourcetype", "loan_application"),
            ("ce-eventtype", "approved"),
            ("ce-tenantid", "tenant-1"),
        ];
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Some(value.as_bytes().to_vec()))).collect()
    }

    fn with(name: &str, value: impl AsRef<[u8]>) -> Headers {
        let mut headers = without(name);
        headers.push((name.to_owned(), Some(value.as_ref().to_vec())));
        headers
    }

    fn without(name: &str) -> Headers {
        headers().into_iter().filter(|(other, _)| other != name).collect()
    }

    fn also(name: &str, value: impl AsRef<[u8]>) -> Headers {
        let mut headers = headers();
        headers.push((name.to_owned(), Some(value.as_ref().to_vec())));
        headers
    }

    fn verdict_of(headers: &Headers, payload: Option<&[u8]>, rules: &DecodeRules) -> Decoded {
        let lane = LaneName::kafka("lerian.streaming.loans", 3);
        let headers: Vec<(&[u8], Option<&[u8]>)> =
            headers.iter().map(|(name, value)| (name.as_bytes(), value.as_deref())).collect();
        let topic = "lerian.streaming.loans";
        decode(
            &RawRecord { lane: &lane, topic, partition: 3, offset: 7, headers: &headers, key: None, payload },
            rules,
            NOW,
        )
    }

    fn verdict(headers: &Headers) -> Decoded {
        verdict_of(headers, Some(b"{}"), &DecodeRules::default())
    }

    fn accepted(headers: &Headers) -> Event {
        match verdict(headers) {
            Decoded::Accept(event) => *event,
            other @ (Decoded::Drop(_) | Decoded::Quarantine(_)) => panic!("not accepted: {other:?}"),
        }
    }

    fn quarantined(decoded: Decoded) -> (&'static str, Option<String>) {
        match decoded {
            Decoded::Quarantine(record) => (record.reason, record.header.map(Into::into)),
            other @ (Decoded::Accept(_) | Decoded::Drop(_)) => panic!("not quarantined: {other:?}"),
        }
    }

    fn assert_fault(headers: &Headers, reason: Reason, header: &str) {
        assert_eq!(quarantined(verdict(headers)), (reason.as_str(), Some(header.to_owned())));
    }

    #[test]
    fn a_well_formed_record_is_accepted_with_its_bytes_untouched() {
        let payload = br#"{"n":12345678901234567890.123456789}"#;
        let Decoded::Accept(event) = verdict_of(&headers(), Some(payload), &DecodeRules::default()) else {
            panic!("not accepted")
        };
        assert_eq!(event.tenant.as_str(), "tenant-1");
        assert_eq!(event.id.to_string(), ID);
        assert_eq!(&*event.key, "loan_application.approved");
        assert_eq!(event.schema_major, 2);
        assert_eq!(event.origin(), "loans");
        assert_eq!(event.received_at, NOW);
        assert_eq!(&*event.payload, payload);
        assert_eq!(event.lane, LaneName::kafka("lerian.streaming.loans", 3));
        assert_eq!(event.attributes.iter().next(), Some(("specversion", "1.0")));
        assert_eq!(event.attributes.value("tenantid"), None);
    }

    #[test]
    fn optional_attributes_tracing_and_extensions_are_kept() {
        let mut all = headers();
        for (name, value) in [
            ("ce-subject", "é€"),
            ("ce-datacontenttype", "application/json"),
            ("ce-dataschema", "https://x.test/1"),
            ("ce-shard2", "a"),
            ("ce-systemevent", "false"),
            ("traceparent", "00-1-2-01"),
            ("tracestate", "v=1"),
            ("x-other", "\r\n"),
        ] {
            all.push((name.to_owned(), Some(value.into())));
        }
        let event = accepted(&all);
        assert_eq!(event.subject(), Some("é€"));
        assert_eq!(event.content_type(), Some("application/json"));
        assert_eq!(event.attributes.value("shard2"), Some("a"));
        assert_eq!(event.attributes.value("systemevent"), None);
        assert_eq!(event.attributes.value("x-other"), None);
        assert_eq!((event.traceparent.as_deref(), event.tracestate.as_deref()), (Some("00-1-2-01"), Some("v=1")));
    }

    #[test]
    fn an_id_in_upper_case_comes_out_in_lower_case() {
        let event = accepted(&with("ce-id", ID.to_uppercase()));
        assert_eq!(event.attributes.value("id"), Some(ID));
        assert_eq!(event.public_id(), ID);
    }

    #[test]
    fn an_empty_or_null_value_with_attributes_is_an_event_without_data() {
        for payload in [None, Some(b"".as_slice())] {
            match verdict_of(&headers(), payload, &DecodeRules::default()) {
                Decoded::Accept(event) => assert!(event.payload.is_empty()),
                other @ (Decoded::Drop(_) | Decoded::Quarantine(_)) => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn compressed_bytes_pass_untouched() {
        let payload = [0x1f, 0x8b, 0x08, 0x00, 0xff];
        let headers = also("ce-datacontenttype", "application/octet-stream");
        match verdict_of(&headers, Some(&payload), &DecodeRules::default()) {
            Decoded::Accept(event) => assert_eq!(&*event.payload, payload),
            other @ (Decoded::Drop(_) | Decoded::Quarantine(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn tombstones_and_system_events_are_dropped() {
        let rules = DecodeRules::default();
        assert_eq!(verdict_of(&Vec::new(), None, &rules), Decoded::Drop(DropReason::Tombstone));
        let mut system = without("ce-tenantid");
        system.push(("ce-systemevent".to_owned(), Some(b"true".to_vec())));
        assert_eq!(verdict(&system), Decoded::Drop(DropReason::SystemEvent));
        let twice = also("ce-systemevent", "true").into_iter().chain(also("ce-systemevent", "true")).collect();
        assert_fault(&twice, Reason::DuplicateHeader, "ce-specversion");
    }

    #[test]
    fn raw_json_without_headers_is_quarantined() {
        assert_fault(&Vec::new(), Reason::MissingHeader, "ce-specversion");
    }

    #[test]
    fn each_required_header_is_missed_by_name() {
        for attribute in Attribute::REQUIRED {
            assert_fault(&without(attribute.header()), Reason::MissingHeader, attribute.header());
        }
        assert_fault(&with("ce-eventtype", ""), Reason::MissingHeader, "ce-eventtype");
        let mut null = without("ce-id");
        null.push(("ce-id".to_owned(), None));
        assert_fault(&null, Reason::MissingHeader, "ce-id");
    }

    #[test]
    fn each_broken_rule_has_its_reason_and_header() {
        let long = |bytes| "a".repeat(bytes);
        let cases: Vec<(Headers, Reason, &str)> = vec![
            (also("ce-id", ID), Reason::DuplicateHeader, "ce-id"),
            (with("ce-subject", [0x80]), Reason::InvalidUtf8, "ce-subject"),
            (with("ce-subject", "a\r\nX: y"), Reason::ControlCharacter, "ce-subject"),
            (also("ce-ext", "\u{85}"), Reason::ControlCharacter, "ce-ext"),
            (also("traceparent", "a\nb"), Reason::ControlCharacter, "traceparent"),
            (with("ce-source", long(224)), Reason::TooLong, "ce-source"),
            (with("ce-tenantid", long(257)), Reason::TooLong, "ce-tenantid"),
            (with("ce-eventtype", long(129)), Reason::TooLong, "ce-eventtype"),
            (also("ce-subject", long(1025)), Reason::TooLong, "ce-subject"),
            (also("ce-datacontenttype", long(257)), Reason::TooLong, "ce-datacontenttype"),
            (also("ce-dataschema", long(2049)), Reason::TooLong, "ce-dataschema"),
            (with("ce-time", long(17_000)), Reason::TooLong, "ce-time"),
            (with("ce-specversion", "0.3"), Reason::BadSpecversion, "ce-specversion"),
            (with("ce-id", "1"), Reason::BadId, "ce-id"),
            (with("ce-source", "//loans"), Reason::BadSource, "ce-source"),
            (with("ce-source", "cards"), Reason::TopicMismatch, "ce-source"),
            (with("ce-type", "loan_application.approved"), Reason::BadType, "ce-type"),
            (with("ce-type", "studio.lerian.cards.loan_application.approved"), Reason::TypeMismatch, "ce-type"),
            (with("ce-eventtype", "rejected"), Reason::TypeMismatch, "ce-type"),
            (with("ce-time", "yesterday"), Reason::BadTime, "ce-time"),
            (with("ce-schemaversion", "one"), Reason::BadSchemaVersion, "ce-schemaversion"),
            (without("ce-tenantid"), Reason::MissingTenant, "ce-tenantid"),
            (with("ce-tenantid", ""), Reason::MissingTenant, "ce-tenantid"),
            (also("content-type", "Application/CloudEvents+json"), Reason::StructuredMode, "content-type"),
        ];
        for (headers, reason, header) in cases {
            assert_fault(&headers, reason, header);
        }
    }

    #[test]
    fn of_several_reasons_the_first_counts() {
        let mut headers = with("ce-id", "1");
        headers.retain(|(name, _)| name != "ce-time");
        assert_fault(&headers, Reason::MissingHeader, "ce-time");
        let rules = DecodeRules::default().with_max_payload(1);
        let structured = also("content-type", "application/cloudevents");
        assert_eq!(quarantined(verdict_of(&structured, Some(b"12"), &rules)).0, "oversize");
        assert_eq!(quarantined(verdict_of(&without("ce-tenantid"), Some(b"12"), &rules)).0, "missing_tenant");
    }

    #[test]
    fn a_structured_record_needs_no_binary_attributes_to_be_called_so() {
        let structured = vec![("content-type".to_owned(), Some(b"application/cloudevents+json".to_vec()))];
        assert_fault(&structured, Reason::StructuredMode, "content-type");
        assert!(matches!(verdict(&also("content-type", "application/json")), Decoded::Accept(_)));
    }

    #[test]
    fn the_payload_limit_is_inclusive() {
        let rules = DecodeRules::default().with_max_payload(2);
        assert!(matches!(verdict_of(&headers(), Some(b"12"), &rules), Decoded::Accept(_)));
        assert_eq!(quarantined(verdict_of(&headers(), Some(b"123"), &rules)), ("oversize", None));
    }

    #[test]
    fn underscore_headers_are_read_only_when_switched_on() {
        let underscored: Headers =
            headers().into_iter().map(|(name, value)| (name.replacen('-', "_", 1), value)).collect();
        assert_fault(&underscored, Reason::MissingHeader, "ce-specversion");
        let rules = DecodeRules::default().accept_underscore_headers();
        assert!(matches!(verdict_of(&underscored, Some(b""), &rules), Decoded::Accept(_)));
        let both: Headers = underscored.into_iter().chain(headers()).collect();
        assert_eq!(quarantined(verdict_of(&both, Some(b""), &rules)).0, "duplicate_header");
    }

    #[test]
    fn a_quarantined_record_keeps_a_bounded_body_with_its_size_and_hash() {
        let body = vec![7; 100_000];
        let mut many = headers();
        many.push(("big".to_owned(), Some(vec![1; 100_000])));
        many.retain(|(name, _)| name != "ce-id");
        let Decoded::Quarantine(record) = verdict_of(&many, Some(&body), &DecodeRules::default()) else {
            panic!("not quarantined")
        };
        assert_eq!((record.body.len(), record.size), (64 * 1024, 100_000));
        assert_eq!(record.sha256, <[u8; 32]>::from(<sha2::Sha256 as sha2::Digest>::digest(&body)));
        assert_eq!(record.headers.len(), 8);
        assert_eq!((&*record.topic, record.partition, record.offset), ("lerian.streaming.loans", 3, 7));
    }

    fn any_header() -> impl Strategy<Value = (String, Option<Vec<u8>>)> {
        let known = prop::sample::select(Attribute::ALL.map(Attribute::header).to_vec()).prop_map(str::to_owned);
        let name = prop_oneof![3 => known, 1 => "(ce[-_])?[a-z0-9-]{0,6}", 1 => any::<String>()];
        let value = prop_oneof![prop::collection::vec(any::<u8>(), 0..40), "[ -~]{0,20}".prop_map(String::into_bytes)];
        (name, prop::option::weighted(0.9, value))
    }

    proptest! {
        #[test]
        fn no_headers_panic_and_every_verdict_keeps_its_promise(
            changes in prop::collection::vec((0..12usize, any_header()), 0..4),
            payload in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        ) {
            let mut headers = headers();
            for (at, header) in changes {
                if at < headers.len() { headers[at] = header } else { headers.push(header) }
            }
            let rules = DecodeRules::default().accept_underscore_headers();
            if let Decoded::Accept(event) = verdict_of(&headers, payload.as_deref(), &rules) {
                for (name, value) in event.attributes.iter() {
                    prop_assert!(!name.is_empty() && !value.chars().any(char::is_control));
                }
                prop_assert_eq!(&*event.payload, payload.as_deref().unwrap_or_default());
                prop_assert_eq!(event.id.get_version_num(), 7);
            }
        }

        #[test]
        fn arbitrary_headers_never_panic(headers in prop::collection::vec(any_header(), 0..30)) {
            let _verdict = verdict(&headers);
        }
    }
}
