//! TLS towards receivers: versions 1.2 and 1.3, certificate checks always on, the public roots and an operator's.
//!
//! Sessions are resumed within one [`TlsScope`] only, and a scope belongs to one version of one destination.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_rustls::TlsConnector;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};

use super::classify::Failure;
use crate::runtime::TcpStream;
use crate::types::ErrorKind;

/// An encrypted connection of the current executor.
pub type TlsStream = futures_rustls::client::TlsStream<TcpStream>;

/// The protocol name of HTTP/2 over TLS (RFC 9113, section 3.2).
const HTTP2: &[u8] = b"h2";
/// Sessions kept for resumption per scope: a scope has one server name, and TLS 1.3 hands out a few tickets.
const SESSIONS_PER_SCOPE: usize = 4;

/// The operator's certificate authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The text is not PEM, or has no certificate.
    #[error("the CA file has no usable certificate: {0}")]
    CaFile(String),
    /// The cryptography provider does not do TLS 1.2 and 1.3.
    #[error("TLS cannot be set up: {0}")]
    Provider(#[from] rustls::Error),
}

/// What all TLS connections share. Cheap to clone, can be sent to any thread.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Trusts the public roots and the certificates of `ca_pem`.
    ///
    /// # Errors
    /// [`TlsError`] when `ca_pem` is given and holds no usable certificate.
    pub fn new(ca_pem: Option<&[u8]>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        if let Some(pem) = ca_pem {
            add_roots(&mut roots, pem)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = [HTTP2, b"http/1.1"].map(<[u8]>::to_vec).to_vec();
        Ok(Self { config: Arc::new(config) })
    }

    /// A scope of its own for one version of one destination.
    #[must_use]
    pub fn scope(&self, server: ServerName<'static>) -> TlsScope {
        let no_certificate = Arc::new(NoCertificate::default());
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(SESSIONS_PER_SCOPE);
        config.client_auth_cert_resolver = Arc::clone(&no_certificate) as Arc<dyn ResolvesClientCert>;
        TlsScope { connector: Arc::new(config).into(), server, no_certificate }
    }
}

/// Whether HTTP/2 was agreed on during the handshake.
#[must_use]
pub fn is_http2(stream: &TlsStream) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}

/// Within what TLS sessions are resumed.
pub struct TlsScope {
    connector: TlsConnector,
    server: ServerName<'static>,
    no_certificate: Arc<NoCertificate>,
}

impl TlsScope {
    /// Runs the handshake, verifying the certificate for the scope's server name.
    ///
    /// # Errors
    /// [`Failure`] with the `tls` kind that fits.
    pub async fn connect(&self, stream: TcpStream) -> Result<TlsStream, Failure> {
        self.connector.connect(self.server.clone(), stream).await.map_err(|error| self.failure(&error))
    }

    /// What an error of an encrypted connection is. A break without a TLS error is `tls` in general, or about the
    /// client certificate where one was asked for: the alert that says so may be lost in the break.
    #[must_use]
    pub fn failure(&self, error: &io::Error) -> Failure {
        let kind = match tls_cause(error) {
            Some(cause) => self.kind(cause),
            None if self.certificate_asked() => ErrorKind::TlsClientCertificate,
            None => ErrorKind::Tls,
        };
        Failure::new(kind, error.to_string())
    }

    /// Whether the server has asked for a client certificate.
    #[must_use]
    pub fn certificate_asked(&self) -> bool {
        self.no_certificate.asked.load(Ordering::Relaxed)
    }

    fn kind(&self, error: &rustls::Error) -> ErrorKind {
        if let rustls::Error::InvalidCertificate(error) = error {
            return certificate_kind(error);
        }
        if let rustls::Error::AlertReceived(alert) = error {
            return alert_kind(*alert, self.certificate_asked());
        }
        let incompatible = matches!(error, rustls::Error::PeerIncompatible(_));
        if incompatible { ErrorKind::TlsHandshake } else { ErrorKind::Tls }
    }
}

impl fmt::Debug for TlsScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsScope").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The TLS error inside an I/O error, if that is what it is.
#[must_use]
pub fn tls_cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Sends no client certificate and remembers whether one was asked for: TLS 1.2 servers that miss it give no
/// other reason.
#[derive(Debug, Default)]
struct NoCertificate {
    asked: AtomicBool,
}

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.asked.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

fn add_roots(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), TlsError> {
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| TlsError::CaFile(error.to_string()))?;
        roots.add(certificate).map_err(|error| TlsError::CaFile(error.to_string()))?;
        count += 1;
    }
    if count == 0 { Err(TlsError::CaFile("no certificate in it".to_owned())) } else { Ok(()) }
}

fn certificate_kind(error: &CertificateError) -> ErrorKind {
    use CertificateError as E;
    if matches!(error, E::Expired | E::ExpiredContext { .. } | E::NotValidYet | E::NotValidYetContext { .. }) {
        return ErrorKind::TlsExpired;
    }
    if matches!(error, E::NotValidForName | E::NotValidForNameContext { .. }) {
        return ErrorKind::TlsWrongHost;
    }
    // A self-signed certificate that calls itself an authority is refused as such, under `Other`.
    let untrusted = matches!(error, E::UnknownIssuer | E::BadSignature | E::Other(_));
    if untrusted { ErrorKind::TlsUntrusted } else { ErrorKind::Tls }
}

fn alert_kind(alert: AlertDescription, certificate_asked: bool) -> ErrorKind {
    use AlertDescription as A;
    let of_certificate = matches!(alert, A::CertificateRequired | A::NoCertificate);
    let perhaps = matches!(alert, A::HandshakeFailure | A::BadCertificate | A::CertificateUnknown | A::AccessDenied);
    if of_certificate || (perhaps && certificate_asked) {
        return ErrorKind::TlsClientCertificate;
    }
    let handshake = matches!(alert, A::HandshakeFailure | A::ProtocolVersion | A::InsufficientSecurity);
    if handshake { ErrorKind::TlsHandshake } else { ErrorKind::Tls }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_file_without_certificates_is_refused() {
        for pem in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(matches!(Tls::new(Some(pem.as_bytes())), Err(TlsError::CaFile(_))), "{pem:?}");
        }
        assert!(Tls::new(None).is_ok());
    }

    #[test]
    fn each_tls_fault_has_its_kind() {
        let scope = Tls::new(None).unwrap().scope(ServerName::try_from("name.test").unwrap());
        let kind = |error: rustls::Error| scope.failure(&io::Error::new(io::ErrorKind::InvalidData, error)).kind;
        let certificate = |error| kind(rustls::Error::InvalidCertificate(error));
        let alert = |alert| kind(rustls::Error::AlertReceived(alert));
        assert_eq!(certificate(CertificateError::Expired), ErrorKind::TlsExpired);
        assert_eq!(certificate(CertificateError::NotValidForName), ErrorKind::TlsWrongHost);
        assert_eq!(certificate(CertificateError::UnknownIssuer), ErrorKind::TlsUntrusted);
        assert_eq!(certificate(CertificateError::Revoked), ErrorKind::Tls);
        assert_eq!(alert(AlertDescription::HandshakeFailure), ErrorKind::TlsHandshake);
        assert_eq!(alert(AlertDescription::CertificateRequired), ErrorKind::TlsClientCertificate);
        assert_eq!(alert(AlertDescription::InternalError), ErrorKind::Tls);
        let broken = || scope.failure(&io::ErrorKind::ConnectionReset.into()).kind;
        assert_eq!(broken(), ErrorKind::Tls);
        assert!(scope.no_certificate.resolve(&[], &[]).is_none());
        assert_eq!(broken(), ErrorKind::TlsClientCertificate);
        assert_eq!(alert(AlertDescription::HandshakeFailure), ErrorKind::TlsClientCertificate);
    }
}
