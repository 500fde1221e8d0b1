//! Requests whose framing is ambiguous or broken: 400 and the end of the connection, never a second reading.

use serde_json::json;

use crate::harness::{Api, Hub, Receiver, Source, Tenant};

/// The status of a raw request, whose answer must come with the connection's end.
fn status(api: &Api, source: &Source, headers: &str, body: &str) -> u16 {
    let text = format!("POST {} HTTP/1.1\r\nHost: hub\r\n{headers}\r\n{body}", source.path());
    api.raw(text.as_bytes()).unwrap_or_else(|error| panic!("{headers:?}: {error}")).status
}

fn shop(hub: &Hub, receiver: &Receiver) -> (Tenant, Source) {
    let acme = hub.tenant("acme");
    acme.subscription(&acme.destination(receiver, json!({})), json!({}));
    let source = acme.source_with(&json!({"slug": "shop"}));
    (acme, source)
}

#[test]
fn ambiguous_lengths_are_400() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let (acme, source) = shop(&hub, &receiver);
    let anybody = hub.anybody();
    let smuggled = "0\r\n\r\nPOST /v1/ingest/x HTTP/1.1\r\n\r\n";
    for headers in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 4x\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
    ] {
        assert_eq!(status(&anybody, &source, headers, smuggled), 400, "{headers:?}");
    }
    // Nothing of them came in.
    source.post(&[], b"good").expect(200);
    acme.wait_for_all(1, "delivered");
    assert_eq!(receiver.received()[0].text(), "good");
}

#[test]
fn broken_chunks_and_heads_are_400() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let (acme, source) = shop(&hub, &receiver);
    let anybody = hub.anybody();
    let encoded = "Transfer-Encoding: chunked\r\n";
    for body in ["5\r\nabcdeXX0\r\n\r\n", "zz\r\nabc\r\n0\r\n\r\n", "ffffffffffffffffff\r\nabc", "-1\r\n\r\n"] {
        assert_eq!(status(&anybody, &source, encoded, body), 400, "{body:?}");
    }
    for head in ["no colon\r\n", "Bad Name: x\r\n", "X: a\u{0}b\r\n"] {
        assert_eq!(status(&anybody, &source, head, ""), 400, "{head:?}");
    }
    source.post(&[], b"good").expect(200);
    acme.wait_for_all(1, "delivered");
}

#[test]
fn an_endless_head_is_431_and_a_silent_client_holds_nobody_up() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let (acme, source) = shop(&hub, &receiver);
    let silent: Vec<_> = (0..50).map(|_| hub.connection(b"POST / HTTP/1.1\r\nHost:")).collect();
    let endless = "X-Filler: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(20_000);
    assert_eq!(status(&hub.anybody(), &source, &endless, ""), 431);
    source.post(&[], b"good").expect(200);
    acme.wait_for_all(1, "delivered");
    drop(silent);
}

#[test]
fn a_kept_connection_serves_request_after_request() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let (acme, source) = shop(&hub, &receiver);
    let one = format!("POST {} HTTP/1.1\r\nHost: hub\r\nContent-Length: 1\r\n\r\n", source.path());
    let two = format!("POST {} HTTP/1.1\r\nHost: hub\r\nContent-Length: 1\r\nConnection: close\r\n\r\n", source.path());
    let answers = hub.anybody().pipelined(format!("{one}a{one}b{two}c").as_bytes(), 3);
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200; 3]);
    acme.wait_for_all(3, "delivered");
    assert_eq!(receiver.received().iter().map(|request| request.text()).collect::<String>(), "abc");
}
