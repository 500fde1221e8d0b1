//! Commands on a slot's lane: when they are done, and what the next owner makes of those that are not.

use streaming_hub::engine::{Command, CommandId, CommandResult, Input, Row};
use streaming_hub::types::{ConfigChange, Duration, End, JobKey, RunId, Sequence, Slot, Time, Trigger, ids};
use uuid::Uuid;

use crate::stage::{ReadMood, Stage, StoreMood, destination, status, tenant};

const FIRST: JobKey = JobKey { slot: Slot(0), sequence: Sequence(1), ordinal: 0 };
const AGAIN: JobKey = JobKey { ordinal: 1, ..FIRST };

/// An owner with one event, which was delivered, and its record settled for good.
fn stage() -> Stage {
    let mut stage = Stage::on_lease(Duration::ZERO);
    stage.pipeline(destination("acme", 1));
    let event = stage.event("acme", stage.now);
    stage.record(event);
    stage.answer(0, status(200));
    stage.pass(Duration::from_secs(5));
    stage
}

fn retry(key: JobKey, run: u128) -> Command {
    retry_as(key, Uuid::from_u128(run | 0xffff << 112))
}

fn retry_as(key: JobKey, run: Uuid) -> Command {
    Command::Retry { tenant: tenant("acme"), key, run: RunId(run), trigger: Trigger::Manual }
}

fn taken_over(stage: &mut Stage) {
    stage.crash();
    stage.take_slot();
    stage.input(Input::Lease(Time::MAX));
}

#[test]
fn a_command_is_done_and_settled_once_its_run_is_durable() {
    let mut stage = stage();
    stage.mood = StoreMood::Silent;
    let id = stage.command(retry(FIRST, 7));
    stage.pass(Duration::from_secs(5));
    assert_eq!((stage.done.len(), stage.position(), stage.sent.len()), (0, 1, 1));
    stage.store_answers();
    stage.pass(Duration::from_secs(5));
    assert_eq!(stage.done, [(id, CommandResult::Done(Some(AGAIN)))]);
    assert_eq!((stage.position(), stage.sent.len()), (2, 2));
    stage.answer(1, status(200));
    assert_eq!(stage.ends(1), [Some(End::Delivered); 2]);
}

#[test]
fn a_retry_that_can_begin_at_once_is_done_once_it_is_claimed() {
    let mut stage = stage();
    let event = stage.event("acme", stage.now);
    stage.record(event);
    stage.answer(1, status(500));
    stage.mood = StoreMood::Silent;
    let key = JobKey { sequence: Sequence(2), ..FIRST };
    let id = stage.command(retry(key, 7));
    assert_eq!((stage.done.len(), stage.sent.len()), (0, 2));
    stage.store_answers();
    assert_eq!((stage.done.as_slice(), stage.sent.len()), ([(id, CommandResult::Done(Some(key)))].as_slice(), 3));
}

#[test]
fn a_retry_that_a_former_owner_has_fulfilled_is_no_second_delivery() {
    let mut stage = Stage::on_lease(Duration::from_secs(15));
    stage.pipeline(destination("acme", 1));
    let event = stage.event("acme", stage.now);
    stage.record(event);
    stage.answer(0, status(500));
    stage.pass(Duration::from_millis(5));
    stage.command(retry_as(FIRST, ids::uuid_v7(stage.now, 7)));
    stage.pass(Duration::from_millis(5));
    stage.answer(1, status(200));
    taken_over(&mut stage);
    stage.pass(Duration::from_secs(20));
    assert_eq!((stage.done.len(), stage.sent.len(), stage.ends(1)), (2, 2, vec![Some(End::Delivered)]));
}

#[test]
fn what_one_owner_has_not_done_the_next_one_does_as_the_same_run() {
    let mut stage = stage();
    stage.mood = StoreMood::Silent;
    let id = stage.command(retry(FIRST, 7));
    let unanswered = stage.take_unanswered();
    taken_over(&mut stage);
    assert_eq!((stage.done.as_slice(), stage.sent.len()), ([(id, CommandResult::Done(Some(AGAIN)))].as_slice(), 2));
    stage.arrive_late(unanswered, |_| true);
    stage.answer(1, status(200));
    assert_eq!(stage.ends(1), [Some(End::Delivered); 2]);
}

#[test]
fn a_run_whose_row_came_alone_is_taken_up() {
    let mut stage = stage();
    stage.mood = StoreMood::Silent;
    stage.command(retry(FIRST, 7));
    let unanswered = stage.take_unanswered();
    stage.crash();
    stage.read_mood = ReadMood::OneByOne;
    stage.take_slot();
    // The next owner has read the log before the row arrives, and the event after.
    stage.answer_read();
    stage.answer_read();
    stage.arrive_late(unanswered, |row| matches!(row, Row::Run { .. }));
    stage.input(Input::Lease(Time::MAX));
    while stage.answer_read() {}
    assert_eq!((stage.jobs().len(), stage.sent.len()), (2, 2));
    stage.answer(1, status(200));
    assert_eq!(stage.ends(1), [Some(End::Delivered); 2]);
}

#[test]
fn a_run_that_comes_late_finds_that_its_subscription_was_deleted() {
    let mut stage = stage();
    stage.mood = StoreMood::Silent;
    let id = stage.command(retry(FIRST, 7));
    let unanswered = stage.take_unanswered();
    stage.crash();
    let subscription = stage.jobs()[0].subscription;
    stage.configure(ConfigChange::DeleteSubscription(tenant("acme"), subscription));
    taken_over(&mut stage);
    assert_eq!(stage.done, [(id, CommandResult::SubscriptionDeleted)]);
    stage.arrive_late(unanswered, |_| true);
    assert_eq!((stage.ends(1), stage.sent.len()), (vec![Some(End::Delivered), Some(End::Cancelled)], 1));
}

#[test]
fn a_drained_shard_leaves_its_commands_to_the_next_owner() {
    let mut stage = stage();
    stage.read_mood = ReadMood::OneByOne;
    stage.command(retry(FIRST, 7));
    stage.command(retry(FIRST, 8));
    stage.input(Input::Drain);
    stage.command(Command::ResetCircuit(tenant("acme"), destination("acme", 1).id));
    while stage.answer_read() {}
    stage.pass(Duration::from_secs(5));
    assert_eq!((stage.done.len(), stage.position(), stage.jobs().len()), (0, 1, 1));
    taken_over(&mut stage);
    stage.pass(Duration::from_secs(5));
    assert_eq!((stage.done.len(), stage.position(), stage.jobs().len()), (3, 4, 3));
}

#[test]
fn a_command_waits_for_the_lease_and_so_does_what_was_read_for_it() {
    let mut stage = stage();
    stage.crash();
    stage.take_slot();
    stage.command(retry(FIRST, 7));
    stage.pass(Duration::from_secs(5));
    assert_eq!(stage.done.len(), 0, "there is no lease");
    stage.read_mood = ReadMood::OneByOne;
    stage.input(Input::Lease(stage.now + Duration::from_secs(1)));
    stage.pass(Duration::from_secs(2));
    while stage.answer_read() {}
    assert_eq!((stage.done.len(), stage.jobs().len()), (0, 1), "the lease is over");
    stage.read_mood = ReadMood::Prompt;
    stage.input(Input::Lease(Time::MAX));
    stage.pass(Duration::from_secs(2));
    assert_eq!((stage.done.len(), stage.jobs().len()), (1, 2));
}

#[test]
fn a_command_that_a_former_owner_has_settled_is_not_done_again() {
    let mut stage = Stage::on_lease(Duration::from_secs(15));
    stage.pipeline(destination("acme", 1));
    let event = stage.event("acme", stage.now);
    stage.record(event);
    stage.answer(0, status(200));
    stage.command(retry(FIRST, 7));
    stage.answer(1, status(500));
    stage.pass(Duration::from_secs(5));
    assert_eq!((stage.done.len(), stage.position()), (1, 0), "it may not be synced yet");
    taken_over(&mut stage);
    stage.pass(Duration::from_secs(20));
    assert_eq!((stage.done.len(), stage.position(), stage.jobs().len()), (1, 2, 2));
}

#[test]
fn a_command_on_what_can_not_be_is_answered_and_changes_nothing() {
    let mut stage = stage();
    let later = JobKey { sequence: Sequence(2), ..FIRST };
    let elsewhere = JobKey { slot: Slot(1), ..FIRST };
    let asked = [later, elsewhere, AGAIN].map(|key| stage.command(retry(key, 7)));
    let expected: Vec<(CommandId, CommandResult)> = asked.iter().map(|id| (*id, CommandResult::NotFound)).collect();
    stage.pass(Duration::from_secs(5));
    assert_eq!((stage.done.as_slice(), stage.position(), stage.jobs().len()), (expected.as_slice(), 4, 1));
}
