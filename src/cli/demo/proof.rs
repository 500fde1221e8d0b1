//! A delivery's signature, made again from what its receiver has: the secret, the headers and the body.
//!
//! The signature is made here from Standard Webhooks' own rule, not by the code that signed the delivery.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;

use super::message::Message;
use crate::deliver::verify::Received;
use crate::types::{Secret, Time};

/// One delivery with its signature as sent and as made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// Who received it.
    pub receiver: &'static str,
    /// `X-Lerian-Event-Type`.
    pub event_type: String,
    /// `webhook-id`.
    pub webhook_id: String,
    /// `webhook-timestamp`.
    pub webhook_timestamp: String,
    /// `webhook-signature`.
    pub webhook_signature: String,
    /// The body.
    pub body: String,
    /// The signature made again.
    pub recomputed: String,
    /// Whether the delivery is accepted as a receiver would.
    pub verified: bool,
    /// Whether the same delivery with one byte changed would be accepted.
    pub forgery_verified: bool,
}

impl Proof {
    /// Looks at one delivery.
    #[must_use]
    pub fn of(receiver: &'static str, secret: &Secret, delivery: &Message, now: Time) -> Self {
        let header = |name: &str| delivery.header(name).unwrap_or_default().to_owned();
        let mut forged = delivery.clone();
        if let Some(byte) = forged.body.last_mut() {
            *byte ^= 1;
        }
        Self {
            receiver,
            event_type: header("x-lerian-event-type"),
            webhook_id: header("webhook-id"),
            webhook_timestamp: header("webhook-timestamp"),
            webhook_signature: header("webhook-signature"),
            body: String::from_utf8_lossy(&delivery.body).into_owned(),
            recomputed: signature(secret, &header("webhook-id"), &header("webhook-timestamp"), &delivery.body),
            verified: verifies(secret, delivery, now),
            forgery_verified: verifies(secret, &forged, now),
        }
    }

    /// Whether all is as it should be.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.verified && !self.forgery_verified && self.recomputed == self.webhook_signature
    }
}

/// Whether both signatures of a delivery match and its timestamp is fresh.
#[must_use]
pub fn verifies(secret: &Secret, delivery: &Message, now: Time) -> bool {
    let header = |name: &str| delivery.header(name).unwrap_or_default();
    let received = |seconds| Received { id: header("webhook-id"), seconds, body: &delivery.body };
    let standard = received(header("webhook-timestamp"));
    let lerian = received(header("x-lerian-timestamp"));
    standard.matches_standard(secret, header("webhook-signature"))
        && lerian.matches_lerian(secret, header("x-lerian-signature"))
        && standard.is_fresh(now)
}

/// `v1,` and the base64 of HMAC-SHA256 over `<id>.<seconds>.<body>` (Standard Webhooks, "Signature scheme").
fn signature(secret: &Secret, id: &str, seconds: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose()).expect("HMAC takes keys of any length");
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;
    const SIGNATURE: &str = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";
    const AT: Time = Time::from_millis(1_649_367_553_000);

    fn secret() -> Secret {
        Secret::parse_whsec("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").expect("a secret")
    }

    fn delivery() -> Message {
        let headers = [
            ("webhook-id", "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk"),
            ("webhook-timestamp", "1649367553"),
            ("webhook-signature", SIGNATURE),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Message { start: String::new(), headers, body: BODY.to_vec() }
    }

    #[test]
    fn the_standard_vector_is_made_again() {
        let proof = Proof::of("ledger", &secret(), &delivery(), AT);
        assert_eq!((proof.recomputed.as_str(), proof.webhook_signature.as_str()), (SIGNATURE, SIGNATURE));
        assert!(!proof.verified && !proof.holds(), "the second signature is missing");
    }

    #[test]
    fn both_signatures_and_a_fresh_timestamp_are_needed() {
        let mut whole = delivery();
        let mut mac = Hmac::<Sha256>::new_from_slice(secret().expose()).expect("a key");
        mac.update(b"v1:1649367553.");
        mac.update(BODY);
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        whole.headers.push(("x-lerian-timestamp".to_owned(), "1649367553".to_owned()));
        whole.headers.push(("x-lerian-signature".to_owned(), format!("v1,sha256={hex}")));
        assert!(Proof::of("ledger", &secret(), &whole, AT).holds());
        assert!(!verifies(&secret(), &whole, Time::from_millis(1_649_368_553_000)), "an old timestamp");
        assert!(!verifies(&Secret::new(vec![0; 24]), &whole, AT), "another secret");
        whole.headers.retain(|(name, _)| name != "webhook-signature");
        assert!(!verifies(&secret(), &whole, AT));
    }
}
