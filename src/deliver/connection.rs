//! One HTTP/1.1 connection to a receiver, plain or encrypted, driven by whoever uses it.
//!
//! No task runs for a connection: the attempt that has it drives it, and while it is idle nobody does. So an
//! idle connection costs no processor time, and it is looked at before it is used again.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use futures_lite::{AsyncRead, AsyncWrite};
use http::response::Parts;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1;

use super::tls::TlsStream;
use crate::runtime::{HyperIo, TcpStream, net};
use crate::types::limits::{RESPONSE_BODY_BYTES, RESPONSE_HEAD_MAX_BYTES};

/// Response headers that are read at most, by number: more than common servers and proxies pass on.
const RESPONSE_HEADERS_MAX: usize = 128;

/// What is known of a response so far; it survives when the attempt is cut.
#[derive(Debug, Default)]
pub struct Received {
    /// The complete head.
    pub head: Option<Parts>,
    /// The body's beginning.
    pub body: BytesMut,
    /// The body ended, and all of it is kept.
    pub complete: bool,
}

impl Received {
    /// Keeps the part of `data` that there is room for; whether that is all of it.
    pub fn keep(&mut self, data: &[u8]) -> bool {
        let room = RESPONSE_BODY_BYTES - self.body.len();
        self.body.extend_from_slice(&data[..data.len().min(room)]);
        data.len() <= room
    }
}

/// A stream to a receiver.
#[derive(Debug)]
pub enum Stream {
    /// Plain TCP.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream>),
}

/// A connection that carries one request at a time.
pub struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<HyperIo<Wire>, Full<Bytes>>,
    wire: Wire,
    ended: bool,
}

impl Connection {
    /// Takes over a fresh stream.
    ///
    /// # Errors
    /// What hyper says; nothing is sent yet.
    pub async fn new(stream: Stream) -> hyper::Result<Self> {
        let wire = Wire(Rc::new(RefCell::new(Counted { stream, written: 0 })));
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(RESPONSE_HEAD_MAX_BYTES)
            .max_headers(RESPONSE_HEADERS_MAX)
            .handshake(HyperIo(wire.clone()))
            .await?;
        Ok(Self { sender, driver, wire, ended: false })
    }

    /// Whether an idle connection can carry a request: it is open, and nothing unexpected is waiting on it.
    ///
    /// An encrypted one may have session tickets waiting; those are read first.
    pub fn is_usable(&mut self) -> bool {
        if !self.wire.is_quiet() && self.wire.is_encrypted() {
            self.drive(&mut Context::from_waker(Waker::noop()));
        }
        !self.ended && self.sender.is_ready() && self.wire.is_quiet()
    }

    /// Bytes of requests written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.wire.0.borrow().written
    }

    /// Sends `request` and receives the response into `received`, no more of the body than is kept. Returns
    /// whether the connection can carry another request.
    ///
    /// # Errors
    /// What hyper says when the head did not arrive. A body that breaks off is no error.
    pub async fn exchange(&mut self, request: Request<Full<Bytes>>, received: &mut Received) -> hyper::Result<bool> {
        let response = self.respond(request).await?;
        let (head, body) = response.into_parts();
        received.head = Some(head);
        received.complete = self.read_body(body, received).await;
        Ok(received.complete && self.settle().await)
    }

    async fn respond(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        let mut response = pin!(self.sender.send_request(request));
        poll_fn(|context| {
            self.drive(context);
            response.as_mut().poll(context)
        })
        .await
    }

    /// Whether the body ended within what is kept.
    async fn read_body(&mut self, mut body: Incoming, received: &mut Received) -> bool {
        while !body.is_end_stream() {
            match poll_fn(|context| self.poll_frame(&mut body, context)).await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => {
                    if !frame.data_ref().is_none_or(|data| received.keep(data)) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// The body asks the driver for more only when it is polled itself, so it is polled before and after.
    fn poll_frame(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        self.drive(context);
        Pin::new(body).poll_frame(context)
    }

    /// Lets the connection notice that the response has ended; whether it is ready for another request.
    async fn settle(&mut self) -> bool {
        poll_fn(|context| {
            self.drive(context);
            Poll::Ready(!self.ended && matches!(self.sender.poll_ready(context), Poll::Ready(Ok(()))))
        })
        .await
    }

    /// An ended driver has told the sender and the body why; it must not be polled again.
    fn drive(&mut self, context: &mut Context<'_>) {
        if !self.ended {
            self.ended = Pin::new(&mut self.driver).poll(context).is_ready();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// The stream, shared by hyper, which reads and writes it, and the connection, which looks at it. It is borrowed
/// within a poll only.
#[derive(Clone)]
struct Wire(Rc<RefCell<Counted>>);

struct Counted {
    stream: Stream,
    written: u64,
}

impl Wire {
    fn is_quiet(&self) -> bool {
        match &self.0.borrow().stream {
            Stream::Plain(stream) => net::is_quiet(stream),
            Stream::Tls(stream) => net::is_quiet(stream.get_ref().0),
        }
    }

    fn is_encrypted(&self) -> bool {
        matches!(self.0.borrow().stream, Stream::Tls(_))
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match &mut self.0.borrow_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut counted = self.0.borrow_mut();
        let result = match &mut counted.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        if let Poll::Ready(Ok(count)) = result {
            counted.written += u64::try_from(count).expect("a count of bytes fits 64 bits");
        }
        result
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0.borrow_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0.borrow_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_close(context),
            Stream::Tls(stream) => Pin::new(stream).poll_close(context),
        }
    }
}
