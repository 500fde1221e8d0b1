//! Deliveries, their attempts, and dead letters.

use serde::Serialize;

use crate::engine::rows::LoggedEvent;
use crate::engine::{Standing, WaitingFor};
use crate::store::embedded::Delivery;
use crate::types::{
    AttemptRecord, DeliveryId, DestinationId, End, Event, JobRecord, Subscription, SubscriptionId, Time,
};

use super::{HeaderView, text_or_base64};

/// What is known of an open job's surroundings when it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// The job's subscription, unless it was deleted.
    pub subscription: Option<&'a Subscription>,
    /// When the subscription was deleted, if it was: its jobs end as cancelled, some a while later.
    pub deleted_at: Option<Time>,
    /// The tenant is paused.
    pub paused: bool,
    /// What the shard says.
    pub standing: Standing,
    /// The moment of the answer.
    pub now: Time,
}

impl Waiting<'_> {
    /// How a job ended; one of a deleted subscription has, unless an attempt is still on its way.
    fn end(&self, job: &JobRecord) -> Option<(End, Time)> {
        let claimed = job.open_claim.is_some() || self.standing == Standing::InFlight;
        let cancelled = self.deleted_at.filter(|_| !claimed).map(|at| (End::Cancelled, at));
        job.end.or(cancelled)
    }

    /// The status of a job in the API.
    fn status(&self, job: &JobRecord) -> &'static str {
        match (self.end(job), &job.open_claim) {
            (Some((end, _)), _) => end.as_str(),
            (None, Some(_)) => "delivering",
            (None, None) => "pending",
        }
    }

    /// What a pending job waits for: its shard's word, or what can be told without it.
    fn reason(&self, job: &JobRecord) -> Option<WaitingFor> {
        if self.end(job).is_some() || job.open_claim.is_some() {
            return None;
        }
        match self.standing {
            Standing::InFlight => None,
            Standing::Waiting(reason) => Some(reason),
            Standing::Unknown if self.paused => Some(WaitingFor::Paused),
            Standing::Unknown => match self.subscription {
                Some(subscription) if !subscription.enabled => Some(WaitingFor::Disabled),
                Some(subscription) if !subscription.is_live() => Some(WaitingFor::Unverified),
                Some(_) | None => job.next_at.filter(|at| *at > self.now).map(|_| WaitingFor::Retry),
            },
        }
    }
}

/// The event that a job carries, as far as its view names it.
#[derive(Clone, Debug)]
pub struct Carried<'a> {
    /// The event's id in the API.
    pub event_id: String,
    /// The event key.
    pub event_type: &'a str,
    /// When the event came in.
    pub received_at: Time,
}

impl<'a> From<&'a Event> for Carried<'a> {
    fn from(event: &'a Event) -> Self {
        Self { event_id: event.public_id(), event_type: &event.key, received_at: event.received_at }
    }
}

impl<'a> From<&'a Delivery> for Carried<'a> {
    fn from(delivery: &'a Delivery) -> Self {
        let Delivery { event_id, event_type, received_at, job: _ } = delivery;
        Self { event_id: event_id.clone(), event_type, received_at: *received_at }
    }
}

/// One job.
#[derive(Debug, Serialize)]
pub struct DeliveryView<'a> {
    id: DeliveryId,
    event_id: String,
    event_type: &'a str,
    subscription_id: SubscriptionId,
    destination_id: DestinationId,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    attempt_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
    trigger: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<&'static str>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error_kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptView<'a>>>,
}

/// The id of a job of an event.
#[must_use]
pub fn delivery_id(event: &Event, job: &JobRecord) -> DeliveryId {
    DeliveryId::of(event.received_at, job.key.sequence, job.key.ordinal)
}

impl<'a> DeliveryView<'a> {
    /// The view, as lists show it.
    #[must_use]
    pub fn of(event: impl Into<Carried<'a>>, job: &JobRecord, waiting: &Waiting<'_>) -> Self {
        let Carried { event_id, event_type, received_at } = event.into();
        let end = waiting.end(job);
        Self {
            id: DeliveryId::of(received_at, job.key.sequence, job.key.ordinal),
            event_id,
            event_type,
            subscription_id: job.subscription,
            destination_id: job.destination,
            status: waiting.status(job),
            reason: reason(job),
            attempt_count: job.attempts,
            next_attempt_at: job.next_at.filter(|_| end.is_none()).map(|at| at.to_rfc3339()),
            trigger: job.trigger.as_str(),
            waiting_for: waiting.reason(job).map(WaitingFor::as_str),
            created_at: job.created_at.to_rfc3339(),
            ended_at: end.map(|(_, at)| at.to_rfc3339()),
            last_status: job.last_status,
            last_error_kind: job.last_error_kind.map(|kind| kind.as_str()),
            attempts: None,
        }
    }

    /// The same with its attempts, as the single read shows it.
    #[must_use]
    pub fn with_attempts(mut self, attempts: &'a [AttemptRecord]) -> Self {
        self.attempts = Some(attempts.iter().map(AttemptView::of).collect());
        self
    }
}

fn reason(job: &JobRecord) -> Option<&'static str> {
    match job.end {
        Some((End::DeadLettered(reason), _)) => Some(reason.as_str()),
        Some((End::Delivered | End::Cancelled, _)) | None => None,
    }
}

/// One attempt.
#[derive(Debug, Serialize)]
pub struct AttemptView<'a> {
    id: String,
    number: u32,
    url: &'a str,
    started_at: String,
    duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    response_headers: Vec<HeaderView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body_base64: Option<String>,
    truncated: bool,
}

impl<'a> AttemptView<'a> {
    /// The view.
    #[must_use]
    pub fn of(record: &'a AttemptRecord) -> Self {
        let outcome = &record.outcome;
        let (text, base64) = text_or_base64(&outcome.response_body);
        Self {
            id: record.claim.attempt.to_string(),
            number: record.number,
            url: &record.url,
            started_at: record.claim.claimed_at.to_rfc3339(),
            duration_ms: outcome.ended_at.since(record.claim.claimed_at).as_millis(),
            status: outcome.status,
            error_kind: outcome.error_kind.map(|kind| kind.as_str()),
            error: outcome.error.as_deref(),
            response_headers: HeaderView::list(&outcome.response_headers),
            response_body: text.filter(|text| !text.is_empty()),
            response_body_base64: base64,
            truncated: outcome.truncated,
        }
    }
}

/// One dead letter.
#[derive(Debug, Serialize)]
pub struct DeadLetterView {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    delivery_id: DeliveryId,
    event_id: String,
    event_type: String,
    subscription_id: SubscriptionId,
    destination_id: DestinationId,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error_kind: Option<&'static str>,
    attempt_count: u32,
    dead_lettered_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retried_as: Option<DeliveryId>,
}

impl DeadLetterView {
    /// The view of a job that was dead-lettered; `None` for any other. `retried` is the latest run after it.
    #[must_use]
    pub fn of(event: &Event, job: &JobRecord, retried: Option<DeliveryId>) -> Option<Self> {
        let Some((End::DeadLettered(reason), at)) = job.end else { return None };
        let delivery_id = delivery_id(event, job);
        Some(Self {
            id: delivery_id.dead_letter().to_string(),
            tenant: None,
            delivery_id,
            event_id: event.public_id(),
            event_type: event.key.to_string(),
            subscription_id: job.subscription,
            destination_id: job.destination,
            reason: reason.as_str(),
            last_status: job.last_status,
            last_error_kind: job.last_error_kind.map(|kind| kind.as_str()),
            attempt_count: job.attempts,
            dead_lettered_at: at.to_rfc3339(),
            retried_as: retried,
        })
    }

    /// The same with its tenant, as operators see it.
    #[must_use]
    pub fn with_tenant(mut self, event: &Event) -> Self {
        self.tenant = Some(event.tenant.to_string());
        self
    }
}

/// The latest run of a job's event for the same subscription that came after it.
#[must_use]
pub fn retried_as(logged: &LoggedEvent, job: &JobRecord) -> Option<DeliveryId> {
    let later = |other: &&JobRecord| other.subscription == job.subscription && other.key.ordinal > job.key.ordinal;
    logged.jobs.iter().filter(later).max_by_key(|other| other.key.ordinal).map(|run| delivery_id(&logged.event, run))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{AT, job, logged};
    use super::*;
    use crate::types::{AttemptId, AttemptOutcome, ClaimRecord, Duration, EndReason, ErrorKind};
    use serde_json::json;

    const NOTHING: Waiting<'static> =
        Waiting { subscription: None, deleted_at: None, paused: false, standing: Standing::Unknown, now: AT };

    fn claim() -> ClaimRecord {
        let attempt = AttemptId(uuid::Uuid::nil());
        ClaimRecord { attempt, claimed_at: AT, until: AT + Duration::from_secs(20), alone: false }
    }

    #[test]
    fn a_pending_job_says_when_and_what_for() {
        let mut record = job(0);
        record.next_at = Some(AT + Duration::from_secs(5));
        (record.attempts, record.last_status, record.last_error_kind) = (1, Some(500), Some(ErrorKind::Status));
        let logged = logged(vec![record]);
        let view = serde_json::to_value(DeliveryView::of(&logged.event, &logged.jobs[0], &NOTHING)).expect("JSON");
        let expected = json!({
            "id": delivery_id(&logged.event, &logged.jobs[0]).to_string(),
            "event_id": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "event_type": "loan.approved",
            "subscription_id": "sub_00000000000000000000000000000001",
            "destination_id": "dst_00000000000000000000000000000002", "status": "pending", "attempt_count": 1,
            "next_attempt_at": "2022-02-22T19:22:27.000Z", "trigger": "match", "waiting_for": "retry",
            "created_at": "2022-02-22T19:22:22.000Z", "last_status": 500, "last_error_kind": "status",
        });
        assert_eq!(view, expected);
    }

    #[test]
    fn the_shard_has_the_first_word_on_what_a_job_waits_for() {
        let record = job(0);
        assert_eq!(NOTHING.reason(&record), None);
        let asked = Waiting { standing: Standing::Waiting(WaitingFor::Order), paused: true, ..NOTHING };
        assert_eq!(asked.reason(&record), Some(WaitingFor::Order));
        let paused = Waiting { paused: true, ..NOTHING };
        assert_eq!(paused.reason(&record), Some(WaitingFor::Paused));
        assert_eq!(Waiting { standing: Standing::InFlight, ..paused }.reason(&record), None);
        let claimed = JobRecord { open_claim: Some(claim()), ..record };
        assert_eq!((paused.reason(&claimed), paused.status(&claimed)), (None, "delivering"));
    }

    #[test]
    fn a_job_of_a_deleted_subscription_is_cancelled_unless_an_attempt_is_on_its_way() {
        let record = JobRecord { next_at: Some(AT + Duration::from_secs(60)), ..job(0) };
        let deleted = Waiting { deleted_at: Some(AT), ..NOTHING };
        let logged = logged(vec![record.clone()]);
        let view = serde_json::to_value(DeliveryView::of(&logged.event, &record, &deleted)).expect("JSON");
        assert_eq!((&view["status"], &view["ended_at"]), (&json!("cancelled"), &json!(AT.to_rfc3339())));
        assert!(view.get("waiting_for").is_none() && view.get("next_attempt_at").is_none(), "{view}");
        let claimed = JobRecord { open_claim: Some(claim()), ..record.clone() };
        assert_eq!(deleted.status(&claimed), "delivering");
        assert_eq!(Waiting { standing: Standing::InFlight, ..deleted }.status(&record), "pending");
        let delivered = JobRecord { end: Some((End::Delivered, AT)), ..record };
        assert_eq!(deleted.status(&delivered), "delivered");
    }

    #[test]
    fn an_attempt_shows_bytes_that_are_no_text_in_base64() {
        let outcome = AttemptOutcome {
            ended_at: AT + Duration::from_millis(30),
            status: Some(500),
            error_kind: Some(ErrorKind::Status),
            response_headers: vec![("x".into(), "y".into())],
            response_body: vec![0xff, 0xfe, 0].into(),
            truncated: true,
            ..AttemptOutcome::default()
        };
        let destination = job(0).destination;
        let url = "https://r.test/".into();
        let record = AttemptRecord {
            number: 1,
            claim: claim(),
            destination,
            url,
            outcome,
            counted: true,
            reclaim: false,
            next_at: None,
        };
        let view = serde_json::to_value(AttemptView::of(&record)).expect("JSON");
        let expected = json!({
            "id": "00000000-0000-0000-0000-000000000000", "number": 1, "url": "https://r.test/",
            "started_at": "2022-02-22T19:22:22.000Z", "duration_ms": 30, "status": 500, "error_kind": "status",
            "response_headers": [{"name": "x", "value": "y"}], "response_body_base64": "//4A", "truncated": true,
        });
        assert_eq!(view, expected);
    }

    #[test]
    fn a_dead_letter_names_the_run_that_followed_it() {
        let dead = JobRecord { end: Some((End::DeadLettered(EndReason::Exhausted), AT)), ..job(0) };
        let logged = logged(vec![dead, job(1)]);
        let run = retried_as(&logged, &logged.jobs[0]);
        assert_eq!(run, Some(delivery_id(&logged.event, &logged.jobs[1])));
        let view = DeadLetterView::of(&logged.event, &logged.jobs[0], run).expect("a dead letter");
        let view = serde_json::to_value(view.with_tenant(&logged.event)).expect("JSON");
        assert_eq!((&view["reason"], &view["tenant"]), (&json!("exhausted"), &json!("acme")));
        assert_eq!(view["retried_as"], json!(run));
        assert!(DeadLetterView::of(&logged.event, &logged.jobs[1], None).is_none());
        assert_eq!(retried_as(&logged, &logged.jobs[1]), None);
    }
}
