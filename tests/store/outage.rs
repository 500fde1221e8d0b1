//! A server that does not answer refuses nothing for good; one that finds a row too large does.

use std::rc::Rc;

use streaming_hub::engine::rows::LoggedEvent;
use streaming_hub::engine::{Read, ReadAnswer, ReadId, Refusal, Row};
use streaming_hub::store::StoreEvent;
use streaming_hub::store::tests::{Subject as _, batch_of, event_row, whole_log};

use super::cassandra::{Node, alone, shared};

#[test]
fn a_silent_server_is_unavailable_and_the_same_batch_is_durable_later() {
    let server = alone();
    let mut node = Node::with_a_slot("patient");
    let batch = batch_of(node.slot(), 1, vec![event_row("acme", 1, 1)]);
    let frozen = server.freeze();
    node.port.submit(std::slice::from_ref(&batch));
    node.port.read(ReadId(7), Read::Slot(node.slot()));
    let mut told = [node.next(), node.next()];
    told.sort_by_key(|event| matches!(event, StoreEvent::Loaded(..)));
    let [refused, failed] = told;
    assert!(matches!(refused, StoreEvent::Refused(_, Refusal::Unavailable)), "{refused:?}");
    let StoreEvent::Loaded(ReadId(7), answer) = failed else { panic!("{failed:?}") };
    assert!(matches!(*answer, ReadAnswer::Failed));
    drop(frozen);
    let mut tries = 0;
    node.port.submit(std::slice::from_ref(&batch));
    while let StoreEvent::Refused(_, refusal) = node.next() {
        tries += 1;
        assert!(refusal == Refusal::Unavailable && tries < 10, "{refusal:?} after {tries} tries");
        node.port.submit(std::slice::from_ref(&batch));
    }
    assert_eq!(whole_log(&mut node, 1).len(), 1);
}

/// The server of the tests takes 4 MiB at once. Payloads are cut to pieces; a dead letter is one row.
#[test]
fn what_the_server_finds_too_large_is_rejected_and_the_rest_goes_on() {
    let _server = shared();
    let mut node = Node::with_a_slot("large");
    let slot = node.slot();
    node.apply(&batch_of(slot, 1, vec![event_row("acme", 1, 1)]));
    let LoggedEvent { mut event, mut jobs, .. } = whole_log(&mut node, 1).remove(0);
    event.payload = vec![7; 5 << 20].into();
    let large = Row::DeadLetter { event: Rc::new(event.clone()), job: Box::new(jobs.remove(0)) };
    node.port.submit(&[batch_of(slot, 2, vec![large])]);
    let told = node.next();
    assert!(matches!(told, StoreEvent::Refused(_, Refusal::Rejected)), "{told:?}");
    event.sequence = streaming_hub::types::Sequence(2);
    node.apply(&batch_of(slot, 3, vec![Row::Event { event: Rc::new(event), jobs: Vec::new() }]));
    assert_eq!(whole_log(&mut node, 1).len(), 2);
}
