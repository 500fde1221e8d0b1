//! Filters that cost more than their tenant may spend at once: done in slices, fairly, while everybody else goes on.

use serde_json::json;
use streaming_hub::engine::Bounds;
use streaming_hub::types::subscription::{FilterOp, FilterRule, Subscription};
use streaming_hub::types::{ConfigChange, Duration, Event, SubscriptionId};
use uuid::Uuid;

use crate::stage::{Stage, destination, subscription, tenant};

const SUBSCRIPTIONS: u128 = 20;
const RULES: usize = 32;
const TEXT: usize = 200_000;
/// A slice and the step that may go beyond it: parsing the payload at four bytes each, or a look through the text.
const SLICE_MAX: u64 = 1024 * 1024 + 5 * TEXT as u64;

/// A subscription all of whose rules look through the whole text; the last of them holds or does not.
fn costly(owner: &str, number: u128, last: &str) -> Subscription {
    let rule = |value: &str| FilterRule { field: "payload.text".into(), op: FilterOp::Contains, value: json!(value) };
    let mut rules = vec![rule("needle"); RULES - 1];
    rules.push(rule(last));
    Subscription { filter_rules: rules, ..subscription(owner, number, 1) }
}

/// A stage with `acme`, which has one plain subscription, and a hostile tenant.
fn stage() -> Stage {
    let mut stage = Stage::new(Bounds::default());
    stage.pipeline(destination("acme", 1_000));
    hostile(&mut stage, "hostile", 0);
    stage
}

/// Every second subscription wants the event.
fn hostile(stage: &mut Stage, owner: &str, first: u128) {
    let mut to = destination(owner, first + 1);
    to.max_in_flight = 64;
    stage.put_destination(to);
    for number in first + 1..=first + SUBSCRIPTIONS {
        let last = if number % 2 == 0 { "needle" } else { "absent" };
        let costly = costly(owner, number, last);
        stage.put_subscription(Subscription {
            destination_id: streaming_hub::types::DestinationId(Uuid::from_u128(first + 1)),
            ..costly
        });
    }
}

fn costly_event(stage: &mut Stage, owner: &str) -> Event {
    let text = format!(r#"{{"text":"{}needle"}}"#, "x".repeat(TEXT));
    Event { payload: text.into(), ..stage.event(owner, stage.now) }
}

fn work(stage: &Stage) -> u64 {
    stage.shard.report().counters.filter_work_bytes
}

/// Lets the shard wake up as it wants to until nothing more is decided; tells the most that one wake-up did.
fn decide_all(stage: &mut Stage, mut meanwhile: impl FnMut(&mut Stage)) -> u64 {
    let (mut most, mut idle) = (0, 0);
    while idle < 10 {
        let before = work(stage);
        stage.pass(Duration::from_micros(50));
        let done = work(stage) - before;
        most = most.max(done);
        idle = if done == 0 { idle + 1 } else { 0 };
        meanwhile(stage);
    }
    most
}

#[test]
fn a_costly_arrival_is_decided_in_slices_and_others_do_not_wait() {
    let mut stage = stage();
    let before = work(&stage);
    let event = costly_event(&mut stage, "hostile");
    stage.arrive(vec![event]);
    assert!(work(&stage) - before <= SLICE_MAX, "at once no more than the allowance");
    assert!(stage.settled.is_empty(), "the rest waits");
    let mut published = 0;
    let most = decide_all(&mut stage, |stage| {
        let before = stage.settled.len();
        if published < 20 {
            stage.publish("acme");
            published += 1;
            assert_eq!(stage.settled.len(), before + 1, "the other tenant's event is settled at once");
        }
    });
    assert!(most <= SLICE_MAX, "{most} bytes in one wake-up");
    let whole = SUBSCRIPTIONS as u64 * RULES as u64 * TEXT as u64;
    assert!((whole..whole * 5 / 4).contains(&work(&stage)), "{} for {whole}", work(&stage));
    assert_eq!(stage.settled.len(), 21);
    let wanting: Vec<u128> =
        stage.jobs().iter().map(|job| job.subscription.0.as_u128()).filter(|n| *n < 1_000).collect();
    assert_eq!(wanting, (2..=SUBSCRIPTIONS).step_by(2).collect::<Vec<_>>());
}

#[test]
fn costly_tenants_take_turns_and_each_keeps_its_order() {
    let mut stage = stage();
    hostile(&mut stage, "rival", 100);
    for _ in 0..3 {
        for owner in ["hostile", "rival"] {
            let event = costly_event(&mut stage, owner);
            stage.arrive(vec![event]);
        }
    }
    let mut order = Vec::new();
    decide_all(&mut stage, |stage| {
        let known = order.len();
        let stored: Vec<String> = stage.store.events().map(|logged| logged.event.tenant.to_string()).collect();
        if stored.len() > known {
            let rivals = stored.iter().filter(|owner| *owner == "rival").count();
            order.push(stored.len() - 2 * rivals);
        }
    });
    assert_eq!(stage.settled.len(), 6);
    let apart = order.iter().map(|ahead| ahead.cast_signed().unsigned_abs()).max();
    assert!(apart <= Some(1), "neither gets far ahead of the other: {order:?}");
}

#[test]
fn a_change_on_the_way_counts_for_those_not_judged_yet() {
    let mut stage = stage();
    let event = costly_event(&mut stage, "hostile");
    stage.arrive(vec![event]);
    stage.pass(Duration::from_millis(2));
    assert!(stage.settled.is_empty());
    let id = |number| SubscriptionId(Uuid::from_u128(number));
    stage.configure(ConfigChange::DeleteSubscription(tenant("hostile"), id(2)));
    stage.configure(ConfigChange::DeleteSubscription(tenant("hostile"), id(SUBSCRIPTIONS)));
    stage.put_subscription(subscription("hostile", 50, 1));
    decide_all(&mut stage, |_| {});
    let wanting: Vec<u128> = stage.jobs().iter().map(|job| job.subscription.0.as_u128()).collect();
    let expected = (4..SUBSCRIPTIONS).step_by(2).chain([50]).collect::<Vec<_>>();
    assert_eq!(wanting, expected, "a deleted one gets no job, a new one does");
    stage.publish("hostile");
    assert_eq!(stage.settled.len(), 2, "and the tenant goes on");
}
