//! Ingest: from a request's head and body to its answer.

use super::*;
use crate::api::ingest::{accept, admit};
use crate::api::problem::Problem;
use crate::api::router::ingest_path;
use serde_json::json;

const ID: &str = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";

async fn source(hub: &Hub, body: Value) -> String {
    let key = hub.key("acme").await;
    let made = hub.ask(&key, "POST /v1/sources", body).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.id().to_owned()
}

async fn post(hub: &Hub, id: &str, headers: &[(&str, &str)], body: &str) -> Result<Value, (u16, String)> {
    let head = head("", &format!("POST /v1/ingest/{id}/a?b=1"), headers);
    let sent = async {
        let path = ingest_path(head.uri.path()).expect("an ingest path")?;
        let admitted = admit(&hub.api, &path, &head)?;
        let body = Bytes::copy_from_slice(body.as_bytes());
        accept(&hub.api, &admitted, &head, body, Ipv4Addr::LOCALHOST.into()).await
    };
    let answer = sent.await.map_err(|problem: Problem| (problem.status, problem.code.to_owned()))?;
    Ok(said(answer).body)
}

fn refused(status: u16, code: &str) -> Result<Value, (u16, String)> {
    Err((status, code.to_owned()))
}

#[test]
fn a_request_is_stored_whole_and_answered_with_its_ids() {
    with_hub(|hub| async move {
        let id = source(&hub, json!({"slug": "shop"})).await;
        let answer = post(&hub, &id, &[("content-type", "text/plain")], "hello").await.expect("it is stored");
        assert_eq!(answer["source_id"], json!(id));
        assert_eq!(answer.get("duplicate"), None);
        let arrived = hub.notes.arrived.borrow();
        let request = arrived[0].request.as_deref().expect("an HTTP event");
        assert_eq!(
            (&*request.path, request.query.as_deref(), &*arrived[0].payload),
            ("/a", Some("b=1"), &b"hello"[..])
        );
        assert_eq!(answer["event_id"], json!(arrived[0].public_id()));
    });
}

#[test]
fn what_cannot_come_in_is_refused_and_nothing_is_stored() {
    with_hub(|hub| async move {
        let id = source(&hub, json!({"slug": "shop", "max_body_bytes": 5})).await;
        let unknown = "src_00000000000000000000000000000009";
        assert_eq!(post(&hub, unknown, &[], "").await, refused(404, "not_found"));
        assert_eq!(post(&hub, "x", &[], "").await, refused(404, "not_found"));
        assert_eq!(post(&hub, &id, &[("content-length", "6")], "").await, refused(413, "payload_too_large"));
        hub.api.enter(Phase::Draining);
        assert_eq!(post(&hub, &id, &[], "").await, refused(503, "unavailable"));
        hub.api.enter(Phase::NotReady);
        assert_eq!(hub.ask("", "GET /readyz", None).await.status, 503);
        assert_eq!(hub.ask("", "GET /healthz", None).await.status, 200);
        assert!(hub.notes.arrived.borrow().is_empty());
        assert!(post(&hub, &id, &[], "").await.is_ok(), "not ready is still serving");
        hub.notes.settle_as.set(Some(SettledItem::Overloaded));
        assert_eq!(post(&hub, &id, &[], "").await, refused(503, "unavailable"));
        hub.notes.settle_as.set(Some(SettledItem::Unstorable));
        assert_eq!(post(&hub, &id, &[], "").await, refused(422, "unstorable"));
    });
}

#[test]
fn a_disabled_source_answers_403() {
    with_hub(|hub| async move {
        let id = source(&hub, json!({"slug": "shop", "enabled": false})).await;
        assert_eq!(post(&hub, &id, &[], "").await, refused(403, "source_disabled"));
    });
}

#[test]
fn cloud_events_keep_their_id_and_name_their_violation() {
    with_hub(|hub| async move {
        let id = source(&hub, json!({"slug": "shop", "type": "cloudevents"})).await;
        let event = json!({
            "specversion": "1.0", "id": ID, "source": "shop", "type": "studio.lerian.shop.loan.approved",
            "time": "2026-01-01T00:00:00Z", "schemaversion": "1", "resourcetype": "loan", "eventtype": "approved",
            "data": {"n": 1},
        });
        let structured = [("content-type", "application/cloudevents+json")];
        hub.notes.settle_as.set(Some(SettledItem::Duplicate(Sequence(1))));
        let answer = post(&hub, &id, &structured, &event.to_string()).await.expect("it is stored");
        assert_eq!((&answer["event_id"], &answer["duplicate"]), (&json!(ID), &json!(true)));
        let batch = [("content-type", "application/cloudevents-batch+json")];
        let answer = post(&hub, &id, &batch, &json!([event]).to_string()).await.expect("it is stored");
        assert_eq!(answer, json!({"items": [{"event_id": ID, "duplicate": true}]}));
        assert_eq!(post(&hub, &id, &batch, "[]").await, Ok(json!({"items": []})));
        let mut stranger = event.clone();
        stranger["source"] = json!("bank");
        assert_eq!(post(&hub, &id, &structured, &stranger.to_string()).await, refused(400, "source_mismatch"));
        assert_eq!(post(&hub, &id, &structured, "{").await, refused(400, "malformed_json"));
        let mixed = json!([event, stranger]).to_string();
        assert_eq!(post(&hub, &id, &batch, &mixed).await, refused(422, "invalid_events"));
    });
}
