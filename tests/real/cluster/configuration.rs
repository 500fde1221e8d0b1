//! A change that one node has made is in force on all others within two seconds.

use std::time::Duration;

use serde_json::json;

use super::{Cluster, Everywhere, short_of_breath, soon};
use crate::harness::{CloudEvent, Hub, Receiver};
use crate::patience::within;

const NODES: usize = 3;
/// So many have slots on every node.
const TENANTS: usize = 8;
const IN_FORCE: Duration = Duration::from_secs(2);

#[test]
fn configuration_takes_effect_on_every_node() {
    let cluster = Cluster::new();
    let hubs = cluster.start(NODES);
    for number in 0..TENANTS {
        changes(&hubs, number);
    }
    println!("changes of {TENANTS} tenants, each through one of {NODES} nodes, in force on all within {IN_FORCE:?}");
}

fn changes(hubs: &[Hub], number: usize) {
    let acme = Everywhere::new(hubs, &format!("changes-{number}"));
    let (maker, changer) = (acme.at(number), acme.at(number + 1));
    let receiver = Receiver::willing();
    let destination = maker.destination(&receiver, short_of_breath(json!({})));
    let subscription = format!("/v1/subscriptions/{}", maker.subscription(&destination, json!({})));
    let source = maker.source("shop");
    let everywhere = |what: &str, holds: &dyn Fn(usize) -> bool| {
        for node in 0..NODES {
            within(IN_FORCE, || format!("{what} on node {node}"), || holds(node));
        }
    };
    everywhere("a new subscription", &|node| acme.at(node).api.get(&subscription).status == 200);
    // An event through each node finds its source there, and the subscription at its slot's owner.
    for (count, hub) in (1..).zip(hubs) {
        let event = CloudEvent::new("order", "paid");
        let headers = event.headers(&source.slug);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let ingest = || hub.anybody().send("POST", &source.path(), &headers, &event.data).status;
        within(IN_FORCE, || "a new source to take events".to_owned(), || ingest() == 200);
        soon("its delivery", || receiver.count() == count);
    }
    let enabled = |node: usize| acme.at(node).api.get(&subscription).expect(200)["enabled"].clone();
    changer.api.patch(&subscription, &json!({"enabled": false})).expect(200);
    everywhere("a disabled subscription", &|node| enabled(node) == false);
    // The owner may be any node: it follows like those that were just seen to.
    let unwanted = CloudEvent::new("order", "paid");
    source.publish(&unwanted).expect(200);
    soon("the event to be stored", || changer.api.get(&format!("/v1/events/{}", unwanted.id)).status == 200);
    changer.api.patch(&subscription, &json!({"enabled": true})).expect(200);
    everywhere("an enabled subscription", &|node| enabled(node) == true);
    source.publish(&CloudEvent::new("order", "shipped")).expect(200);
    soon("the delivery of what came after", || receiver.count() == NODES + 1);
    let last = receiver.received().pop().and_then(|request| request.header("x-lerian-event-type").map(str::to_owned));
    assert_eq!(last.as_deref(), Some("order.shipped"), "what came while it was disabled matched nothing");
}
