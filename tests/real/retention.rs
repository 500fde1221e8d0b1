//! Ids must outlive the topics' records: `check` and `serve` name each topic that outlives them, and the setting.

use super::broker::{Broker, SECURE_ADDRESS, authority};
use super::harness::run;
use super::patience::patiently;
use super::stage::Stage;

#[test]
fn topics_that_outlive_ids_are_named_by_check_and_serve() {
    let (broker, stage) = (Broker::shared(), Stage::new());
    let [short, long, ever, letters] = ["short", "long", "ever", "long.dlq"].map(|source| stage.topic(source));
    broker.create_topic_with(&short, 1, &[("retention.ms", "604800000")]);
    broker.create_topic_with(&long, 1, &[("retention.ms", "2592000000")]);
    broker.create_topic_with(&ever, 1, &[("retention.ms", "-1")]);
    broker.create_topic_with(&letters, 1, &[("retention.ms", "-1")]);
    let setup = stage.setup();
    let checked = run(&["check"], setup.settings());
    assert_eq!(checked.code, Some(0), "{}", checked.output);
    let warnings: Vec<&str> = checked.output.lines().filter(|line| line.starts_with("# warning")).collect();
    assert_eq!(warnings.len(), 2, "{warnings:#?}");
    let named = |topic: &str| warnings.iter().any(|line| line.contains(&format!("topic {topic} ")));
    assert!(named(&long) && named(&ever), "{warnings:#?}");
    assert!(warnings.iter().any(|line| line.contains("retention.event to 744h")), "{warnings:#?}");
    let hub = setup.start();
    let told = |topic: &str| {
        let is_told = |line: &&str| line.contains("WARN") && line.contains(topic) && line.contains("retention.event");
        hub.log().lines().filter(is_told).count()
    };
    patiently(|| "both topics to be told".to_owned(), || told(&long) == 1 && told(&ever) == 1);
    assert_eq!((told(&short), told(&letters)), (0, 0));
}

#[test]
fn check_says_that_ids_outlive_the_topics_or_why_it_cannot() {
    let (broker, stage) = (Broker::shared(), Stage::new());
    broker.create_topic_with(&stage.topic("loans"), 1, &[("retention.ms", "2592000000")]);
    let good = run(&["check"], stage.setup().with("EVENT_RETENTION", "744h").settings());
    assert!(good.output.contains("# ids outlive the records of all 1 followed topics"), "{}", good.output);
    let refused = stage
        .setup()
        .with("KAFKA_BROKERS", SECURE_ADDRESS)
        .with("KAFKA_TLS_ENABLED", "true")
        .with("KAFKA_CA_CERT", &authority("other-ca"));
    let refused = run(&["check"], refused.settings());
    assert_eq!(refused.code, Some(0), "{}", refused.output);
    let line = refused.output.lines().find(|line| line.starts_with("# not compared")).unwrap_or_default();
    assert!(line.contains("refuse this hub") && line.contains("kafka.ca_cert"), "{}", refused.output);
}
