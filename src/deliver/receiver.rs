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

/// What a receiver does with an HTTP/2 stream whose request has come whole.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// 200 without a body.
    Answer,
    /// 200 with a body without an end, of which as much is sent as the client allows by itself.
    Endless,
    /// `RST_STREAM` with `REFUSED_STREAM`.
    Refuse,
    /// `GOAWAY`: neither this stream nor a later one is processed.
    GoAway,
    /// Nothing, ever.
    Silence,
    /// The connection is closed.
    Close,
    /// A frame that breaks the protocol: data of no stream.
    Breach,
    /// Frames of a kind that nobody knows, without end (RFC 9113, section 4.1: to be ignored).
    Flood,
}

/// Speaks as much HTTP/2 (RFC 9113) as it takes to reply to each stream of a connection as `script` says, which is
/// told how many came before.
pub fn speak_http2(stream: &mut (impl Read + Write), script: impl Fn(usize) -> Reply) {
    // Whatever breaks off is what the test is about.
    let _ = try_http2(stream, script);
}

fn try_http2(stream: &mut (impl Read + Write), script: impl Fn(usize) -> Reply) -> io::Result<()> {
    const PREFACE_BYTES: usize = 24;
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    const UNKNOWN: u8 = 0xee;
    const END_STREAM: u8 = 1;
    stream.read_exact(&mut [0; PREFACE_BYTES])?;
    write_frame(stream, SETTINGS, 0, 0, &[])?;
    let (mut count, mut before) = (0, 0);
    loop {
        let (kind, flags, id, payload) = read_frame(stream)?;
        match kind {
            SETTINGS if flags == 0 => write_frame(stream, SETTINGS, 1, 0, &[])?,
            PING if flags == 0 => write_frame(stream, PING, 1, 0, &payload)?,
            DATA | HEADERS if flags & END_STREAM != 0 => {
                let reply = script(count);
                count += 1;
                // END_HEADERS, and `:status: 200` as the static table has it (RFC 7541, appendix A).
                let head = |stream: &mut _, end| write_frame(stream, HEADERS, 4 | end, id, &[0x88]);
                match reply {
                    Reply::Answer => head(stream, END_STREAM)?,
                    Reply::Endless => {
                        head(stream, 0)?;
                        (0..2).try_for_each(|_| write_frame(stream, DATA, 0, id, &[b'x'; 16 * 1024]))?;
                    }
                    Reply::Refuse => write_frame(stream, RST_STREAM, 0, id, &[0, 0, 0, 7])?,
                    Reply::GoAway => write_frame(stream, GOAWAY, 0, 0, &[u32::to_be_bytes(before), [0; 4]].concat())?,
                    Reply::Silence => {}
                    Reply::Close => return Ok(()),
                    Reply::Breach => write_frame(stream, DATA, 0, 0, b"x")?,
                    Reply::Flood => loop {
                        write_frame(stream, UNKNOWN, 0, 0, &[0; 1024])?;
                    },
                }
                before = id;
            }
            _ => {}
        }
    }
}

fn read_frame(stream: &mut impl Read) -> io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let [a, b, c, kind, flags, id @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    stream.read_exact(&mut payload)?;
    Ok((kind, flags, u32::from_be_bytes(id), payload))
}

fn write_frame(stream: &mut impl Write, kind: u8, flags: u8, id: u32, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).expect("a small frame").to_be_bytes();
    let head = [&length[1..], &[kind, flags], &id.to_be_bytes()].concat();
    stream.write_all(&[&head, payload].concat())?;
    stream.flush()
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
