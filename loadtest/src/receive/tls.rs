//! An authority of the run, and the certificate that the receivers show.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::version::TLS13;

/// What a TLS receiver needs, and what the hub must be told.
pub struct Identity {
    /// The server's side, TLS 1.3 alone.
    pub server: Arc<ServerConfig>,
    /// The authority's certificate, PEM.
    pub authority: String,
}

/// Makes an identity for these addresses.
///
/// # Errors
/// One line that says what the system or the library refused.
pub fn identity(addresses: &[IpAddr]) -> Result<Identity, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let key = || KeyPair::generate().map_err(|error| text(&error));
    let mut authority = CertificateParams::new(Vec::new()).map_err(|error| text(&error))?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(authority, key()?).map_err(|error| text(&error))?;
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let own = key()?;
    let parameters = CertificateParams::new(names).map_err(|error| text(&error))?;
    let certificate = parameters.signed_by(&own, &issuer).map_err(|error| text(&error))?;
    let private = PrivateKeyDer::try_from(own.serialize_der()).map_err(|error| text(&error))?;
    let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], private))
        .map_err(|error| text(&error))?;
    Ok(Identity { server: Arc::new(server), authority: issuer.pem() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_can_be_made() {
        let identity = identity(&[IpAddr::from([127, 0, 0, 1])]).unwrap();
        assert!(identity.authority.starts_with("-----BEGIN CERTIFICATE-----"));
    }
}
