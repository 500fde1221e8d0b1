//! The order of deliveries: `fifo`, `strict`, `parallel`, keyed by subject, and how many at a time.

use serde_json::json;

use crate::harness::{CloudEvent, Gate, Hub, Received, Receiver, Reply, Setup, eventually};

fn ids(requests: &[Received]) -> Vec<String> {
    requests.iter().map(Received::event_id).collect()
}

#[test]
fn fifo_sends_one_at_a_time_and_a_failed_job_steps_aside() {
    const EVENTS: usize = 30;
    let hub = Hub::start();
    let receiver = Receiver::start(|request| Reply::status(if request.number == 3 { 500 } else { 200 }));
    let acme = hub.tenant("acme");
    let retry = json!({"type": "fixed", "intervals_s": [3], "max_retries": 3});
    let (source, _) = acme.pipeline(&receiver, json!({"retry": retry}));
    let published = source.publish_many(EVENTS);
    acme.wait_for_all(EVENTS, "delivered");
    let sent = ids(&receiver.received());
    assert_eq!(sent[..EVENTS], published, "first attempts are in order of arrival");
    assert_eq!(sent[EVENTS..], published[3..4]);
    assert_eq!(receiver.most_in_flight(), 1);
}

#[test]
fn strict_lets_no_later_job_start_before_the_earlier_has_ended() {
    const EVENTS: usize = 10;
    let hub = Hub::start();
    let receiver = Receiver::start(|request| Reply::status(if matches!(request.number, 3 | 4) { 500 } else { 200 }));
    let acme = hub.tenant("acme");
    let retry = json!({"type": "fixed", "intervals_s": [1], "max_retries": 3});
    let (source, _) = acme.pipeline(&receiver, json!({"retry": retry, "ordering": "strict"}));
    let published = source.publish_many(EVENTS);
    acme.wait_for_all(EVENTS, "delivered");
    let mut expected = published.clone();
    expected.splice(3..3, [published[3].clone(), published[3].clone()]);
    assert_eq!(ids(&receiver.received()), expected);
}

#[test]
fn strict_goes_on_after_a_dead_letter() {
    let hub = Hub::start();
    let receiver = Receiver::start(|request| Reply::status(if request.number < 2 { 500 } else { 200 }));
    let acme = hub.tenant("acme");
    let retry = json!({"type": "curve", "steps_s": [0, 0]});
    let (source, _) = acme.pipeline(&receiver, json!({"retry": retry, "ordering": "strict"}));
    let published = source.publish_many(3);
    acme.wait_for_delivered(2);
    let expected = [&published[0], &published[0], &published[1], &published[2]].map(String::clone);
    assert_eq!(ids(&receiver.received()), expected);
}

#[test]
fn parallel_keeps_to_its_limit_and_uses_it() {
    const LIMIT: usize = 10;
    const EVENTS: usize = 400;
    let (gate, hub) = (Gate::default(), Setup::new().with("SHARDS", "1").start());
    let held = gate.clone();
    let receiver = Receiver::start(move |_| Reply::status(200).held(&held));
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"ordering": "parallel", "max_in_flight": LIMIT}));
    source.publish_many(EVENTS);
    eventually("the limit to be reached", || receiver.in_flight() == LIMIT);
    gate.open();
    acme.wait_for_all(EVENTS, "delivered");
    assert_eq!(receiver.most_in_flight(), LIMIT);
    assert_eq!(receiver.count(), EVENTS);
}

#[test]
fn subjects_go_side_by_side_each_in_its_own_order() {
    let (gate, hub) = (Gate::default(), Hub::start());
    let held = gate.clone();
    let receiver = Receiver::start(move |request| match request.header("ce-subject") {
        Some("stuck") => Reply::status(200).held(&held),
        _ => Reply::status(200),
    });
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"ordering": "strict", "ordering_key": "subject"}));
    let publish = |subject: &str| {
        let event = CloudEvent::new("order", "paid").with_header("ce-subject", subject);
        source.publish(&event).expect(200);
        event.id
    };
    let stuck = [publish("stuck"), publish("stuck")];
    let free = [publish("free"), publish("free"), publish("free")];
    let of = |subject: &str| {
        let requests = receiver.received();
        let about = |request: &&Received| request.header("ce-subject") == Some(subject);
        requests.iter().filter(about).map(Received::event_id).collect::<Vec<_>>()
    };
    eventually("the free subject's events", || of("free") == free);
    assert_eq!(of("stuck"), stuck[..1]);
    gate.open();
    acme.wait_for_all(5, "delivered");
    assert_eq!(of("stuck"), stuck);
}

#[test]
fn a_rate_limit_is_kept() {
    let (hub, receiver) = (Hub::start(), Receiver::willing());
    let acme = hub.tenant("acme");
    let limit = json!({"per_second": 10, "burst": 1});
    let (source, _) = acme.pipeline(&receiver, json!({"rate_limit": limit, "ordering": "parallel"}));
    source.publish_many(16);
    acme.wait_for_all(16, "delivered");
    let requests = receiver.received();
    let span = requests[15].at - requests[0].at;
    // Fifteen intervals of 100 ms, less what the first and the last may be off.
    assert!(span.as_millis() >= 1_350, "16 requests in {span:?}");
}
