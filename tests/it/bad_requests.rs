//! Requests to the API that are wrong: every fault at once, each with its pointer, and the right status for each kind.

use serde_json::{Value, json};

use crate::harness::{Hub, Receiver, merged};

const NO_ID: &str = "00000000000000000000000000000001";

#[test]
fn every_fault_of_an_object_is_named_at_once() {
    let hub = Hub::start();
    let api = hub.tenant("acme").api;
    let source = json!({
        "slug": "Not A Slug", "type": "ftp", "enabled": "yes", "max_body_bytes": 0, "colour": 1, "id": "src_1",
        "verification_type": "hmac_sha256", "dedup_strategy": "payload_hash",
    });
    let expected =
        ["/colour", "/dedup_strategy", "/enabled", "/id", "/max_body_bytes", "/slug", "/type", "/verification_type"];
    assert_eq!(api.post("/v1/sources", &source).pointers(), expected);

    let destination = json!({
        "url": "ftp://receiver.test/", "method": "GET", "timeout_ms": 999, "max_in_flight": 0, "secret": "whsec_c2hvcnQ=",
        "retry": {"type": "curve", "steps_s": [36001]}, "circuit": {"threshold": 101}, "ordering": "random",
        "rate_limit": {"per_second": 0, "burst": 1}, "unknown": true,
        "headers": [{"name": "Host", "value": "x"}, {"name": "X Y", "value": "1"}, {"name": "X", "value": "a\r\nX-Evil: 1"}],
    });
    let pointers = api.post("/v1/destinations", &destination).pointers();
    for expected in [
        "/url",
        "/method",
        "/timeout_ms",
        "/max_in_flight",
        "/secret",
        "/retry/steps_s",
        "/circuit/threshold",
        "/ordering",
        "/rate_limit/per_second",
        "/unknown",
        "/headers/0/name",
        "/headers/1/name",
        "/headers/2/value",
    ] {
        assert!(pointers.iter().any(|pointer| pointer == expected), "{expected} is not in {pointers:?}");
    }

    let subscription = json!({
        "origin": "No Slug", "event_types": ["a.b", "a.*.c", 7], "schema_major": -1, "destination_id": "dst_1",
        "filter_rules": [{"field": "payload.a", "op": "like", "value": 1}, {"op": "eq", "value": 1}],
        "transform": "$", "retries": 3,
    });
    let pointers = api.post("/v1/subscriptions", &subscription).pointers();
    for expected in [
        "/origin",
        "/event_types/1",
        "/event_types/2",
        "/schema_major",
        "/destination_id",
        "/filter_rules/0/op",
        "/filter_rules/1/field",
        "/transform",
        "/retries",
    ] {
        assert!(pointers.iter().any(|pointer| pointer == expected), "{expected} is not in {pointers:?}");
    }
}

#[test]
fn an_inline_destinations_faults_have_its_place_in_their_pointers() {
    let hub = Hub::start();
    let api = hub.tenant("acme").api;
    let body = json!({"destination": {"url": "nowhere", "timeout_ms": 1}, "event_types": ["a.*.c"]});
    assert_eq!(
        api.post("/v1/subscriptions", &body).pointers(),
        ["/destination/timeout_ms", "/destination/url", "/event_types/0"]
    );
    let missing = json!({"destination_id": format!("dst_{NO_ID}")});
    assert_eq!(api.post("/v1/subscriptions", &missing).pointers(), ["/destination_id"]);
    assert_eq!(
        api.post("/v1/connections", &json!({"destination": {"url": "http://127.0.0.1/"}})).pointers(),
        ["/source_id"]
    );
}

#[test]
fn forbidden_targets_are_refused_when_they_are_saved() {
    let hub = crate::harness::Setup::new().with("ALLOW_PRIVATE_SINKS", "false").start();
    let api = hub.tenant("acme").api;
    for url in [
        "http://127.0.0.1/",
        "http://[::ffff:127.0.0.1]/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://127.1/",
        "http://[::]/",
        "http://0.0.0.0/",
        "http://169.254.169.254/latest",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://100.64.0.1/",
        "http://[fd00::1]/",
        "http://[fe80::1%lo]/",
        "http://10.0.0.1/",
        "http://localhost./",
        "http://a.local/",
        "http://metadata.google.internal/",
        "http://user:pw@example.com/",
    ] {
        let body = json!({"url": url, "verification": "none"});
        assert_eq!(api.post("/v1/destinations", &body).pointers(), ["/url"], "{url}");
    }
}

#[test]
fn bad_bodies_queries_and_paths_have_their_own_answers() {
    let hub = Hub::start();
    let api = hub.tenant("acme").api;
    let json_type = [("Content-Type", "application/json")];
    assert_eq!(api.send("POST", "/v1/sources", &json_type, b"{\"slug\":").problem(400), "malformed_json");
    for body in [&b"[]"[..], b"7", b"null"] {
        assert_eq!(api.send("POST", "/v1/sources", &json_type, body).status, 422);
    }
    for list in ["events", "deliveries", "dead-letters", "sources", "destinations", "subscriptions", "api-keys"] {
        assert_eq!(api.get(&format!("/v1/{list}?cursor=nonsense")).problem(422), "bad_cursor", "{list}");
        for query in ["limit=0", "limit=101", "limit=x"] {
            assert_eq!(api.get(&format!("/v1/{list}?{query}")).pointers(), ["/limit"], "{list} {query}");
        }
        assert_eq!(api.get(&format!("/v1/{list}?from=now&colour=1")).pointers(), ["/colour", "/from"], "{list}");
    }
    assert_eq!(api.get("/v1/nothing").problem(404), "not_found");
    assert_eq!(api.get("/v1/sources/src_1").problem(404), "not_found");
    let wrong_method = api.call("PUT", "/v1/sources", None);
    assert_eq!(wrong_method.problem(405), "method_not_allowed");
    assert_eq!(wrong_method.header("allow"), Some("GET, POST"));
}

#[test]
fn keys_open_what_they_are_for() {
    let hub = Hub::start();
    let (acme, operator, anybody) = (hub.tenant("acme"), hub.operator(), hub.anybody());
    for path in ["/v1/events", "/v1/subscriptions", "/admin/shards"] {
        assert_eq!(anybody.get(path).problem(401), "unauthorized", "{path}");
        let wrong = anybody.send("GET", path, &[("X-API-Key", "shk_wrong")], b"");
        assert_eq!(wrong.problem(401), "unauthorized", "{path}");
    }
    assert_eq!(acme.api.get("/admin/shards").problem(403), "forbidden");
    assert_eq!(operator.get("/v1/events").problem(403), "forbidden");
    for path in
        ["/admin/shards", "/admin/lanes", "/admin/circuits", "/admin/quarantine", "/admin/dlq", "/admin/dead-letters"]
    {
        assert!(operator.get(path).expect(200)["items"].is_array(), "{path}");
    }
    let made = acme.api.post("/v1/api-keys", &json!({"name": "second"})).expect(201);
    let (id, key) = (made["id"].as_str().expect("an id"), made["key"].as_str().expect("a key"));
    anybody.send("GET", "/v1/events", &[("X-API-Key", key)], b"").expect(200);
    acme.api.delete(&format!("/v1/api-keys/{id}")).expect(204);
    assert_eq!(anybody.send("GET", "/v1/events", &[("X-API-Key", key)], b"").problem(401), "unauthorized");
}

#[test]
fn an_idempotency_key_gives_the_first_answer_again() {
    let hub = Hub::start();
    let api = hub.tenant("acme").api;
    let post = |body: &Value| {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k-1")];
        api.send("POST", "/v1/sources", &headers, body.to_string().as_bytes())
    };
    let first = post(&json!({"slug": "shop"})).expect(201);
    assert_eq!(post(&json!({"slug": "shop"})).expect(201), first);
    assert_eq!(post(&json!({"slug": "bank"})).status, 422);
    assert_eq!(api.get("/v1/sources").expect(200)["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_change_of_something_outdated_is_412() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let path = format!("/v1/destinations/{}", acme.destination(&receiver, json!({})));
    let tag = acme.api.get(&path).header("etag").expect("a tag").to_owned();
    let change = |name: &str| {
        let body = json!({"name": name}).to_string();
        acme.api.send("PATCH", &path, &[("If-Match", &tag)], body.as_bytes())
    };
    change("one").expect(200);
    change("two").problem(412);
    assert_eq!(acme.api.get(&path).expect(200)["name"], "one");
}

#[test]
fn secrets_are_shown_once_and_limits_are_kept() {
    let (hub, receiver) =
        (crate::harness::Setup::new().with("DESTINATIONS_PER_TENANT", "2").start(), Receiver::willing());
    let api = hub.tenant("acme").api;
    let auth = json!({"type": "bearer", "token": "a-token"});
    let headers = json!([{"name": "X-Own", "value": "a-value"}]);
    let body = json!({"url": receiver.url(), "verification": "none", "auth": auth, "headers": headers});
    let made = api.post("/v1/destinations", &body).expect(201);
    assert!(made["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")), "{made}");
    let read = api.get(&format!("/v1/destinations/{}", made["id"].as_str().expect("an id"))).text();
    for hidden in ["whsec_", "a-token", "a-value"] {
        assert!(!read.contains(hidden), "{hidden} in {read}");
    }
    let logged = hub.log();
    assert!(!logged.contains("whsec_") && !logged.contains("a-token"), "{logged}");
    api.post("/v1/destinations", &merged(body.clone(), json!({"name": "second"}))).expect(201);
    assert_eq!(api.post("/v1/destinations", &body).problem(422), "limit_reached");
}
