//! Verification: asking a destination whether it wants a subscription (contracts, "Verification").
//!
//! A signed POST carries a challenge; consent is a 2xx with the challenge back, as the whole body or as
//! `{"challenge": …}`. Creation, and a change of the URL, try three times within a minute in the background;
//! `POST …/verify` tries once, now.

use std::cell::RefCell;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::deliver::Probe;
use crate::engine::Command;
use crate::runtime::{channel, task, timer};
use crate::types::destination::Verification;
use crate::types::subscription::VerificationState;
use crate::types::{AttemptId, AttemptOutcome, Destination, Subscription, SubscriptionId, TenantId, limits};

use super::config_writer::Enable;
use super::problem::Problem;
use super::service::Service;
use super::verify_queue::{Pushed, VerifyQueue};

/// The `type` of the body and the `X-Lerian-Event-Type`.
const EVENT_TYPE: &str = "webhook.verification";

/// Verifications in the background: who waits, and how many probes are on their way.
pub struct Verifier {
    queue: RefCell<VerifyQueue>,
    give: channel::Sender<()>,
    take: channel::Receiver<()>,
}

impl Verifier {
    /// Nobody waits, all permits are free.
    #[must_use]
    pub fn new() -> Self {
        let (give, take) = channel::bounded(limits::VERIFICATIONS_MAX);
        let verifier = Self { queue: RefCell::default(), give, take };
        for _ in 0..limits::VERIFICATIONS_MAX {
            verifier.release();
        }
        verifier
    }

    async fn acquire(&self) {
        // The sender lives beside the receiver, so this always ends with a permit.
        let _ = self.take.recv_async().await;
    }

    fn release(&self) {
        // There is room for every permit that was taken.
        let _ = self.give.try_send(());
    }
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new()
    }
}

/// What a new subscription to `destination`, or one whose URL has changed, begins with.
#[must_use]
pub const fn first_state(destination: &Destination) -> VerificationState {
    match destination.verification {
        Verification::Challenge => VerificationState::Pending,
        Verification::None => VerificationState::Active,
    }
}

/// Verifies a pending subscription in the background.
pub fn begin(service: &Rc<Service>, subscription: &Subscription) {
    if subscription.verification_state != VerificationState::Pending {
        return;
    }
    let (tenant, first) = (subscription.tenant.clone(), subscription.id);
    if service.verifier.queue.borrow_mut().push(&tenant, first) == Pushed::Waits {
        return;
    }
    let service = Rc::clone(service);
    task::spawn(async move {
        let mut next = Some(first);
        while let Some(id) = next {
            try_three_times(&service, &tenant, id).await;
            next = service.verifier.queue.borrow_mut().next(&tenant);
        }
    });
}

/// Takes up every verification that a restart interrupted.
pub fn resume(service: &Rc<Service>) {
    let directory = service.writer.directory();
    for subscription in directory.tenants().flat_map(|(_, objects)| objects.subscriptions.values()) {
        begin(service, subscription);
    }
}

/// Asks once, now; on success the subscription is active and enabled and its destination's failures are forgotten.
///
/// # Errors
/// 404 when it is gone, 409 `verification_failed` with what came back.
pub async fn verify_now(service: &Service, tenant: &TenantId, id: SubscriptionId) -> Result<Subscription, Problem> {
    let (_, destination) = subject(service, tenant, id).ok_or_else(Problem::not_found)?;
    if destination.verification == Verification::Challenge {
        ask(service, &destination, id).await.map_err(|why| Problem::new(409, "verification_failed", why))?;
    }
    let now = service.now();
    let verified = service.writer.verified((id, &destination), VerificationState::Active, Enable::Yes, now).await?;
    service.shards.command(tenant, Command::ClearFailures(tenant.clone(), destination.id)).await;
    Ok(verified)
}

/// Ends when the subscription is no longer pending, with or without us.
async fn try_three_times(service: &Service, tenant: &TenantId, id: SubscriptionId) {
    let mut last = None;
    for pause in limits::VERIFICATION_PAUSES {
        timer::sleep(pause.to_std()).await;
        let Some((subscription, destination)) = subject(service, tenant, id) else { return };
        if subscription.verification_state != VerificationState::Pending {
            return;
        }
        service.verifier.acquire().await;
        let asked = ask(service, &destination, id).await;
        service.verifier.release();
        if asked.is_ok() {
            let active = VerificationState::Active;
            let written = service.writer.verified((id, &destination), active, Enable::No, service.now()).await;
            // Gone or under another URL: that has its own verification, or needs none.
            if written.map_err(|problem| problem.status) != Err(503) {
                return;
            }
        }
        last = Some(destination);
    }
    if let Some(destination) = last {
        let failed = VerificationState::Failed;
        let _ = service.writer.verified((id, &destination), failed, Enable::No, service.now()).await;
    }
}

fn subject(service: &Service, tenant: &TenantId, id: SubscriptionId) -> Option<(Rc<Subscription>, Rc<Destination>)> {
    let directory = service.writer.directory();
    let subscription = directory.subscription(tenant, id)?;
    let destination = directory.destination(tenant, subscription.destination_id)?;
    Some((Rc::clone(subscription), Rc::clone(destination)))
}

async fn ask(service: &Service, destination: &Destination, id: SubscriptionId) -> Result<(), String> {
    let now = service.now();
    let random = service.secret_bytes().map_err(|problem| problem.detail)?;
    let challenge = URL_SAFE_NO_PAD.encode(random);
    let probe = Probe {
        destination,
        subscription: id,
        id: AttemptId(service.new_id(now)),
        event_type: EVENT_TYPE,
        body: challenge_body(&challenge, id),
        deadline: now + limits::VERIFICATION_TIMEOUT,
    };
    consent(&service.client.probe(&probe).await, &challenge)
}

fn challenge_body(challenge: &str, id: SubscriptionId) -> Bytes {
    let body = json!({"type": EVENT_TYPE, "challenge": challenge, "subscription_id": id.to_string()});
    body.to_string().into()
}

/// Whether what came back is consent; if not, why.
fn consent(outcome: &AttemptOutcome, challenge: &str) -> Result<(), String> {
    let Some(status) = outcome.status else {
        let kind = outcome.error_kind.map_or("no answer", |kind| kind.as_str());
        return Err(format!("the destination did not answer: {kind}"));
    };
    if !(200..300).contains(&status) {
        return Err(format!("the destination answered {status}"));
    }
    let body = &outcome.response_body;
    let member = || serde_json::from_slice::<Value>(body).ok()?.get("challenge")?.as_str().map(str::to_owned);
    if body.trim_ascii() == challenge.as_bytes() || member().as_deref() == Some(challenge) {
        return Ok(());
    }
    Err(format!("the destination answered {status} without the challenge"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ErrorKind;

    fn answered(status: u16, body: &str) -> AttemptOutcome {
        AttemptOutcome { status: Some(status), response_body: body.to_owned().into(), ..AttemptOutcome::default() }
    }

    #[test]
    fn only_a_2xx_with_the_challenge_back_is_consent() {
        assert_eq!(consent(&answered(200, "abc"), "abc"), Ok(()));
        assert_eq!(consent(&answered(204, "abc\n"), "abc"), Ok(()));
        assert_eq!(consent(&answered(201, r#"{"challenge":"abc","x":1}"#), "abc"), Ok(()));
        for refused in [
            answered(200, ""),
            answered(200, "abcd"),
            answered(200, r#"{"challenge":7}"#),
            answered(500, "abc"),
            answered(302, "abc"),
        ] {
            assert!(consent(&refused, "abc").is_err());
        }
        let silent = AttemptOutcome { error_kind: Some(ErrorKind::Timeout), ..AttemptOutcome::default() };
        assert_eq!(consent(&silent, "abc"), Err("the destination did not answer: timeout".to_owned()));
    }

    #[test]
    fn the_body_is_that_of_the_contract() {
        let id = SubscriptionId(uuid::Uuid::nil());
        let body: Value = serde_json::from_slice(&challenge_body("abc", id)).expect("JSON");
        let expected = json!({"type": "webhook.verification", "challenge": "abc", "subscription_id": id.to_string()});
        assert_eq!(body, expected);
        assert_eq!(URL_SAFE_NO_PAD.encode([0; 32]).len(), 43);
    }
}
