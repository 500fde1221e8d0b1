//! One group has one embedded hub: a second one ends before it reads, the first goes on; a directory that moved needs
//! nothing, and one that is new takes a group over only by name.

use std::path::Path;

use serde_json::json;

use super::broker::Broker;
use super::harness::{CloudEvent, Hub, Receiver, Setup, run};
use super::patience::patiently;
use super::record::Record;
use super::stage::{Stage, is_read_up, lanes, subscribe};

fn directory_id(hub: &Hub) -> String {
    lanes(hub)[0]["node"].as_str().expect("a lane has a node").to_owned()
}

fn send(broker: &Broker<impl Sized>, topic: &str, count: usize) {
    let event = |_| Record::of(topic, "acme", &CloudEvent::new("loan", "paid"));
    broker.producer().send(&(0..count).map(event).collect::<Vec<_>>());
}

/// The same stage for another data directory.
fn another(stage: &Stage) -> Setup {
    stage.setup()
}

#[test]
fn a_second_hub_in_the_group_ends_and_the_first_goes_on() {
    let (broker, stage, receiver) = (Broker::shared(), Stage::new(), Receiver::willing());
    let topic = stage.topic("loans");
    broker.create_topic(&topic, 4);
    let hub = stage.setup().start();
    subscribe(&hub, "acme", &receiver.url(), json!({"secret": receiver.secret()}));
    patiently(|| "four lanes".to_owned(), || is_read_up(&hub, 4));
    let first = directory_id(&hub);
    // Nothing has come yet: what tells them apart is the member, or the claim.
    for with_events in [false, true] {
        let second = run(&["serve"], another(&stage).settings());
        assert_eq!(second.code, Some(1), "{}", second.output);
        let error = second.output.lines().find(|line| line.starts_with("error:")).unwrap_or_default();
        for part in ["kafka.group", &stage.group(), &first, "kafka.take_over"] {
            assert!(error.contains(part), "{part}, with events {with_events}: {}", second.output);
        }
        let before = receiver.count();
        send(&broker, &topic, 20);
        patiently(|| "the first to deliver all".to_owned(), || receiver.count() == before + 20);
        patiently(|| "four lanes again".to_owned(), || is_read_up(&hub, 4));
    }
    // Naming the owner does not help while it lives.
    let second = run(&["serve"], another(&stage).with("KAFKA_TAKE_OVER", &first).settings());
    assert_eq!(second.code, Some(1), "{}", second.output);
    patiently(|| "four lanes again".to_owned(), || is_read_up(&hub, 4));
}

#[test]
fn a_copy_of_the_data_directory_goes_on_once_the_first_is_gone_and_never_beside_it() {
    let (broker, stage, receiver) = (Broker::shared(), Stage::new(), Receiver::willing());
    let topic = stage.topic("loans");
    broker.create_topic(&topic, 2);
    let mut hub = stage.setup().start();
    subscribe(&hub, "acme", &receiver.url(), json!({"secret": receiver.secret()}));
    send(&broker, &topic, 5);
    patiently(|| "5 deliveries".to_owned(), || receiver.count() == 5);
    let to = hub.data_directory().with_file_name("copy");
    backup(&hub, &to);
    let copy = to.display().to_string();
    let beside = run(&["serve"], another(&stage).with("DATA_DIR", &copy).settings());
    assert_eq!(beside.code, Some(1), "{}", beside.output);
    assert!(beside.output.contains("kafka.group"), "{}", beside.output);
    hub.kill();
    hub.set("DATA_DIR", &copy);
    send(&broker, &topic, 5);
    hub.restart_after_end();
    patiently(|| "10 deliveries".to_owned(), || receiver.count() >= 10);
    patiently(|| "two lanes".to_owned(), || is_read_up(&hub, 2));
    assert_eq!(receiver.count(), 10);
}

fn backup(hub: &Hub, to: &Path) {
    let arguments = ["backup", "--to", &to.display().to_string(), "--address", &format!("http://{}", hub.address())];
    let made = run(&arguments, hub.settings());
    assert_eq!(made.code, Some(0), "{}", made.output);
}

#[test]
fn a_new_directory_takes_over_by_name_where_the_former_one_was() {
    let (broker, stage, receiver) = (Broker::shared(), Stage::new(), Receiver::willing());
    let topic = stage.topic("loans");
    broker.create_topic(&topic, 2);
    let mut hub = stage.setup().start();
    subscribe(&hub, "acme", &receiver.url(), json!({"secret": receiver.secret()}));
    send(&broker, &topic, 5);
    patiently(|| "5 deliveries".to_owned(), || receiver.count() == 5);
    let ends = broker.ends(&topic, 2);
    patiently(|| "commits".to_owned(), || broker.committed(&stage.group(), &topic, 2) == ends);
    let former = directory_id(&hub);
    hub.kill();
    drop(hub);
    send(&broker, &topic, 3);
    let refused = run(&["serve"], another(&stage).settings());
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    assert!(refused.output.contains(&former), "{}", refused.output);
    let heir = another(&stage).with("KAFKA_TAKE_OVER", &former).start();
    let tenant = subscribe(&heir, "acme", &receiver.url(), json!({"secret": receiver.secret()}));
    patiently(|| "the lanes to be read up".to_owned(), || is_read_up(&heir, 2));
    let events = tenant.api.get("/v1/events?limit=100").expect(200);
    assert_eq!(events["items"].as_array().map(Vec::len), Some(3), "only what the former one had not committed");
}
