//! Configuration objects from making to deleting, keys, tenants, idempotency.

use super::*;
use serde_json::json;

#[test]
fn keys_open_what_is_theirs_and_nothing_once_deleted() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        assert_eq!(hub.ask("", "GET /v1/sources", None).await.code(), (401, "unauthorized"));
        assert_eq!(hub.ask("shk_x", "GET /v1/sources", None).await.code(), (401, "unauthorized"));
        assert_eq!(hub.ask(ADMIN, "GET /v1/sources", None).await.code(), (403, "forbidden"));
        assert_eq!(hub.ask(&key, "GET /admin/shards", None).await.code(), (403, "forbidden"));
        let second = hub.ask(&key, "POST /v1/api-keys", json!({"name": "second"})).await;
        let listed = hub.ask(&key, "GET /v1/api-keys", None).await;
        assert_eq!(listed.body["items"][0]["name"], "second");
        assert!(listed.body["items"].as_array().expect("a list").iter().all(|item| item.get("key").is_none()));
        let text = second.body["key"].as_str().expect("a key");
        assert_eq!(hub.ask(text, "GET /v1/sources", None).await.status, 200);
        let delete = format!("DELETE /v1/api-keys/{}", second.id());
        assert_eq!(hub.ask(&key, &delete, None).await.status, 204);
        assert_eq!(hub.ask(text, "GET /v1/sources", None).await.status, 401);
        assert_eq!(hub.ask(&key, &delete, None).await.status, 404);
        let faulty = hub.ask(&key, "POST /v1/api-keys", json!({"name": 7, "x": 1})).await;
        assert_eq!(faulty.pointers(), ["/name", "/x"]);
    });
}

#[test]
fn a_source_is_made_read_changed_listed_and_deleted() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        let made = hub.ask(&key, "POST /v1/sources", json!({"slug": "shop"})).await;
        assert_eq!((made.status, made.header("etag")), (201, Some("\"1\"")));
        let path = format!("/v1/sources/{}", made.id());
        assert_eq!(hub.ask(&key, &format!("GET {path}"), None).await.body, made.body);
        let patch = format!("PATCH {path}");
        let stale = hub.ask_with(&key, &patch, &[("if-match", "\"7\"")], json!({"name": "n"})).await;
        assert_eq!(stale.code(), (412, "precondition_failed"));
        let changed = hub.ask_with(&key, &patch, &[("if-match", "\"1\"")], json!({"name": "n"})).await;
        assert_eq!((changed.status, changed.header("etag"), &changed.body["name"]), (200, Some("\"2\""), &json!("n")));
        let twin = hub.ask(&key, "POST /v1/sources", json!({"slug": "shop"})).await;
        assert_eq!((twin.status, twin.pointers()), (422, vec!["/slug"]));
        let other = hub.key("other").await;
        for line in [format!("GET {path}"), patch, format!("DELETE {path}")] {
            assert_eq!(hub.ask(&other, &line, json!({})).await.code(), (404, "not_found"), "{line}");
        }
        assert_eq!(hub.ask(&other, "POST /v1/sources", json!({"slug": "shop"})).await.status, 201);
        assert_eq!(hub.ask(&key, &format!("DELETE {path}"), None).await.status, 204);
        assert_eq!(hub.ask(&key, &format!("GET {path}"), None).await.status, 404);
    });
}

#[test]
fn lists_page_newest_first_and_limits_are_reached() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        for slug in ["a", "b", "c"] {
            assert_eq!(hub.ask(&key, "POST /v1/sources", json!({"slug": slug})).await.status, 201);
        }
        let full = hub.ask(&key, "POST /v1/sources", json!({"slug": "d"})).await;
        assert_eq!(full.code(), (422, "limit_reached"));
        let mut slugs = Vec::new();
        let mut line = "GET /v1/sources?limit=2".to_owned();
        loop {
            let page = hub.ask(&key, &line, None).await;
            slugs.extend(page.body["items"].as_array().expect("a list").iter().map(|item| item["slug"].clone()));
            let Some(cursor) = page.body["next_cursor"].as_str() else { break };
            line = format!("GET /v1/sources?limit=2&cursor={cursor}");
        }
        assert_eq!(slugs.len(), 3);
        let bad = hub.ask(&key, "GET /v1/sources?cursor=x", None).await;
        assert_eq!((bad.code(), bad.pointers()), ((422, "bad_cursor"), vec!["/cursor"]));
        let faulty = hub.ask(&key, "GET /v1/sources?limit=101&from=x&colour=1", None).await;
        assert_eq!(faulty.pointers(), ["/from", "/limit", "/colour"]);
    });
}

#[test]
fn a_destinations_secret_is_shown_when_made_or_rotated_only() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        let made = hub.ask(&key, "POST /v1/destinations", json!({"url": "http://r.test/"})).await;
        assert_eq!(made.status, 201, "{made:?}");
        assert!(made.body["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")));
        let path = format!("/v1/destinations/{}", made.id());
        assert_eq!(hub.ask(&key, &format!("GET {path}"), None).await.body.get("secret"), None);
        let rotate = format!("POST {path}/rotate-secret");
        let rotated = hub.ask(&key, &rotate, json!({"overlap_s": 10})).await;
        assert_ne!(rotated.body["secret"], made.body["secret"]);
        let Some(ConfigChange::PutDestination(told)) = hub.notes.changes.borrow().last().cloned() else {
            panic!("the shard is told")
        };
        assert_eq!((told.secrets.len(), told.version), (2, 2));
        let faulty = hub.ask(&key, &rotate, json!({"overlap_s": 604_801, "secret": "x", "y": 1})).await;
        assert_eq!(faulty.pointers(), ["/secret", "/overlap_s", "/y"]);
        let circuit = hub.ask(&key, &format!("GET {path}/circuit"), None).await;
        assert_eq!((circuit.status, &circuit.body["state"]), (200, &json!("closed")));
        assert_eq!(hub.ask(&key, &format!("POST {path}/circuit/reset"), None).await.status, 200);
        let reset = matches!(hub.notes.commands.borrow().as_slice(), [Command::ResetCircuit(..)]);
        assert!(reset, "the shard is asked");
    });
}

#[test]
fn urls_are_judged_when_saved() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        for url in ["http://10.0.0.1/", "http://169.254.169.254/", "http://[::]/", "http://private.test/"] {
            let refused = hub.ask(&key, "POST /v1/destinations", json!({"url": url})).await;
            assert_eq!((refused.status, refused.pointers()), (422, vec!["/url"]), "{url}");
        }
        let unresolved = hub.ask(&key, "POST /v1/destinations", json!({"url": "http://nowhere.example/"})).await;
        assert_eq!(unresolved.status, 201);
        assert!(unresolved.body["warnings"][0].as_str().is_some_and(|text| text.contains("nowhere.example")));
        let patch = format!("PATCH /v1/destinations/{}", unresolved.id());
        let refused = hub.ask(&key, &patch, json!({"url": "http://private.test/"})).await;
        assert_eq!(refused.pointers(), ["/url"]);
        let inline = json!({"destination": {"url": "http://private.test/"}});
        let refused = hub.ask(&key, "POST /v1/subscriptions", inline).await;
        assert_eq!(refused.pointers(), ["/destination/url"]);
    });
}

#[test]
fn a_subscription_needs_its_references_and_goes_with_its_destination() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        let nowhere = json!({
            "destination_id": "dst_00000000000000000000000000000001",
            "source_id": "src_00000000000000000000000000000001",
        });
        let refused = hub.ask(&key, "POST /v1/subscriptions", nowhere).await;
        assert_eq!(refused.pointers(), ["/destination_id", "/source_id"]);
        let inline = json!({"url": "http://r.test/", "verification": "none"});
        let made = hub.ask(&key, "POST /v1/subscriptions", json!({"destination": inline})).await;
        assert_eq!(made.status, 201, "{made:?}");
        assert_eq!(made.body["verification_state"], "active");
        assert!(made.body["destination"]["secret"].is_string());
        let destination = made.body["destination_id"].as_str().expect("an id").to_owned();
        let twin = hub.ask(&key, "POST /v1/subscriptions", json!({"destination_id": destination})).await;
        assert!(twin.body["warnings"][0].is_string(), "{twin:?}");
        let connection = hub.ask(&key, "POST /v1/connections", json!({"destination_id": destination})).await;
        assert_eq!(connection.pointers(), ["/source_id"]);
        let line = format!("GET /v1/connections/{}", made.id());
        assert_eq!(hub.ask(&key, &line, None).await.status, 404, "it is pinned to no source");
        assert_eq!(hub.ask(&key, &format!("DELETE /v1/destinations/{destination}"), None).await.status, 204);
        let listed = hub.ask(&key, "GET /v1/subscriptions", None).await;
        assert_eq!(listed.body["items"], json!([]));
        let gone: DestinationId = destination.parse().expect("an id");
        let last = hub.notes.changes.borrow().last().cloned();
        assert!(matches!(last, Some(ConfigChange::DeleteDestination(_, id)) if id == gone));
    });
}

#[test]
fn an_idempotency_key_replays_the_first_answer() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        let headers = [("idempotency-key", "k1")];
        let first = hub.ask_with(&key, "POST /v1/sources", &headers, json!({"slug": "a"})).await;
        let again = hub.ask_with(&key, "POST /v1/sources", &headers, json!({"slug": "a"})).await;
        assert_eq!((first.status, again.status), (201, 201));
        assert_eq!(first.body, again.body);
        let other = hub.ask_with(&key, "POST /v1/sources", &headers, json!({"slug": "b"})).await;
        assert_eq!(other.code(), (422, "idempotency_key_reused"));
        let stranger = hub.key("other").await;
        let theirs = hub.ask_with(&stranger, "POST /v1/sources", &headers, json!({"slug": "b"})).await;
        assert_eq!(theirs.status, 201);
        let long = "k".repeat(256);
        let refused = hub.ask_with(&key, "POST /v1/sources", &[("x-idempotency", &long)], json!({"slug": "c"})).await;
        assert_eq!(refused.code(), (422, "bad_idempotency_key"));
    });
}

#[test]
fn tenants_are_paused_resumed_and_disabled_and_all_survives_a_restart() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let key = run_local(async {
        let hub = Hub::at(dir.path()).await;
        let key = hub.key("acme").await;
        let inline = json!({"url": "http://r.test/", "verification": "none"});
        let made = hub.ask(&key, "POST /v1/subscriptions", json!({"destination": inline})).await;
        let acme = TenantId::new("acme").expect("a tenant");
        let id = made.id().parse().expect("an id");
        let gone = crate::types::subscription::DisabledReason::Gone;
        hub.api.writer.disable(&acme, &[id], gone, Time::from_millis(5)).await.expect("the store takes it");
        let paused = hub.ask(ADMIN, "POST /admin/tenants/acme/pause", None).await;
        assert_eq!((paused.status, &paused.body["paused"]), (200, &json!(true)));
        key
    });
    run_local(async {
        let hub = Hub::at(dir.path()).await;
        let listed = hub.ask(&key, "GET /v1/subscriptions", None).await;
        let subscription = &listed.body["items"][0];
        assert_eq!((&subscription["enabled"], &subscription["disabled_reason"]), (&json!(false), &json!("gone")));
        let acme = TenantId::new("acme").expect("a tenant");
        assert!(hub.api.writer.directory().is_paused(&acme));
        assert_eq!(hub.ask(ADMIN, "POST /admin/tenants/acme/resume", None).await.status, 200);
        assert!(matches!(hub.notes.changes.borrow().last(), Some(ConfigChange::ResumeTenant(_))));
    });
}

#[test]
fn another_tenants_ids_are_404_on_every_route() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        let stranger = hub.key("other").await;
        let source = hub.ask(&key, "POST /v1/sources", json!({"slug": "shop"})).await.id().to_owned();
        let inline = json!({"url": "http://r.test/", "verification": "none"});
        let made = hub.ask(&key, "POST /v1/connections", json!({"destination": inline, "source_id": source})).await;
        let (subscription, destination) = (made.id(), made.body["destination_id"].as_str().expect("an id"));
        let own_key = hub.ask(&key, "POST /v1/api-keys", None).await.id().to_owned();
        let lines = [
            format!("GET /v1/destinations/{destination}"),
            format!("PATCH /v1/destinations/{destination}"),
            format!("DELETE /v1/destinations/{destination}"),
            format!("POST /v1/destinations/{destination}/rotate-secret"),
            format!("GET /v1/destinations/{destination}/circuit"),
            format!("POST /v1/destinations/{destination}/circuit/reset"),
            format!("GET /v1/subscriptions/{subscription}"),
            format!("PATCH /v1/subscriptions/{subscription}"),
            format!("DELETE /v1/subscriptions/{subscription}"),
            format!("POST /v1/subscriptions/{subscription}/verify"),
            format!("GET /v1/connections/{subscription}"),
            format!("DELETE /v1/api-keys/{own_key}"),
        ];
        for line in &lines {
            assert_eq!(hub.ask(&stranger, line, None).await.code(), (404, "not_found"), "{line}");
        }
        let borrowed = json!({"destination_id": destination, "source_id": source});
        let refused = hub.ask(&stranger, "POST /v1/subscriptions", borrowed).await;
        assert_eq!(refused.pointers(), ["/destination_id", "/source_id"]);
        assert_eq!(hub.ask(&key, &lines[0], None).await.status, 200, "nothing was touched");
    });
}
