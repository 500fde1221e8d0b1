//! Sources: the body of `/v1/sources`.

use serde::Serialize;

use crate::api::input::{Field, Fields};
use crate::api::problem::Faults;
use crate::types::source::SourceKind;
use crate::types::{Source, SourceId, TenantId, limits};

use super::{Rules, SOURCE_NAME_RULE, is_source_name};

/// Fields of the contract that this version does not have yet.
const LATER: [&str; 12] = [
    "verification_type",
    "verification_secret",
    "verification_header",
    "template",
    "ip_allowlist",
    "ip_denylist",
    "dedup_strategy",
    "dedup_field",
    "dedup_window_seconds",
    "schema_validation_enabled",
    "json_schema",
    "schema_action",
];
const READ_ONLY: [&str; 4] = ["id", "ingest_url", "created_at", "updated_at"];
const BODY_MAX: u32 = 10 * 1024 * 1024;
const BODY_DEFAULT: u32 = 1024 * 1024;
const _: () = assert!(
    BODY_MAX as usize == limits::PAYLOAD_CEILING_BYTES && BODY_DEFAULT as usize == limits::PAYLOAD_DEFAULT_BYTES
);

/// What a body says about a source.
#[derive(Debug, Default)]
pub struct SourceChange {
    name: Field<String>,
    slug: Field<String>,
    kind: Field<SourceKind>,
    enabled: Field<bool>,
    max_body_bytes: Field<u32>,
    event_key_header: Field<String>,
    event_key_path: Field<String>,
}

impl SourceChange {
    /// Reads a body, noting every fault.
    #[must_use]
    pub fn read(mut fields: Fields, faults: &mut Faults) -> Self {
        let change = Self {
            name: fields.text("name", limits::NAME_MAX_BYTES, faults),
            slug: slug(&mut fields, faults),
            kind: fields.word("type", "http, cloudevents", faults),
            enabled: fields.flag("enabled", faults),
            max_body_bytes: fields.whole("max_body_bytes", 1..=BODY_MAX, faults),
            event_key_header: event_key_header(&mut fields, faults),
            event_key_path: event_key_path(&mut fields, faults),
        };
        fields.later(&LATER, faults);
        fields.read_only(&READ_ONLY, faults);
        fields.finish(faults);
        change
    }

    /// The source that a POST makes; `None` when a fault was noted.
    pub fn create(self, id: SourceId, tenant: &TenantId, rules: Rules<'_>, faults: &mut Faults) -> Option<Source> {
        if self.slug.is_absent() && faults.is_empty() {
            faults.add("/slug", "is required");
        }
        let blank = Source {
            id,
            tenant: tenant.clone(),
            name: None,
            slug: String::new(),
            kind: SourceKind::Http,
            enabled: true,
            max_body_bytes: BODY_DEFAULT,
            event_key_header: None,
            event_key_path: None,
            created_at: rules.now,
            updated_at: rules.now,
            version: 0,
        };
        self.apply(blank, rules, faults)
    }

    /// The stored source as a PATCH leaves it; `None` when a fault was noted.
    pub fn apply(self, stored: Source, rules: Rules<'_>, faults: &mut Faults) -> Option<Source> {
        let changed = Source {
            name: self.name.over_optional(stored.name),
            slug: self.slug.over(stored.slug, String::new()),
            kind: self.kind.over(stored.kind, SourceKind::Http),
            enabled: self.enabled.over(stored.enabled, true),
            max_body_bytes: self.max_body_bytes.over(stored.max_body_bytes, BODY_DEFAULT),
            event_key_header: self.event_key_header.over_optional(stored.event_key_header),
            event_key_path: self.event_key_path.over_optional(stored.event_key_path),
            updated_at: rules.now,
            version: stored.version + 1,
            ..stored
        };
        faults.is_empty().then_some(changed)
    }
}

fn slug(fields: &mut Fields, faults: &mut Faults) -> Field<String> {
    let at = fields.pointer("slug");
    let slug = fields.text("slug", limits::SOURCE_NAME_MAX_BYTES, faults);
    let valid = match &slug {
        Field::Absent => true,
        Field::Null => false,
        Field::Set(text) => is_source_name(text),
    };
    if !valid {
        faults.add(at, SOURCE_NAME_RULE);
    }
    slug
}

fn event_key_header(fields: &mut Fields, faults: &mut Faults) -> Field<String> {
    let at = fields.pointer("event_key_header");
    fields.text("event_key_header", limits::NAME_MAX_BYTES, faults).and_then(|text| {
        let name = http::HeaderName::from_bytes(text.as_bytes()).ok();
        if name.is_none() {
            faults.add(at, "must be a header's name");
        }
        name.map(|name| name.as_str().to_owned())
    })
}

fn event_key_path(fields: &mut Fields, faults: &mut Faults) -> Field<String> {
    let at = fields.pointer("event_key_path");
    fields.text("event_key_path", limits::DESCRIPTION_MAX_BYTES, faults).and_then(|text| {
        let segments = text.split('.').count();
        let valid = segments <= limits::FILTER_PATH_SEGMENTS_MAX && text.split('.').all(|segment| !segment.is_empty());
        if !valid {
            faults.add(at, format!("must be a dot path of at most {} segments", limits::FILTER_PATH_SEGMENTS_MAX));
        }
        valid.then_some(text)
    })
}

/// A source as its tenant reads it.
#[derive(Debug, Serialize)]
pub struct SourceView<'a> {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    slug: &'a str,
    r#type: SourceKind,
    enabled: bool,
    max_body_bytes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_key_header: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_key_path: Option<&'a str>,
    ingest_url: String,
    created_at: String,
    updated_at: String,
}

impl<'a> SourceView<'a> {
    /// The view; `base` is what stands before `/v1/ingest/…`, empty when the operator names no public URL.
    #[must_use]
    pub fn of(source: &'a Source, base: &str) -> Self {
        Self {
            id: source.id.to_string(),
            name: source.name.as_deref(),
            slug: &source.slug,
            r#type: source.kind,
            enabled: source.enabled,
            max_body_bytes: source.max_body_bytes,
            event_key_header: source.event_key_header.as_deref(),
            event_key_path: source.event_key_path.as_deref(),
            ingest_url: format!("{base}/v1/ingest/{}", source.id),
            created_at: source.created_at.to_rfc3339(),
            updated_at: source.updated_at.to_rfc3339(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::RULES;
    use super::*;
    use serde_json::{Value, json};

    fn create(body: Value) -> Result<Source, Vec<String>> {
        let mut faults = Faults::default();
        let fields = Fields::of_value(String::new(), body, &mut faults).expect("an object");
        let tenant = TenantId::new("acme").expect("a tenant");
        let id = SourceId(uuid::Uuid::nil());
        let source = SourceChange::read(fields, &mut faults).create(id, &tenant, RULES, &mut faults);
        faults.check().map_err(|p| p.errors.into_iter().map(|f| f.pointer).collect::<Vec<_>>())?;
        Ok(source.expect("no fault was noted"))
    }

    #[test]
    fn a_slug_is_enough_and_the_view_has_the_contracts_names() {
        let source = create(json!({"slug": "shop", "event_key_header": "X-GitHub-Event"})).expect("a source");
        let view = serde_json::to_value(SourceView::of(&source, "https://hub.test")).expect("JSON");
        let expected = json!({
            "id": "src_00000000000000000000000000000000", "slug": "shop", "type": "http", "enabled": true,
            "max_body_bytes": 1_048_576, "event_key_header": "x-github-event",
            "ingest_url": "https://hub.test/v1/ingest/src_00000000000000000000000000000000",
            "created_at": "1970-01-01T00:00:01.000Z", "updated_at": "1970-01-01T00:00:01.000Z",
        });
        assert_eq!(view, expected);
        assert_eq!(source.version, 1);
    }

    #[test]
    fn every_fault_of_a_source_is_named_at_once() {
        let body = json!({
            "name": 1, "slug": "A", "type": "ftp", "enabled": "no", "max_body_bytes": 10_485_761,
            "event_key_header": "a b", "event_key_path": "a..b", "verification_type": "hmac_sha256",
            "dedup_strategy": "payload_hash", "ip_allowlist": [], "json_schema": {}, "id": "x", "colour": 1,
            "description": "x",
        });
        let mut pointers = create(body).expect_err("faults");
        pointers.sort();
        let expected = [
            "/colour",
            "/dedup_strategy",
            "/description",
            "/enabled",
            "/event_key_header",
            "/event_key_path",
            "/id",
            "/ip_allowlist",
            "/json_schema",
            "/max_body_bytes",
            "/name",
            "/slug",
            "/type",
            "/verification_type",
        ];
        assert_eq!(pointers, expected);
        assert_eq!(create(json!({})), Err(vec!["/slug".to_owned()]));
        assert_eq!(create(json!({"slug": null})), Err(vec!["/slug".to_owned()]));
    }

    #[test]
    fn a_patch_keeps_what_it_does_not_name() {
        let stored = create(json!({"slug": "shop", "name": "Shop", "enabled": false})).expect("a source");
        let mut faults = Faults::default();
        let fields = Fields::of_value(String::new(), json!({"name": null, "max_body_bytes": 5}), &mut faults);
        let change = SourceChange::read(fields.expect("an object"), &mut faults);
        let changed = change.apply(stored, RULES, &mut faults).expect("no fault");
        assert_eq!((changed.name, changed.slug.as_str(), changed.enabled), (None, "shop", false));
        assert_eq!((changed.max_body_bytes, changed.version), (5, 2));
    }
}
