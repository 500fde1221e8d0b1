//! A receiver under the test's control: plain threads on loopback that do what a script says and keep every
//! request.
//!
//! Each request's signatures are checked as it comes; a wrong one fails the test when the receiver goes.

use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::reply::Reply;
use super::time::{eventually, now, wall_millis};
use super::wire::{self, Message};
use super::{signature, tls::Certificate};

/// One request, as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// From 0, in order of arrival at this receiver.
    pub number: usize,
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub at: Instant,
}

impl Received {
    /// The first header of that name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        wire::header(&self.headers, name)
    }

    /// The event it carries.
    pub fn event_id(&self) -> String {
        self.header("x-lerian-event-id").expect("every delivery names its event").to_owned()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

type Script = dyn Fn(&Received) -> Reply + Send + Sync;

struct Shared {
    script: Box<Script>,
    encryption: Option<Arc<ServerConfig>>,
    secrets: Mutex<Vec<String>>,
    received: Mutex<Vec<Received>>,
    wrong: Mutex<Vec<String>>,
    sockets: Mutex<Vec<TcpStream>>,
    connections: AtomicUsize,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    stopping: AtomicBool,
}

/// A listening receiver; dropping it closes every connection.
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Does with each request what `script` says.
    pub fn start(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::listening(Box::new(script), None)
    }

    /// The same behind TLS.
    pub fn start_tls(certificate: Certificate, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::listening(Box::new(script), Some(Arc::new(certificate.server())))
    }

    /// Answers everything with 200.
    pub fn willing() -> Self {
        Self::start(|_| Reply::status(200))
    }

    /// Answers everything with `status`.
    pub fn answering(status: u16) -> Self {
        Self::start(move |_| Reply::status(status))
    }

    fn listening(script: Box<Script>, encryption: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            script,
            encryption,
            secrets: Mutex::new(vec![new_secret()]),
            received: Mutex::default(),
            wrong: Mutex::default(),
            sockets: Mutex::default(),
            connections: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
        });
        let sharing = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || accept(&listener, &sharing));
        Self { address, shared, accepting: Some(accepting) }
    }

    pub fn url(&self) -> String {
        let scheme = if self.shared.encryption.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/hook?x=1", self.address)
    }

    /// The secret that deliveries here must be signed with (`whsec_…`).
    pub fn secret(&self) -> String {
        self.shared.secrets.lock().expect("no holder panics")[0].clone()
    }

    /// From now on only these secrets are good.
    pub fn trust(&self, secrets: &[String]) {
        *self.shared.secrets.lock().expect("no holder panics") = secrets.to_vec();
    }

    /// Every request so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().expect("no holder panics").clone()
    }

    pub fn count(&self) -> usize {
        self.shared.received.lock().expect("no holder panics").len()
    }

    /// Waits until `count` requests have come; gives all.
    pub fn wait_for(&self, count: usize) -> Vec<Received> {
        eventually(&format!("{count} requests"), || self.count() >= count);
        self.received()
    }

    /// Requests that wait for their answer now.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::SeqCst)
    }

    /// The most requests that ever waited for their answers at one time.
    pub fn most_in_flight(&self) -> usize {
        self.shared.most_in_flight.load(Ordering::SeqCst)
    }

    /// Connections ever made.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which then sees that it must end.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            let _ended = accepting.join();
        }
        for socket in self.shared.sockets.lock().expect("no holder panics").drain(..) {
            let _closed_already = socket.shutdown(Shutdown::Both);
        }
        let wrong = self.shared.wrong.lock().expect("no holder panics");
        assert!(wrong.is_empty() || std::thread::panicking(), "requests with wrong signatures: {wrong:#?}");
    }
}

/// 32 bytes that no other receiver of this process has.
fn new_secret() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let mut bytes = [0x5a; 32];
    bytes[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    bytes[8..16].copy_from_slice(&wall_millis().to_be_bytes());
    format!("whsec_{}", STANDARD.encode(bytes))
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for socket in listener.incoming().map_while(Result::ok) {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let kept = socket.try_clone().expect("a descriptor is free");
        shared.sockets.lock().expect("no holder panics").push(kept);
        let shared = Arc::clone(shared);
        std::thread::spawn(move || shared.connected(socket));
    }
}

impl Shared {
    /// Whatever ends the connection ends this; the test sees it by what is missing.
    fn connected(&self, socket: TcpStream) {
        let control = socket.try_clone().expect("a descriptor is free");
        match &self.encryption {
            None => self.converse(socket, &control),
            Some(config) => {
                let session = ServerConnection::new(Arc::clone(config)).expect("a checked configuration");
                self.converse(StreamOwned::new(session, socket), &control);
            }
        }
        self.sockets.lock().expect("no holder panics").retain(|kept| !same_peer(kept, &control));
    }

    fn converse(&self, stream: impl Read + Write, control: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Ok(Some(message)) = wire::read_request(&mut reader) {
            let waiting = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_in_flight.fetch_max(waiting, Ordering::SeqCst);
            let received = self.keep(message);
            let reply = (self.script)(&received).awaited();
            // Counted out before the peer can know of the answer, so that the count is never over what is in flight.
            self.in_flight.fetch_sub(1, Ordering::SeqCst);
            let played = reply.play(reader.get_mut(), control);
            if !matches!(played, Ok(true)) {
                return;
            }
        }
    }

    fn keep(&self, message: Message) -> Received {
        let checked = signature::check(&message, &self.secrets.lock().expect("no holder panics"));
        if let Err(why) = checked {
            self.wrong.lock().expect("no holder panics").push(format!("{why}: {}", message.start));
        }
        let mut all = self.received.lock().expect("no holder panics");
        let mut words = message.start.split(' ').map(str::to_owned);
        let received = Received {
            number: all.len(),
            method: words.next().unwrap_or_default(),
            target: words.next().unwrap_or_default(),
            headers: message.headers,
            body: message.body,
            at: now(),
        };
        all.push(received.clone());
        received
    }
}

fn same_peer(one: &TcpStream, other: &TcpStream) -> bool {
    one.peer_addr().ok() == other.peer_addr().ok()
}
