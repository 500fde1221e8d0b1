//! A secret in memory: wiped when dropped, never shown.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::limits;

/// Bytes that must not reach a log, an answer or a panic message.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// Why a text is not a signing secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The Standard Webhooks prefix is missing.
    #[error("must begin with `whsec_`")]
    Prefix,
    /// What follows is not base64.
    #[error("must be `whsec_` followed by base64")]
    Base64,
    /// The key's length is out of range.
    #[error("must decode to {min} to {max} bytes", min = limits::SIGNING_SECRET_MIN_BYTES, max = limits::SIGNING_SECRET_MAX_BYTES)]
    Length,
}

impl Secret {
    /// Takes `bytes` as a secret.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Parses `whsec_` + base64 of 24 to 64 bytes (Standard Webhooks, section "Secrets").
    ///
    /// # Errors
    /// [`SecretError`] names the rule that is broken.
    pub fn parse_whsec(text: &str) -> Result<Self, SecretError> {
        let encoded = text.strip_prefix("whsec_").ok_or(SecretError::Prefix)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| SecretError::Base64)?;
        let allowed = limits::SIGNING_SECRET_MIN_BYTES..=limits::SIGNING_SECRET_MAX_BYTES;
        if allowed.contains(&bytes.len()) { Ok(Self::new(bytes)) } else { Err(SecretError::Length) }
    }

    /// The text form, shown once when a secret is made.
    #[must_use]
    pub fn to_whsec(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.expose()))
    }

    /// The bytes themselves: for signing and sealing only.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whsec_is_checked_and_round_trips() {
        let text = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let secret = Secret::parse_whsec(text).expect("a secret of 24 bytes");
        assert_eq!(secret.to_whsec(), text);
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_eq!(Secret::parse_whsec("C2FV"), Err(SecretError::Prefix));
        assert_eq!(Secret::parse_whsec("whsec_*"), Err(SecretError::Base64));
        assert_eq!(Secret::parse_whsec("whsec_C2FV"), Err(SecretError::Length));
    }
}
