//! Ids that all carry one time: their bucket is read in pages, keeps the memory's budget, and holds up nobody else.

use streaming_hub::engine::{Bounds, Read, SettledItem};
use streaming_hub::store::memory::Pages;
use streaming_hub::types::{Duration, Event, Time};

use crate::stage::{ReadMood, Stage, destination};

const BUDGET: usize = 24_000;
const PAGE: usize = 100;
/// Ids of the hostile tenant: three times what memory holds.
const STAMPED: usize = 3_000;

fn stage() -> Stage {
    let bounds = Bounds { dedup_bytes: BUDGET, ..Bounds::default() };
    let mut stage = Stage::with_pages(bounds, Pages { ids: PAGE, ..Pages::default() });
    stage.pipeline(destination("acme", 1));
    stage
}

/// Publishes events whose ids all carry `at`, and lets them be written behind.
fn publish_stamped(stage: &mut Stage, at: Time) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < STAMPED {
        let batch: Vec<Event> = (0..500).map(|_| stage.event("hostile", at)).collect();
        events.extend(batch.iter().cloned());
        stage.arrive(batch);
        stage.pass(Duration::from_secs(2));
        assert!(stage.shard.report().dedup_bytes <= BUDGET, "{} bytes", stage.shard.report().dedup_bytes);
    }
    events
}

fn pages_read(stage: &Stage) -> usize {
    stage.reads.iter().filter(|read| matches!(read, Read::Ids { .. })).count()
}

#[test]
fn a_bucket_larger_than_memory_is_read_in_pages_within_the_budget() {
    let mut stage = stage();
    let stamp = stage.now - Duration::from_hours(3);
    let events = publish_stamped(&mut stage, stamp);
    stage.crash();
    stage.settled.clear();
    let again: Vec<Event> = events.iter().step_by(40).cloned().collect();
    let (repeated, fresh) = (again.len(), stage.event("hostile", stamp));
    let read_before = pages_read(&stage);
    stage.arrive(again);
    stage.arrive(vec![fresh.clone()]);
    stage.arrive(vec![fresh]);
    let items: Vec<SettledItem> = stage.settled.iter().flat_map(|settled| settled.items.clone()).collect();
    let duplicates = items.iter().filter(|item| matches!(item, SettledItem::Duplicate(_))).count();
    assert_eq!((items.len(), duplicates), (repeated + 2, repeated + 1), "every id is recognised, and the new one once");
    let pages = pages_read(&stage) - read_before;
    assert!((STAMPED / PAGE..4 * STAMPED / PAGE).contains(&pages), "{pages} pages");
    assert!(stage.shard.report().dedup_bytes <= BUDGET, "{} bytes", stage.shard.report().dedup_bytes);
}

#[test]
fn other_tenants_go_on_while_a_large_bucket_is_read() {
    let mut stage = stage();
    let stamp = stage.now - Duration::from_hours(3);
    publish_stamped(&mut stage, stamp);
    stage.crash();
    stage.settled.clear();
    stage.read_mood = ReadMood::OneByOne;
    let late = stage.event("hostile", stamp);
    stage.arrive(vec![late]);
    stage.publish("acme");
    let mut answered = 0;
    while stage.settled.is_empty() {
        assert!(stage.answer_read(), "a read is under way");
        answered += 1;
    }
    assert!(answered <= 3, "the other tenant's bucket waits for at most one page, not for {answered}");
    assert_eq!(stage.sent.len(), 1);
    while stage.answer_read() {}
    assert_eq!(stage.settled.len(), 2, "and the late event comes in the end");
}

#[test]
fn the_owner_knows_every_id_that_is_not_written_behind() {
    let mut stage = stage();
    let events: Vec<Event> = (0..20_000).map(|_| stage.event("acme", stage.now)).collect();
    for part in events.chunks(1_000) {
        stage.arrive(part.to_vec());
    }
    assert_eq!(stage.settled.len(), 20, "all are durable, none is written behind");
    for event in events.iter().step_by(777) {
        let sequence = stage.shard.sequence_of(&event.tenant, event.id).expect("in memory");
        assert!(stage.store.events().any(|l| l.event.sequence == sequence && l.event.id == event.id));
    }
    let other = stage.event("acme", stage.now);
    assert_eq!(stage.shard.sequence_of(&other.tenant, other.id), None);
}
