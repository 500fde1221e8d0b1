//! Inputs and outputs in a few words, for the trace.

use streaming_hub::engine::rows::Row;
use streaming_hub::engine::{Arrival, Input, LaneRecord, Output, ReadAnswer};

/// An input in a few words.
pub fn input(input: &Input) -> String {
    match input {
        Input::Config(change) => format!("config: {}", crate::traffic::describe(change)),
        Input::LaneAssigned { lane, name, position } => format!("{lane:?} {name} from {position}"),
        Input::SlotAssigned { slot, lane, position, .. } => format!("{slot:?} as {lane:?} from {position}"),
        Input::Lease(until) => format!("lease until {until}"),
        Input::LaneRevoked(lane) => format!("{lane:?} revoked"),
        Input::Record { lane, offset, record } => format!("{lane:?} {offset}: {}", lane_record(record)),
        Input::Arrival(arrival) => arrived(arrival),
        Input::Settled(ticket) => format!("settled {ticket:?}"),
        Input::Committed(unit, number) => format!("committed {unit:?} {}", number.0),
        Input::Refused(unit, number, why) => format!("refused {unit:?} {} {why:?}", number.0),
        Input::Loaded(id, answer) => format!("loaded {} {}", id.0, read(answer)),
        Input::AttemptEnded { token, outcome } => {
            format!("{token:?} ended {:?} {:?}", outcome.status, outcome.error_kind)
        }
        Input::Command(id, command) => format!("command {} {command:?}", id.0),
        Input::Drain => "drain".to_owned(),
    }
}

/// An output in a few words.
pub fn output(output: &Output) -> String {
    match output {
        Output::Commit(batch) => {
            let rows: Vec<String> = batch.rows.iter().map(row).collect();
            format!("commit {:?} {}: {}", batch.unit, batch.number.0, rows.join(", "))
        }
        Output::Read(id, read) => format!("read {} {read:?}", id.0),
        Output::Dispatch(dispatch) => format!(
            "dispatch {:?} {} number {} of {:?} for {} to {}",
            dispatch.token,
            dispatch.attempt,
            dispatch.number,
            dispatch.event.sequence,
            dispatch.subscription.id,
            dispatch.destination.id
        ),
        Output::Settled(settled) => format!("{settled:?}"),
        Output::Handover(shard, arrival) => format!("handover to {shard:?}: {}", arrived(arrival)),
        Output::LanePosition { lane, position } => format!("{lane:?} position {position}"),
        Output::PauseLane(lane) => format!("pause {lane:?}"),
        Output::ResumeLane(lane) => format!("resume {lane:?}"),
        Output::Disable { subscriptions, reason, .. } => format!("disable {subscriptions:?} {reason:?}"),
        Output::CommandDone(id, result) => format!("command {} done {result:?}", id.0),
        Output::Notice(notice) => format!("{notice:?}"),
    }
}

fn arrived(arrival: &Arrival) -> String {
    let ids: Vec<String> = arrival.events.iter().map(|event| event.id.to_string()).collect();
    format!("arrival {:?} {}", arrival.ticket, ids.join(" "))
}

fn lane_record(record: &LaneRecord) -> String {
    match record {
        LaneRecord::Accept(event) => format!("event {} of {}", event.id, event.tenant),
        LaneRecord::Drop => "drop".to_owned(),
        LaneRecord::Quarantine(record) => record.reason.to_owned(),
        LaneRecord::Command(id, command) => format!("command {} {command:?}", id.0),
    }
}

fn read(answer: &ReadAnswer) -> String {
    match answer {
        ReadAnswer::Slot { record, overflow, destinations, first_due, claimed } => {
            let kept = (overflow.len(), destinations.len());
            format!("slot {record:?} overflow and destinations {kept:?} due {first_due:?} claimed {claimed:?}")
        }
        ReadAnswer::Log { events, next } => {
            format!("log {:?} next {:?}", events.iter().map(|e| e.event.sequence.0).collect::<Vec<_>>(), next)
        }
        ReadAnswer::Queue { events, scanned_to } => {
            format!("queue {:?} to {scanned_to:?}", events.iter().map(|e| e.event.sequence.0).collect::<Vec<_>>())
        }
        ReadAnswer::Due { rows, more, first_after } => {
            let rows: Vec<_> = rows.iter().map(|row| (row.key.sequence.0, row.key.ordinal)).collect();
            format!("due {rows:?} more {more} then {first_after:?}")
        }
        ReadAnswer::Ids { entries, next } => format!("{} ids, {next:?}", entries.len()),
        ReadAnswer::Event(event) => format!("event {:?}", event.as_ref().map(|e| e.event.sequence)),
        ReadAnswer::Failed => "failed".to_owned(),
    }
}

fn row(row: &Row) -> String {
    match row {
        Row::Event { event, jobs } => {
            let claimed = jobs.iter().filter(|job| job.claim.is_some()).count();
            format!("event {} {} jobs {} claimed {claimed}", event.sequence.0, event.id, jobs.len())
        }
        Row::Run { key, run, .. } => format!("run {}/{} {}", key.sequence.0, key.ordinal, run.0),
        Row::Claim { key, number, claim, .. } => {
            format!("claim {}/{} number {number} {}", key.sequence.0, key.ordinal, claim.attempt)
        }
        Row::Attempt { key, record, end, .. } => format!(
            "attempt {}/{} number {} reclaim {} counted {} next {:?} end {end:?}",
            key.sequence.0, key.ordinal, record.number, record.reclaim, record.counted, record.next_at
        ),
        Row::End { key, end, .. } => format!("end {}/{} {end:?}", key.sequence.0, key.ordinal),
        Row::DeadLetter { job, .. } => format!("dead letter {}/{}", job.key.sequence.0, job.key.ordinal),
        Row::Due { key, at, .. } => format!("due {}/{} at {}", key.sequence.0, key.ordinal, at.0),
        Row::Overflow { subscription, cursor, .. } => format!("overflow {subscription} {cursor:?}"),
        Row::Destination { destination, record, .. } => format!("destination {destination} {record:?}"),
        Row::Ids { minute, entries } => format!("ids of {minute}: {}", entries.len()),
        Row::Slot(record) => format!("{record:?}"),
        Row::Lane { name, position } => format!("lane {name} at {position}"),
        Row::Quarantine(record) => format!("quarantine {}/{} {}", record.partition, record.offset, record.reason),
    }
}
