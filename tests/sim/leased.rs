//! A slot on a lease: what its owner may do and when, and what it makes of what a former owner left.

use streaming_hub::engine::Input;
use streaming_hub::store::codec::slot_record::Inbound;
use streaming_hub::types::{Duration, End, Event, Time, limits};

use crate::stage::{Stage, destination, status};

/// An owner with one destination; configuration comes with the slot.
fn stage() -> Stage {
    let mut stage = Stage::on_lease(Duration::ZERO);
    stage.pipeline(destination("acme", 1));
    stage
}

fn publish(stage: &mut Stage) -> Event {
    let event = stage.event("acme", stage.now);
    stage.record(event.clone());
    event
}

/// The owner is gone; another takes the slot, on a lease that lasts.
fn taken_over(stage: &mut Stage) {
    stage.crash();
    stage.take_slot();
    stage.input(Input::Lease(Time::MAX));
}

#[test]
fn the_offset_numbers_the_event() {
    let mut stage = stage();
    let event = stage.event("acme", stage.now);
    stage.topic.insert(40, Inbound::Event(event));
    publish(&mut stage);
    let sequences: Vec<u64> = stage.jobs().iter().map(|job| job.key.sequence.0).collect();
    assert_eq!((sequences, stage.sent.len()), (vec![42], 1));
}

#[test]
fn without_a_lease_nothing_is_taken_in_and_nothing_begins() {
    let mut stage = stage();
    publish(&mut stage);
    stage.answer(0, status(500));
    stage.crash();
    stage.take_slot();
    stage.pass(Duration::from_secs(60));
    publish(&mut stage);
    assert_eq!((stage.sent.len(), stage.jobs().len()), (1, 1));
    stage.input(Input::Lease(stage.now + Duration::from_secs(1)));
    assert_eq!((stage.sent.len(), stage.jobs().len()), (2, 2));
    stage.answer(1, status(200));
    assert_eq!(stage.sent.len(), 3);
    stage.answer(2, status(500));
    stage.pass(Duration::from_hours(1));
    assert_eq!(stage.sent.len(), 3, "the lease is over");
}

#[test]
fn a_claim_that_has_not_run_out_is_waited_for_and_then_taken_up() {
    let mut stage = stage();
    publish(&mut stage);
    let held_until = stage.now + destination("acme", 1).timeout() + limits::CLAIM_GRACE;
    taken_over(&mut stage);
    publish(&mut stage);
    stage.pass(Duration(held_until.since(stage.now).0 - Duration::from_secs(1).0));
    assert_eq!(stage.sent.len(), 1, "the attempt may be under way, and the order holds");
    stage.pass(Duration::from_secs(3));
    assert_eq!(stage.sent.len(), 2);
    assert_eq!((stage.sent[1].event.id, stage.sent[1].number), (stage.sent[0].event.id, 2));
}

#[test]
fn an_outcome_that_a_former_owner_writes_late_counts() {
    let mut stage = stage();
    publish(&mut stage);
    let mut former = std::mem::replace(&mut stage, self::stage());
    std::mem::swap(&mut former.store, &mut stage.store);
    stage.topic.clone_from(&former.topic);
    stage.now = former.now;
    taken_over(&mut stage);
    stage.pass(Duration::from_secs(2));
    assert!(stage.sent.is_empty());
    std::mem::swap(&mut former.store, &mut stage.store);
    former.answer(0, status(200));
    std::mem::swap(&mut former.store, &mut stage.store);
    stage.pass(Duration::from_secs(2));
    publish(&mut stage);
    assert_eq!((stage.sent.len(), stage.ends(1)), (1, vec![Some(End::Delivered), None]), "only the new event is sent");
}

#[test]
fn an_event_that_is_read_again_is_the_same_event() {
    let mut stage = Stage::on_lease(Duration::from_secs(15));
    stage.pipeline(destination("acme", 1));
    let event = publish(&mut stage);
    stage.answer(0, status(200));
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.position(), 0, "it may not be synced yet");
    taken_over(&mut stage);
    stage.pass(Duration::from_secs(20));
    assert_eq!((stage.position(), stage.jobs().len(), stage.sent.len()), (1, 1, 1));
    stage.record(event);
    stage.pass(Duration::from_secs(20));
    assert_eq!((stage.position(), stage.jobs().len()), (2, 1), "another copy is a duplicate");
}
