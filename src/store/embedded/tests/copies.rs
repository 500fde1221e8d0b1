//! A payload that has expired is taken from a dead letter's copy, or the job can't be tried again.

use std::rc::Rc;

use bytes::Bytes;
use uuid::Uuid;

use super::Opened;
use super::retention::{ARRIVAL, sweep};
use crate::engine::rows::{LoggedEvent, SlotRecord, Wanted};
use crate::engine::{
    AutoDisable, Bounds, Command, CommandId, CommandResult, Input, Output, Read, ReadAnswer, Row, Shard, ShardSettings,
    Tenure,
};
use crate::store::Retention;
use crate::store::codec::samples;
use crate::store::tests::{SLOT, Subject as _, batch, job_key, tenant, whole_log};
use crate::types::{
    ConfigChange, Duration, End, EndReason, Event, JobKey, JobRecord, RunId, Sequence, ShardId, Slot, SubscriptionId,
    Time, Trigger,
};

/// An event whose payload has expired, with a dead letter of its first job; `runs` more jobs are open.
fn stripped_with_a_dead_letter(letter: &Event, runs: &[u16]) -> Opened {
    let mut opened = Opened::new();
    let event = samples::plain_event("acme", 1);
    let end = End::DeadLettered(EndReason::Exhausted);
    let job = JobRecord { end: Some((end, ARRIVAL)), ..samples::plain_job(job_key(1)) };
    let record = SlotRecord { low_water: Sequence(2), flushed: Sequence(2), due_bound: Time(0) };
    let rows = vec![
        Row::Event { event: Rc::new(event), jobs: vec![samples::claimed_job(1)] },
        Row::End { tenant: tenant("acme"), key: job_key(1), end, at: ARRIVAL },
        Row::DeadLetter { event: Rc::new(letter.clone()), job: Box::new(job) },
        Row::Slot(record),
    ];
    opened.apply(&batch(1, rows));
    let retention = Retention::default();
    sweep(&opened, retention, ARRIVAL + retention.payloads + Duration::from_secs(120));
    opened.apply(&batch(2, runs.iter().flat_map(|ordinal| open_run(*ordinal)).collect()));
    opened
}

fn open_run(ordinal: u16) -> [Row; 2] {
    let (key, run) = (JobKey { ordinal, ..job_key(1) }, samples::manual_run(u128::from(ordinal)));
    let made = Row::Run {
        tenant: tenant("acme"),
        key,
        subscription: run.subscription,
        destination: run.destination,
        run: run.run,
        trigger: run.trigger,
        created_at: run.created_at,
    };
    [made, Row::Due { tenant: tenant("acme"), key, at: Time(70) }]
}

fn one_event(opened: &mut Opened) -> LoggedEvent {
    let read = Read::Event { slot: SLOT, tenant: tenant("acme"), sequence: Sequence(1) };
    let ReadAnswer::Event(Some(logged)) = opened.answer(read) else { panic!("an event") };
    logged
}

fn queued(opened: &mut Opened) -> Vec<LoggedEvent> {
    let (from, to) = (Sequence(1), Sequence(9));
    let wanted = Wanted::from([(SubscriptionId(Uuid::from_u128(1)), from)]);
    let read = Read::Queue { slot: SLOT, tenant: tenant("acme"), from, to, wanted, bytes_max: usize::MAX };
    let ReadAnswer::Queue { events, .. } = opened.answer(read) else { panic!("a queue page") };
    events
}

fn due(opened: &mut Opened) -> Vec<LoggedEvent> {
    let read = Read::Due { slot: SLOT, from: Time(0), after: None, to: Time(100) };
    let ReadAnswer::Due { rows, .. } = opened.answer(read) else { panic!("due rows") };
    rows.into_iter().filter_map(|row| row.event).collect()
}

#[test]
fn a_dead_letter_s_copy_stands_in_for_an_expired_payload() {
    let event = samples::plain_event("acme", 1);
    let mut opened = stripped_with_a_dead_letter(&event, &[1, 2]);
    let mut found = vec![one_event(&mut opened)];
    found.extend(whole_log(&mut opened, 0));
    found.extend(queued(&mut opened));
    found.extend(due(&mut opened));
    assert_eq!(found.len(), 5);
    for logged in found {
        assert_eq!((&logged.event, logged.payload_expired), (&event, false));
    }
}

#[test]
fn pages_fetch_no_copy_for_an_event_without_an_open_job() {
    let event = samples::plain_event("acme", 1);
    let mut opened = stripped_with_a_dead_letter(&event, &[]);
    assert!(!one_event(&mut opened).payload_expired, "a retry may begin with it");
    assert!(whole_log(&mut opened, 0).iter().chain(&queued(&mut opened)).all(|logged| logged.payload_expired));
}

#[test]
fn a_payload_of_which_no_whole_copy_is_left_has_expired() {
    let hollow = Event { payload: Bytes::new(), ..samples::plain_event("acme", 1) };
    let mut opened = stripped_with_a_dead_letter(&hollow, &[1]);
    let mut found = vec![one_event(&mut opened)];
    found.extend(due(&mut opened));
    assert!(found.iter().all(|logged| logged.payload_expired && logged.event.payload.is_empty()));
}

#[test]
fn a_retry_sends_the_copy_or_answers_that_the_payload_has_expired() {
    let event = samples::plain_event("acme", 1);
    let mut opened = stripped_with_a_dead_letter(&event, &[]);
    let (result, sent) = retry(&mut opened);
    assert!(matches!(result, CommandResult::Done(Some(_))), "{result:?}");
    assert_eq!(sent, [event.payload]);
    let hollow = Event { payload: Bytes::new(), ..samples::plain_event("acme", 1) };
    let mut opened = stripped_with_a_dead_letter(&hollow, &[]);
    assert_eq!(retry(&mut opened), (CommandResult::Expired, Vec::new()));
}

/// Has a shard retry the dead-lettered job; gives its answer and the payloads that it sends.
fn retry(opened: &mut Opened) -> (CommandResult, Vec<Bytes>) {
    let now = ARRIVAL + Duration::from_hours(8 * 24);
    let mut shard = Shard::new(shard_settings(), now);
    let destination = samples::destination(&tenant("acme"), Uuid::from_u128(2));
    let id = destination.id;
    let subscription = samples::subscription(&tenant("acme"), Uuid::from_u128(1));
    let subscription = crate::types::Subscription { destination_id: id, ..subscription };
    shard.handle(Input::Config(ConfigChange::PutDestination(Box::new(destination))), now);
    shard.handle(Input::Config(ConfigChange::PutSubscription(Box::new(subscription))), now);
    assert_eq!(carry_out(&mut shard, opened, now), (None, Vec::new()));
    let run = RunId(Uuid::from_u128(77));
    let command = Command::Retry { tenant: tenant("acme"), key: job_key(1), run, trigger: Trigger::Manual };
    shard.handle(Input::Command(CommandId(1), command), now);
    let (result, sent) = carry_out(&mut shard, opened, now);
    (result.expect("the command is done"), sent)
}

/// Does what the shard asks of its store; gives the last answer to a command, and the payloads sent.
fn carry_out(shard: &mut Shard, opened: &mut Opened, now: Time) -> (Option<CommandResult>, Vec<Bytes>) {
    let (mut result, mut sent) = (None, Vec::new());
    while let Some(output) = shard.poll_output() {
        match output {
            Output::Commit(batch) => {
                opened.apply(&batch);
                shard.handle(Input::Committed(batch.unit, batch.number), now);
            }
            Output::Read(id, read) => shard.handle(Input::Loaded(id, opened.answer(read)), now),
            Output::Dispatch(dispatch) => sent.push(dispatch.event.payload.clone()),
            Output::CommandDone(_, done) => result = Some(done),
            Output::Settled(_)
            | Output::Handover(..)
            | Output::LanePosition { .. }
            | Output::PauseLane(_)
            | Output::ResumeLane(_)
            | Output::Disable { .. }
            | Output::Notice(_) => {}
        }
    }
    (result, sent)
}

/// A shard of as many slots as put the samples' tenant into the samples' slot.
fn shard_settings() -> ShardSettings {
    let slots = (SLOT.0 + 1..64).find(|slots| Slot::of(&tenant("acme"), *slots) == SLOT);
    ShardSettings {
        shard: ShardId(0),
        shards: 1,
        slots: slots.expect("some number of slots does"),
        dedup_salt: [0; 16],
        seed: 1,
        attempts_max: 8,
        auto_disable: AutoDisable::default(),
        payload_retention: Retention::default().payloads,
        poison_threshold: 3,
        tenure: Tenure::Sole,
        bounds: Bounds { dedup_bytes: 1 << 20, ..Bounds::default() },
    }
}
