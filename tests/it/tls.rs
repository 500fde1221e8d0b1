//! Receivers behind TLS: a good certificate is enough, each bad one fails in its own way, an unclean end is no end.

use serde_json::json;

use crate::harness::{Authority, Certificate, CloudEvent, Hub, Receiver, Reply, Setup};

const HOST: &str = "127.0.0.1";

fn trusting(authority: &Authority) -> Hub {
    Setup::new().with("CA_FILE", &authority.file().display().to_string()).start()
}

#[test]
fn a_certificate_of_the_operators_authority_is_enough() {
    let authority = Authority::new();
    let hub = trusting(&authority);
    let receiver = Receiver::start_tls(authority.certificate(HOST), |_| Reply::status(200));
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    source.publish_many(5);
    acme.wait_for_all(5, "delivered");
    assert_eq!((receiver.count(), receiver.connections()), (5, 1));
}

#[test]
fn each_bad_certificate_has_its_own_kind() {
    let authority = Authority::new();
    let hub = trusting(&authority);
    let kinds = [
        ("tls_expired", authority.expired(HOST)),
        ("tls_wrong_host", authority.certificate("127.9.9.9")),
        ("tls_untrusted", Certificate::self_signed(HOST)),
        ("tls_untrusted", Authority::new().certificate(HOST)),
        ("tls_client_certificate", authority.demanding(HOST)),
    ];
    for (number, (kind, certificate)) in kinds.into_iter().enumerate() {
        let receiver = Receiver::start_tls(certificate, |_| Reply::status(200));
        assert_eq!(last_error(&hub, &format!("tenant-{number}"), &receiver.url()), kind);
        assert_eq!(receiver.count(), 0, "nothing is sent to it");
    }
}

fn last_error(hub: &Hub, tenant: &str, url: &str) -> String {
    let tenant = hub.tenant(tenant);
    let retry = json!({"type": "curve", "steps_s": [0]});
    let inline = json!({"url": url, "verification": "none", "retry": retry, "timeout_ms": 5000});
    tenant.api.post("/v1/subscriptions", &json!({"destination": inline})).expect(201);
    tenant.source("shop").publish(&CloudEvent::new("order", "paid")).expect(200);
    let delivery = tenant.wait_for_all(1, "dead_lettered").remove(0);
    delivery["last_error_kind"].as_str().expect("a failed attempt has a kind").to_owned()
}

#[test]
fn a_full_answer_with_an_unclean_end_is_an_answer_and_half_a_head_is_none() {
    let authority = Authority::new();
    let hub = trusting(&authority);
    let script = |request: &crate::harness::Received| match request.number {
        0 => Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Len".to_vec()),
        _ => Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()),
    };
    let receiver = Receiver::start_tls(authority.certificate(HOST), script);
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"retry": {"type": "curve", "steps_s": [0, 0]}}));
    source.publish_many(1);
    let delivery = acme.wait_for_all(1, "delivered").remove(0);
    let delivery = acme.delivery(&delivery);
    assert_eq!(delivery["attempts"][0]["error_kind"], "reset", "{delivery}");
    assert_eq!(delivery["attempts"][1]["response_body"], "ok", "{delivery}");
}
