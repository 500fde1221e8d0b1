//! Records for tests: a few more plain ones, and strategies that give any.

use bytes::Bytes;
use proptest::prelude::*;
use uuid::Uuid;

pub use super::plain::*;

use super::job::RunRow;
use crate::engine::rows::{CircuitRecord, DestinationRecord, NewJob};
use crate::engine::{Command, CommandResult, QuarantineRecord};
use crate::types::{
    AttemptId, AttemptOutcome, AttemptRecord, Attributes, ClaimRecord, DestinationId, Duration, End, EndReason,
    ErrorKind, Event, HttpRequest, JobKey, JobRecord, LaneName, RunId, Sequence, Slot, SourceId, SubscriptionId,
    TenantId, Time, Trigger,
};

pub fn tenant() -> impl Strategy<Value = TenantId> {
    "[a-zA-Zé!~][ -~é]{0,6}".prop_map(|text| TenantId::new(&text).expect("no control characters"))
}

pub fn job_key() -> impl Strategy<Value = JobKey> {
    any::<(u16, u64, u16)>().prop_map(|(slot, sequence, ordinal)| JobKey {
        slot: Slot(slot),
        sequence: Sequence(sequence),
        ordinal,
    })
}

pub fn uuid() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

pub fn time() -> impl Strategy<Value = Time> {
    any::<u64>().prop_map(Time)
}

fn text() -> impl Strategy<Value = Box<str>> {
    "[ -~é€]{0,12}".prop_map(String::into_boxed_str)
}

fn blob() -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn headers() -> impl Strategy<Value = Vec<(Box<str>, Bytes)>> {
    proptest::collection::vec((text(), blob()), 0..3)
}

pub fn claim() -> impl Strategy<Value = ClaimRecord> {
    (uuid(), time(), time(), any::<bool>()).prop_map(|(attempt, claimed_at, until, alone)| ClaimRecord {
        attempt: AttemptId(attempt),
        claimed_at,
        until,
        alone,
    })
}

pub fn new_job() -> impl Strategy<Value = NewJob> {
    (uuid(), uuid(), proptest::option::of(claim())).prop_map(|(subscription, destination, claim)| NewJob {
        subscription: SubscriptionId(subscription),
        destination: DestinationId(destination),
        claim,
    })
}

pub fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        Just(End::Delivered),
        Just(End::Cancelled),
        Just(End::DeadLettered(EndReason::Exhausted)),
        Just(End::DeadLettered(EndReason::Poison)),
        Just(End::DeadLettered(EndReason::CircuitOpen)),
        Just(End::DeadLettered(EndReason::Gone)),
        Just(End::DeadLettered(EndReason::Expired)),
    ]
}

pub fn error_kind() -> impl Strategy<Value = ErrorKind> {
    proptest::sample::select(vec![
        ErrorKind::Dns,
        ErrorKind::Blocked,
        ErrorKind::Connect,
        ErrorKind::Tls,
        ErrorKind::TlsExpired,
        ErrorKind::TlsUntrusted,
        ErrorKind::TlsWrongHost,
        ErrorKind::TlsHandshake,
        ErrorKind::TlsClientCertificate,
        ErrorKind::Timeout,
        ErrorKind::Reset,
        ErrorKind::Protocol,
        ErrorKind::Status,
        ErrorKind::Internal,
        ErrorKind::Interrupted,
    ])
}

fn trigger() -> impl Strategy<Value = Trigger> {
    prop_oneof![Just(Trigger::Match), Just(Trigger::Manual), Just(Trigger::Replay)]
}

pub fn run() -> impl Strategy<Value = RunRow> {
    (uuid(), uuid(), uuid(), trigger(), time()).prop_map(|(subscription, destination, run, trigger, created_at)| {
        RunRow {
            subscription: SubscriptionId(subscription),
            destination: DestinationId(destination),
            run: RunId(run),
            trigger,
            created_at,
        }
    })
}

pub fn command(tenant: &TenantId) -> impl Strategy<Value = Command> + use<> {
    let (retried, reset, cleared, marked) = (tenant.clone(), tenant.clone(), tenant.clone(), tenant.clone());
    prop_oneof![
        (job_key(), uuid(), trigger()).prop_map(move |(key, run, trigger)| Command::Retry {
            tenant: retried.clone(),
            key,
            run: RunId(run),
            trigger
        }),
        uuid().prop_map(move |id| Command::ResetCircuit(reset.clone(), DestinationId(id))),
        uuid().prop_map(move |id| Command::ClearFailures(cleared.clone(), DestinationId(id))),
        Just(Command::Mark(marked)),
    ]
}

pub fn command_result() -> impl Strategy<Value = CommandResult> {
    prop_oneof![
        proptest::option::of(job_key()).prop_map(CommandResult::Done),
        Just(CommandResult::NotFound),
        Just(CommandResult::SubscriptionDeleted),
        Just(CommandResult::TooManyRuns),
        Just(CommandResult::Expired),
        Just(CommandResult::Busy),
    ]
}

fn outcome() -> impl Strategy<Value = AttemptOutcome> {
    (
        (time(), any::<Option<u16>>(), proptest::option::of(error_kind()), proptest::option::of(text())),
        (any::<Option<u64>>(), headers(), blob(), any::<bool>(), any::<bool>()),
    )
        .prop_map(
            |((ended_at, status, error_kind, error), (retry_after, response_headers, body, truncated, stale))| {
                AttemptOutcome {
                    ended_at,
                    status,
                    error_kind,
                    error,
                    retry_after: retry_after.map(Duration),
                    response_headers,
                    response_body: body,
                    truncated,
                    stale_connection: stale,
                }
            },
        )
}

pub fn attempt() -> impl Strategy<Value = AttemptRecord> {
    (any::<u32>(), claim(), uuid(), text(), outcome(), any::<bool>(), any::<bool>(), proptest::option::of(time()))
        .prop_map(|(number, claim, destination, url, outcome, counted, reclaim, next_at)| AttemptRecord {
            number,
            claim,
            destination: DestinationId(destination),
            url,
            outcome,
            counted,
            reclaim,
            next_at,
        })
}

pub fn job() -> impl Strategy<Value = JobRecord> {
    (
        (job_key(), run(), any::<(u32, u32, u32)>()),
        (proptest::option::of(claim()), proptest::option::of(time()), any::<Option<u16>>()),
        (proptest::option::of(error_kind()), proptest::option::of((end(), time()))),
    )
        .prop_map(|((key, run, counts), (open_claim, next_at, last_status), (last_error_kind, end))| JobRecord {
            key,
            subscription: run.subscription,
            destination: run.destination,
            run: run.run,
            trigger: run.trigger,
            created_at: run.created_at,
            attempts: counts.0,
            counted: counts.1,
            reclaims: counts.2,
            open_claim,
            next_at,
            last_status,
            last_error_kind,
            end,
        })
}

fn request() -> impl Strategy<Value = HttpRequest> {
    (text(), text(), proptest::option::of(text()), headers(), any::<std::net::IpAddr>())
        .prop_map(|(method, path, query, headers, source_ip)| HttpRequest { method, path, query, headers, source_ip })
}

pub fn event() -> impl Strategy<Value = Event> {
    (
        (tenant(), uuid(), any::<u64>(), time(), text(), any::<u32>()),
        (text(), proptest::option::of(text()), proptest::option::of(text()), proptest::option::of(text())),
        (proptest::option::of(uuid()), proptest::option::of(request()), text(), blob()),
    )
        .prop_map(|(head, trace, tail)| Event {
            tenant: head.0,
            id: head.1,
            sequence: Sequence(head.2),
            received_at: head.3,
            key: head.4,
            schema_major: head.5,
            attributes: Attributes::pack([("id", "x"), ("subject", &*trace.0)]),
            traceparent: trace.1,
            tracestate: trace.2,
            content_encoding: trace.3,
            source_id: tail.0.map(SourceId),
            request: tail.1.map(Box::new),
            lane: LaneName(tail.2),
            payload: tail.3,
        })
}

pub fn destination_record() -> impl Strategy<Value = DestinationRecord> {
    let circuit = prop_oneof![
        (any::<u32>(), time()).prop_map(|(failures, since)| CircuitRecord::Closed { failures, since }),
        (any::<u32>(), time(), time(), any::<u64>()).prop_map(|(failures, since, probe_at, cooldown)| {
            CircuitRecord::Open { failures, since, probe_at, cooldown: Duration(cooldown) }
        }),
    ];
    (circuit, proptest::option::of((time(), time())), proptest::option::of(time()))
        .prop_map(|(circuit, failure_span, hold_until)| DestinationRecord { circuit, failure_span, hold_until })
}

pub fn quarantine(reasons: &'static [&'static str]) -> impl Strategy<Value = QuarantineRecord> {
    (
        (text(), any::<i32>(), any::<u64>(), time(), proptest::sample::select(reasons)),
        proptest::option::of(text()),
        proptest::collection::vec((text(), proptest::option::of(blob())), 0..3),
        (blob(), any::<u64>(), any::<[u8; 32]>()),
    )
        .prop_map(|((topic, partition, offset, received_at, reason), header, headers, (body, size, sha256))| {
            QuarantineRecord { topic, partition, offset, received_at, reason, header, headers, body, size, sha256 }
        })
}
