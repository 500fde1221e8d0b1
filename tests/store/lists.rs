//! What any node lists of a cluster: what every store lists, and what only slots that change hands, chunks and copies
//! written ahead of their jobs' ends can show.

use std::rc::Rc;

use futures_lite::future::block_on;
use streaming_hub::engine::Row;
use streaming_hub::engine::rows::{CircuitRecord, DestinationRecord};
use streaming_hub::store::queries::{DeadLettersQuery, DeliveriesQuery, EventsQuery, ListOrder};
use streaming_hub::store::tests::lists::{
    Listed, collect, deliveries_of, events_of, events_page, flush, list, name_in,
};
use streaming_hub::store::tests::records::{all_dead_letters, dead_letter, letters, minutes_ago};
use streaming_hub::store::tests::{Subject as _, batch_of, event_row, first_job, tenant, whole_log};
use streaming_hub::store::{Cursor, Queries, StoreError};
use streaming_hub::types::{DestinationId, Duration, End, EndReason, Event, Sequence, Time, limits};
use uuid::Uuid;

use super::cassandra::{Node, SLOTS, alone, shared};

impl Listed for Node {
    fn queries(&self) -> Queries {
        self.store.queries()
    }

    fn slots(&self) -> u16 {
        SLOTS
    }
}

#[test]
fn it_lists() {
    let _server = shared();
    let node = Node::with_a_slot("lists");
    list(|| node.with_another_slot());
}

/// Everything that one pull brings from `cursor` on, and the next cursor.
fn pull(node: &Node, name: &str, cursor: Option<Cursor>) -> (Vec<u64>, Option<Cursor>) {
    events_page(node, EventsQuery { cursor, limit: 100, ..events_of(name, ListOrder::OldestFirst) })
}

#[test]
fn a_pull_goes_on_across_owners_and_skips_nothing() {
    let _server = shared();
    let mut former = Node::with_a_slot("former");
    let slot = former.slot();
    let mut owner = Node::connect("owner", slot);
    let reader = Node::connect("reader", slot);
    let own = name_in(&reader, "own");
    let event = |sequence| event_row(&own, sequence, 1);
    former.apply(&batch_of(slot, 1, (1..=4).map(event).collect()));
    assert!(pull(&reader, &own, None).0.is_empty(), "nothing is written behind");
    flush(&mut former, 2, 3);
    let (first, cursor) = pull(&reader, &own, None);
    assert_eq!(first, [1, 2]);
    owner.take();
    assert_eq!(pull(&reader, &own, None).0, [1, 2], "the taker's record begins where the former's ended");
    let (none, cursor) = pull(&reader, &own, cursor);
    assert!(none.is_empty());
    // The former owner does not know yet, and says that it has come further than its successor has looked.
    former.apply(&batch_of(slot, 3, vec![event(5)]));
    flush(&mut former, 4, 100);
    let (none, cursor) = pull(&reader, &own, cursor);
    assert!(none.is_empty(), "a record of a former epoch counts no more");
    assert_eq!(whole_log(&mut owner, 3).len(), 3);
    owner.apply(&batch_of(slot, 1, vec![event(5), event(7)]));
    flush(&mut owner, 2, 6);
    let (found, cursor) = pull(&reader, &own, cursor);
    assert_eq!(found, [3, 4, 5], "what the former left and the owner has written behind, each once");
    flush(&mut owner, 3, 8);
    assert_eq!(pull(&reader, &own, cursor).0, [7]);
    assert_eq!(pull(&reader, &own, None).0, [1, 2, 3, 4, 5, 7]);
}

#[test]
fn a_late_write_of_a_former_owner_is_no_event_of_its_own() {
    let _server = shared();
    let mut former = Node::with_a_slot("former");
    let slot = former.slot();
    let mut owner = Node::connect("owner", slot);
    let own = name_in(&owner, "own");
    let event = |sequence| event_row(&own, sequence, 1);
    former.apply(&batch_of(slot, 1, vec![event(1)]));
    flush(&mut former, 2, 2);
    owner.take();
    owner.apply(&batch_of(slot, 1, vec![event(2), event(3)]));
    flush(&mut owner, 2, 4);
    let (found, cursor) = pull(&owner, &own, None);
    assert_eq!(found, [1, 2, 3]);
    // Rows of events that both took in, of one that only the former has met, and the index behind all of them.
    former.apply(&batch_of(slot, 3, vec![event(2), event(3), event(4)]));
    flush(&mut former, 4, 5);
    assert!(pull(&owner, &own, cursor.clone()).0.is_empty());
    assert_eq!(pull(&owner, &own, None).0, [1, 2, 3]);
    let newest = |cursor| {
        let query = DeliveriesQuery { cursor, limit: 100, ..deliveries_of(&own) };
        block_on(owner.queries().deliveries(query)).expect("a page")
    };
    assert_eq!(collect(newest).len(), 3);
    owner.apply(&batch_of(slot, 3, vec![event(4)]));
    flush(&mut owner, 4, 5);
    assert_eq!(pull(&owner, &own, cursor).0, [4]);
}

/// An event received so many hours after a day long ago, with a payload too large for its row.
fn received(name: &str, sequence: u64, hours: u64) -> Row {
    let Row::Event { event, jobs } = event_row(name, sequence, 1) else { unreachable!("an event's row") };
    let received_at = Time::from_millis(1_700_000_000_000) + Duration::from_hours(hours);
    let payload = vec![7; limits::CQL_INLINE_PAYLOAD_BYTES + 1].into();
    Row::Event { event: Rc::new(Event { received_at, payload, ..(*event).clone() }), jobs }
}

#[test]
fn lists_go_on_over_chunks_in_both_directions() {
    let _server = shared();
    let mut node = Node::with_a_slot("chunks");
    let slot = node.slot();
    let own = name_in(&node, "own");
    let chunk = limits::CQL_INDEX_CHUNK_EVENTS;
    let far = chunk * (limits::CQL_PARTITIONS_PER_PAGE as u64 + 6) + 5;
    let sequences = [chunk * 2 - 1, chunk * 2, chunk * 4 + 1, far];
    node.apply(&batch_of(slot, 1, sequences.iter().map(|sequence| received(&own, *sequence, 0)).collect()));
    flush(&mut node, 2, far + 1);
    let oldest = EventsQuery { limit: 2, ..events_of(&own, ListOrder::OldestFirst) };
    let (first, cursor) = events_page(&node, oldest.clone());
    assert_eq!(first, sequences[..2]);
    let (second, cursor) = events_page(&node, EventsQuery { cursor, ..oldest.clone() });
    assert_eq!(second, sequences[2..3], "a page looks into so many chunks only");
    let (third, cursor) = events_page(&node, EventsQuery { cursor, ..oldest.clone() });
    assert_eq!(third, sequences[3..]);
    assert!(events_page(&node, EventsQuery { cursor, ..oldest }).0.is_empty());
    let newest = |cursor| {
        let query = EventsQuery { cursor, ..events_of(&own, ListOrder::NewestFirst) };
        block_on(node.queries().events(query)).expect("a page")
    };
    let found = collect(newest);
    let numbers: Vec<u64> = found.iter().rev().map(|event| event.logged.event.sequence.0).collect();
    assert_eq!(numbers, sequences);
    assert!(found.iter().all(|event| event.logged.event.payload.len() == limits::CQL_INLINE_PAYLOAD_BYTES + 1));
    let jobs = |cursor| {
        let query = DeliveriesQuery { cursor, ..deliveries_of(&own) };
        block_on(node.queries().deliveries(query)).expect("a page")
    };
    assert_eq!(collect(jobs).len(), 4);
}

#[test]
fn a_time_is_found_without_looking_through_all_before_it() {
    let _server = shared();
    let mut node = Node::with_a_slot("times");
    let slot = node.slot();
    let own = name_in(&node, "own");
    let chunk = limits::CQL_LOG_CHUNK_EVENTS;
    // Each hour has a chunk of the log, the last ones in chunks of the index far beyond what one page looks into.
    let sequence = |hour: u64| hour * chunk * 100 + 3;
    let rows = (0..40).map(|hour| received(&own, sequence(hour), hour)).collect();
    node.apply(&batch_of(slot, 1, rows));
    flush(&mut node, 2, sequence(39) + 1);
    let at = |hour: u64| Some(Time::from_millis(1_700_000_000_000) + Duration::from_hours(hour));
    let query = EventsQuery { from: at(20), to: at(24), limit: 100, ..events_of(&own, ListOrder::OldestFirst) };
    let hours: Vec<u64> = (20..24).map(sequence).collect();
    let before = node.store.requests().reads;
    let (found, cursor) = events_page(&node, query.clone());
    assert_eq!(found, hours);
    assert!(node.store.requests().reads - before < 100, "{} reads", node.store.requests().reads - before);
    assert!(events_page(&node, EventsQuery { cursor, ..query.clone() }).0.is_empty());
    let (found, _) = events_page(&node, EventsQuery { order: ListOrder::NewestFirst, ..query });
    assert_eq!(found, hours.iter().rev().copied().collect::<Vec<_>>());
    let query = EventsQuery { to: at(2), limit: 100, ..events_of(&own, ListOrder::NewestFirst) };
    assert_eq!(events_page(&node, query).0, [sequence(1), sequence(0)]);
}

#[test]
fn a_copy_whose_job_went_on_is_no_dead_letter() {
    let _server = shared();
    let mut node = Node::with_a_slot("copies");
    let slot = node.slot();
    let own = name_in(&node, "own");
    let at = minutes_ago(3);
    let end = |sequence, end| Row::End { tenant: tenant(&own), key: first_job(slot, sequence), end, at };
    let mut rows: Vec<Row> = (1..=3).map(|sequence| event_row(&own, sequence, 1)).collect();
    rows.extend((1..=3).map(|sequence| dead_letter(slot, &own, sequence, (EndReason::Exhausted, at))));
    rows.extend([end(1, End::Delivered), end(2, End::DeadLettered(EndReason::Exhausted))]);
    node.apply(&batch_of(slot, 1, rows));
    let mine = DeadLettersQuery { tenant: Some(tenant(&own)), ..all_dead_letters() };
    assert_eq!(letters(&node, &mine), [(own.clone(), 2)]);
    let one =
        |sequence| block_on(node.queries().dead_letter(tenant(&own), (Sequence(sequence), 0))).expect("an answer");
    assert!(one(1).is_none() && one(3).is_none());
    let kept = one(2).expect("it ended so");
    assert!(!kept.event.payload.is_empty());
}

#[test]
fn any_node_knows_what_an_owner_remembers_of_a_destination() {
    let _server = shared();
    let mut owner = Node::with_a_slot("owner");
    let slot = owner.slot();
    let [own, other] = [name_in(&owner, "own"), name_in(&owner, "other")];
    let destination = DestinationId(Uuid::from_u128(2));
    let circuit = CircuitRecord::Open { failures: 5, since: Time(1), probe_at: Time(9), cooldown: Duration(8) };
    let record = DestinationRecord { circuit, ..DestinationRecord::default() };
    owner.apply(&batch_of(slot, 1, vec![Row::Destination { tenant: tenant(&own), destination, record: Some(record) }]));
    let reader = Node::connect("reader", slot);
    let queries = reader.queries();
    let queries = queries.cluster().expect("a cluster's");
    let circuit = |name: &str| block_on(queries.circuit(tenant(name), destination)).expect("an answer");
    assert_eq!(circuit(&own), Some(record));
    assert_eq!(circuit(&other), None);
}

#[test]
fn a_silent_server_is_told_to_whoever_asks() {
    let server = alone();
    let node = Node::with_a_slot("patient");
    let own = name_in(&node, "own");
    let frozen = server.freeze();
    let refused = block_on(node.queries().events(events_of(&own, ListOrder::OldestFirst))).expect_err("no answer");
    assert!(matches!(refused, StoreError::Cluster(_)), "{refused}");
    drop(frozen);
    let report = block_on(node.queries().report()).expect("nobody is asked");
    assert!(report.intake_allowed);
    let mut tries = 0;
    while block_on(node.queries().events(events_of(&own, ListOrder::OldestFirst))).is_err() {
        tries += 1;
        assert!(tries < 10, "it comes back");
    }
}
