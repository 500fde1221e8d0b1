//! Verification against a receiver on loopback.

use super::*;
use crate::runtime::sleep;
use serde_json::json;

/// A receiver that gives the challenge back, and a subscription to it.
fn echo(body: &str) -> (u16, String) {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    (200, json!({"challenge": body["challenge"]}).to_string())
}

async fn subscribe(hub: &Hub, key: &str, address: SocketAddr) -> Said {
    let inline = json!({"url": format!("http://r.test:{}/", address.port())});
    let made = hub.ask(key, "POST /v1/subscriptions", json!({"destination": inline})).await;
    assert_eq!((made.status, &made.body["verification_state"]), (201, &json!("pending")), "{made:?}");
    made
}

#[test]
fn a_new_subscription_is_verified_in_the_background() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        let made = subscribe(&hub, &key, receiver(echo)).await;
        let line = format!("GET /v1/subscriptions/{}", made.id());
        let active = async {
            while hub.ask(&key, &line, None).await.body["verification_state"] != "active" {
                sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        let seen = crate::runtime::timeout(std::time::Duration::from_secs(20), active).await;
        assert!(seen.is_some(), "the subscription becomes active");
    });
}

#[test]
fn a_manual_verification_enables_and_forgets_failures() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        let made = subscribe(&hub, &key, receiver(echo)).await;
        let path = format!("/v1/subscriptions/{}", made.id());
        hub.ask(&key, &format!("PATCH {path}"), json!({"enabled": false})).await;
        let verified = hub.ask(&key, &format!("POST {path}/verify"), None).await;
        assert_eq!(verified.status, 200, "{verified:?}");
        assert_eq!((&verified.body["verification_state"], &verified.body["enabled"]), (&json!("active"), &json!(true)));
        assert!(matches!(hub.notes.commands.borrow().last(), Some(Command::ClearFailures(..))));
    });
}

#[test]
fn a_destination_that_does_not_answer_the_challenge_is_named() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        let made = subscribe(&hub, &key, receiver(|_| (500, String::new()))).await;
        let line = format!("POST /v1/subscriptions/{}/verify", made.id());
        let refused = hub.ask(&key, &line, None).await;
        assert_eq!(refused.code(), (409, "verification_failed"));
        assert_eq!(refused.body["detail"], "the destination answered 500");
    });
}

#[test]
fn another_url_must_consent_again() {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        let made = subscribe(&hub, &key, receiver(echo)).await;
        let path = format!("/v1/subscriptions/{}", made.id());
        hub.ask(&key, &format!("POST {path}/verify"), None).await;
        let destination = made.body["destination_id"].as_str().expect("an id");
        let silent = receiver(|_| (200, "no".to_owned()));
        let url = json!({"url": format!("http://r.test:{}/", silent.port())});
        assert_eq!(hub.ask(&key, &format!("PATCH /v1/destinations/{destination}"), url).await.status, 200);
        assert_eq!(hub.ask(&key, &format!("GET {path}"), None).await.body["verification_state"], "pending");
    });
}
