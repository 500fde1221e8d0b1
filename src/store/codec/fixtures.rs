//! Records as format 1 wrote them. They must decode for as long as format 1 is read; a changed line here is a
//! changed format and needs a new version beside the old one.

use uuid::Uuid;

use super::job::AttemptRow;
use super::{
    command_result, dead_letter, destination, event, hub, ids, job, key, lane, quarantine, samples, slot, slot_record,
};
use crate::engine::rows::{CircuitRecord, DestinationRecord, SlotRecord};
use crate::engine::{Command, CommandResult, QuarantineRecord};
use crate::types::{
    Duration, End, EndReason, ErrorKind, JobKey, JobRecord, RunId, Sequence, Slot, TenantId, Time, Trigger,
};

/// One record of each kind, by name, in hexadecimal.
const FORMAT_1: [(&str, &str); 15] = [
    ("log key", "000361636d650000000000000000070100010100000002"),
    ("due key", "0003000000000000000900000000000000070001"),
    (
        "event",
        "01018bcfe5680770008000000000000007d8b6f9c0c1c482030d6c6f616e2e617070726f766564011269641f311e736f7572\
         63651f6c6f616e731e00000000001e6b61666b612f6c657269616e2e73747265616d696e672e6c6f616e732f330100000000\
         0000000000000000000000010000000000000000000000000000000201000000000000000000000000000000010a14000007\
         7b2261223a317d",
    ),
    ("claim", "0101000000000000000000000000000000040a1400"),
    (
        "attempt",
        "0102000000000000000000000000000000020a1400000000000000000000000000000000021468747470733a2f2f6578616d\
         706c652e636f6d2f0101e80701020f00010a00000000",
    ),
    (
        "run",
        "0100000000000000000000000000000001000000000000000000000000000000020000000000000000000000000000000501\
         1e",
    ),
    ("slot", "0101c80103"),
    ("destination", "0101050102808ece1c0103040105"),
    ("ids", "0101000000000000000000000000000000010200000000000000000000000000000000"),
    ("lane", "01ac02"),
    (
        "quarantine",
        "010174ffffffff020307010563652d6964020563652d69640101780161000179040505050505050505050505050505050505\
         050505050505050505050505050505",
    ),
    (
        "dead letter",
        "016901018bcfe5680770008000000000000007d8b6f9c0c1c482030d6c6f616e2e617070726f766564011269641f311e736f\
         757263651f6c6f616e731e00000000001e6b61666b612f6c657269616e2e73747265616d696e672e6c6f616e732f33000007\
         7b2261223a317d00000000000000000000000000000001000000000000000000000000000000020000000000000000000000\
         00000000000001080800000001f403010d011306",
    ),
    (
        "event's slot record",
        "010101018bcfe5680770008000000000000007d8b6f9c0c1c482030d6c6f616e2e617070726f766564011269641f311e736f\
         757263651f6c6f616e731e00000000001e6b61666b612f6c657269616e2e73747265616d696e672e6c6f616e732f33000007\
         7b2261223a317d",
    ),
    ("command's slot record", "010200000000000000000000000000000008010307010000000000000000000000000000000901"),
    ("command result", "010101030701"),
];

fn written() -> [(&'static str, Vec<u8>); 15] {
    let with = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        put(&mut out);
        out
    };
    let event = samples::plain_event("acme", 7);
    let attempt = samples::failed_attempt(2, ErrorKind::Timeout);
    let part = key::LogPart::Attempt { ordinal: 1, number: 2 };
    [
        ("log key", with(&|out| key::put_log(out, Slot(3), &tenant(), Sequence(7), part))),
        ("due key", key::due(Time(9), place())),
        ("event", with(&|out| event::encode(&event, &[samples::claimed_job(1)], out))),
        ("claim", with(&|out| job::encode_claim(&samples::plain_claim(4), out))),
        ("attempt", with(&|out| job::encode_attempt(&attempt, Some(End::Cancelled), out))),
        ("run", with(&|out| job::encode_run(&samples::manual_run(5), out))),
        ("slot", with(&|out| slot::encode(&slot_record(), out))),
        ("destination", with(&|out| destination::encode(&destination_record(), out))),
        ("ids", with(&|out| ids::encode(&[(1, Sequence(9)), (2, Sequence(8))], out))),
        ("lane", with(&|out| lane::encode(300, out))),
        ("quarantine", with(&|out| quarantine::encode(&quarantine_record(), out))),
        ("dead letter", with(&|out| dead_letter::encode(&event, &dead_job(), out))),
        ("event's slot record", with(&|out| slot_record::encode_event(&event, out))),
        ("command's slot record", with(&|out| slot_record::encode_command(Uuid::from_u128(8), &retry(), out))),
        ("command result", with(&|out| command_result::encode(CommandResult::Done(Some(place())), out))),
    ]
}

fn tenant() -> TenantId {
    TenantId::new("acme").expect("a valid tenant")
}

fn place() -> JobKey {
    JobKey { slot: Slot(3), sequence: Sequence(7), ordinal: 1 }
}

fn slot_record() -> SlotRecord {
    SlotRecord { low_water: Sequence(1), flushed: Sequence(200), due_bound: Time(3) }
}

fn destination_record() -> DestinationRecord {
    let circuit =
        CircuitRecord::Open { failures: 5, since: Time(1), probe_at: Time(2), cooldown: Duration::from_secs(60) };
    DestinationRecord { circuit, failure_span: Some((Time(3), Time(4))), hold_until: Some(Time(5)) }
}

fn quarantine_record() -> QuarantineRecord {
    QuarantineRecord {
        topic: "t".into(),
        partition: -1,
        offset: 2,
        received_at: Time(3),
        reason: "bad_id",
        header: Some("ce-id".into()),
        headers: vec![("ce-id".into(), Some(bytes::Bytes::from_static(b"x"))), ("a".into(), None)],
        body: bytes::Bytes::from_static(b"y"),
        size: 4,
        sha256: [5; 32],
    }
}

fn retry() -> Command {
    Command::Retry { tenant: tenant(), key: place(), run: RunId(Uuid::from_u128(9)), trigger: Trigger::Manual }
}

fn dead_job() -> JobRecord {
    JobRecord { end: Some((End::DeadLettered(EndReason::Gone), Time(6))), ..samples::plain_job(place()) }
}

fn bytes_of(name: &str) -> Vec<u8> {
    let (_, hex) = FORMAT_1.iter().find(|(own, _)| *own == name).expect("a fixture of that name");
    let digits = hex.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn the_format_has_not_changed() {
    for (name, bytes) in written() {
        assert_eq!(bytes, bytes_of(name), "{name}");
    }
}

#[test]
fn old_records_decode() {
    let event = samples::plain_event("acme", 7);
    let row = event::decode(&tenant(), Sequence(7), &bytes_of("event")).expect("an event");
    assert_eq!((row.event, row.jobs), (event.clone(), vec![samples::claimed_job(1)]));
    let claim = AttemptRow::Claimed(samples::plain_claim(4));
    assert_eq!(job::decode_attempt(1, &bytes_of("claim")), Ok(claim));
    let attempt = samples::failed_attempt(2, ErrorKind::Timeout);
    let attempt = AttemptRow::Ended(Box::new(attempt), Some(End::Cancelled));
    assert_eq!(job::decode_attempt(2, &bytes_of("attempt")), Ok(attempt));
    assert_eq!(job::decode_run(&bytes_of("run")), Ok(samples::manual_run(5)));
    assert_eq!(slot::decode(&bytes_of("slot")), Ok(slot_record()));
    assert_eq!(destination::decode(&bytes_of("destination")), Ok(destination_record()));
    assert_eq!(lane::decode(&bytes_of("lane")), Ok(300));
    assert_eq!(quarantine::decode(&bytes_of("quarantine")), Ok(quarantine_record()));
    let record = slot_record::decode(&tenant(), Sequence(7), &bytes_of("event's slot record"));
    assert_eq!(record, Ok(slot_record::Inbound::Event(event.clone())));
    let record = slot_record::decode(&tenant(), Sequence(9), &bytes_of("command's slot record"));
    assert_eq!(record, Ok(slot_record::Inbound::Command { id: Uuid::from_u128(8), command: retry() }));
    let result = command_result::decode(&bytes_of("command result"));
    assert_eq!(result, Ok(CommandResult::Done(Some(place()))));
    let letter = dead_letter::DeadLetter { event, job: dead_job() };
    assert_eq!(dead_letter::decode(&tenant(), place(), &bytes_of("dead letter")), Ok(letter));
}

#[test]
fn a_directory_of_another_format_is_refused() {
    assert!(hub::decode(&[hub::FORMAT + 1]).is_err());
}
