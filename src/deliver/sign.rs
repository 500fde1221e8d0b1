//! The two signatures of a delivery (contracts, "A delivery").
//!
//! `X-Lerian-Signature` is HMAC-SHA256 over `v1:<seconds>.<body>`; `webhook-signature` is that of Standard
//! Webhooks, over `<id>.<seconds>.<body>`. A signer holds each key already absorbed, so that one signature costs
//! hashing the message and nothing else.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, BytesMut};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::types::destination::SigningSecret;
use crate::types::{Secret, Time};

/// Hexadecimal digits of a signature.
const HEX_BYTES: usize = 64;
/// Base64 characters of a signature.
const BASE64_BYTES: usize = 44;
const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The keys that sign for one version of a destination, newest first.
pub struct Signer {
    keys: Vec<Key>,
}

struct Key {
    mac: Hmac<Sha256>,
    expires_at: Option<Time>,
}

impl Signer {
    /// Takes a destination's secrets, newest first.
    #[must_use]
    pub fn new(secrets: &[SigningSecret]) -> Self {
        let keys = secrets.iter().map(|s| Key { mac: absorbed(&s.secret), expires_at: s.expires_at }).collect();
        Self { keys }
    }

    /// Writes the value of `X-Lerian-Signature`: `v1,sha256=<hex>` per valid secret, separated by spaces.
    /// `seconds` is the text of `X-Lerian-Timestamp`.
    pub fn write_lerian(&self, out: &mut BytesMut, now: Time, seconds: &str, body: &[u8]) {
        for (index, key) in self.valid(now).enumerate() {
            separate(out, index);
            out.put_slice(b"v1,sha256=");
            write_hex(out, &key.sum(&[b"v1:", seconds.as_bytes(), b".", body]));
        }
    }

    /// Writes the value of `webhook-signature`: `v1,<base64>` per valid secret, separated by spaces.
    /// `id` and `seconds` are the texts of `webhook-id` and `webhook-timestamp`.
    pub fn write_standard(&self, out: &mut BytesMut, now: Time, id: &str, seconds: &str, body: &[u8]) {
        for (index, key) in self.valid(now).enumerate() {
            separate(out, index);
            out.put_slice(b"v1,");
            write_base64(out, &key.sum(&[id.as_bytes(), b".", seconds.as_bytes(), b".", body]));
        }
    }

    fn valid(&self, now: Time) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(move |key| key.expires_at.is_none_or(|end| now < end))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("keys", &self.keys.len()).finish()
    }
}

impl Key {
    fn sum(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.mac.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }
}

fn absorbed(secret: &Secret) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret.expose()).expect("HMAC takes keys of any length")
}

fn separate(out: &mut BytesMut, index: usize) {
    if index > 0 {
        out.put_u8(b' ');
    }
}

fn write_hex(out: &mut BytesMut, sum: &[u8; 32]) {
    let mut text = [0; HEX_BYTES];
    for (pair, byte) in text.chunks_exact_mut(2).zip(sum) {
        pair[0] = HEX_DIGITS[usize::from(byte >> 4)];
        pair[1] = HEX_DIGITS[usize::from(byte & 15)];
    }
    out.put_slice(&text);
}

fn write_base64(out: &mut BytesMut, sum: &[u8; 32]) {
    let mut text = [0; BASE64_BYTES];
    let length = STANDARD.encode_slice(sum, &mut text).expect("32 bytes are 44 characters of base64");
    out.put_slice(&text[..length]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Duration;

    fn secret(text: &str, expires_at: Option<Time>) -> SigningSecret {
        SigningSecret { secret: Secret::parse_whsec(text).unwrap(), expires_at }
    }

    fn standard(signer: &Signer, at: u64, id: &str, body: &str) -> String {
        let mut out = BytesMut::new();
        signer.write_standard(&mut out, Time::from_millis(at * 1_000), id, &at.to_string(), body.as_bytes());
        String::from_utf8(out.to_vec()).unwrap()
    }

    fn lerian(signer: &Signer, now: Time, body: &[u8]) -> String {
        let mut out = BytesMut::new();
        signer.write_lerian(&mut out, now, &now.as_secs().to_string(), body);
        String::from_utf8(out.to_vec()).unwrap()
    }

    const FIRST: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    #[test]
    fn standard_webhooks_vectors() {
        let first = Signer::new(&[secret(FIRST, None)]);
        let body = r#"{"email":"test@example.com","username":"test_user"}"#;
        assert_eq!(
            standard(&first, 1_649_367_553, "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", body),
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="
        );
        let key = STANDARD.decode("plJ3nmyCDGBKInavdOK15jsl").unwrap();
        let second = Signer::new(&[SigningSecret { secret: Secret::new(key), expires_at: None }]);
        assert_eq!(
            standard(
                &second,
                1_731_705_121,
                "msg_loFOjxBNrRLzqYUf",
                r#"{"event_type":"ping","data":{"success":true}}"#
            ),
            "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="
        );
    }

    #[test]
    fn the_lerian_signature_is_the_hmac_of_version_time_and_body() {
        let key = secret(FIRST, None);
        let signer = Signer::new(std::slice::from_ref(&key));
        for body in ["", "0", "{}", "\u{0}\u{1}"] {
            let mut whole = Hmac::<Sha256>::new_from_slice(key.secret.expose()).unwrap();
            whole.update(format!("v1:1700000000.{body}").as_bytes());
            let expected: String = whole.finalize().into_bytes().iter().map(|b| format!("{b:02x}")).collect();
            let signed = lerian(&signer, Time::from_millis(1_700_000_000_999), body.as_bytes());
            assert_eq!(signed, format!("v1,sha256={expected}"), "body {body:?}");
        }
    }

    #[test]
    fn a_rotated_secret_signs_beside_the_new_one_until_it_expires() {
        let now = Time::from_millis(1_700_000_000_000);
        let end = now + Duration::from_secs(10);
        let both = Signer::new(&[secret(FIRST, None), secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Some(end))]);
        assert_eq!(lerian(&both, now, b"x").split(' ').count(), 2);
        assert_eq!(lerian(&both, end, b"x").split(' ').count(), 1);
        let alone = Signer::new(&[secret(FIRST, None)]);
        assert_eq!(lerian(&both, end, b"x"), lerian(&alone, end, b"x"));
        assert!(lerian(&both, now, b"x").starts_with(&lerian(&alone, now, b"x")));
    }
}
