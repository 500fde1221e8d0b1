//! Sample values for the tests of this folder.

use std::rc::Rc;

use bytes::Bytes;
use uuid::Uuid;

use crate::engine::{Dispatch, JobToken};
use crate::types::destination::{
    Auth, CircuitSettings, Method, On410, Ordering, OrderingKey, SigningSecret, Verification,
};
use crate::types::subscription::VerificationState;
use crate::types::{
    AttemptId, Attributes, Destination, DestinationId, Duration, Event, LaneName, RetryPolicy, Secret, Sequence,
    Subscription, SubscriptionId, TenantId, Time,
};

/// When the sample attempt starts.
pub const STARTED_AT: Time = Time::from_millis(1_700_000_000_000);
const EVENT_ID: &str = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";

/// A destination with one secret and a timeout of 15 s.
pub fn destination(url: &str) -> Destination {
    let secret = Secret::parse_whsec("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
    Destination {
        id: DestinationId(Uuid::from_u128(7)),
        tenant: TenantId::new("tenant").unwrap(),
        name: None,
        description: None,
        url: url.parse().unwrap(),
        method: Method::Post,
        headers: Vec::new(),
        on_410: On410::default(),
        auth: Auth::None,
        secrets: vec![SigningSecret { secret, expires_at: None }],
        timeout_ms: 15_000,
        max_in_flight: 16,
        rate_limit: None,
        retry: RetryPolicy::default(),
        ordering: Ordering::default(),
        ordering_key: OrderingKey::default(),
        circuit: CircuitSettings::default(),
        verification: Verification::default(),
        created_at: STARTED_AT,
        updated_at: STARTED_AT,
        version: 1,
    }
}

fn subscription() -> Subscription {
    Subscription {
        id: SubscriptionId(Uuid::from_u128(9)),
        tenant: TenantId::new("tenant").unwrap(),
        name: None,
        description: None,
        origin: None,
        source_id: None,
        event_types: Vec::new(),
        schema_major: None,
        filter_rules: Vec::new(),
        destination_id: DestinationId(Uuid::from_u128(7)),
        enabled: true,
        disabled_reason: None,
        disabled_at: None,
        verification_state: VerificationState::Active,
        retry: None,
        ordering: None,
        ordering_key: None,
        created_at: STARTED_AT,
        updated_at: STARTED_AT,
        version: 1,
    }
}

fn event(more: &[(&str, &str)]) -> Event {
    let attributes =
        [("specversion", "1.0"), ("id", EVENT_ID), ("source", "loans"), ("type", "studio.lerian.loans.loan.approved")];
    Event {
        tenant: TenantId::new("tenant").unwrap(),
        id: EVENT_ID.parse().unwrap(),
        sequence: Sequence(1),
        received_at: STARTED_AT,
        key: "loan.approved".into(),
        schema_major: 1,
        attributes: Attributes::pack(attributes.into_iter().chain(more.iter().copied())),
        traceparent: None,
        tracestate: None,
        content_encoding: None,
        source_id: None,
        request: None,
        lane: LaneName::kafka("lerian.streaming.loans", 0),
        payload: Bytes::from_static(b"{\"n\":12345678901234567890.123456789}"),
    }
}

/// An attempt of a sample event, with `more` attributes, at `url`.
pub fn dispatch(url: &str, more: &[(&str, &str)]) -> Dispatch {
    Dispatch {
        token: JobToken(1),
        attempt: AttemptId(Uuid::from_u128(5)),
        number: 1,
        started_at: STARTED_AT,
        deadline: STARTED_AT + Duration::from_secs(15),
        event: Rc::new(event(more)),
        subscription: Rc::new(subscription()),
        destination: Rc::new(destination(url)),
        fresh_connection: false,
    }
}
