//! Plain records for tests, also for those that run against real servers.

use bytes::Bytes;
use uuid::Uuid;

use super::job::RunRow;
use crate::engine::rows::NewJob;
use crate::types::destination::{
    Auth, CircuitSettings, Method, On410, Ordering, OrderingKey, SigningSecret, StaticHeader, Verification,
};
use crate::types::source::SourceKind;
use crate::types::subscription::VerificationState;
use crate::types::{
    AttemptId, AttemptOutcome, AttemptRecord, Attributes, ClaimRecord, Destination, DestinationId, ErrorKind, Event,
    JobKey, JobRecord, LaneName, ProducerDeadLetter, RetryPolicy, RunId, Secret, Sequence, Source, SourceId,
    Subscription, SubscriptionId, TenantId, Time, Trigger,
};

/// An event of `tenant` with this number and a small payload.
pub fn plain_event(tenant: &str, sequence: u64) -> Event {
    Event {
        tenant: TenantId::new(tenant).expect("a valid tenant"),
        id: crate::types::ids::uuid_v7(Time::from_millis(1_700_000_000_000 + sequence), u128::from(sequence)),
        sequence: Sequence(sequence),
        received_at: Time::from_millis(1_700_000_000_000 + sequence),
        key: "loan.approved".into(),
        schema_major: 1,
        attributes: Attributes::pack([("id", "1"), ("source", "loans")]),
        traceparent: None,
        tracestate: None,
        content_encoding: None,
        source_id: None,
        request: None,
        lane: LaneName::kafka("lerian.streaming.loans", 3),
        payload: Bytes::from_static(b"{\"a\":1}"),
    }
}

/// A job of `subscription` whose first attempt is claimed.
pub fn claimed_job(subscription: u128) -> NewJob {
    NewJob {
        subscription: SubscriptionId(Uuid::from_u128(subscription)),
        destination: DestinationId(Uuid::from_u128(2)),
        claim: Some(plain_claim(1)),
    }
}

/// A claim of this id.
pub fn plain_claim(id: u128) -> ClaimRecord {
    ClaimRecord { attempt: AttemptId(Uuid::from_u128(id)), claimed_at: Time(10), until: Time(20), alone: false }
}

/// Attempt `number`, failed so, to be tried again.
pub fn failed_attempt(number: u32, kind: ErrorKind) -> AttemptRecord {
    AttemptRecord {
        number,
        claim: plain_claim(u128::from(number)),
        destination: DestinationId(Uuid::from_u128(2)),
        url: "https://example.com/".into(),
        outcome: AttemptOutcome { ended_at: Time(15), error_kind: Some(kind), ..AttemptOutcome::default() },
        counted: true,
        reclaim: false,
        next_at: Some(Time(1_000)),
    }
}

/// A job that a retry by hand made.
pub fn manual_run(id: u128) -> RunRow {
    RunRow {
        subscription: SubscriptionId(Uuid::from_u128(1)),
        destination: DestinationId(Uuid::from_u128(2)),
        run: RunId(Uuid::from_u128(id)),
        trigger: Trigger::Manual,
        created_at: Time(30),
    }
}

/// A destination with secrets of each kind.
pub fn destination(tenant: &TenantId, id: Uuid) -> Destination {
    Destination {
        id: DestinationId(id),
        tenant: tenant.clone(),
        name: Some("ours".to_owned()),
        description: None,
        url: "https://example.com/hook".parse().expect("a valid URL"),
        method: Method::Post,
        headers: vec![StaticHeader { name: "x-a".to_owned(), value: Secret::new(b"value".to_vec()) }],
        on_410: On410::Disable,
        auth: Auth::Bearer { token: Secret::new(b"token-in-the-clear".to_vec()) },
        secrets: vec![SigningSecret { secret: Secret::new(vec![7; 32]), expires_at: None }],
        timeout_ms: 15_000,
        max_in_flight: 16,
        rate_limit: None,
        retry: RetryPolicy::default(),
        ordering: Ordering::Fifo,
        ordering_key: OrderingKey::Subscription,
        circuit: CircuitSettings::default(),
        verification: Verification::Challenge,
        created_at: Time(1),
        updated_at: Time(2),
        version: 1,
    }
}

/// A subscription to the destination of the same id.
pub fn subscription(tenant: &TenantId, id: Uuid) -> Subscription {
    Subscription {
        id: SubscriptionId(id),
        tenant: tenant.clone(),
        name: None,
        description: None,
        origin: None,
        source_id: None,
        event_types: Vec::new(),
        schema_major: None,
        filter_rules: Vec::new(),
        destination_id: DestinationId(id),
        enabled: true,
        disabled_reason: None,
        disabled_at: None,
        verification_state: VerificationState::Active,
        retry: None,
        ordering: None,
        ordering_key: None,
        created_at: Time(1),
        updated_at: Time(2),
        version: 3,
    }
}

/// An HTTP source.
pub fn source(tenant: &TenantId, id: Uuid) -> Source {
    Source {
        id: SourceId(id),
        tenant: tenant.clone(),
        name: None,
        slug: "shop".to_owned(),
        kind: SourceKind::Http,
        enabled: true,
        max_body_bytes: 1024,
        event_key_header: None,
        event_key_path: None,
        created_at: Time(1),
        updated_at: Time(1),
        version: 1,
    }
}

/// The job of this key, without an end.
pub fn plain_job(key: JobKey) -> JobRecord {
    JobRecord {
        key,
        subscription: SubscriptionId(Uuid::from_u128(1)),
        destination: DestinationId(Uuid::from_u128(2)),
        run: RunId::MATCH,
        trigger: Trigger::Match,
        created_at: Time(1),
        attempts: 8,
        counted: 8,
        reclaims: 0,
        open_claim: None,
        next_at: None,
        last_status: Some(500),
        last_error_kind: Some(ErrorKind::Status),
        end: None,
    }
}

/// What a producer dead-lettered, at this offset.
pub fn producer_dead_letter(offset: u64) -> ProducerDeadLetter {
    ProducerDeadLetter {
        topic: "lerian.streaming.loans.dlq".into(),
        partition: 0,
        offset,
        received_at: Time::from_millis(1_700_000_000_000),
        tenant: Some("acme".into()),
        event_id: None,
        source_topic: None,
        source_partition: None,
        source_offset: Some(-1),
        error_class: Some("timeout".into()),
        error_message: None,
        cause_kind: None,
        retry_count: Some(3),
        first_failure_at: None,
        producer_id: None,
        payload_omitted: Some(true),
        payload_bytes: None,
    }
}
