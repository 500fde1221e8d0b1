//! Certificates, good and bad, and the authority that the hub is told to trust.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

/// A certificate authority of the test.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

/// What a receiver shows, and asks for.
pub struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// Whoever signs the client certificates that are asked for.
    clients: Option<CertificateDer<'static>>,
}

impl Authority {
    pub fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).expect("no name can't be wrong");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(parameters, key_pair()).expect("a signed certificate");
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(directory.path().join("authority.pem"), issuer.pem()).expect("a written file");
        Self { issuer, directory }
    }

    /// The file for `STREAMING_HUB_CA_FILE`.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// A certificate for `name`.
    pub fn certificate(&self, name: &str) -> Certificate {
        self.changed(name, |_| {})
    }

    /// A certificate for `name` that is long out of date.
    pub fn expired(&self, name: &str) -> Certificate {
        self.changed(name, |parameters| {
            parameters.not_before = rcgen::date_time_ymd(2001, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(2002, 1, 1);
        })
    }

    /// A good certificate, from a receiver that wants one of the client's, too.
    pub fn demanding(&self, name: &str) -> Certificate {
        Certificate { clients: Some(self.issuer.der().clone()), ..self.certificate(name) }
    }

    fn changed(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let key = key_pair();
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("a good name");
        change(&mut parameters);
        let signed = parameters.signed_by(&key, &self.issuer).expect("a signed certificate");
        Certificate::of(signed.der().clone(), &key)
    }
}

impl Certificate {
    /// One that nobody signed but itself.
    pub fn self_signed(name: &str) -> Self {
        let key = key_pair();
        let parameters = CertificateParams::new(vec![name.to_owned()]).expect("a good name");
        let signed = parameters.self_signed(&key).expect("a signed certificate");
        Self::of(signed.der().clone(), &key)
    }

    fn of(certificate: CertificateDer<'static>, key: &KeyPair) -> Self {
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key of rcgen's own");
        Self { chain: vec![certificate], key, clients: None }
    }

    /// The configuration of a server that shows it.
    pub fn server(self) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("the provider's own versions");
        let builder = match self.clients {
            None => builder.with_no_client_auth(),
            Some(issuer) => {
                let mut roots = RootCertStore::empty();
                roots.add(issuer).expect("a certificate of our own");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.expect("a root is there"))
            }
        };
        builder.with_single_cert(self.chain, self.key).expect("the key is the certificate's")
    }
}

fn key_pair() -> KeyPair {
    KeyPair::generate().expect("the system gives random bytes")
}
