//! A way to the server that loses a request or an answer when it is told to: the server itself knows nothing of it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cassandra::NODE;

/// What gets lost. The connection breaks with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The next request that has these words: the server never sees it.
    Request(&'static [u8]),
    /// The next answer that has these words: the server has done what was asked.
    Answer(&'static [u8]),
    /// The same, and from then on everything until it is mended.
    AnswerAndAll(&'static [u8]),
}

/// It listens for as long as the process runs.
pub struct Proxy {
    address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    cut: Option<Cut>,
    is_dead: bool,
    open: Vec<TcpStream>,
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Proxy {
    /// Listens on a port of its own, on the server's address: the driver takes both from who it reached first.
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || listener.incoming().flatten().for_each(|client| serve(client, &shared)));
        Self { address, state }
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// Loses this, once.
    pub fn lose(&self, cut: Cut) {
        lock(&self.state).cut = Some(cut);
    }

    /// Whether that has happened.
    pub fn has_lost(&self) -> bool {
        lock(&self.state).cut.is_none()
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        lock(&self.state).is_dead = false;
    }
}

impl State {
    /// Whether these bytes get lost.
    fn loses(&mut self, bytes: &[u8], way: Way) -> bool {
        let (wanted, words) = match self.cut {
            Some(Cut::Request(words)) => (Way::ToServer, words),
            Some(Cut::Answer(words) | Cut::AnswerAndAll(words)) => (Way::ToClient, words),
            None => return false,
        };
        if way != wanted || !bytes.windows(words.len()).any(|window| window == words) {
            return false;
        }
        if let Some(Cut::AnswerAndAll(_)) = self.cut.take() {
            self.is_dead = true;
            self.open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        }
        true
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(client: TcpStream, state: &Arc<Mutex<State>>) {
    if lock(state).is_dead {
        return;
    }
    let server = TcpStream::connect(NODE).expect("the server is there");
    let twin = |stream: &TcpStream| stream.try_clone().expect("a descriptor is free");
    lock(state).open.extend([twin(&client), twin(&server)]);
    for (from, to, way) in [(twin(&client), twin(&server), Way::ToServer), (server, client, Way::ToClient)] {
        let state = Arc::clone(state);
        std::thread::spawn(move || pass_on(from, to, way, &state));
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, way: Way, state: &Mutex<State>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..count];
        if lock(state).loses(bytes, way) || to.write_all(bytes).is_err() {
            break;
        }
    }
    // Either may be closed already.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
