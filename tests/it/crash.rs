//! `kill -9` at the worst moments: nothing acknowledged is lost, nothing is repeated that the crash did not hide,
//! and nobody else's crash poisons a job.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::harness::{CloudEvent, Gate, Hub, Received, Receiver, Reply, eventually};

fn times_per_event(requests: &[Received]) -> BTreeMap<String, usize> {
    requests.iter().fold(BTreeMap::new(), |mut times, request| {
        *times.entry(request.event_id()).or_default() += 1;
        times
    })
}

#[test]
fn a_kill_mid_delivery_loses_nothing_and_repeats_only_what_was_in_flight() {
    const EVENTS: usize = 300;
    const SEEN: usize = 100;
    let gate = Gate::default();
    let held = gate.clone();
    let receiver = Receiver::start(move |request| match request.number {
        0..SEEN => Reply::status(200),
        _ => Reply::status(200).held(&held),
    });
    let mut hub = Hub::start();
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"ordering": "parallel", "max_in_flight": 8}));
    let ids = source.publish_many(EVENTS);
    // The gate holds those that are in flight when the kill comes, so that the test knows them.
    eventually("eight attempts in flight", || receiver.in_flight() == 8 && receiver.count() == SEEN + 8);
    let in_flight: BTreeSet<String> = receiver.received()[SEEN..].iter().map(Received::event_id).collect();
    acme.wait_for_delivered(SEEN);
    hub.kill();
    gate.open();
    hub.restart_after_end();

    acme.wait_for_all(EVENTS, "delivered");
    let times = times_per_event(&receiver.received());
    assert_eq!(times.keys().collect::<BTreeSet<_>>(), ids.iter().collect());
    let repeated: BTreeSet<String> = times.into_iter().filter(|(_, times)| *times > 1).map(|(id, _)| id).collect();
    assert_eq!(repeated, in_flight);
}

#[test]
fn writers_that_try_again_beside_kills_get_every_event_in_once() {
    const KILLS: usize = 4;
    const WRITERS: usize = 4;
    const EVENTS: usize = 150;
    const IN_FLIGHT: usize = 16;
    let receiver = Receiver::start(|request| Reply::status(if request.number % 7 == 3 { 503 } else { 200 }));
    let mut hub = Hub::start();
    let acme = hub.tenant("acme");
    let retry = json!({"type": "fixed", "intervals_s": [1], "max_retries": 20});
    let circuit = json!({"enabled": false});
    let more = json!({"ordering": "parallel", "max_in_flight": IN_FLIGHT, "retry": retry, "circuit": circuit});
    let (source, _) = acme.pipeline(&receiver, more);
    let written: BTreeSet<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(|| source.publish_stubbornly(EVENTS))).collect();
        for _ in 0..KILLS {
            let before = receiver.count();
            eventually("deliveries of this life", || receiver.count() > before + 20);
            hub.restart();
        }
        writers.into_iter().flat_map(|writer| writer.join().expect("a writer")).collect()
    });
    assert_eq!(written.len(), WRITERS * EVENTS);
    acme.wait_for_all(written.len(), "delivered");
    let requests = receiver.received();
    assert_eq!(times_per_event(&requests).keys().collect::<BTreeSet<_>>(), written.iter().collect());
    // The refused ones aside, only what a kill caught in flight is sent again.
    let refused = requests.iter().filter(|request| request.number % 7 == 3).count();
    let repeated = requests.len() - refused - written.len();
    assert!(repeated <= KILLS * IN_FLIGHT, "{repeated} repetitions");
}

#[test]
fn ten_kills_with_a_backlog_behind_a_failing_receiver_poison_no_waiting_job() {
    const KILLS: usize = 10;
    const EVENTS: usize = 20;
    let healed = Gate::default();
    let failing = healed.clone();
    let receiver = Receiver::start(move |request| match (failing.is_open(), request.number % 2) {
        (true, _) => Reply::status(200),
        (false, 0) => Reply::status(500),
        (false, _) => Reply::Reset,
    });
    let mut hub = Hub::start();
    let acme = hub.tenant("acme");
    let retry = json!({"type": "fixed", "intervals_s": [1], "max_retries": 100});
    let (source, destination) = acme.pipeline(&receiver, json!({"retry": retry, "circuit": {"enabled": false}}));
    source.publish_many(EVENTS);
    for _ in 0..KILLS {
        let before = receiver.count();
        eventually("an attempt of this life", || receiver.count() > before);
        hub.restart();
    }
    assert_eq!(acme.deliveries("status=dead_lettered"), Vec::<serde_json::Value>::new());
    healed.open();
    for delivery in acme.wait_for_all(EVENTS, "delivered") {
        assert_eq!(delivery["destination_id"], destination.as_str());
    }
    assert_eq!(acme.deliveries("status=dead_lettered").len(), 0);
}

#[test]
fn a_kill_during_an_attempt_leaves_nothing_delivering() {
    let gate = Gate::default();
    let held = gate.clone();
    let receiver = Receiver::start(move |request| match request.number {
        0 => Reply::status(200).held(&held),
        _ => Reply::status(200),
    });
    let mut hub = Hub::start();
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({}));
    source.publish(&CloudEvent::new("order", "paid")).expect(200);
    acme.wait_for_all(1, "delivering");
    receiver.wait_for(1);
    hub.kill();
    gate.open();
    hub.restart_after_end();
    let delivery = acme.wait_for_all(1, "delivered").remove(0);
    assert_eq!(receiver.count(), 2);
    let attempts = acme.delivery(&delivery)["attempts"].as_array().expect("attempts").len();
    assert!(attempts >= 1, "{delivery}");
}
