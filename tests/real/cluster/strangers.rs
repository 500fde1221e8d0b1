//! A second cluster that is set on a group of the first: its node ends and says why, the first goes on.

use serde_json::json;

use super::{Cluster, Everywhere, SLOTS, soon};
use crate::harness::{Receiver, run};

#[test]
fn a_second_cluster_on_the_groups_of_the_first_ends_and_the_first_goes_on() {
    let cluster = Cluster::new();
    let hubs = cluster.start(1);
    let acme = Everywhere::new(&hubs, "acme");
    let receiver = Receiver::willing();
    let (source, _) = acme.at(0).pipeline(&receiver, json!({}));
    acme.know_subscriptions();
    source.publish_many(5);
    soon("all to be delivered", || receiver.count() == 5);

    let keyspace = format!("{}_other", cluster.keyspace());
    let other = cluster.setup().with("SCYLLA_KEYSPACE", &keyspace);
    let made = run(&["migrate", "--replication-factor", "1", "--slots", SLOTS], other.settings());
    assert_eq!(made.code, Some(0), "{}", made.output);
    let refused = run(&["serve"], other.settings());
    cluster.drop_keyspace(&keyspace);
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    let error = refused.output.lines().find(|line| line.starts_with("error:")).unwrap_or_default();
    for part in [cluster.stage.prefix(), "deployment", "store.scylla_keyspace", "kafka.slot_topic"] {
        assert!(error.contains(part), "{part}: {}", refused.output);
    }
    let names_one = ["kafka.slot_group", "kafka.group", "kafka.dlq_group"].iter().any(|group| error.contains(group));
    assert!(names_one, "{error}");

    source.publish_many(5);
    soon("the first to go on", || receiver.count() == 10);
    println!("{error}");
}
