//! One HTTP/2 connection to a receiver (RFC 9113), shared by the attempts at one version of one destination.
//!
//! A task drives it for as long as somebody may open streams on it. Each attempt is a stream of its own: one that is
//! cut resets its stream alone. A connection on which an attempt got no answer takes no new ones, for it may lead
//! nowhere any more. One that sends more than its answers can need is ended: it would cost the shard time for nothing.

use std::cell::Cell;
use std::error::Error as _;
use std::fmt;
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_lite::{AsyncRead, AsyncWrite};
use h2::Reason;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;

use super::connection::Received;
use super::pool::Shared;
use super::tls::TlsStream;
use crate::runtime::{HyperIo, LocalExecutor, task};
use crate::types::limits::{HTTP2_STREAMS_MAX, RESPONSE_BODY_BYTES, RESPONSE_HEAD_MAX_BYTES};

/// What a receiver may send of one response before it is read, in bytes: all that is kept, and enough to see that
/// there is more.
const STREAM_WINDOW: u32 = 2 * RESPONSE_BODY_BYTES as u32;
/// The same of all responses together.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// What a receiver may send beside answers, in bytes: settings, acknowledgements, and as much as comes before them.
const BESIDE: usize = 64 * 1024;
/// What it may send for one stream: the largest head, and as much of a body as its window lets through.
const PER_STREAM: usize = RESPONSE_HEAD_MAX_BYTES + STREAM_WINDOW as usize + 4 * 1024;
/// What is not used up is kept to this.
const ALLOWANCE_MAX: usize = BESIDE + HTTP2_STREAMS_MAX * PER_STREAM;

/// A connection that carries many requests at once. Clones are the same connection.
#[derive(Clone)]
pub struct Http2(Rc<Inner>);

struct Inner {
    sender: http2::SendRequest<Full<Bytes>>,
    streams: Cell<usize>,
    /// What the receiver allows now.
    allowed: Rc<Cell<usize>>,
    /// Bytes that it may still send.
    allowance: Rc<Cell<usize>>,
    /// It takes no new streams.
    retired: Cell<bool>,
}

/// Why a stream got no complete head.
#[derive(Debug)]
pub enum Unanswered {
    /// The receiver says that it did not process the stream: by `GOAWAY` or `REFUSED_STREAM` (RFC 9113, section 8.7).
    Refused(hyper::Error),
    /// Nothing of it was sent: the connection had ended.
    Unsent(hyper::Error),
    /// Anything else.
    Failed(hyper::Error),
}

impl Unanswered {
    /// The error itself.
    #[must_use]
    pub fn into_error(self) -> hyper::Error {
        match self {
            Self::Refused(error) | Self::Unsent(error) | Self::Failed(error) => error,
        }
    }
}

impl Http2 {
    /// Takes over a fresh stream on which `h2` was agreed.
    ///
    /// # Errors
    /// What hyper says; no request is sent yet.
    pub async fn new(stream: TlsStream) -> hyper::Result<Self> {
        let allowance = Rc::new(Cell::new(BESIDE));
        let stream = Metered { stream, allowance: Rc::clone(&allowance) };
        let (sender, driver) = http2::Builder::new(LocalExecutor)
            .initial_max_send_streams(HTTP2_STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(RESPONSE_HEAD_MAX_BYTES as u32)
            .handshake(HyperIo(stream))
            .await?;
        let allowed = Rc::new(Cell::new(HTTP2_STREAMS_MAX));
        let told = Rc::clone(&allowed);
        task::spawn(async move {
            let mut driver = pin!(driver);
            // What ended a connection is told to each of its streams.
            let _ = poll_fn(|context| {
                let ended = driver.as_mut().poll(context);
                if ended.is_pending() {
                    told.set(driver.current_max_send_streams());
                }
                ended
            })
            .await;
        });
        let (streams, retired) = (Cell::new(0), Cell::new(false));
        Ok(Self(Rc::new(Inner { sender, streams, allowed, allowance, retired })))
    }

    /// Sends `request` and receives the response into `received`, no more of the body than is kept.
    ///
    /// # Errors
    /// [`Unanswered`] when the head did not arrive. A body that breaks off is no error.
    pub async fn exchange(&self, request: Request<Full<Bytes>>, received: &mut Received) -> Result<(), Unanswered> {
        let mut stream = OpenStream::new(&self.0);
        let response = self.0.sender.clone().try_send_request(request).await.map_err(|mut error| {
            let is_unsent = error.take_message().is_some();
            let error = error.into_error();
            match cause(&error) {
                Some(cause) if is_refusal(cause) => Unanswered::Refused(error),
                _ if is_unsent => Unanswered::Unsent(error),
                _ => Unanswered::Failed(error),
            }
        })?;
        stream.answered = true;
        let (head, mut body) = response.into_parts();
        received.head = Some(head);
        received.complete = loop {
            match body.frame().await {
                None => break true,
                Some(Ok(frame)) if frame.data_ref().is_none_or(|data| received.keep(data)) => {}
                Some(_) => break false,
            }
        };
        Ok(())
    }
}

impl Shared for Http2 {
    fn has_room(&self) -> bool {
        !self.is_over() && self.0.streams.get() < self.0.allowed.get().min(HTTP2_STREAMS_MAX)
    }

    fn in_use(&self) -> usize {
        self.0.streams.get()
    }

    fn is_over(&self) -> bool {
        self.0.retired.get() || self.0.sender.is_closed()
    }
}

impl fmt::Debug for Http2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2").field("streams", &self.0.streams.get()).finish_non_exhaustive()
    }
}

/// Whether an error is the receiver's breach of the protocol, as the library found it, or of its allowance.
#[must_use]
pub fn is_breach(error: &hyper::Error) -> bool {
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    cause(error).is_some_and(h2::Error::is_library) || io.is_some_and(|io| io.kind() == io::ErrorKind::QuotaExceeded)
}

fn cause(error: &hyper::Error) -> Option<&h2::Error> {
    error.source()?.downcast_ref()
}

/// A remote `GOAWAY` is an error of those streams alone that came after the last one processed.
fn is_refusal(error: &h2::Error) -> bool {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    error.is_remote() && (error.is_go_away() || is_refused)
}

/// A stream that ends when more comes than may.
struct Metered {
    stream: TlsStream,
    allowance: Rc<Cell<usize>>,
}

impl AsyncRead for Metered {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let Some(left) = self.allowance.get().checked_sub(count) else {
            let text = "the receiver sends more than its answers can need";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::QuotaExceeded, text)));
        };
        self.allowance.set(left);
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(context)
    }
}

/// Counts a stream while it is open.
struct OpenStream<'a> {
    connection: &'a Inner,
    answered: bool,
}

impl<'a> OpenStream<'a> {
    fn new(connection: &'a Inner) -> Self {
        connection.streams.set(connection.streams.get() + 1);
        connection.allowance.set((connection.allowance.get() + PER_STREAM).min(ALLOWANCE_MAX));
        Self { connection, answered: false }
    }
}

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        self.connection.streams.set(self.connection.streams.get() - 1);
        if !self.answered {
            self.connection.retired.set(true);
        }
    }
}
