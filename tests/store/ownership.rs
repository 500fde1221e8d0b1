//! Slots change hands: epochs are given out one by one, and a former owner's late writes hide nothing.

use std::collections::BTreeSet;
use std::rc::Rc;

use streaming_hub::engine::rows::{CircuitRecord, DestinationRecord, LoggedEvent, NewJob, SlotRecord};
use streaming_hub::engine::{BatchNumber, Read, ReadAnswer, Refusal, Row, Unit};
use streaming_hub::store::StoreEvent;
use streaming_hub::store::scylla::Epoch;
use streaming_hub::store::tests::{Subject as _, batch_of, event_row, first_job, tenant};
use streaming_hub::types::{
    AttemptOutcome, AttemptRecord, ClaimRecord, DestinationId, Duration, End, JobKey, Sequence, SubscriptionId, Time,
};
use uuid::Uuid;

use super::cassandra::{Node, shared};
use super::fresh_slot;

#[test]
fn takers_one_after_the_other_get_consecutive_epochs() {
    let _server = shared();
    let (first, second) = {
        let first = Node::connect("first", fresh_slot());
        let slot = first.slot();
        (first, Node::connect("second", slot))
    };
    let epochs = [first.take(), second.take(), first.take()].map(|taken| (taken.epoch, taken.record));
    assert_eq!(epochs, [(Epoch(1), None), (Epoch(2), None), (Epoch(3), None)]);
}

#[test]
fn racing_takers_get_different_epochs() {
    let _server = shared();
    let slot = fresh_slot();
    let node = Node::connect("racer", slot);
    let racers: Vec<_> = (0..4)
        .map(|_| {
            let store = node.store.clone();
            std::thread::spawn(move || futures_lite::future::block_on(store.port().take(slot)))
        })
        .collect();
    let taken = racers.into_iter().map(|racer| racer.join().expect("no panic").expect("a try is left").epoch);
    assert_eq!(taken.collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn a_slot_that_was_not_taken_takes_nothing() {
    let _server = shared();
    let node = Node::connect("nobody", fresh_slot());
    node.port.submit(&[batch_of(node.slot(), 1, vec![event_row("acme", 1, 1)])]);
    let StoreEvent::Refused(batches, refusal) = node.next() else { panic!("it is refused") };
    assert_eq!((batches, refusal), (vec![(Unit::Slot(node.slot()), BatchNumber(1))], Refusal::Unavailable));
}

#[test]
fn a_late_write_of_a_former_owner_hides_nothing() {
    let _server = shared();
    let mut former = Node::with_a_slot("former");
    let slot = former.slot();
    let mut owner = Node::connect("owner", slot);
    former.apply(&batch_of(slot, 1, vec![event_row("acme", 1, 1), cursor(3), destination(1)]));
    owner.take();
    let claim = claim(7);
    let own = with_job(2, 7, Some(claim));
    owner.apply(&batch_of(slot, 1, vec![own, cursor(9), destination(2), reclaim(slot)]));
    for number in 2..6 {
        former.apply(&batch_of(slot, number, vec![with_job(2, 8, None), cursor(4), destination(3), gone_cursor()]));
    }
    former.apply(&batch_of(slot, 6, vec![delivered(slot)]));
    let ReadAnswer::Slot { overflow, destinations, .. } = owner.answer(Read::Slot(slot)) else { panic!("a slot") };
    assert_eq!(overflow, [(tenant("acme"), SubscriptionId(Uuid::from_u128(1)), Sequence(9))]);
    assert_eq!(destinations.iter().map(|(_, _, record)| *record).collect::<Vec<_>>(), [failures(2)]);
    let second = event(&mut owner, 2);
    assert_eq!(second.jobs[0].subscription, SubscriptionId(Uuid::from_u128(7)));
    assert_eq!(second.jobs[0].open_claim, Some(claim));
    let first = event(&mut owner, 1);
    assert_eq!(first.jobs[0].end, Some((End::Delivered, Time(40))), "a late outcome is a fact");
}

#[test]
fn a_taker_is_told_of_claims_that_low_water_has_passed() {
    let _server = shared();
    let mut former = Node::with_a_slot("former");
    let slot = former.slot();
    let until = streaming_hub::runtime::Clock::start().now() + Duration::from_secs(30);
    let claimed = |sequence, ordinal| Row::Claim {
        tenant: tenant("acme"),
        key: JobKey { slot, sequence: Sequence(sequence), ordinal },
        number: 1,
        claim: ClaimRecord { until, ..claim(sequence.into()) },
    };
    former.apply(&batch_of(slot, 1, vec![event_row("acme", 1, 1), event_row("acme", 2, 1)]));
    let record = SlotRecord { low_water: Sequence(2), ..SlotRecord::default() };
    former.apply(&batch_of(slot, 2, vec![claimed(1, 0), claimed(2, 0), Row::Slot(record)]));
    let owner = &mut Node::connect("owner", slot);
    owner.take();
    let ReadAnswer::Slot { claimed, .. } = owner.answer(Read::Slot(slot)) else { panic!("a slot") };
    assert_eq!(claimed, [(tenant("acme"), first_job(slot, 1))], "the other is in the tail");
}

fn event(node: &mut Node, sequence: u64) -> LoggedEvent {
    let read = Read::Event { slot: node.slot(), tenant: tenant("acme"), sequence: Sequence(sequence) };
    let ReadAnswer::Event(event) = node.answer(read) else { panic!("an event") };
    event.expect("it was written")
}

fn with_job(sequence: u64, subscription: u128, claim: Option<ClaimRecord>) -> Row {
    let Row::Event { event, .. } = event_row("acme", sequence, 1) else { unreachable!("an event's row") };
    let job = NewJob {
        subscription: SubscriptionId(Uuid::from_u128(subscription)),
        destination: DestinationId(Uuid::from_u128(2)),
        claim,
    };
    Row::Event { event: Rc::clone(&event), jobs: vec![job] }
}

fn claim(id: u128) -> ClaimRecord {
    let attempt = streaming_hub::types::AttemptId(Uuid::from_u128(id));
    ClaimRecord { attempt, claimed_at: Time(10), until: Time(20), alone: false }
}

fn attempt(ended_at: u64, is_reclaim: bool) -> Box<AttemptRecord> {
    Box::new(AttemptRecord {
        number: 1,
        claim: claim(1),
        destination: DestinationId(Uuid::from_u128(2)),
        url: "https://example.com/".into(),
        outcome: AttemptOutcome { ended_at: Time(ended_at), ..AttemptOutcome::default() },
        counted: !is_reclaim,
        reclaim: is_reclaim,
        next_at: None,
    })
}

fn reclaim(slot: streaming_hub::types::Slot) -> Row {
    Row::Attempt { tenant: tenant("acme"), key: first_job(slot, 1), record: attempt(30, true), end: None }
}

fn delivered(slot: streaming_hub::types::Slot) -> Row {
    let end = Some(End::Delivered);
    Row::Attempt { tenant: tenant("acme"), key: first_job(slot, 1), record: attempt(40, false), end }
}

fn cursor(at: u64) -> Row {
    let subscription = SubscriptionId(Uuid::from_u128(1));
    Row::Overflow { tenant: tenant("acme"), subscription, cursor: Some(Sequence(at)) }
}

fn gone_cursor() -> Row {
    Row::Overflow { tenant: tenant("acme"), subscription: SubscriptionId(Uuid::from_u128(1)), cursor: None }
}

fn failures(failures: u32) -> DestinationRecord {
    DestinationRecord { circuit: CircuitRecord::Closed { failures, since: Time(1) }, ..DestinationRecord::default() }
}

fn destination(count: u32) -> Row {
    let destination = DestinationId(Uuid::from_u128(2));
    Row::Destination { tenant: tenant("acme"), destination, record: Some(failures(count)) }
}
