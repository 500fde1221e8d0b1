//! A receiver that keeps of each request whose event it carried, how it was answered and over which connection, so that
//! what comes twice can be explained: by a connection that a kill has cut.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::harness::signature;
use crate::harness::time::now;
use crate::harness::wire::{self, Message};
use crate::tally::{Number, SECRET};

/// A killed process's connections end within this.
const CUT_WITHIN: Duration = Duration::from_secs(2);

/// So long before a kill a success may have come that the killed node had not written down: it waits for others to share
/// a write, and for the store.
const UNWRITTEN: Duration = Duration::from_secs(5);

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    pub number: Number,
    pub succeeded: bool,
    pub at: Instant,
    connection: u64,
}

/// Counts what comes; lives as long as the test program.
pub struct Ledger {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    came: Mutex<BTreeMap<String, Vec<Request>>>,
    wrong: Mutex<Vec<String>>,
    /// When connections ended, by number.
    ended: Mutex<BTreeMap<u64, Instant>>,
    connections: AtomicU64,
    successes: AtomicU64,
    /// Of each tenant's requests every so manieth is answered with 503.
    failing: Option<usize>,
}

impl Ledger {
    /// Answers always with 200.
    pub fn willing() -> Self {
        Self::start(Shared::default())
    }

    /// Answers every `failing`th request of each tenant with 503.
    pub fn failing_each(failing: usize) -> Self {
        Self::start(Shared { failing: Some(failing), ..Shared::default() })
    }

    fn start(shared: Shared) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(shared);
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

    /// Requests that were answered with 200.
    pub fn successes(&self) -> u64 {
        self.shared.successes.load(Ordering::SeqCst)
    }

    /// What came for each tenant, in order.
    pub fn came(&self) -> BTreeMap<String, Vec<Request>> {
        locked(&self.shared.came).clone()
    }

    /// Whether a kill hid this success: it cut the connection, soon after the answer.
    pub fn was_hidden(&self, success: &Request, kills: &[Instant]) -> bool {
        let Some(ended) = locked(&self.shared.ended).get(&success.connection).copied() else { return false };
        kills.iter().any(|kill| success.at + UNWRITTEN >= *kill && ended >= *kill && ended <= *kill + CUT_WITHIN)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let wrong = locked(&self.shared.wrong);
        assert!(wrong.is_empty() || std::thread::panicking(), "wrong requests: {wrong:#?}");
    }
}

impl Shared {
    fn connected(&self, socket: &TcpStream) {
        let connection = self.connections.fetch_add(1, Ordering::SeqCst);
        let mut reader = BufReader::new(socket);
        let mut writer = socket;
        while let Ok(Some(message)) = wire::read_request(&mut reader) {
            let status = self.note(&message, connection);
            if write!(writer, "HTTP/1.1 {status} Whatever\r\nContent-Length: 0\r\n\r\n").is_err() {
                break;
            }
        }
        locked(&self.ended).insert(connection, now());
    }

    /// Keeps a request; gives the status to answer.
    fn note(&self, message: &Message, connection: u64) -> u16 {
        if let Err(why) = signature::check(message, &[SECRET.to_owned()]) {
            locked(&self.wrong).push(why);
        }
        let tenant = message.start.split(['/', ' ']).nth(2).unwrap_or_default().to_owned();
        let data: Option<serde_json::Value> = serde_json::from_slice(&message.body).ok();
        let Some(number) = data.and_then(|data| data["number"].as_u64()) else {
            locked(&self.wrong).push(format!("no number: {}", message.start));
            return 200;
        };
        let mut came = locked(&self.came);
        let requests = came.entry(tenant).or_default();
        let succeeded = self.failing.is_none_or(|failing| requests.len() % failing != failing - 1);
        requests.push(Request { number, succeeded, at: now(), connection });
        if !succeeded {
            return 503;
        }
        self.successes.fetch_add(1, Ordering::SeqCst);
        200
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}
