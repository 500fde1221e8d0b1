//! Sample values, the same for every bench.

use bytes::Bytes;
use streaming_hub::types::destination::{
    Auth, CircuitSettings, Method, On410, Ordering, OrderingKey, SigningSecret, Verification,
};
use streaming_hub::types::ids::uuid_v7;
use streaming_hub::types::subscription::{EventPattern, VerificationState};
use streaming_hub::types::{
    Attributes, Destination, DestinationId, Event, LaneName, RetryPolicy, Secret, Sequence, Subscription,
    SubscriptionId, TenantId, Time,
};
use uuid::Uuid;

/// When the benches play.
pub const NOW: Time = Time::from_millis(1_700_000_000_000);

/// A payload of so many bytes.
pub fn payload(bytes: usize) -> Bytes {
    Bytes::from(vec![b'x'; bytes])
}

/// A tenant by number.
pub fn tenant(number: u64) -> TenantId {
    TenantId::new(&format!("tenant-{number}")).expect("a plain name is a tenant id")
}

/// An event as the decoder makes it, with an id of its own for each `number`.
pub fn event(tenant: &TenantId, number: u64, key: &str, at: Time, payload: Bytes) -> Event {
    let id = uuid_v7(at, u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
    let attributes = [
        ("specversion", "1.0"),
        ("id", &*id.to_string()),
        ("source", "loans"),
        ("type", &*format!("studio.lerian.loans.{key}")),
        ("time", "2023-11-14T22:13:20Z"),
        ("schemaversion", "1.0.0"),
        ("datacontenttype", "application/json"),
    ];
    Event {
        tenant: tenant.clone(),
        id,
        sequence: Sequence(number),
        received_at: at,
        key: key.into(),
        schema_major: 1,
        attributes: Attributes::pack(attributes),
        traceparent: None,
        tracestate: None,
        content_encoding: None,
        source_id: None,
        request: None,
        lane: LaneName("kafka/lerian.streaming.loans/0".into()),
        payload,
    }
}

/// A destination by number, with one secret.
pub fn destination(tenant: &TenantId, number: u64, url: &str, ordering: Ordering) -> Destination {
    let secret = Secret::new(vec![7; 32]);
    Destination {
        id: DestinationId(Uuid::from_u128(u128::from(number))),
        tenant: tenant.clone(),
        name: None,
        description: None,
        url: url.parse().expect("a bench's URL is one"),
        method: Method::Post,
        headers: Vec::new(),
        on_410: On410::default(),
        auth: Auth::None,
        secrets: vec![SigningSecret { secret, expires_at: None }],
        timeout_ms: 15_000,
        max_in_flight: 256,
        rate_limit: None,
        retry: RetryPolicy::default(),
        ordering,
        ordering_key: OrderingKey::default(),
        circuit: CircuitSettings::default(),
        verification: Verification::None,
        created_at: NOW,
        updated_at: NOW,
        version: 1,
    }
}

/// A live subscription to the destination of the same number, for one event key.
pub fn subscription(tenant: &TenantId, number: u64, key: &str) -> Subscription {
    Subscription {
        id: SubscriptionId(Uuid::from_u128(u128::from(number))),
        tenant: tenant.clone(),
        name: None,
        description: None,
        origin: None,
        source_id: None,
        event_types: vec![EventPattern::Exact(key.to_owned())],
        schema_major: None,
        filter_rules: Vec::new(),
        destination_id: DestinationId(Uuid::from_u128(u128::from(number))),
        enabled: true,
        disabled_reason: None,
        disabled_at: None,
        verification_state: VerificationState::Active,
        retry: None,
        ordering: None,
        ordering_key: None,
        created_at: NOW,
        updated_at: NOW,
        version: 1,
    }
}
