//! Bodies over a limit are 413, with a length and without, before they are read to their end.

use serde_json::json;

use crate::harness::{CloudEvent, Hub, Receiver, Source};

const LIMIT: usize = 1_000;

fn chunked(source: &Source, chunks: &[&[u8]]) -> Vec<u8> {
    let mut bytes =
        format!("POST {} HTTP/1.1\r\nHost: hub\r\nTransfer-Encoding: chunked\r\n\r\n", source.path()).into_bytes();
    for chunk in chunks {
        bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        bytes.extend(*chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

#[test]
fn a_body_over_the_sources_limit_is_413_with_a_length_and_without() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    acme.subscription(&acme.destination(&receiver, json!({})), json!({}));
    let source = acme.source_with(&json!({"slug": "shop", "max_body_bytes": LIMIT}));
    let (most, over) = (vec![b'a'; LIMIT], vec![b'a'; LIMIT + 1]);
    let anybody = hub.anybody();
    for pieces in [1, 3, 100] {
        let split = |body: &'static [u8]| body.chunks(body.len().div_ceil(pieces)).collect::<Vec<_>>();
        let (most, over) = (split(most.clone().leak()), split(over.clone().leak()));
        anybody.raw(&chunked(&source, &most)).expect("an answer").expect(200);
        assert_eq!(anybody.raw(&chunked(&source, &over)).expect("an answer").problem(413), "payload_too_large");
    }
    source.post(&[], &most).expect(200);
    assert_eq!(source.post(&[], &over).problem(413), "payload_too_large");

    acme.wait_for_all(4, "delivered");
    assert!(receiver.received().iter().all(|request| request.body == most));
}

#[test]
fn a_length_over_the_limit_is_refused_before_the_body_comes() {
    let hub = Hub::start();
    let source = hub.tenant("acme").source("shop");
    let head = format!("POST {} HTTP/1.1\r\nHost: hub\r\nContent-Length: 1073741824\r\n\r\n", source.path());
    assert_eq!(hub.anybody().raw(head.as_bytes()).expect("an answer").problem(413), "payload_too_large");
}

#[test]
fn an_endless_body_is_cut_at_the_limit() {
    let hub = Hub::start();
    let source = hub.tenant("acme").source("shop");
    let chunk = vec![b'a'; 64 * 1024];
    // 16 MiB where 1 MiB is allowed, and no end.
    let endless = chunked(&source, &vec![chunk.as_slice(); 256]);
    let cut = hub.anybody().raw(&endless[..endless.len() - 5]);
    assert_eq!(cut.expect("an answer").problem(413), "payload_too_large");
}

#[test]
fn the_default_limit_is_a_mebibyte_and_ten_at_most() {
    const MIB: usize = 1024 * 1024;
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    let event = |bytes: usize| CloudEvent::new("order", "paid").with_data(vec![b' '; bytes]);
    source.publish(&event(MIB)).expect(200);
    assert_eq!(source.publish(&event(MIB + 1)).problem(413), "payload_too_large");
    let faults = acme.api.post("/v1/sources", &json!({"slug": "big", "max_body_bytes": 10 * MIB + 1}));
    assert_eq!(faults.pointers(), ["/max_body_bytes"]);
    acme.wait_for_all(1, "delivered");
    assert_eq!(receiver.received()[0].body.len(), MIB);
}

#[test]
fn a_body_of_the_api_has_a_limit_too() {
    let hub = Hub::start();
    let acme = hub.tenant("acme");
    let huge = json!({"slug": "a".repeat(1024 * 1024)});
    assert_eq!(acme.api.post("/v1/sources", &huge).problem(413), "payload_too_large");
}
