//! Payloads are opaque bytes: what a receiver gets is what came in, byte for byte, with its type.

use serde_json::json;

use crate::harness::{CloudEvent, Hub, Receiver};

/// Bytes that any re-serialising, trimming, decoding or guessing would change.
fn delicate() -> Vec<(Option<&'static str>, Vec<u8>)> {
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 7, 0, 0x86, 0xa6, 0x10, 0x36, 5];
    vec![
        (Some("application/json"), Vec::new()),
        (Some("application/json"), b"0".to_vec()),
        (Some("application/json"), b"{}".to_vec()),
        (Some("application/json"), br#"{"n":12345678901234567890.123456789,"n":1e400}"#.to_vec()),
        (Some("application/json"), b" {\r\n\t\"a\" : 1 } \n".to_vec()),
        (Some("application/octet-stream"), gzip.to_vec()),
        (Some("application/octet-stream"), (0..=255).collect()),
        (Some("text/plain; charset=utf-8"), "é\u{0}€".as_bytes().to_vec()),
        (Some("application/x-www-form-urlencoded"), b"a=1&b=%20+&c".to_vec()),
        (None, b"\xef\xbb\xbf{}".to_vec()),
    ]
}

#[test]
fn bodies_arrive_byte_for_byte_with_their_type() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let plain = acme.source_with(&json!({"slug": "plain"}));
    let all = delicate();
    for (content_type, data) in &all {
        let event = CloudEvent::new("order", "paid").with_type(*content_type).with_data(data.clone());
        source.publish(&event).expect(200);
        let headers: Vec<_> = content_type.iter().map(|value| ("Content-Type", *value)).collect();
        plain.post(&headers, data).expect(200);
    }
    acme.wait_for_all(2 * all.len(), "delivered");
    let requests = receiver.received();
    assert_eq!(requests.len(), 2 * all.len());
    for (pair, (content_type, data)) in requests.chunks(2).zip(&all) {
        for request in pair {
            assert_eq!(request.body, *data, "{request:?}");
            assert_eq!(request.header("content-type"), Some(content_type.unwrap_or("application/json")));
        }
    }
}

#[test]
fn a_content_encoding_is_kept_with_its_body() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let event = CloudEvent::new("order", "paid").with_data(b"\x1f\x8b not really".to_vec());
    source.publish(&event.with_header("content-encoding", "gzip")).expect(200);
    let request = receiver.wait_for(1).remove(0);
    assert_eq!(request.header("content-encoding"), Some("gzip"));
    assert_eq!(request.body, b"\x1f\x8b not really");
}

#[test]
fn data_base64_is_decoded() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let event = CloudEvent::new("order", "paid").with_type(Some("application/octet-stream")).with_data("0");
    let body = event.structured("shop").replace("\"data\":0", "\"data_base64\":\"AP/+\"");
    source.post(&[("Content-Type", "application/cloudevents+json")], body.as_bytes()).expect(200);
    let request = receiver.wait_for(1).remove(0);
    assert_eq!(request.body, [0, 0xff, 0xfe]);
    assert_eq!(request.header("content-type"), Some("application/octet-stream"));
}
