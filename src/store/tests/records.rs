//! Cases for lists of what has a time of its own: dead letters, quarantine, producers' dead letters; and for lanes.

use std::rc::Rc;

use futures_lite::future::block_on;
use uuid::Uuid;

use super::lists::{Listed, collect, name_in};
use super::{batch_of, first_job, tenant};
use crate::engine::{Batch, BatchNumber, QuarantineRecord, Row, Unit};
use crate::runtime::Clock;
use crate::store::codec::plain as samples;
pub use crate::store::queries::DeadLettersQuery;
use crate::store::queries::{ProducerDlqQuery, QuarantineQuery};
use crate::types::{
    Duration, End, EndReason, JobRecord, LaneName, ProducerDeadLetter, Sequence, Slot, SubscriptionId, Time,
};

/// Everybody's dead letters.
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

/// So many minutes ago.
pub fn minutes_ago(minutes: u64) -> Time {
    // Lists of two stores must agree: those of hours compare milliseconds.
    let now = Clock::start().now();
    Time::from_millis(Time(now.0 - Duration::from_secs(60).times(minutes).0).as_millis())
}

/// The subscription that the dead letters of a slot are for.
pub fn subscription_of(slot: Slot) -> SubscriptionId {
    SubscriptionId(Uuid::from_u128(1_000_000 + u128::from(slot.0)))
}

/// The dead letter of an event's first job.
pub fn dead_letter(slot: Slot, name: &str, sequence: u64, (reason, at): (EndReason, Time)) -> Row {
    let (end, subscription) = (Some((End::DeadLettered(reason), at)), subscription_of(slot));
    let job = Box::new(JobRecord { end, subscription, ..samples::plain_job(first_job(slot, sequence)) });
    Row::DeadLetter { event: Rc::new(samples::plain_event(name, sequence)), job }
}

/// The events of all pages of dead letters of this slot.
pub fn letters<S: Listed>(store: &S, query: &DeadLettersQuery) -> Vec<(String, u64)> {
    let queries = store.queries();
    let subscription = Some(subscription_of(store.slot()));
    let found = collect(|cursor| {
        let query = DeadLettersQuery { cursor, subscription, ..query.clone() };
        let page = block_on(queries.dead_letters(query.clone())).expect("a page");
        assert!(page.items.len() <= query.limit && page.items.iter().all(|letter| letter.event.payload.is_empty()));
        page
    });
    found.iter().map(|letter| (letter.event.tenant.as_str().to_owned(), letter.event.sequence.0)).collect()
}

pub(super) fn dead_letters_are_listed_by_tenant_and_over_all<S: Listed>(store: &mut S) {
    let slot = store.slot();
    let [own, other] = [name_in(store, "own"), name_in(store, "other")];
    let (first, second, third) = (minutes_ago(26 * 60), minutes_ago(120), minutes_ago(5));
    let made = [
        (&own, 1, EndReason::Gone, first),
        (&other, 2, EndReason::Exhausted, second),
        (&own, 3, EndReason::Exhausted, third),
        (&own, 4, EndReason::Exhausted, third),
    ];
    let rows = made.map(|(name, sequence, reason, at)| dead_letter(slot, name, sequence, (reason, at)));
    store.apply(&batch_of(slot, 1, rows.into()));
    let recent = DeadLettersQuery { from: Some(minutes_ago(48 * 60)), ..all_dead_letters() };
    let named = |name: &String, sequence| (name.clone(), sequence);
    let everything = [named(&own, 4), named(&own, 3), named(&other, 2), named(&own, 1)];
    assert_eq!(letters(store, &recent), everything);
    assert_eq!(letters(store, &DeadLettersQuery { limit: 1, ..recent.clone() }), everything);
    let mine = DeadLettersQuery { tenant: Some(tenant(&own)), ..all_dead_letters() };
    let mine_only = [named(&own, 4), named(&own, 3), named(&own, 1)];
    assert_eq!(letters(store, &mine), mine_only);
    assert_eq!(letters(store, &DeadLettersQuery { limit: 1, ..mine }), mine_only);
    let gone = DeadLettersQuery { reason: Some(EndReason::Gone), ..recent.clone() };
    assert_eq!(letters(store, &gone), [named(&own, 1)]);
    let between = DeadLettersQuery { from: Some(first), to: Some(third), ..recent };
    assert_eq!(letters(store, &between), [named(&other, 2), named(&own, 1)]);
    let one = |name: &str| block_on(store.queries().dead_letter(tenant(name), (Sequence(3), 0))).expect("an answer");
    assert!(!one(&own).expect("it is there").event.payload.is_empty(), "one alone comes with its payload");
    assert!(one(&other).is_none());
}

pub(super) fn quarantine_and_lanes_come_back<S: Listed>(store: &mut S) {
    let topic = format!("lerian.streaming.loans{}", store.slot().0);
    let record = |offset: u64, reason, received_at| QuarantineRecord {
        topic: topic.as_str().into(),
        partition: 1,
        offset,
        received_at,
        reason,
        header: Some("ce-id".into()),
        headers: vec![("ce-id".into(), None)],
        body: bytes::Bytes::from_static(b"x"),
        size: 1,
        sha256: [1; 32],
    };
    let (early, late) = (record(4, "bad_id", minutes_ago(180)), record(5, "bad_time", minutes_ago(5)));
    let name = LaneName::kafka(&topic, 1);
    let rows = vec![
        Row::Quarantine(Box::new(early.clone())),
        Row::Quarantine(Box::new(late.clone())),
        Row::Lane { name: name.clone(), position: 6 },
    ];
    store.apply(&Batch { unit: Unit::Lanes, number: BatchNumber(1), rows: Rc::new(rows) });
    let queries = store.queries();
    let list = |query: &QuarantineQuery| {
        collect(|cursor| {
            let query = QuarantineQuery { cursor, topic: Some(topic.clone()), ..query.clone() };
            block_on(queries.quarantine(query)).expect("a page")
        })
    };
    let one_each = QuarantineQuery { limit: 1, ..QuarantineQuery::default() };
    let found = list(&one_each);
    assert_eq!(found.iter().map(|(_, record)| record.clone()).collect::<Vec<_>>(), [late.clone(), early.clone()]);
    assert_eq!(block_on(queries.quarantined(found[1].0)).expect("an answer"), Some(early.clone()));
    assert_eq!(block_on(queries.quarantined(Uuid::from_u128(1))).expect("an answer"), None);
    let reasoned = QuarantineQuery { reason: Some("bad_time".to_owned()), ..one_each.clone() };
    assert_eq!(list(&reasoned).len(), 1);
    let before = QuarantineQuery { from: Some(early.received_at), to: Some(late.received_at), ..one_each };
    assert_eq!(list(&before), [(found[1].0, early)]);
    assert!(block_on(queries.lanes()).expect("an answer").contains(&(name, 6)));
}

pub(super) fn producers_dead_letters_are_stored_once_and_filtered<S: Listed>(store: &mut S) {
    let topic = format!("lerian.streaming.loans{}.dlq", store.slot().0);
    let lane = LaneName::kafka(&topic, 0);
    let received_at = minutes_ago(90);
    let record = ProducerDeadLetter { topic: topic.as_str().into(), received_at, ..samples::producer_dead_letter(9) };
    let queries = store.queries();
    for _ in 0..2 {
        let put = queries.put_producer_dead_letters(std::slice::from_ref(&record), Some((&lane, 10)));
        block_on(put).expect("the store takes it");
    }
    let list = |query: ProducerDlqQuery| {
        let found = collect(|cursor| {
            let query = ProducerDlqQuery { limit: 10, cursor, topic: Some(topic.clone()), ..query.clone() };
            block_on(queries.producer_dlq(query)).expect("a page")
        });
        found.into_iter().map(|(_, found)| found).collect::<Vec<_>>()
    };
    assert_eq!(list(ProducerDlqQuery::default()), std::slice::from_ref(&record));
    let class = |value: &str| ProducerDlqQuery { error_class: Some(value.to_owned()), ..ProducerDlqQuery::default() };
    assert_eq!(list(class("timeout")), [record]);
    assert!(list(class("refused")).is_empty());
    assert!(list(ProducerDlqQuery { tenant: Some("other".to_owned()), ..ProducerDlqQuery::default() }).is_empty());
    assert!(block_on(queries.lanes()).expect("an answer").contains(&(lane, 10)));
}
