//! What foreign libraries make is delivered byte for byte, and what is delivered they verify.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::broker::Broker;
use super::harness::{CloudEvent, Received, Receiver};
use super::patience::patiently;
use super::record::Record;
use super::server::directory;
use super::stage::{Stage, subscribe};

const TENANT: &str = "acme";

/// An event as `make_events.py` made it with the `cloudevents` package.
#[derive(Deserialize)]
struct Made {
    id: String,
    mode: String,
    headers: BTreeMap<String, String>,
    body_base64: String,
    /// What must come out: the data itself.
    data_base64: String,
}

#[test]
fn events_of_the_python_package_come_out_as_they_went_in() {
    let broker = Broker::shared();
    let (stage, receiver) = (Stage::new(), Receiver::willing());
    let topic = stage.topic("shop");
    broker.create_topic(&topic, 1);
    let hub = stage.setup().with("KAFKA_ACCEPT_UNDERSCORE_HEADERS", "true").start();
    let tenant = subscribe(&hub, TENANT, &receiver.url(), json!({"secret": receiver.secret()}));
    let source = tenant.source("shop");
    let made: Vec<Made> = python("make_events.py", &["shop", TENANT], "")
        .lines()
        .map(|line| serde_json::from_str(line).expect("the script writes JSON lines"))
        .collect();
    let mut records = Vec::new();
    for event in &made {
        let body = bytes(&event.body_base64);
        let headers = event.headers.iter();
        match event.mode.as_str() {
            "kafka" => {
                let headers = headers.map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
                records.push(Record { topic: topic.clone(), key: TENANT.to_owned(), headers, value: Some(body) });
            }
            "binary" | "structured" => {
                let headers: Vec<(&str, &str)> = headers.map(|(name, value)| (&**name, &**value)).collect();
                source.post(&headers, &body).expect(200);
            }
            other => panic!("the script made the mode {other}"),
        }
    }
    broker.producer().send(&records);
    let expected = made.iter().map(|event| (event.id.clone(), bytes(&event.data_base64))).collect();
    delivered(&receiver, &expected);
    println!("{} events of the package `cloudevents`", made.len());
}

#[derive(Deserialize)]
struct Examples<'a> {
    name: String,
    #[serde(borrow)]
    examples: Vec<&'a RawValue>,
}

#[test]
fn payloads_of_github_come_out_as_they_went_in() {
    let broker = Broker::shared();
    let (stage, receiver) = (Stage::new(), Receiver::willing());
    let topic = stage.topic("github-events");
    broker.create_topic(&topic, 1);
    let hub = stage.setup().start();
    let tenant = subscribe(&hub, TENANT, &receiver.url(), json!({"secret": receiver.secret()}));
    let source = tenant.source_with(&json!({"slug": "github", "type": "http", "event_key_header": "X-GitHub-Event"}));
    let file = directory().join("npm/node_modules/@octokit/webhooks-examples/api.github.com/index.json");
    let text = std::fs::read_to_string(file).expect("`tests/real/servers up` installs it");
    let kinds: Vec<Examples<'_>> = serde_json::from_str(&text).expect("the package holds JSON");
    let (mut records, mut expected) = (Vec::new(), BTreeMap::new());
    for (kind, example) in kinds.iter().flat_map(|kind| kind.examples.iter().map(move |example| (kind, example))) {
        let payload = example.get().as_bytes().to_vec();
        let headers = [("Content-Type", "application/json"), ("X-GitHub-Event", kind.name.as_str())];
        let answer = source.post(&headers, &payload).expect(200);
        expected.insert(bare(answer["event_id"].as_str().expect("an id")), payload.clone());
        let event = CloudEvent::new("github", &kind.name).with_data(payload.clone());
        records.push(Record::of(&topic, TENANT, &event));
        expected.insert(event.id, payload);
    }
    broker.producer().send(&records);
    delivered(&receiver, &expected);
    println!("{} deliveries of payloads of GitHub", expected.len());
}

/// The canonical text of the UUID in `evt_…`, which is what receivers are told.
fn bare(id: &str) -> String {
    let hex = id.strip_prefix("evt_").expect("an event's id");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Waits for all events by id, compares their bodies, and has the signatures verified by the package of the
/// Standard Webhooks project; it takes text alone, so that of other bodies only the receiver verifies them.
fn delivered(receiver: &Receiver, expected: &BTreeMap<String, Vec<u8>>) {
    let count = expected.len();
    patiently(|| format!("{count} requests: {} came", receiver.count()), || receiver.count() >= count);
    let received = receiver.received();
    let bodies: BTreeMap<String, Vec<u8>> =
        received.iter().map(|request| (request.event_id(), request.body.clone())).collect();
    assert_eq!(received.len(), count);
    assert_eq!(bodies.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (id, body) in expected {
        assert!(bodies[id] == *body, "{id}: {} is not {}", lossy(&bodies[id]), lossy(body));
    }
    let texts = received.iter().filter(|request| std::str::from_utf8(&request.body).is_ok());
    let lines: Vec<String> = texts.map(|request| format!("{}\n", line(request))).collect();
    assert_eq!(python("verify_webhooks.py", &[&receiver.secret()], &lines.concat()).trim(), lines.len().to_string());
}

fn line(request: &Received) -> Value {
    let headers: BTreeMap<&str, &str> = request.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    json!({"headers": headers, "body_base64": STANDARD.encode(&request.body)})
}

/// Runs a script of this folder in the environment that `tests/real/servers` made.
fn python(script: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(directory().join("venv/bin/python"))
        .arg(format!("{}/tests/real/{script}", env!("CARGO_MANIFEST_DIR")))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`tests/real/servers up` makes the environment");
    let mut to = child.stdin.take().expect("it is piped");
    let text = input.to_owned();
    let writing = std::thread::spawn(move || to.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it was started here");
    assert!(output.status.success(), "{script} failed");
    writing.join().expect("the writer does not panic").expect("the script reads all");
    String::from_utf8(output.stdout).expect("the script writes UTF-8")
}

fn bytes(base64: &str) -> Vec<u8> {
    STANDARD.decode(base64).expect("the script writes base64")
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}
