//! Receivers that misbehave: each is one failed attempt of its own kind, or a success if the head was whole, and
//! none costs the hub memory, connections or anybody else's time.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{CloudEvent, Gate, Hub, Receiver, Reply, Tenant, eventually};

const MIB: u64 = 1024 * 1024;

/// What one attempt with a deadline of a second made of a receiver; its delivery ends with it.
fn attempt(acme: &Tenant, receiver: &Receiver) -> Value {
    let retry = json!({"type": "curve", "steps_s": [0]});
    let (source, _) = acme.pipeline(receiver, json!({"timeout_ms": 1000, "retry": retry}));
    source.publish(&CloudEvent::new("order", "paid")).expect(200);
    eventually("the only attempt's end", || {
        acme.deliveries("").iter().all(|delivery| delivery["ended_at"].is_string() && delivery["attempt_count"] == 1)
            && acme.deliveries("").len() == 1
    });
    let delivery = acme.delivery(&acme.deliveries("")[0]);
    let mut attempt = delivery["attempts"][0].clone();
    attempt["delivery"] = delivery["status"].clone();
    attempt
}

/// The hub judges a receiver that always does this.
fn judged(name: &str, hub: &Hub, reply: impl Fn() -> Reply + Send + Sync + 'static) -> Value {
    let receiver = Receiver::start(move |_| reply());
    attempt(&hub.tenant(name), &receiver)
}

fn head(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{text}\r\n")
}

#[test]
fn what_never_becomes_a_head_fails_with_its_kind() {
    let hub = Hub::start();
    let never = Gate::default();
    let (waiting, pause) = (never.clone(), Duration::from_millis(50));
    let kind = |name: &str, reply: Box<dyn Fn() -> Reply + Send + Sync>, expected: &str| {
        let attempt = judged(name, &hub, reply);
        assert_eq!(attempt["error_kind"], expected, "{name}: {attempt}");
        assert_eq!(attempt["delivery"], "dead_lettered", "{name}: {attempt}");
        assert_eq!(attempt.get("status"), None, "{name}: {attempt}");
    };
    kind("silent", Box::new(move || Reply::status(200).held(&waiting)), "timeout");
    kind("slow-head", Box::new(move || Reply::Drip { first: "HTTP/1.1 200 OK\r\nX: ", again: "y", pause }), "timeout");
    let lines =
        || Reply::Flood { first: "HTTP/1.1 200 OK\r\n".to_owned(), block: b"A: b\r\n".repeat(999), bytes: 64 * MIB };
    kind("endless-headers", Box::new(lines), "protocol");
    let line = || Reply::Flood { first: "HTTP/1.1 200 OK\r\nX: ".to_owned(), block: vec![b'y'; 8192], bytes: 64 * MIB };
    kind("endless-line", Box::new(line), "protocol");
    kind("reset", Box::new(|| Reply::Reset), "reset");
    kind("cut", Box::new(|| Reply::Cut), "reset");
    kind("half-a-head", Box::new(|| Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-".to_vec())), "reset");
    kind("noise", Box::new(|| Reply::Raw(b"SSH-2.0-OpenSSH_9.9\r\n\r\n".to_vec())), "protocol");
    let lengths = || Reply::Raw(head("Content-Length: 1\r\nContent-Length: 2\r\n").into_bytes());
    kind("two-lengths", Box::new(lengths), "protocol");
    never.open();
}

#[test]
fn a_whole_head_of_success_is_success_whatever_becomes_of_the_body() {
    let hub = Hub::start();
    let truncated = |name: &str, reply: Box<dyn Fn() -> Reply + Send + Sync>, expected: bool| {
        let attempt = judged(name, &hub, reply);
        assert_eq!((&attempt["delivery"], &attempt["status"]), (&json!("delivered"), &json!(200)), "{name}: {attempt}");
        assert_eq!(attempt["truncated"], expected, "{name}: {attempt}");
        assert!(attempt["response_body"].as_str().map_or(0, str::len) <= 16 * 1024, "{name}");
    };
    let pause = Duration::from_millis(50);
    let drip = move || Reply::Drip { first: "HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", again: "z", pause };
    truncated("dripping", Box::new(drip), true);
    let sized =
        || Reply::Flood { first: head("Content-Length: 1073741824\r\n"), block: vec![b'z'; 65536], bytes: 64 * MIB };
    truncated("huge", Box::new(sized), true);
    let block = [b"10000\r\n".to_vec(), vec![b'z'; 65536], b"\r\n".to_vec()].concat();
    let chunked =
        move || Reply::Flood { first: head("Transfer-Encoding: chunked\r\n"), block: block.clone(), bytes: 64 * MIB };
    truncated("huge-chunked", Box::new(chunked), true);
    let broken = || Reply::Raw(format!("{}5\r\nabcdeXX", head("Transfer-Encoding: chunked\r\n")).into_bytes());
    truncated("broken-chunk", Box::new(broken), true);
    let short = || Reply::Raw(format!("{}abc", head("Content-Length: 10\r\n")).into_bytes());
    truncated("short", Box::new(short), true);
    let interim =
        || Reply::Raw(format!("HTTP/1.1 103 Early Hints\r\n\r\n{}", head("Content-Length: 0\r\n")).into_bytes());
    truncated("interim", Box::new(interim), false);
    truncated("until-the-end", Box::new(|| Reply::Raw(format!("{}all", head("")).into_bytes())), false);
}

#[test]
fn an_answer_just_before_the_deadline_is_in_time() {
    let (hub, receiver) = (Hub::start(), Receiver::start(|_| Reply::status(200).late(Duration::from_millis(1_600))));
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"timeout_ms": 3000}));
    source.publish_many(1);
    acme.wait_for_all(1, "delivered");
    assert_eq!(receiver.count(), 1);
}

#[test]
fn bytes_that_are_no_text_are_shown_in_base64() {
    let hub = Hub::start();
    let raw = b"HTTP/1.1 500 Oh\r\nX-Odd: \xff\xfe\r\nContent-Length: 3\r\n\r\n\xff\xfe\x00".to_vec();
    let attempt = judged("odd", &hub, move || Reply::Raw(raw.clone()));
    assert_eq!((&attempt["status"], &attempt["error_kind"]), (&json!(500), &json!("status")));
    assert_eq!(attempt["response_body_base64"], "//4A", "{attempt}");
    let headers = attempt["response_headers"].as_array().expect("headers");
    assert!(headers.contains(&json!({"name": "x-odd", "value_base64": "//4="})), "{attempt}");
}

#[test]
fn nobody_listening_is_a_failed_connection() {
    let hub = Hub::start();
    let acme = hub.tenant("acme");
    let receiver = Receiver::willing();
    let (url, secret) = (receiver.url(), receiver.secret());
    drop(receiver);
    let retry = json!({"type": "curve", "steps_s": [0]});
    let inline = json!({"url": url, "secret": secret, "verification": "none", "retry": retry});
    acme.api.post("/v1/subscriptions", &json!({"destination": inline})).expect(201);
    acme.source("shop").publish(&CloudEvent::new("order", "paid")).expect(200);
    let delivery = acme.wait_for_all(1, "dead_lettered").remove(0);
    assert_eq!((&delivery["last_error_kind"], &delivery["reason"]), (&json!("connect"), &json!("exhausted")));
}

#[test]
fn a_receiver_that_closes_kept_connections_without_notice_costs_no_delivery() {
    const EVENTS: usize = 500;
    let receiver = Receiver::start(|_| Reply::ThenClose(Box::new(Reply::status(200))));
    let hub = Hub::start();
    let acme = hub.tenant("acme");
    let retry = json!({"type": "curve", "steps_s": [0]});
    let (source, _) = acme.pipeline(&receiver, json!({"retry": retry, "ordering": "parallel"}));
    source.publish_many(EVENTS);
    // One step, so a single failed attempt that counted would be a dead letter.
    acme.wait_for_all(EVENTS, "delivered");
    assert_eq!(receiver.count(), EVENTS);
    assert_eq!(receiver.connections(), EVENTS);
}

#[test]
fn connections_to_a_good_receiver_are_kept() {
    const EVENTS: usize = 300;
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"ordering": "parallel", "max_in_flight": 4}));
    source.publish_many(EVENTS);
    acme.wait_for_all(EVENTS, "delivered");
    assert!(receiver.connections() <= 8, "{} connections", receiver.connections());
}

#[test]
fn a_tenant_with_a_hanging_receiver_delays_no_other() {
    let hub = Hub::start();
    let never = Gate::default();
    let held = never.clone();
    let (hanging, good) = (Receiver::start(move |_| Reply::status(200).held(&held)), Receiver::willing());
    let (slow, quick) = (hub.tenant("slow"), hub.tenant("quick"));
    let (hole, _) = slow.pipeline(&hanging, json!({"ordering": "parallel", "max_in_flight": 1024}));
    hole.publish_many(200);
    let (source, _) = quick.pipeline(&good, json!({}));
    source.publish_many(100);
    quick.wait_for_all(100, "delivered");
    assert_eq!(slow.deliveries("status=delivered").len(), 0);
    never.open();
    slow.wait_for_all(200, "delivered");
}
