//! Checks both signatures of a delivery against those that the hub's own signer makes.

use bytes::BytesMut;
use streaming_hub::deliver::sign::Signer;
use streaming_hub::types::destination::SigningSecret;
use streaming_hub::types::{Secret, Time};

use super::request::Signed;

/// The secret of every destination here.
pub const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// Holds the key.
pub struct Checker {
    signer: Signer,
}

impl Checker {
    /// A checker for [`SECRET`].
    #[must_use]
    pub fn new() -> Self {
        let secret = Secret::parse_whsec(SECRET).expect("the secret is one");
        Self { signer: Signer::new(&[SigningSecret { secret, expires_at: None }]) }
    }

    /// Whether both signatures are good.
    #[must_use]
    pub fn is_good(&self, signed: &Signed<'_>, body: &[u8]) -> bool {
        let texts = (std::str::from_utf8(signed.id), std::str::from_utf8(signed.timestamp));
        let (Ok(id), Ok(timestamp)) = texts else { return false };
        let (mut standard, mut lerian) = (BytesMut::new(), BytesMut::new());
        self.signer.write_standard(&mut standard, Time::ZERO, id, timestamp, body);
        self.signer.write_lerian(&mut lerian, Time::ZERO, timestamp, body);
        !id.is_empty() && standard == signed.standard && lerian == signed.lerian
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_body_or_a_missing_signature_is_found() {
        let checker = Checker::new();
        let (mut standard, mut lerian) = (BytesMut::new(), BytesMut::new());
        checker.signer.write_standard(&mut standard, Time::ZERO, "a", "12", b"body");
        checker.signer.write_lerian(&mut lerian, Time::ZERO, "12", b"body");
        let signed = Signed { id: b"a", timestamp: b"12", standard: &standard, lerian: &lerian };
        assert!(checker.is_good(&signed, b"body"));
        assert!(!checker.is_good(&signed, b"bodY"));
        assert!(!checker.is_good(&Signed { lerian: b"", ..signed }, b"body"));
        assert!(!checker.is_good(&Signed { standard: b"", ..signed }, b"body"));
        assert!(!checker.is_good(&Signed::default(), b"body"));
    }
}
