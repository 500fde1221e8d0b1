//! The signatures of a delivery, checked by code of its own: HMAC as RFC 2104 says it, over SHA-256.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::wire::Message;

const BLOCK_BYTES: usize = 64;

/// Checks both signatures of a request: some signature of each must be made with one of `secrets` (`whsec_…`).
pub fn check(request: &Message, secrets: &[String]) -> Result<(), String> {
    let keys: Vec<Vec<u8>> = secrets.iter().map(|secret| key(secret)).collect();
    let lerian = signed(request, "x-lerian-signature", &lerian_bytes(request)?)?;
    let standard = signed(request, "webhook-signature", &standard_bytes(request)?)?;
    let hex =
        |mac: &[u8; 32]| format!("v1,sha256={}", mac.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let base64 = |mac: &[u8; 32]| format!("v1,{}", STANDARD.encode(mac));
    match (made_with(&lerian, &keys, hex), made_with(&standard, &keys, base64)) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("X-Lerian-Signature is wrong: {:?}", lerian.1)),
        (true, false) => Err(format!("webhook-signature is wrong: {:?}", standard.1)),
    }
}

/// How many signatures a request carries in (`X-Lerian-Signature`, `webhook-signature`).
pub fn signature_count(headers: &[(String, String)]) -> (usize, usize) {
    let count = |name| super::wire::header(headers, name).map_or(0, |value| value.split(' ').count());
    (count("x-lerian-signature"), count("webhook-signature"))
}

/// The signed bytes and the signatures.
type Signed<'a> = (Vec<u8>, Vec<&'a str>);

fn signed<'a>(request: &'a Message, name: &str, bytes: &[u8]) -> Result<Signed<'a>, String> {
    let value = request.header(name).ok_or_else(|| format!("{name} is missing"))?;
    Ok((bytes.to_vec(), value.split(' ').collect()))
}

fn made_with((bytes, signatures): &Signed<'_>, keys: &[Vec<u8>], text: impl Fn(&[u8; 32]) -> String) -> bool {
    keys.iter().map(|key| text(&hmac_sha256(key, bytes))).any(|expected| signatures.contains(&expected.as_str()))
}

fn lerian_bytes(request: &Message) -> Result<Vec<u8>, String> {
    let timestamp = request.header("x-lerian-timestamp").ok_or("X-Lerian-Timestamp is missing")?;
    Ok([format!("v1:{timestamp}.").as_bytes(), &request.body].concat())
}

fn standard_bytes(request: &Message) -> Result<Vec<u8>, String> {
    let id = request.header("webhook-id").ok_or("webhook-id is missing")?;
    let timestamp = request.header("webhook-timestamp").ok_or("webhook-timestamp is missing")?;
    Ok([format!("{id}.{timestamp}.").as_bytes(), &request.body].concat())
}

fn key(secret: &str) -> Vec<u8> {
    STANDARD.decode(secret.strip_prefix("whsec_").expect("a secret's prefix")).expect("a secret in base64")
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

#[test]
fn the_published_vectors_hold() {
    let vectors = [
        (
            "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            r#"msg_27UH4WbU6Z5A5EzD8u03UvzRbpk.1649367553.{"email":"test@example.com","username":"test_user"}"#,
            "tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
        (
            "whsec_plJ3nmyCDGBKInavdOK15jsl",
            r#"msg_loFOjxBNrRLzqYUf.1731705121.{"event_type":"ping","data":{"success":true}}"#,
            "rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
        ),
    ];
    for (secret, message, expected) in vectors {
        assert_eq!(STANDARD.encode(hmac_sha256(&key(secret), message.as_bytes())), expected);
    }
}
