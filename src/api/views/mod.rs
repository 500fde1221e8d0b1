//! What lists and single reads show: events, deliveries, attempts, dead letters, and the operator's tables.
//!
//! Views borrow from the store's records and only shape them (contracts, "Shapes"): times are RFC 3339 with
//! milliseconds, unset members are absent, bytes that are no text are base64.

pub mod delivery;
pub mod event;
pub mod operator;

pub use delivery::{AttemptView, DeadLetterView, DeliveryView, Waiting};
pub use event::EventView;
pub use operator::{CircuitView, LaneView, QuarantineView, ShardView};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;

/// One header: as text when it is one.
#[derive(Debug, Serialize)]
pub struct HeaderView<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

impl<'a> HeaderView<'a> {
    fn of(name: &'a str, value: &'a [u8]) -> Self {
        let (text, base64) = text_or_base64(value);
        Self { name, value: text, value_base64: base64 }
    }

    /// All headers in order.
    fn list(headers: &'a [(Box<str>, Bytes)]) -> Vec<Self> {
        headers.iter().map(|(name, value)| Self::of(name, value)).collect()
    }
}

/// Bytes as text if they are UTF-8, else in base64.
fn text_or_base64(bytes: &[u8]) -> (Option<&str>, Option<String>) {
    std::str::from_utf8(bytes).map_or_else(|_| (None, Some(STANDARD.encode(bytes))), |text| (Some(text), None))
}

#[cfg(test)]
mod samples {
    //! One event with its jobs, for the tests of this folder.

    use crate::engine::rows::LoggedEvent;
    use crate::types::{
        Attributes, DestinationId, Event, JobKey, JobRecord, LaneName, RunId, Sequence, Slot, SubscriptionId, TenantId,
        Time, Trigger,
    };
    use uuid::Uuid;

    pub const AT: Time = Time::from_millis(1_645_557_742_000);

    pub fn event(content_type: &str, payload: &'static [u8]) -> Event {
        let pairs = [("id", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"), ("source", "loans")];
        let pairs =
            pairs.into_iter().chain([("datacontenttype", content_type)].into_iter().filter(|p| !p.1.is_empty()));
        Event {
            tenant: TenantId::new("acme").expect("a tenant"),
            id: "017f22e2-79b0-7cc3-98c4-dc0c0c07398f".parse().expect("a UUID"),
            sequence: Sequence(7),
            received_at: AT,
            key: "loan.approved".into(),
            schema_major: 1,
            attributes: Attributes::pack(pairs),
            traceparent: None,
            tracestate: None,
            content_encoding: None,
            source_id: None,
            request: None,
            lane: LaneName::kafka("lerian.streaming.loans", 3),
            payload: payload.into(),
        }
    }

    pub fn job(ordinal: u16) -> JobRecord {
        JobRecord {
            key: JobKey { slot: Slot(1), sequence: Sequence(7), ordinal },
            subscription: SubscriptionId(Uuid::from_u128(1)),
            destination: DestinationId(Uuid::from_u128(2)),
            run: RunId::MATCH,
            trigger: Trigger::Match,
            created_at: AT,
            attempts: 0,
            counted: 0,
            reclaims: 0,
            open_claim: None,
            next_at: None,
            last_status: None,
            last_error_kind: None,
            end: None,
        }
    }

    pub fn logged(jobs: Vec<JobRecord>) -> LoggedEvent {
        LoggedEvent { event: event("application/json", b"{}"), jobs, payload_expired: false }
    }
}
