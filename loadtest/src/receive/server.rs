//! The receivers' executor: connections, and the phase that they tell of what comes.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_lite::future::or;
use futures_lite::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use futures_rustls::TlsAcceptor;
use streaming_hub::runtime::boot::run_here;
use streaming_hub::runtime::channel::{Receiver, Sender};
use streaming_hub::runtime::{Clock, Listener, TcpStream, sleep, task};

use super::phase::{Kind, Phase};
use super::request::{Parsed, Place, Request, parse};
use super::tally::Arrival;
use super::temper::{Temper, Tempers};
use super::tls::identity;
use super::{Command, Listening, Live};
use crate::failure::Failure;
use crate::message::Message;
use crate::plan::Group;

/// So many addresses share the ports that one pair of addresses has.
const ADDRESSES: u8 = 8;
/// Read at once: a request of a usual size fits.
const READ_BYTES: usize = 8 * 1024;
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const FAILED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
/// After a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// What the receivers are made with.
pub struct Serving {
    pub clock: Clock,
    pub live: Arc<Live>,
    pub tempers: Arc<Tempers>,
}

/// What all connections share.
struct Shared {
    serving: Serving,
    phase: RefCell<Option<Phase>>,
}

/// What to do with a request.
enum Verdict {
    Answer(&'static [u8]),
    Deliver(Duration, Group, Message),
    Nothing,
}

/// Runs until nobody commands any more.
pub fn run(serving: Serving, inbox: Receiver<Command>, started: Sender<Result<Listening, Failure>>) {
    // Whoever waits sees the channel close when the executor cannot be made.
    let _ = run_here(async move {
        let shared = Rc::new(Shared { serving, phase: RefCell::new(None) });
        let _ = started.send(listen(&shared));
        while let Ok(command) = inbox.recv_async().await {
            shared.obey(command);
        }
    });
}

fn listen(shared: &Rc<Shared>) -> Result<Listening, Failure> {
    let failed = || Failure::io("listening on loopback");
    let (plain, listeners) = bind().map_err(failed())?;
    for listener in listeners {
        task::spawn(accept(Rc::clone(shared), listener, None));
    }
    let (tls, listeners) = bind().map_err(failed())?;
    let addresses: Vec<IpAddr> = tls.iter().map(SocketAddr::ip).collect();
    let identity = identity(&addresses).map_err(|reason| Failure::Thread { name: "receivers", reason })?;
    for listener in listeners {
        task::spawn(accept(Rc::clone(shared), listener, Some(TlsAcceptor::from(Arc::clone(&identity.server)))));
    }
    Ok(Listening { plain, tls, authority: identity.authority })
}

fn bind() -> io::Result<(Vec<SocketAddr>, Vec<Listener>)> {
    let listener = |last| Listener::bind((Ipv4Addr::new(127, 0, 0, last), 0).into());
    let listeners = (1..=ADDRESSES).map(listener).collect::<io::Result<Vec<_>>>()?;
    let addresses = listeners.iter().map(Listener::local_address).collect::<io::Result<Vec<_>>>()?;
    Ok((addresses, listeners))
}

async fn accept(shared: Rc<Shared>, listener: Listener, tls: Option<TlsAcceptor>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (shared, tls) = (Rc::clone(&shared), tls.clone());
        // A client that goes away ends its connection.
        task::spawn(async move {
            let _ = match tls {
                None => shared.serve(stream).await,
                Some(acceptor) => shared.serve_tls(acceptor, stream).await,
            };
        });
    }
}

/// TLS keeps what is written until it is flushed.
async fn answer_with(stream: &mut (impl AsyncWrite + Unpin), answer: &[u8]) -> io::Result<()> {
    stream.write_all(answer).await?;
    stream.flush().await
}

/// Whether the client goes, or says more than it may, before the time is over: it has not got its answer then.
async fn has_gone_within(stream: &mut (impl AsyncRead + Unpin), span: Duration) -> bool {
    let waited = async {
        sleep(span).await;
        false
    };
    let gone = async {
        let mut byte = [0];
        let _ = stream.read(&mut byte).await;
        true
    };
    or(waited, gone).await
}

impl Shared {
    fn obey(&self, command: Command) {
        match command {
            Command::Begin(order, reply) => {
                let live = &self.serving.live;
                live.delivered.store(0, Ordering::Relaxed);
                live.attempts.store(0, Ordering::Relaxed);
                *self.phase.borrow_mut() = Some(Phase::new(order));
                let _ = reply.try_send(());
            }
            Command::Interval(reply) => {
                let interval = self.phase.borrow_mut().as_mut().map(Phase::take_interval).unwrap_or_default();
                let _ = reply.try_send(interval);
            }
            Command::End(expected, reply) => {
                if let Some(phase) = self.phase.borrow_mut().take() {
                    let _ = reply.try_send(phase.seen(&expected));
                }
            }
        }
    }

    async fn serve_tls(&self, acceptor: TlsAcceptor, stream: TcpStream) -> io::Result<()> {
        let stream = acceptor.accept(stream).await?;
        self.serving.live.handshakes.fetch_add(1, Ordering::Relaxed);
        self.serve(stream).await
    }

    async fn serve(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let mut filled = 0;
        loop {
            let (verdict, length) = match parse(&buffer[..filled]) {
                Parsed::Whole(request) => (self.judge(&request), request.length),
                Parsed::Malformed => return Err(io::ErrorKind::InvalidData.into()),
                Parsed::Partial(whole) => {
                    let wanted = whole.unwrap_or(0).max(filled + READ_BYTES);
                    if buffer.len() < wanted {
                        buffer.resize(wanted, 0);
                    }
                    let count = stream.read(&mut buffer[filled..]).await?;
                    if count == 0 {
                        return Ok(());
                    }
                    filled += count;
                    continue;
                }
            };
            buffer.copy_within(length..filled, 0);
            filled -= length;
            match verdict {
                Verdict::Answer(answer) => answer_with(&mut stream, answer).await?,
                Verdict::Deliver(after, group, message) => {
                    if !after.is_zero() && has_gone_within(&mut stream, after).await {
                        return Ok(());
                    }
                    self.deliver(group, &message);
                    answer_with(&mut stream, OK).await?;
                }
                Verdict::Nothing => {}
            }
        }
    }

    fn judge(&self, request: &Request<'_>) -> Verdict {
        let destination = match request.place {
            Place::Destination(number) => number,
            Place::Bare => {
                self.serving.live.bare.fetch_add(1, Ordering::Relaxed);
                return Verdict::Answer(OK);
            }
            Place::Nowhere => return Verdict::Answer(FAILED),
        };
        let kind = self.phase.borrow_mut().as_mut().map_or(Kind::Stray, |phase| phase.attempted(destination, request));
        let (group, message) = match kind {
            Kind::Ours(group, message) => (group, message),
            // Left from an earlier phase: taken, so that it ends.
            Kind::Stray => return Verdict::Answer(OK),
        };
        self.serving.live.attempts.fetch_add(1, Ordering::Relaxed);
        match self.serving.tempers.of(group) {
            Temper::Prompt => Verdict::Deliver(Duration::ZERO, group, message),
            Temper::Slow(after) => Verdict::Deliver(after, group, message),
            Temper::Failing => Verdict::Answer(FAILED),
            Temper::Silent => Verdict::Nothing,
        }
    }

    fn deliver(&self, group: Group, message: &Message) {
        let now = self.serving.clock.now();
        let arrival = self.phase.borrow_mut().as_mut().map(|phase| phase.delivered(group, message, now));
        if arrival == Some(Arrival::First) {
            self.serving.live.delivered.fetch_add(1, Ordering::Relaxed);
        }
    }
}
