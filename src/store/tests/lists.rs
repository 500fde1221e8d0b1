//! What every store that the API asks must list: order, filters, cursors, and the wall between tenants.
//!
//! A case has a slot of its own with tenants of its own; what operators list over all tenants it tells from others' by
//! topics and subscriptions of its own.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_lite::future::block_on;
use uuid::Uuid;

use super::{Subject, batch_of, first_job, records, tenant};
use crate::engine::Row;
use crate::engine::rows::{NewJob, SlotRecord};
use crate::store::codec::plain as samples;
use crate::store::queries::{DeliveriesQuery, EventsQuery, IdPlace, JobStatus, ListOrder, QuarantineQuery};
use crate::store::{Cursor, Page, Queries, StoreError};
use crate::types::{End, ErrorKind, JobKey, Sequence, Slot, SubscriptionId};

/// A store whose lists are under test.
pub trait Listed: Subject {
    /// What the API asks.
    fn queries(&self) -> Queries;
    /// Among how many slots tenants are dealt.
    fn slots(&self) -> u16;
}

/// Runs every case, each on a slot of its own.
pub fn list<S: Listed>(mut make: impl FnMut() -> S) {
    let cases: [fn(&mut S); 9] = [
        events_are_listed_in_both_directions_without_gap_or_repeat,
        events_are_filtered_by_time_and_key,
        a_cursor_of_another_list_is_refused,
        an_event_is_found_by_id_before_and_after_its_id_is_written,
        deliveries_are_listed_newest_first_and_filtered,
        a_delivery_comes_with_its_attempts_in_order,
        records::dead_letters_are_listed_by_tenant_and_over_all,
        records::quarantine_and_lanes_come_back,
        records::producers_dead_letters_are_stored_once_and_filtered,
    ];
    for case in cases {
        case(&mut make());
    }
}

/// The events of the tenant under test; its neighbour in the slot has those between.
pub const OWN: [u64; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

/// A tenant of the subject's slot.
pub fn name_in<S: Listed>(store: &S, stem: &str) -> String {
    let names = (0..).map(|number| format!("{stem}-{number}"));
    let is_dealt = |name: &String| Slot::of(&tenant(name), store.slots()) == store.slot();
    names.into_iter().find(is_dealt).expect("names have no end")
}

/// All of a tenant's events in this order.
pub fn events_of(name: &str, order: ListOrder) -> EventsQuery {
    EventsQuery {
        tenant: tenant(name),
        order,
        cursor: None,
        limit: 3,
        from: None,
        to: None,
        event_type: None,
        origin: None,
        source_id: None,
    }
}

/// All of a tenant's deliveries.
pub fn deliveries_of(name: &str) -> DeliveriesQuery {
    DeliveriesQuery {
        tenant: tenant(name),
        cursor: None,
        limit: 3,
        from: None,
        to: None,
        status: None,
        subscription: None,
        destination: None,
        event: None,
        event_type: None,
        deleted: BTreeSet::new(),
    }
}

/// What all pages of a list hold, read one after the other.
pub fn collect<T>(mut ask: impl FnMut(Option<Cursor>) -> Page<T>) -> Vec<T> {
    let (mut items, mut cursor) = (Vec::new(), None);
    loop {
        let page = ask(cursor);
        items.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return items;
        }
    }
}

/// The numbers of a page's events, and where the next page begins.
pub fn events_page<S: Listed>(store: &S, query: EventsQuery) -> (Vec<u64>, Option<Cursor>) {
    let page = block_on(store.queries().events(query)).expect("a page");
    (page.items.iter().map(|event| event.logged.event.sequence.0).collect(), page.next)
}

/// Says that all events below `flushed` are written behind.
pub fn flush<S: Listed>(store: &mut S, number: u64, flushed: u64) {
    let record = SlotRecord { flushed: Sequence(flushed), low_water: Sequence(1), ..SlotRecord::default() };
    store.apply(&batch_of(store.slot(), number, vec![Row::Slot(record)]));
}

/// Eight events of the tenant under test and eight of its neighbour, each with two jobs, one claimed, one waiting.
fn fill<S: Listed>(store: &mut S) -> [String; 2] {
    let names = [name_in(store, "own"), name_in(store, "other")];
    let row = |sequence: u64| {
        let name = if OWN.contains(&sequence) { &names[0] } else { &names[1] };
        let waiting = NewJob { claim: None, ..samples::claimed_job(2) };
        let jobs = vec![samples::claimed_job(1), waiting];
        Row::Event { event: Rc::new(samples::plain_event(name, sequence)), jobs }
    };
    store.apply(&batch_of(store.slot(), 1, (1..=16).map(row).collect()));
    names
}

/// The same, written behind.
fn filled<S: Listed>(store: &mut S) -> [String; 2] {
    let names = fill(store);
    flush(store, 2, 17);
    names
}

fn pages<S: Listed>(store: &S, mut query: EventsQuery, count: usize) -> Vec<Vec<u64>> {
    let mut found = Vec::new();
    for _ in 0..count {
        let (page, next) = events_page(store, query.clone());
        found.push(page);
        if next.is_none() {
            break;
        }
        query.cursor = next;
    }
    found
}

fn events_are_listed_in_both_directions_without_gap_or_repeat<S: Listed>(store: &mut S) {
    let [own, _] = filled(store);
    let oldest = pages(store, events_of(&own, ListOrder::OldestFirst), 4);
    assert_eq!(oldest, [vec![1, 3, 5], vec![7, 9, 11], vec![13, 15], vec![]]);
    let newest = pages(store, events_of(&own, ListOrder::NewestFirst), 4);
    assert_eq!(newest, [vec![15, 13, 11], vec![9, 7, 5], vec![3, 1]]);
    // The pull cursor of the end goes on with what comes later.
    let mut query = EventsQuery { limit: 100, ..events_of(&own, ListOrder::OldestFirst) };
    let (all, end) = events_page(store, query.clone());
    assert_eq!(all, OWN);
    query.cursor = end;
    let later = Row::Event { event: Rc::new(samples::plain_event(&own, 17)), jobs: Vec::new() };
    store.apply(&batch_of(store.slot(), 3, vec![later]));
    flush(store, 4, 18);
    assert_eq!(pages(store, query, 1), [vec![17]]);
}

fn events_are_filtered_by_time_and_key<S: Listed>(store: &mut S) {
    let [own, _] = filled(store);
    let at = |sequence: u64| Some(samples::plain_event("acme", sequence).received_at);
    for (order, expected) in [(ListOrder::NewestFirst, [9, 7, 5]), (ListOrder::OldestFirst, [5, 7, 9])] {
        let query = EventsQuery { from: at(5), to: at(11), limit: 100, ..events_of(&own, order) };
        assert_eq!(pages(store, query.clone(), 1), [expected]);
        let none = EventsQuery { event_type: Some("loan.rejected".to_owned()), ..query.clone() };
        assert_eq!(pages(store, none, 1), [Vec::<u64>::new()]);
        let own = EventsQuery { origin: Some("loans".to_owned()), ..query };
        assert_eq!(pages(store, own, 1), [expected]);
    }
}

fn a_cursor_of_another_list_is_refused<S: Listed>(store: &mut S) {
    let [own, _] = filled(store);
    let (queries, cursor) = (store.queries(), Some(Cursor::new(vec![1])));
    let query = EventsQuery { cursor: cursor.clone(), ..events_of(&own, ListOrder::NewestFirst) };
    assert!(matches!(block_on(queries.events(query)), Err(StoreError::Cursor(_))));
    let query = DeliveriesQuery { cursor: cursor.clone(), ..deliveries_of(&own) };
    assert!(matches!(block_on(queries.deliveries(query)), Err(StoreError::Cursor(_))));
    let query = super::records::DeadLettersQuery { cursor: cursor.clone(), ..records::all_dead_letters() };
    assert!(matches!(block_on(queries.dead_letters(query)), Err(StoreError::Cursor(_))));
    let query = QuarantineQuery { cursor, limit: 1, ..QuarantineQuery::default() };
    assert!(matches!(block_on(queries.quarantine(query)), Err(StoreError::Cursor(_))));
}

fn an_event_is_found_by_id_before_and_after_its_id_is_written<S: Listed>(store: &mut S) {
    let [own, _] = fill(store);
    let (queries, nobody) = (store.queries(), name_in(store, "nobody"));
    let event = samples::plain_event(&own, 5);
    let place = IdPlace { minute: event.received_at.as_minutes(), key: 77 };
    let find = |name: &str, id: Uuid| {
        let found = block_on(queries.event_by_id(tenant(name), id, place)).expect("an answer");
        found.map(|event| (event.logged.event.sequence.0, event.logged.jobs.len()))
    };
    assert_eq!(find(&own, event.id), Some((5, 2)), "from the tail");
    let flushed = SlotRecord { flushed: Sequence(17), low_water: Sequence(17), ..SlotRecord::default() };
    let ids = Row::Ids { minute: place.minute, entries: vec![(77, Sequence(5))] };
    store.apply(&batch_of(store.slot(), 2, vec![ids, Row::Slot(flushed)]));
    assert_eq!(find(&own, event.id), Some((5, 2)), "from the ids");
    assert_eq!(find(&own, Uuid::from_u128(1)), None);
    assert_eq!(find(&nobody, event.id), None, "another tenant's event");
    let found = block_on(queries.event(tenant(&own), Sequence(5))).expect("an answer").expect("it is there");
    assert_eq!((found.logged.event, found.payload_size), (event, 7));
    assert!(!found.logged.payload_expired);
    assert!(block_on(queries.event(tenant(&nobody), Sequence(5))).expect("an answer").is_none());
}

fn deliveries_are_listed_newest_first_and_filtered<S: Listed>(store: &mut S) {
    let [own, _] = filled(store);
    let slot = store.slot();
    let key = JobKey { ordinal: 1, ..first_job(slot, 15) };
    store.apply(&batch_of(
        slot,
        3,
        vec![Row::End { tenant: tenant(&own), key, end: End::Cancelled, at: crate::types::Time(9) }],
    ));
    let queries = store.queries();
    let all = |query: DeliveriesQuery| -> Vec<(u64, u16)> {
        let ask = |cursor| {
            let page = block_on(queries.deliveries(DeliveriesQuery { cursor, ..query.clone() })).expect("a page");
            assert!(page.items.len() <= query.limit);
            page
        };
        collect(ask).iter().map(|item| (item.job.key.sequence.0, item.job.key.ordinal)).collect()
    };
    let everything: Vec<(u64, u16)> = OWN.iter().rev().flat_map(|sequence| [(*sequence, 1), (*sequence, 0)]).collect();
    assert_eq!(all(deliveries_of(&own)), everything);
    let status = |status| DeliveriesQuery { status: Some(status), ..deliveries_of(&own) };
    assert_eq!(all(status(JobStatus::Cancelled)), [(15, 1)]);
    assert_eq!(all(status(JobStatus::Delivering)).len(), 8);
    assert_eq!(all(status(JobStatus::Pending)).len(), 7);
    let one = DeliveriesQuery { event: Some(Sequence(7)), ..deliveries_of(&own) };
    assert_eq!(all(DeliveriesQuery { limit: 1, ..one.clone() }), [(7, 1), (7, 0)]);
    assert!(all(DeliveriesQuery { event: Some(Sequence(8)), ..one }).is_empty(), "another tenant's");
    let at = |sequence: u64| Some(samples::plain_event("acme", sequence).received_at);
    let between = DeliveriesQuery { from: at(5), to: at(9), ..deliveries_of(&own) };
    assert_eq!(all(between), [(7, 1), (7, 0), (5, 1), (5, 0)]);
    let subscription = Some(SubscriptionId(Uuid::from_u128(2)));
    assert_eq!(all(DeliveriesQuery { subscription, ..deliveries_of(&own) }).len(), 8);
    let deleted = |wanted| DeliveriesQuery { deleted: subscription.into_iter().collect(), ..status(wanted) };
    let (waiting, ended) = (all(deleted(JobStatus::Pending)), all(deleted(JobStatus::Cancelled)));
    assert_eq!(waiting.len() + ended.len(), 8, "a waiting job of a deleted subscription counts as cancelled");
    assert!(ended.len() > 1, "{ended:?}");
}

fn a_delivery_comes_with_its_attempts_in_order<S: Listed>(store: &mut S) {
    let [own, other] = filled(store);
    let key = first_job(store.slot(), 3);
    let attempt = |number| Row::Attempt {
        tenant: tenant(&own),
        key,
        record: Box::new(samples::failed_attempt(number, ErrorKind::Timeout)),
        end: None,
    };
    store.apply(&batch_of(store.slot(), 3, vec![attempt(2), attempt(1)]));
    let queries = store.queries();
    let place = (key.sequence, key.ordinal);
    let attempts = block_on(queries.attempts(tenant(&own), place)).expect("an answer");
    assert_eq!(attempts, [1, 2].map(|number| samples::failed_attempt(number, ErrorKind::Timeout)));
    let delivery = block_on(queries.delivery(tenant(&own), place)).expect("an answer").expect("it is there");
    assert_eq!((delivery.job.attempts, JobStatus::of(&delivery.job)), (2, JobStatus::Pending));
    assert!(block_on(queries.delivery(tenant(&other), place)).expect("an answer").is_none());
    assert!(block_on(queries.attempts(tenant(&other), place)).expect("an answer").is_empty());
}
