//! Receivers under a test's control: plain threads on loopback that answer as badly as they are told to.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// A listening receiver; its threads end with the test's process.
pub struct Receiver {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Receiver {
    /// Runs `script` for each connection, on a thread of its own.
    pub fn start(script: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, script) = (Arc::clone(&connections), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                let script = Arc::clone(&script);
                std::thread::spawn(move || script(stream));
            }
        });
        Self { address, connections }
    }

    /// Answers every request of every connection with `response`.
    pub fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::start(move |mut stream| while answer(&mut stream, &response).is_some() {})
    }

    /// Runs `script` for each connection after a TLS handshake with `config`.
    pub fn start_tls(
        config: ServerConfig,
        script: impl Fn(&mut StreamOwned<ServerConnection, TcpStream>) + Send + Sync + 'static,
    ) -> Self {
        let config = Arc::new(config);
        Self::start(move |stream| {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            script(&mut StreamOwned::new(session, stream));
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook?x=1", self.address)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads one request and writes `response`; the request, or `None` at the connection's end.
pub fn answer(stream: &mut (impl Read + Write), response: &[u8]) -> Option<Vec<u8>> {
    let request = read_request(stream).ok()?;
    stream.write_all(response).ok()?;
    stream.flush().ok()?;
    Some(request)
}

/// Reads one request with its body.
pub fn read_request(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&request).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    request.extend(body);
    Ok(request)
}

/// A certificate authority of the test, and what it signs.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A server with a certificate for `name`, changed by `change`.
    pub fn server(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> ServerConfig {
        let (chain, key) = self.leaf(name, change);
        builder().with_no_client_auth().with_single_cert(chain, key).unwrap()
    }

    /// A server that wants a client certificate.
    pub fn demanding_server(&self, name: &str, versions: &[&'static rustls::SupportedProtocolVersion]) -> ServerConfig {
        let (chain, key) = self.leaf(name, |_| {});
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        builder.with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap()
    }

    fn leaf(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }
}

fn builder() -> rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap()
}
