//! Checking a delivery's signatures, as its receiver does: the other side of [`super::sign`].
//!
//! A header may hold several signatures, separated by spaces; one that matches is enough. Versions that are not
//! known are passed over. Comparison takes the same time wherever a signature differs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::types::limits::SIGNATURE_TOLERANCE;
use crate::types::{Secret, Time};

/// What a receiver has of a delivery, as texts and bytes of the request.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// `webhook-id`.
    pub id: &'a str,
    /// `webhook-timestamp` or `X-Lerian-Timestamp`: unix seconds.
    pub seconds: &'a str,
    /// The body, byte for byte.
    pub body: &'a [u8],
}

impl Received<'_> {
    /// Whether `header`, the value of `webhook-signature`, holds a `v1` signature of this delivery by `secret`.
    #[must_use]
    pub fn matches_standard(&self, secret: &Secret, header: &str) -> bool {
        let message: [&[u8]; 5] = [self.id.as_bytes(), b".", self.seconds.as_bytes(), b".", self.body];
        let signatures = header.split(' ').filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
        signatures.fold(false, |found, signature| found | signs(secret, &message, &signature))
    }

    /// Whether `header`, the value of `X-Lerian-Signature`, holds a signature of this delivery by `secret`.
    #[must_use]
    pub fn matches_lerian(&self, secret: &Secret, header: &str) -> bool {
        let message: [&[u8]; 4] = [b"v1:", self.seconds.as_bytes(), b".", self.body];
        let signatures = header.split(' ').filter_map(|one| bytes_of_hex(one.strip_prefix("v1,sha256=")?));
        signatures.fold(false, |found, signature| found | signs(secret, &message, &signature))
    }

    /// Whether the timestamp is one and lies within [`SIGNATURE_TOLERANCE`] of `now`, before or after.
    #[must_use]
    pub fn is_fresh(&self, now: Time) -> bool {
        let Ok(seconds) = self.seconds.parse::<u64>() else { return false };
        now.as_secs().abs_diff(seconds) <= SIGNATURE_TOLERANCE.as_secs()
    }
}

fn signs(secret: &Secret, message: &[&[u8]], signature: &[u8]) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose()).expect("HMAC takes keys of any length");
    message.iter().for_each(|part| mac.update(part));
    mac.verify_slice(signature).is_ok()
}

/// The bytes of a text of hexadecimal digits, in either case.
fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    let whole = text.len().is_multiple_of(2);
    whole.then(|| text.as_bytes().chunks_exact(2).map(pair).collect::<Option<_>>())?
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::deliver::sign::Signer;
    use crate::types::destination::SigningSecret;

    const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;
    const SIGNATURE: &str = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";

    fn secret() -> Secret {
        Secret::parse_whsec("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").expect("a secret")
    }

    const fn received(body: &[u8]) -> Received<'_> {
        Received { id: "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", seconds: "1649367553", body }
    }

    #[test]
    fn the_standard_webhooks_vector_matches_among_others() {
        assert!(received(BODY).matches_standard(&secret(), SIGNATURE));
        assert!(received(BODY).matches_standard(&secret(), &format!("v1a,AAAA v1,AAAA {SIGNATURE}")));
        for other in ["", "v1,", "v2,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=", "v1,tZ1I4/hDygAJgO5TYxiSdw=="] {
            assert!(!received(BODY).matches_standard(&secret(), other), "{other}");
        }
        assert!(!received(b"{}").matches_standard(&secret(), SIGNATURE));
    }

    #[test]
    fn what_the_hub_signs_matches() {
        let now = Time::from_millis(1_649_367_553_000);
        let signer = Signer::new(&[SigningSecret { secret: secret(), expires_at: None }]);
        let mut header = BytesMut::new();
        signer.write_lerian(&mut header, now, "1649367553", BODY);
        let header = std::str::from_utf8(&header).expect("ASCII");
        assert!(received(BODY).matches_lerian(&secret(), header));
        assert!(received(BODY).matches_lerian(&secret(), &header.to_uppercase().replace("V1,SHA256", "v1,sha256")));
        assert!(!received(b"{}").matches_lerian(&secret(), header));
        for other in ["", "v1,sha256=", "v1,sha256=é0", "v1,sha256=abc", &header[..header.len() - 2]] {
            assert!(!received(BODY).matches_lerian(&secret(), other), "{other}");
        }
    }

    #[test]
    fn a_timestamp_is_fresh_for_five_minutes_either_way() {
        let at = |seconds: u64| Time::from_millis(seconds * 1_000);
        assert!(received(BODY).is_fresh(at(1_649_367_553 + 300)));
        assert!(received(BODY).is_fresh(at(1_649_367_553 - 300)));
        assert!(!received(BODY).is_fresh(at(1_649_367_553 + 301)));
        assert!(!Received { seconds: "soon", ..received(BODY) }.is_fresh(at(0)));
    }
}
