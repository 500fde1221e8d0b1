//! Destinations: the body of `/v1/destinations` and of a subscription's inline `destination`.

use url::Url;

use crate::api::input::{Field, Fields};
use crate::api::problem::Faults;
use crate::types::destination::{
    Auth, CircuitSettings, Method, On410, Ordering, OrderingKey, RateLimit, SigningSecret, Verification,
};
use crate::types::{Destination, DestinationId, RetryPolicy, Secret, TenantId, limits};

use super::auth::{self, AuthChange};
use super::static_headers::{self, HeaderChange};
use super::{Rules, labels, retry};

const READ_ONLY: [&str; 4] = ["id", "created_at", "updated_at", "warnings"];
/// Bus types of the contract that this version does not have yet.
const BUSES: [&str; 7] = ["kafka", "sqs", "s3", "eventbridge", "pubsub", "rabbitmq", "websocket"];

/// What a body says about a destination.
#[derive(Clone, Debug, Default)]
pub struct DestinationChange {
    at: String,
    name: Field<String>,
    description: Field<String>,
    url: Field<Url>,
    method: Field<Method>,
    headers: Field<Vec<HeaderChange>>,
    on_410: Field<On410>,
    auth: Field<AuthChange>,
    secret: Field<Secret>,
    timeout_ms: Field<u32>,
    max_in_flight: Field<u32>,
    rate_limit: Field<RateChange>,
    retry: Field<RetryPolicy>,
    ordering: Field<Ordering>,
    ordering_key: Field<OrderingKey>,
    circuit: Field<CircuitChange>,
    verification: Field<Verification>,
}

#[derive(Clone, Debug)]
struct RateChange {
    at: String,
    per_second: Field<u32>,
    burst: Field<u32>,
}

#[derive(Clone, Debug)]
struct CircuitChange {
    enabled: Field<bool>,
    threshold: Field<u32>,
    cooldown_ms: Field<u32>,
}

impl DestinationChange {
    /// Reads a body, noting every fault.
    #[must_use]
    pub fn read(mut fields: Fields, rules: Rules<'_>, faults: &mut Faults) -> Self {
        let (name, description) = labels(&mut fields, faults);
        kinds(&mut fields, faults);
        let change = Self {
            name,
            description,
            url: url(&mut fields, rules, faults),
            method: fields.word("method", "POST, PUT, PATCH", faults),
            headers: static_headers::take(&mut fields, faults),
            on_410: fields.word("on_410", "disable, retry", faults),
            auth: auth::take(&mut fields, faults),
            secret: secret(&mut fields, faults),
            timeout_ms: fields.whole("timeout_ms", limits::TIMEOUT_MIN_MS..=limits::TIMEOUT_MAX_MS, faults),
            max_in_flight: fields.whole("max_in_flight", 1..=limits::MAX_IN_FLIGHT_MAX, faults),
            rate_limit: rate_limit(&mut fields, faults),
            retry: retry::take(&mut fields, rules.payload_retention_s, faults),
            ordering: fields.word("ordering", "fifo, strict, parallel", faults),
            ordering_key: fields.word("ordering_key", "subscription, subject", faults),
            circuit: circuit(&mut fields, faults),
            verification: verification(&mut fields, rules, faults),
            at: fields.pointer("").trim_end_matches('/').to_owned(),
        };
        fields.later(&["signing_config"], faults);
        fields.read_only(&READ_ONLY, faults);
        fields.finish(faults);
        change
    }

    /// The destination that a POST makes, its secret made of `random` unless the body has one; `None` when a
    /// fault was noted.
    pub fn create(
        mut self,
        id: DestinationId,
        tenant: &TenantId,
        random: [u8; 32],
        rules: Rules<'_>,
        faults: &mut Faults,
    ) -> Option<Destination> {
        let secret = std::mem::take(&mut self.secret).value().unwrap_or_else(|| Secret::new(random.to_vec()));
        let Field::Set(url) = std::mem::take(&mut self.url) else {
            let at = format!("{}/url", self.at);
            if !faults.names(&at) {
                faults.add(at, "is required");
            }
            // The other parts may have faults of their own: they are told as well.
            let nowhere = Url::parse("http://invalid/").expect("a constant URL is valid");
            self.apply(blank(id, tenant, nowhere, secret, rules), rules, faults);
            return None;
        };
        self.apply(blank(id, tenant, url, secret, rules), rules, faults)
    }

    /// The stored destination as a PATCH leaves it; `None` when a fault was noted.
    pub fn change(self, stored: Destination, rules: Rules<'_>, faults: &mut Faults) -> Option<Destination> {
        if !self.secret.is_absent() {
            faults.add(format!("{}/secret", self.at), "is changed by POST …/rotate-secret");
        }
        if matches!(self.url, Field::Null) {
            faults.add(format!("{}/url", self.at), "must not be null");
        }
        self.apply(stored, rules, faults)
    }

    /// The URL that the body names, if it names one.
    #[must_use]
    pub const fn url(&self) -> Option<&Url> {
        match &self.url {
            Field::Set(url) => Some(url),
            Field::Absent | Field::Null => None,
        }
    }

    fn apply(self, stored: Destination, rules: Rules<'_>, faults: &mut Faults) -> Option<Destination> {
        let changed = Destination {
            name: self.name.over_optional(stored.name),
            description: self.description.over_optional(stored.description),
            url: self.url.over(stored.url.clone(), stored.url),
            method: self.method.over(stored.method, Method::default()),
            headers: static_headers::apply(self.headers, stored.headers, faults),
            on_410: self.on_410.over(stored.on_410, On410::default()),
            auth: auth::apply(self.auth, stored.auth, &format!("{}/auth", self.at), faults),
            timeout_ms: self.timeout_ms.over(stored.timeout_ms, limits::TIMEOUT_DEFAULT_MS),
            max_in_flight: self.max_in_flight.over(stored.max_in_flight, limits::MAX_IN_FLIGHT_DEFAULT),
            rate_limit: merge_rate(self.rate_limit, stored.rate_limit, faults),
            retry: self.retry.over(stored.retry, RetryPolicy::default()),
            ordering: self.ordering.over(stored.ordering, Ordering::default()),
            ordering_key: self.ordering_key.over(stored.ordering_key, OrderingKey::default()),
            circuit: merge_circuit(self.circuit, stored.circuit),
            verification: self.verification.over(stored.verification, Verification::default()),
            updated_at: rules.now,
            version: stored.version + 1,
            ..stored
        };
        faults.is_empty().then_some(changed)
    }
}

fn blank(id: DestinationId, tenant: &TenantId, url: Url, secret: Secret, rules: Rules<'_>) -> Destination {
    Destination {
        id,
        tenant: tenant.clone(),
        name: None,
        description: None,
        url,
        method: Method::default(),
        headers: Vec::new(),
        on_410: On410::default(),
        auth: Auth::None,
        secrets: vec![SigningSecret { secret, expires_at: None }],
        timeout_ms: limits::TIMEOUT_DEFAULT_MS,
        max_in_flight: limits::MAX_IN_FLIGHT_DEFAULT,
        rate_limit: None,
        retry: RetryPolicy::default(),
        ordering: Ordering::default(),
        ordering_key: OrderingKey::default(),
        circuit: CircuitSettings::default(),
        verification: Verification::default(),
        created_at: rules.now,
        updated_at: rules.now,
        version: 0,
    }
}

/// Takes `type` and `signature_kind`, of which this version has one each.
fn kinds(fields: &mut Fields, faults: &mut Faults) {
    for (name, only, later) in [("type", "http", &BUSES[..]), ("signature_kind", "hmac", &["ed25519"][..])] {
        let at = fields.pointer(name);
        match fields.text(name, limits::NAME_MAX_BYTES, faults).value().as_deref() {
            Some(text) if later.contains(&text) => faults.add(at, format!("`{text}` is not available in this version")),
            Some(text) if text != only => faults.add(at, format!("must be `{only}`")),
            Some(_) | None => {}
        }
    }
}

fn url(fields: &mut Fields, rules: Rules<'_>, faults: &mut Faults) -> Field<Url> {
    let at = fields.pointer("url");
    fields.text("url", limits::URL_MAX_BYTES, faults).and_then(|text| match check_url(&text, rules) {
        Ok(url) => Some(url),
        Err(rule) => {
            faults.add(at, rule);
            None
        }
    })
}

fn check_url(text: &str, rules: Rules<'_>) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must be http or https".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must have no user or password: use `auth`".to_owned());
    }
    if url.as_str().len() > limits::URL_MAX_BYTES {
        return Err(format!("must be at most {} bytes", limits::URL_MAX_BYTES));
    }
    (rules.check_url)(&url).map(|()| url)
}

fn secret(fields: &mut Fields, faults: &mut Faults) -> Field<Secret> {
    let at = fields.pointer("secret");
    fields
        .text("secret", limits::NAME_MAX_BYTES, faults)
        .and_then(|text| Secret::parse_whsec(&text).map_err(|rule| faults.add(at, rule.to_string())).ok())
}

fn rate_limit(fields: &mut Fields, faults: &mut Faults) -> Field<RateChange> {
    let at = fields.pointer("rate_limit");
    fields.object("rate_limit", faults).and_then(|mut rate| {
        let per_second = rate.whole("per_second", 1..=limits::RATE_LIMIT_MAX, faults);
        let burst = rate.whole("burst", 1..=limits::RATE_LIMIT_MAX, faults);
        rate.finish(faults);
        Some(RateChange { at, per_second, burst })
    })
}

fn merge_rate(change: Field<RateChange>, stored: Option<RateLimit>, faults: &mut Faults) -> Option<RateLimit> {
    let change = match change {
        Field::Absent => return stored,
        Field::Null => return None,
        Field::Set(change) => change,
    };
    let mut part = |name: &str, given: Field<u32>, stored: Option<u32>| {
        let at = format!("{}/{name}", change.at);
        let part = given.over_optional(stored);
        if part.is_none() && !faults.names(&at) {
            faults.add(at, "is required");
        }
        part
    };
    let per_second = part("per_second", change.per_second, stored.map(|rate| rate.per_second));
    let burst = part("burst", change.burst, stored.map(|rate| rate.burst));
    Some(RateLimit { per_second: per_second?, burst: burst? })
}

fn circuit(fields: &mut Fields, faults: &mut Faults) -> Field<CircuitChange> {
    let cooldown = limits::CIRCUIT_COOLDOWN_MIN_MS..=limits::CIRCUIT_COOLDOWN_MAX_MS;
    fields.object("circuit", faults).and_then(|mut circuit| {
        let change = CircuitChange {
            enabled: circuit.flag("enabled", faults),
            threshold: circuit.whole("threshold", 1..=limits::CIRCUIT_THRESHOLD_MAX, faults),
            cooldown_ms: circuit.whole("cooldown_ms", cooldown, faults),
        };
        circuit.finish(faults);
        Some(change)
    })
}

fn merge_circuit(change: Field<CircuitChange>, stored: CircuitSettings) -> CircuitSettings {
    let default = CircuitSettings::default();
    match change {
        Field::Absent => stored,
        Field::Null => default,
        Field::Set(change) => CircuitSettings {
            enabled: change.enabled.over(stored.enabled, default.enabled),
            threshold: change.threshold.over(stored.threshold, default.threshold),
            cooldown_ms: change.cooldown_ms.over(stored.cooldown_ms, default.cooldown_ms),
        },
    }
}

fn verification(fields: &mut Fields, rules: Rules<'_>, faults: &mut Faults) -> Field<Verification> {
    let at = fields.pointer("verification");
    fields.take("verification").and_then(|value| match value.as_str() {
        Some("challenge") => Some(Verification::Challenge),
        Some("none") if rules.allow_unverified => Some(Verification::None),
        other => {
            faults.add(
                at,
                match other {
                    Some("none") => "`none` is not allowed by the operator",
                    Some("cloudevents") => "`cloudevents` is not available in this version",
                    Some(_) | None => "must be one of challenge, none",
                },
            );
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::RULES;
    use super::*;
    use crate::api::objects::DestinationView;
    use serde_json::{Value, json};

    type Outcome = Result<Destination, Vec<String>>;

    fn fields(body: Value) -> Fields {
        Fields::of_value(String::new(), body, &mut Faults::default()).expect("an object")
    }

    fn outcome(destination: Option<Destination>, faults: Faults) -> Outcome {
        faults.check().map_err(|p| p.errors.into_iter().map(|f| f.pointer).collect::<Vec<_>>())?;
        Ok(destination.expect("no fault was noted"))
    }

    fn create(body: Value) -> Outcome {
        let mut faults = Faults::default();
        let tenant = TenantId::new("acme").expect("a tenant");
        let change = DestinationChange::read(fields(body), RULES, &mut faults);
        let made = change.create(DestinationId(uuid::Uuid::nil()), &tenant, [7; 32], RULES, &mut faults);
        outcome(made, faults)
    }

    fn patch(stored: &Destination, body: Value) -> Outcome {
        let mut faults = Faults::default();
        let change = DestinationChange::read(fields(body), RULES, &mut faults);
        let changed = change.change(stored.clone(), RULES, &mut faults);
        outcome(changed, faults)
    }

    fn fault(body: &str, expected: &[&str]) {
        let mut whole = json!({"url": "https://r.test/in"});
        let members: Value = serde_json::from_str(body).expect("JSON");
        let members = members.as_object().expect("an object").clone();
        whole.as_object_mut().expect("an object").extend(members);
        let expected: Vec<String> = expected.iter().map(|at| (*at).to_owned()).collect();
        assert_eq!(create(whole), Err(expected), "{body}");
    }

    #[test]
    fn a_url_is_enough_and_the_secret_is_shown_once() {
        let made = create(json!({"url": "https://r.test/in"})).expect("a destination");
        assert_eq!(made.secrets[0].secret.expose(), [7; 32]);
        let view = serde_json::to_value(DestinationView::of(&made)).expect("JSON");
        let expected = json!({
            "id": "dst_00000000000000000000000000000000", "type": "http", "url": "https://r.test/in",
            "method": "POST", "headers": [], "on_410": "disable", "signature_kind": "hmac", "timeout_ms": 15000,
            "max_in_flight": 16, "ordering": "fifo", "ordering_key": "subscription", "verification": "challenge",
            "retry": {"type": "curve", "steps_s": [0, 5, 300, 1800, 7200, 18000, 36000, 36000]},
            "circuit": {"enabled": true, "threshold": 5, "cooldown_ms": 60000},
            "created_at": "1970-01-01T00:00:01.000Z", "updated_at": "1970-01-01T00:00:01.000Z",
        });
        assert_eq!(view, expected);
        let shown = serde_json::to_value(DestinationView::of(&made).with_secret(&made)).expect("JSON");
        assert_eq!(shown["secret"], made.secrets[0].secret.to_whsec());
    }

    #[test]
    fn urls_are_checked() {
        for url in ["\"ftp://a.test\"", "\"x\"", "\"https://u:p@a.test\"", "7", "\"https://blocked.test\"", "null"] {
            fault(&format!("{{\"url\": {url}}}"), &["/url"]);
        }
        let long = format!("https://a.test/{}", "a".repeat(2_048));
        fault(&format!("{{\"url\": \"{long}\"}}"), &["/url"]);
        assert_eq!(create(json!({})), Err(vec!["/url".to_owned()]));
        assert_eq!(create(json!({"timeout_ms": 1})), Err(vec!["/timeout_ms".to_owned(), "/url".to_owned()]));
    }

    #[test]
    fn every_range_is_checked() {
        fault(r#"{"timeout_ms": 999}"#, &["/timeout_ms"]);
        fault(r#"{"timeout_ms": 60001}"#, &["/timeout_ms"]);
        fault(r#"{"max_in_flight": 0}"#, &["/max_in_flight"]);
        fault(r#"{"max_in_flight": 1025}"#, &["/max_in_flight"]);
        fault(r#"{"rate_limit": {"per_second": 0}}"#, &["/rate_limit/per_second", "/rate_limit/burst"]);
        fault(r#"{"rate_limit": {"per_second": 1, "burst": 1, "x": 1}}"#, &["/rate_limit/x"]);
        fault(
            r#"{"circuit": {"enabled": 1, "threshold": 101, "cooldown_ms": 999}}"#,
            &["/circuit/enabled", "/circuit/threshold", "/circuit/cooldown_ms"],
        );
        fault(r#"{"circuit": {"color": 1}}"#, &["/circuit/color"]);
        fault(r#"{"method": "GET"}"#, &["/method"]);
        fault(r#"{"on_410": "stop"}"#, &["/on_410"]);
        fault(r#"{"ordering": "lifo"}"#, &["/ordering"]);
        fault(r#"{"ordering_key": "tenant"}"#, &["/ordering_key"]);
        fault(r#"{"retry": {"type": "curve", "steps_s": []}}"#, &["/retry/steps_s"]);
        fault(&format!("{{\"name\": \"{}\"}}", "n".repeat(257)), &["/name"]);
        fault(&format!("{{\"description\": \"{}\"}}", "n".repeat(1_025)), &["/description"]);
    }

    #[test]
    fn what_comes_later_is_named_not_ignored() {
        fault(r#"{"type": "kafka"}"#, &["/type"]);
        fault(r#"{"type": "pigeon"}"#, &["/type"]);
        fault(r#"{"signature_kind": "ed25519"}"#, &["/signature_kind"]);
        fault(r#"{"signing_config": {}}"#, &["/signing_config"]);
        fault(r#"{"verification": "cloudevents"}"#, &["/verification"]);
        fault(r#"{"verification": "none"}"#, &["/verification"]);
        fault(r#"{"auth": {"type": "oauth2_client_credentials"}}"#, &["/auth/type"]);
        fault(r#"{"id": "dst_1", "colour": 1}"#, &["/id", "/colour"]);
        assert!(create(json!({"url": "https://r.test", "type": "http", "signature_kind": "hmac"})).is_ok());
    }

    #[test]
    fn secrets_are_checked() {
        fault(r#"{"secret": "whsec_C2FV"}"#, &["/secret"]);
        fault(r#"{"secret": "C2FV"}"#, &["/secret"]);
        fault(r#"{"secret": "whsec_*"}"#, &["/secret"]);
        fault(r#"{"secret": 7}"#, &["/secret"]);
        let text = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let made = create(json!({"url": "https://r.test", "secret": text})).expect("a destination");
        assert_eq!(made.secrets[0].secret.to_whsec(), text);
    }

    #[test]
    fn a_patch_keeps_clears_and_sets() {
        let stored = create(json!({
            "url": "https://r.test", "name": "R", "timeout_ms": 2000, "rate_limit": {"per_second": 5, "burst": 9},
            "headers": [{"name": "X-A", "value": "1"}, {"name": "X-B", "value": "2"}],
            "circuit": {"threshold": 9, "cooldown_ms": 1000}, "auth": {"type": "bearer", "token": "t"},
        }));
        let stored = stored.expect("a destination");
        let changed = patch(
            &stored,
            json!({
                "name": null, "rate_limit": {"burst": 3}, "circuit": {"threshold": 7}, "timeout_ms": null,
                "headers": [{"name": "x-b"}, {"name": "x-c", "value": "3"}],
            }),
        );
        let changed = changed.expect("a destination");
        assert_eq!((changed.name, changed.timeout_ms, changed.version), (None, 15_000, 2));
        assert_eq!(changed.rate_limit, Some(RateLimit { per_second: 5, burst: 3 }));
        assert_eq!(changed.circuit, CircuitSettings { enabled: true, threshold: 7, cooldown_ms: 1_000 });
        let headers: Vec<_> = changed.headers.iter().map(|h| (h.name.as_str(), h.value.expose())).collect();
        assert_eq!(headers, [("x-b", &b"2"[..]), ("x-c", &b"3"[..])]);
        assert_eq!(changed.auth, stored.auth);
        let view = serde_json::to_string(&DestinationView::of(&stored)).expect("JSON");
        assert!(view.contains(r#""headers":[{"name":"x-a"},{"name":"x-b"}]"#), "{view}");
    }

    #[test]
    fn a_patch_cannot_take_the_url_away_or_set_the_secret() {
        let stored = create(json!({"url": "https://r.test"})).expect("a destination");
        assert_eq!(patch(&stored, json!({"url": null})), Err(vec!["/url".to_owned()]));
        let secret = json!({"secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"});
        assert_eq!(patch(&stored, secret), Err(vec!["/secret".to_owned()]));
        assert_eq!(patch(&stored, json!({"headers": [{"name": "x-n"}]})), Err(vec!["/headers/0/value".to_owned()]));
    }
}
