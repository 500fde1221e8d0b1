//! Lists: order, filters, cursors, and the wall between tenants.

use std::collections::BTreeSet;
use std::rc::Rc;

use uuid::Uuid;

use super::Opened;
use crate::engine::rows::{NewJob, SlotRecord};
use crate::engine::{Batch, BatchNumber, QuarantineRecord, Row, Unit};
use crate::store::codec::fold::FoldedEvent;
use crate::store::codec::samples;
use crate::store::embedded::{
    DeadLettersQuery, DeliveriesQuery, EventsQuery, IdPlace, JobStatus, ListOrder, ProducerDlqQuery, QuarantineQuery,
};
use crate::store::tests::{Subject as _, tenant};
use crate::store::{ConfigRecord, ConfigWrite, Cursor, StoreError};
use crate::types::{
    End, EndReason, ErrorKind, JobKey, JobRecord, LaneName, Sequence, Slot, SubscriptionId, TenantId, Time,
};

pub fn all_dead_letters() -> DeadLettersQuery {
    DeadLettersQuery {
        tenant: None,
        cursor: None,
        limit: 100,
        from: None,
        to: None,
        reason: None,
        subscription: None,
        destination: None,
    }
}

fn events_of(name: &str, order: ListOrder) -> EventsQuery {
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

fn deliveries_of(name: &str) -> DeliveriesQuery {
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

fn slot_of(name: &str) -> Slot {
    Slot::of(&tenant(name), 64)
}

fn apply(opened: &mut Opened, name: &str, number: u64, rows: Vec<Row>) {
    opened.apply(&Batch { unit: Unit::Slot(slot_of(name)), number: BatchNumber(number), rows: Rc::new(rows) });
}

/// Eight events of `acme`, with two jobs each: one claimed, one waiting.
fn filled() -> Opened {
    let mut opened = Opened::new();
    for name in ["acme", "other"] {
        let rows = (1..=8).map(|sequence| {
            let waiting = NewJob { claim: None, ..samples::claimed_job(2) };
            let jobs = vec![samples::claimed_job(1), waiting];
            Row::Event { event: Rc::new(samples::plain_event(name, sequence)), jobs }
        });
        apply(&mut opened, name, 1, rows.collect());
    }
    opened
}

fn job_of(name: &str, sequence: u64, ordinal: u16) -> JobKey {
    JobKey { slot: slot_of(name), sequence: Sequence(sequence), ordinal }
}

fn all_pages(opened: &Opened, mut query: EventsQuery, pages: usize) -> Vec<Vec<u64>> {
    let mut found = Vec::new();
    for _ in 0..pages {
        let page = opened.wait(opened.store.queries().events(query.clone())).expect("a page");
        found.push(page.items.iter().map(|event: &FoldedEvent| event.logged.event.sequence.0).collect());
        match page.next {
            None => break,
            next @ Some(_) => query.cursor = next,
        }
    }
    found
}

#[test]
fn events_are_listed_in_both_directions_without_gap_or_repeat() {
    let mut opened = filled();
    let oldest = all_pages(&opened, events_of("acme", ListOrder::OldestFirst), 4);
    assert_eq!(oldest, [vec![1, 2, 3], vec![4, 5, 6], vec![7, 8], vec![]]);
    let newest = all_pages(&opened, events_of("acme", ListOrder::NewestFirst), 4);
    assert_eq!(newest, [vec![8, 7, 6], vec![5, 4, 3], vec![2, 1]]);
    // The pull cursor of the end goes on with what comes later.
    let mut query = EventsQuery { limit: 100, ..events_of("acme", ListOrder::OldestFirst) };
    query.cursor = opened.wait(opened.store.queries().events(query.clone())).expect("a page").next;
    let later = Row::Event { event: Rc::new(samples::plain_event("acme", 9)), jobs: Vec::new() };
    apply(&mut opened, "acme", 2, vec![later]);
    assert_eq!(all_pages(&opened, query, 1), [vec![9]]);
}

#[test]
fn events_are_filtered_by_time_and_key() {
    let opened = filled();
    let at = |sequence: u64| Some(samples::plain_event("acme", sequence).received_at);
    let query = EventsQuery { from: at(3), to: at(6), limit: 100, ..events_of("acme", ListOrder::NewestFirst) };
    assert_eq!(all_pages(&opened, query.clone(), 1), [vec![5, 4, 3]]);
    let none = EventsQuery { event_type: Some("loan.rejected".to_owned()), ..query.clone() };
    assert_eq!(all_pages(&opened, none, 1), [Vec::<u64>::new()]);
    let own = EventsQuery { origin: Some("loans".to_owned()), ..query };
    assert_eq!(all_pages(&opened, own, 1), [vec![5, 4, 3]]);
}

#[test]
fn a_cursor_of_another_list_is_refused() {
    let opened = filled();
    let query = EventsQuery { cursor: Some(Cursor::new(vec![1])), ..events_of("acme", ListOrder::NewestFirst) };
    let error = opened.wait(opened.store.queries().events(query)).expect_err("not a cursor of this list");
    assert!(matches!(error, StoreError::Cursor(_)), "{error}");
}

#[test]
fn an_event_is_found_by_id_before_and_after_its_id_is_written() {
    let mut opened = filled();
    let queries = opened.store.queries();
    let event = samples::plain_event("acme", 5);
    let place = IdPlace { minute: event.received_at.as_minutes(), key: 77 };
    let find = |name: &str, id: Uuid| {
        let found = futures_lite::future::block_on(queries.event_by_id(tenant(name), id, place)).expect("an answer");
        found.map(|event| event.logged.event.sequence.0)
    };
    assert_eq!(find("acme", event.id), Some(5), "from the tail");
    let flushed = SlotRecord { flushed: Sequence(9), low_water: Sequence(9), due_bound: Time(0) };
    let ids = Row::Ids { minute: place.minute, entries: vec![(77, Sequence(5))] };
    apply(&mut opened, "acme", 2, vec![ids, Row::Slot(flushed)]);
    assert_eq!(find("acme", event.id), Some(5), "from the ids");
    assert_eq!(find("acme", Uuid::from_u128(1)), None);
    assert_eq!(find("nobody", event.id), None, "another tenant's event");
}

#[test]
fn deliveries_are_listed_newest_first_and_filtered_by_status() {
    let mut opened = filled();
    let ended = Row::End { tenant: tenant("acme"), key: job_of("acme", 8, 1), end: End::Cancelled, at: Time(9) };
    apply(&mut opened, "acme", 2, vec![ended]);
    let queries = opened.store.queries();
    let pages = |mut query: DeliveriesQuery| {
        let mut found = Vec::new();
        loop {
            let page = opened.wait(queries.deliveries(query.clone())).expect("a page");
            found.extend(page.items.iter().map(|item| (item.job.key.sequence.0, item.job.key.ordinal)));
            match page.next {
                None => return found,
                next @ Some(_) => query.cursor = next,
            }
        }
    };
    let everything: Vec<(u64, u16)> = (1..=8).rev().flat_map(|sequence| [(sequence, 1), (sequence, 0)]).collect();
    assert_eq!(pages(deliveries_of("acme")), everything);
    let status = |status| DeliveriesQuery { status: Some(status), ..deliveries_of("acme") };
    assert_eq!(pages(status(JobStatus::Cancelled)), [(8, 1)]);
    assert_eq!(pages(status(JobStatus::Delivering)).len(), 8);
    assert_eq!(pages(status(JobStatus::Pending)).len(), 7);
    let one = DeliveriesQuery { event: Some(Sequence(4)), ..deliveries_of("acme") };
    assert_eq!(pages(one), [(4, 1), (4, 0)]);
    let subscription = Some(SubscriptionId(Uuid::from_u128(2)));
    assert_eq!(pages(DeliveriesQuery { subscription, ..deliveries_of("acme") }).len(), 8);
    let deleted = |wanted| DeliveriesQuery { deleted: subscription.into_iter().collect(), ..status(wanted) };
    let (waiting, ended) = (pages(deleted(JobStatus::Pending)), pages(deleted(JobStatus::Cancelled)));
    assert_eq!(waiting.len() + ended.len(), 8, "a waiting job of a deleted subscription counts as cancelled");
    assert!(ended.len() > 1, "{ended:?}");
}

#[test]
fn a_delivery_comes_with_its_attempts_in_order() {
    let mut opened = filled();
    let key = job_of("acme", 2, 0);
    let attempt = |number| Row::Attempt {
        tenant: tenant("acme"),
        key,
        record: Box::new(samples::failed_attempt(number, ErrorKind::Timeout)),
        end: None,
    };
    apply(&mut opened, "acme", 2, vec![attempt(2), attempt(1)]);
    let queries = opened.store.queries();
    let place = (key.sequence, key.ordinal);
    let attempts = opened.wait(queries.attempts(tenant("acme"), place)).expect("an answer");
    assert_eq!(attempts, [1, 2].map(|number| samples::failed_attempt(number, ErrorKind::Timeout)));
    let delivery = opened.wait(queries.delivery(tenant("acme"), place)).expect("an answer").expect("it is there");
    assert_eq!((delivery.job.attempts, JobStatus::of(&delivery.job)), (2, JobStatus::Pending));
    assert!(opened.wait(queries.delivery(tenant("nobody"), place)).expect("an answer").is_none());
}

#[test]
fn dead_letters_are_listed_by_tenant_and_over_all() {
    let mut opened = Opened::new();
    for (name, sequence, at) in [("acme", 1, 10), ("other", 1, 20), ("acme", 2, 30)] {
        let reason = if at == 10 { EndReason::Gone } else { EndReason::Exhausted };
        let end = Some((End::DeadLettered(reason), Time(at)));
        let job = Box::new(JobRecord { end, ..samples::plain_job(job_of(name, sequence, 0)) });
        apply(
            &mut opened,
            name,
            sequence,
            vec![Row::DeadLetter { event: Rc::new(samples::plain_event(name, sequence)), job }],
        );
    }
    let queries = opened.store.queries();
    let list = |query: DeadLettersQuery| {
        let page = opened.wait(queries.dead_letters(query)).expect("a page");
        let found: Vec<(TenantId, u64)> =
            page.items.iter().map(|letter| (letter.event.tenant.clone(), letter.event.sequence.0)).collect();
        (found, page.next)
    };
    let (all, next) = list(all_dead_letters());
    assert_eq!(all, [(tenant("acme"), 2), (tenant("other"), 1), (tenant("acme"), 1)]);
    assert_eq!(next, None);
    let own = DeadLettersQuery { tenant: Some(tenant("acme")), limit: 1, ..all_dead_letters() };
    let (first, cursor) = list(own.clone());
    assert_eq!(first, [(tenant("acme"), 2)]);
    assert_eq!(list(DeadLettersQuery { cursor, ..own.clone() }).0, [(tenant("acme"), 1)]);
    let gone = DeadLettersQuery { reason: Some(EndReason::Gone), ..all_dead_letters() };
    assert_eq!(list(gone).0, [(tenant("acme"), 1)]);
    let between = DeadLettersQuery { from: Some(Time(10)), to: Some(Time(30)), ..all_dead_letters() };
    assert_eq!(list(between).0, [(tenant("other"), 1), (tenant("acme"), 1)]);
    let place = (Sequence(2), 0);
    let letter = opened.wait(queries.dead_letter(tenant("acme"), place)).expect("an answer").expect("it is there");
    assert!(!letter.event.payload.is_empty(), "one alone comes with its payload");
    assert!(opened.wait(queries.dead_letter(tenant("other"), place)).expect("an answer").is_none());
}

#[test]
fn quarantine_and_lanes_come_back() {
    let mut opened = Opened::new();
    let record = |offset: u64, reason| QuarantineRecord {
        topic: "lerian.streaming.loans".into(),
        partition: 1,
        offset,
        received_at: Time::from_millis(1_700_000_000_000 + offset),
        reason,
        header: Some("ce-id".into()),
        headers: vec![("ce-id".into(), None)],
        body: bytes::Bytes::from_static(b"x"),
        size: 1,
        sha256: [1; 32],
    };
    let name = LaneName::kafka("lerian.streaming.loans", 1);
    let rows = vec![
        Row::Quarantine(Box::new(record(4, "bad_id"))),
        Row::Quarantine(Box::new(record(5, "bad_time"))),
        Row::Lane { name: name.clone(), position: 6 },
    ];
    opened.apply(&Batch { unit: Unit::Lanes, number: BatchNumber(1), rows: Rc::new(rows) });
    let queries = opened.store.queries();
    let query = QuarantineQuery { limit: 1, ..QuarantineQuery::default() };
    let page = opened.wait(queries.quarantine(query.clone())).expect("a page");
    assert_eq!(page.items[0].1, record(5, "bad_time"));
    let page = opened.wait(queries.quarantine(QuarantineQuery { cursor: page.next, ..query })).expect("a page");
    assert_eq!(page.items[0].1, record(4, "bad_id"));
    let one = opened.wait(queries.quarantined(page.items[0].0)).expect("an answer");
    assert_eq!(one, Some(record(4, "bad_id")));
    let reason = QuarantineQuery { limit: 9, reason: Some("bad_time".to_owned()), ..QuarantineQuery::default() };
    assert_eq!(opened.wait(queries.quarantine(reason)).expect("a page").items.len(), 1);
    assert_eq!(opened.wait(queries.lanes()).expect("an answer"), [(name.clone(), 6)]);
    assert_eq!(opened.store.load_lanes().expect("readable"), [(name, 6)]);
}

#[test]
fn producers_dead_letters_are_stored_once_and_filtered() {
    let opened = Opened::new();
    let record = samples::producer_dead_letter(9);
    let queries = opened.store.queries();
    let lane = LaneName::kafka("lerian.streaming.loans.dlq", 0);
    for _ in 0..2 {
        let put = queries.put_producer_dead_letters(std::slice::from_ref(&record), Some((&lane, 10)));
        opened.wait(put).expect("the store takes it");
    }
    let list = |query: ProducerDlqQuery| {
        let page = opened.wait(queries.producer_dlq(ProducerDlqQuery { limit: 10, ..query })).expect("a page");
        page.items.into_iter().map(|(_, found)| found).collect::<Vec<_>>()
    };
    assert_eq!(list(ProducerDlqQuery::default()), std::slice::from_ref(&record));
    let class = |value: &str| ProducerDlqQuery { error_class: Some(value.to_owned()), ..ProducerDlqQuery::default() };
    assert_eq!(list(class("timeout")), [record]);
    assert!(list(class("refused")).is_empty());
    assert!(list(ProducerDlqQuery { tenant: Some("other".to_owned()), ..ProducerDlqQuery::default() }).is_empty());
    assert_eq!(opened.store.load_lanes().expect("readable"), [(lane, 10)]);
}

#[test]
fn an_erased_tenant_is_gone_and_its_neighbour_is_not() {
    let mut opened = filled();
    for name in ["acme", "other"] {
        let end = Some((End::DeadLettered(EndReason::Gone), Time(10)));
        let job = Box::new(JobRecord { end, ..samples::plain_job(job_of(name, 1, 0)) });
        let letter = Row::DeadLetter { event: Rc::new(samples::plain_event(name, 1)), job };
        apply(&mut opened, name, 2, vec![letter]);
        let destination = samples::destination(&tenant(name), Uuid::from_u128(1));
        let put = ConfigWrite::Put(ConfigRecord::Destination(Box::new(destination)));
        opened.wait(opened.store.configure(&[put])).expect("the store takes it");
    }
    opened.wait(opened.store.erase(&tenant("acme"))).expect("the tenant is erased");
    let events = |name| all_pages(&opened, EventsQuery { limit: 100, ..events_of(name, ListOrder::NewestFirst) }, 1);
    assert!(events("acme")[0].is_empty());
    assert_eq!(events("other")[0].len(), 8);
    let letters = opened.wait(opened.store.queries().dead_letters(all_dead_letters())).expect("a page").items;
    assert_eq!(letters.iter().map(|letter| letter.event.tenant.as_str()).collect::<Vec<_>>(), ["other"]);
    let records = opened.store.load_configuration().expect("readable");
    assert!(matches!(&records[..], [ConfigRecord::Destination(own)] if own.tenant == tenant("other")));
}
