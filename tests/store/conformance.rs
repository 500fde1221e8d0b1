//! The store on a CQL server does what every store must.

use std::rc::Rc;

use streaming_hub::engine::rows::SlotRecord;
use streaming_hub::engine::{Read, ReadAnswer, Row};
use streaming_hub::store::tests::{Subject as _, batch_of, conforms, event_row, first_job, tenant};
use streaming_hub::types::{End, Event, Sequence, Time};

use super::cassandra::{Node, shared};

#[test]
fn it_conforms() {
    let _server = shared();
    let node = Node::with_a_slot("conformance");
    conforms(|| node.with_another_slot());
    let sent = node.store.requests();
    assert!(sent.rows > sent.writes && sent.reads > 0 && sent.conditional > 0, "{sent:?}");
}

/// What was written is found by a node that knows nothing of it but the table.
#[test]
fn a_successor_finds_what_is_written_and_goes_on_with_the_index() {
    let _server = shared();
    let mut former = Node::with_a_slot("former");
    let slot = former.slot();
    let record = SlotRecord { low_water: Sequence(2), flushed: Sequence(3), due_bound: Time(7) };
    let mut rows: Vec<Row> = (1..=4).map(|sequence| event_row("acme", sequence, 1)).collect();
    rows.push(large_event(5));
    rows.push(Row::End { tenant: tenant("acme"), key: first_job(slot, 5), end: End::Delivered, at: Time(9) });
    former.apply(&batch_of(slot, 1, rows.split_off(2)));
    former.apply(&batch_of(slot, 2, rows));
    former.apply(&batch_of(slot, 3, vec![Row::Slot(record)]));
    let mut successor = Node::connect("successor", slot);
    assert_eq!(successor.take().record, Some(record));
    let log = streaming_hub::store::tests::whole_log(&mut successor, 2);
    assert_eq!(log.len(), 4);
    assert!(log.iter().all(|logged| !logged.event.payload.is_empty()), "the index tells sizes");
    let flushed = SlotRecord { flushed: Sequence(6), ..record };
    successor.apply(&batch_of(slot, 4, vec![Row::Slot(flushed)]));
    let mut third = Node::connect("third", slot);
    assert_eq!(third.take().record, Some(flushed));
    let ReadAnswer::Queue { events, .. } = third.answer(queue(slot, 1, 5)) else { panic!("a queue page") };
    let found: Vec<u64> = events.iter().map(|logged| logged.event.sequence.0).collect();
    assert_eq!(found, [1, 2, 3, 4, 5], "from the index alone");
}

fn large_event(sequence: u64) -> Row {
    let Row::Event { event, jobs } = event_row("acme", sequence, 1) else { unreachable!("an event's row") };
    let event = Event { payload: vec![7; 20_000].into(), ..(*event).clone() };
    Row::Event { event: Rc::new(event), jobs }
}

fn queue(slot: streaming_hub::types::Slot, from: u64, to: u64) -> Read {
    let subscription = streaming_hub::types::SubscriptionId(uuid::Uuid::from_u128(1));
    Read::Queue {
        slot,
        tenant: tenant("acme"),
        from: Sequence(from),
        to: Sequence(to),
        wanted: streaming_hub::engine::rows::Wanted::from([(subscription, Sequence(from))]),
        bytes_max: usize::MAX,
    }
}
