//! A record of a slot's topic: what reaches the slot's owner, in order. The tenant is the record's key; the sequence is
//! its offset and one.

use uuid::Uuid;

use super::job::{put_job_key, put_trigger, read_job_key, read_trigger};
use super::wire::{Reader, put_uuid};
use super::{CodecError, event};
use crate::engine::Command;
use crate::types::{DestinationId, Event, RunId, Sequence, TenantId};

const KIND: &str = "slot record";
const VERSION: u8 = 1;

const EVENT: u8 = 1;
const COMMAND: u8 = 2;

const RETRY: u8 = 1;
const RESET_CIRCUIT: u8 = 2;
const CLEAR_FAILURES: u8 = 3;
const MARK: u8 = 4;

/// What comes into a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// An event that was found well formed.
    Event(Event),
    /// A command of the API.
    Command {
        /// What its result is filed under.
        id: Uuid,
        /// What to do.
        command: Command,
    },
}

/// Appends an event's record.
pub fn encode_event(event: &Event, out: &mut Vec<u8>) {
    out.extend_from_slice(&[VERSION, EVENT]);
    event::encode(event, &[], out);
}

/// Appends a command's record.
pub fn encode_command(id: Uuid, command: &Command, out: &mut Vec<u8>) {
    out.extend_from_slice(&[VERSION, COMMAND]);
    put_uuid(out, id);
    put_command(out, command);
}

/// Reads the record with the key `tenant` and the offset just before `sequence`.
///
/// # Errors
/// [`CodecError`] when the bytes are no such record.
pub fn decode(tenant: &TenantId, sequence: Sequence, bytes: &[u8]) -> Result<Inbound, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    match reader.byte()? {
        EVENT => read_event(tenant, sequence, &mut reader).map(Inbound::Event),
        COMMAND => {
            let inbound = Inbound::Command { id: reader.uuid()?, command: read_command(tenant, &mut reader)? };
            reader.finish()?;
            Ok(inbound)
        }
        0 | 3.. => Err(reader.fault("inbound")),
    }
}

/// An event on its way into a slot is whole, and has no jobs yet.
fn read_event(tenant: &TenantId, sequence: Sequence, reader: &mut Reader<'_>) -> Result<Event, CodecError> {
    let row = event::decode(tenant, sequence, reader.remainder())?;
    if row.payload_expired {
        return Err(reader.fault("payload"));
    }
    if !row.jobs.is_empty() {
        return Err(reader.fault("jobs"));
    }
    Ok(row.event)
}

fn put_command(out: &mut Vec<u8>, command: &Command) {
    match command {
        Command::Retry { tenant: _, key, run, trigger } => {
            out.push(RETRY);
            put_job_key(out, *key);
            put_uuid(out, run.0);
            put_trigger(out, *trigger);
        }
        Command::ResetCircuit(_, destination) => {
            out.push(RESET_CIRCUIT);
            put_uuid(out, destination.0);
        }
        Command::ClearFailures(_, destination) => {
            out.push(CLEAR_FAILURES);
            put_uuid(out, destination.0);
        }
        Command::Mark(_) => out.push(MARK),
    }
}

fn read_command(tenant: &TenantId, reader: &mut Reader<'_>) -> Result<Command, CodecError> {
    let tenant = tenant.clone();
    Ok(match reader.byte()? {
        RETRY => Command::Retry {
            tenant,
            key: read_job_key(reader)?,
            run: RunId(reader.uuid()?),
            trigger: read_trigger(reader)?,
        },
        RESET_CIRCUIT => Command::ResetCircuit(tenant, DestinationId(reader.uuid()?)),
        CLEAR_FAILURES => Command::ClearFailures(tenant, DestinationId(reader.uuid()?)),
        MARK => Command::Mark(tenant),
        0 | 5.. => return Err(reader.fault("command")),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    fn tenant() -> TenantId {
        TenantId::new("t").expect("a valid tenant")
    }

    proptest! {
        #[test]
        fn events_round_trip(event in samples::event()) {
            let mut out = Vec::new();
            encode_event(&event, &mut out);
            let tenant = event.tenant.clone();
            prop_assert_eq!(decode(&tenant, event.sequence, &out), Ok(Inbound::Event(event)));
        }

        #[test]
        fn commands_round_trip(id in samples::uuid(), command in samples::command(&tenant())) {
            let mut out = Vec::new();
            encode_command(id, &command, &mut out);
            prop_assert_eq!(decode(&tenant(), Sequence(1), &out), Ok(Inbound::Command { id, command }));
        }

        #[test]
        fn a_cut_record_is_an_error(event in samples::event(), command in samples::command(&tenant()), at in any::<prop::sample::Index>()) {
            let (mut whole, mut other) = (Vec::new(), Vec::new());
            encode_event(&event, &mut whole);
            encode_command(Uuid::nil(), &command, &mut other);
            for mut out in [whole, other] {
                out.truncate(at.index(out.len()));
                prop_assert!(decode(&tenant(), Sequence(1), &out).is_err());
            }
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 2..256)) {
            bytes[0] = VERSION;
            bytes[1] &= 3;
            let _ = decode(&tenant(), Sequence(1), &bytes);
        }
    }

    #[test]
    fn what_can_not_be_is_named() {
        let fault = |bytes: &[u8]| decode(&tenant(), Sequence(1), bytes).expect_err("damaged");
        assert_eq!(fault(&[2, EVENT]), CodecError::Version { kind: KIND, found: 2 });
        assert_eq!(fault(&[VERSION, 3]), CodecError::Value { kind: KIND, field: "inbound" });
        let mut command = vec![VERSION, COMMAND];
        command.extend_from_slice(&[0; 16]);
        command.push(5);
        assert_eq!(fault(&command), CodecError::Value { kind: KIND, field: "command" });

        let event = samples::plain_event("t", 1);
        let mut stripped = vec![VERSION, EVENT];
        event::encode_without_payload(&event, &[], 9, &mut stripped);
        assert_eq!(fault(&stripped), CodecError::Value { kind: KIND, field: "payload" });
        let mut matched = vec![VERSION, EVENT];
        event::encode(&event, &[samples::claimed_job(1)], &mut matched);
        assert_eq!(fault(&matched), CodecError::Value { kind: KIND, field: "jobs" });
        let mut trailing = Vec::new();
        encode_command(Uuid::nil(), &Command::ResetCircuit(tenant(), DestinationId(Uuid::nil())), &mut trailing);
        trailing.push(0);
        assert_eq!(fault(&trailing), CodecError::Trailing(KIND));
    }
}
