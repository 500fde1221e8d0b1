//! A receiver for many requests: answers 200 on connections that stay open, checks each signature, and keeps of
//! each request only which event of which tenant it carried.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::harness::signature;
use super::harness::wire::{self, Message};

/// What all receivers here are signed with.
pub const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// The number of an event within its tenant, as its data says: `{"number":7}`.
pub type Number = u64;

/// Counts what comes; lives as long as the test program.
pub struct Tally {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    came: Mutex<BTreeMap<String, Vec<Number>>>,
    wrong: Mutex<Vec<String>>,
    /// Tenants whose requests are answered with 503 and not kept.
    failing: Mutex<BTreeSet<String>>,
    connections: AtomicUsize,
}

impl Tally {
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::<Shared>::default();
        let sharing = Arc::clone(&shared);
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&sharing);
                std::thread::spawn(move || shared.connected(&socket));
            }
        });
        Self { address, shared }
    }

    /// Where `tenant`'s events are to go.
    pub fn url(&self, tenant: &str) -> String {
        format!("http://{}/{tenant}", self.address)
    }

    /// What came for each tenant, in order.
    pub fn came(&self) -> BTreeMap<String, Vec<Number>> {
        self.shared.came.lock().expect("no holder panics").clone()
    }

    /// How many requests came.
    pub fn requests(&self) -> usize {
        self.shared.came.lock().expect("no holder panics").values().map(Vec::len).sum()
    }

    /// How many requests came for `tenant`.
    pub fn requests_of(&self, tenant: &str) -> usize {
        self.shared.came.lock().expect("no holder panics").get(tenant).map_or(0, Vec::len)
    }

    /// From now on requests for `tenant` are answered with 503.
    pub fn fail(&self, tenant: &str) {
        self.shared.failing.lock().expect("no holder panics").insert(tenant.to_owned());
    }

    /// From now on they are answered with 200 again.
    pub fn heal(&self, tenant: &str) {
        self.shared.failing.lock().expect("no holder panics").remove(tenant);
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let wrong = self.shared.wrong.lock().expect("no holder panics");
        assert!(wrong.is_empty() || std::thread::panicking(), "wrong requests: {wrong:#?}");
    }
}

impl Shared {
    fn connected(&self, socket: &TcpStream) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let mut reader = BufReader::new(socket);
        let mut writer = socket;
        while let Ok(Some(message)) = wire::read_request(&mut reader) {
            let status = self.note(&message);
            if write!(writer, "HTTP/1.1 {status} Whatever\r\nContent-Length: 0\r\n\r\n").is_err() {
                break;
            }
        }
        self.connections.fetch_sub(1, Ordering::SeqCst);
    }

    /// Keeps a request, unless its tenant is failing; gives the status to answer.
    fn note(&self, message: &Message) -> u16 {
        if let Err(why) = signature::check(message, &[SECRET.to_owned()]) {
            self.wrong.lock().expect("no holder panics").push(why);
        }
        let tenant = message.start.split(['/', ' ']).nth(2).unwrap_or_default().to_owned();
        if self.failing.lock().expect("no holder panics").contains(&tenant) {
            return 503;
        }
        let data: Option<serde_json::Value> = serde_json::from_slice(&message.body).ok();
        match data.and_then(|data| data["number"].as_u64()) {
            Some(number) => {
                self.came.lock().expect("no holder panics").entry(tenant).or_default().push(number);
            }
            None => self.wrong.lock().expect("no holder panics").push(format!("no number: {}", message.start)),
        }
        200
    }
}
