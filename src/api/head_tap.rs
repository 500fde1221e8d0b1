//! Sees what hyper hides: a request with both `Content-Length` and `Transfer-Encoding`.
//!
//! hyper follows RFC 9112, section 6.1: it goes by `Transfer-Encoding`, drops `Content-Length` and closes the
//! connection afterwards. A proxy before the hub may have gone by the other, so such a request is refused (400).
//! The tap keeps the raw bytes of the head that is being read; it decides nothing else.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use futures_lite::{AsyncRead, AsyncWrite};

use crate::types::limits;

/// A stream whose reads are kept while a head is expected.
pub struct Tapped<S> {
    stream: S,
    tap: HeadTap,
}

/// The raw bytes of the head being read; shared with the connection's service.
#[derive(Clone, Default)]
pub struct HeadTap(Rc<RefCell<Kept>>);

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    /// The head is complete: nothing more is kept until the request has been answered.
    paused: bool,
}

/// How a request's body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By one header, or there is none.
    Plain,
    /// By both headers, or it can't be told: the head came before the former request was answered.
    Ambiguous,
}

impl HeadTap {
    /// The stream with this tap on it.
    pub fn on<S>(&self, stream: S) -> Tapped<S> {
        Tapped { stream, tap: self.clone() }
    }

    /// A chunked request's framing, from its raw head.
    #[must_use]
    pub fn framing(&self) -> Framing {
        let has_length = content_length_in_head(&self.0.borrow().bytes);
        if has_length == Some(false) { Framing::Plain } else { Framing::Ambiguous }
    }

    /// The head is read: stop keeping.
    pub fn pause(&self) {
        *self.0.borrow_mut() = Kept { bytes: Vec::new(), paused: true };
    }

    /// The request is answered: the next bytes are a head again.
    pub fn resume(&self) {
        self.0.borrow_mut().paused = false;
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.0.borrow_mut();
        if !kept.paused {
            let room = limits::REQUEST_HEAD_MAX_BYTES.saturating_sub(kept.bytes.len());
            kept.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }
}

/// Whether a raw head has `Content-Length`; `None` when it is not whole.
fn content_length_in_head(bytes: &[u8]) -> Option<bool> {
    let mut found = false;
    for line in bytes.split_inclusive(|byte| *byte == b'\n').skip(1) {
        let line = line.strip_suffix(b"\n")?;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Some(found);
        }
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        found |= name.trim_ascii().eq_ignore_ascii_case(b"content-length");
    }
    None
}

impl<S: AsyncRead + Unpin> AsyncRead for Tapped<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.tap.keep(&buffer[..count]);
        Poll::Ready(Ok(count))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tapped<S> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(raw: &[u8]) -> Framing {
        let tap = HeadTap::default();
        tap.keep(raw);
        tap.framing()
    }

    #[test]
    fn both_headers_in_any_case_and_order_are_ambiguous() {
        let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nContent-Length: 3\r\n";
        assert_eq!(framing(chunked), Framing::Plain);
        let both = b"POST / HTTP/1.1\r\ncONTENT-LENGTH: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(framing(both), Framing::Ambiguous);
        let other_order = b"POST / HTTP/1.1\nTransfer-Encoding: chunked\nContent-Length : 3\n\n";
        assert_eq!(framing(other_order), Framing::Ambiguous);
    }

    #[test]
    fn a_head_that_was_not_seen_whole_is_ambiguous() {
        assert_eq!(framing(b""), Framing::Ambiguous);
        assert_eq!(framing(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"), Framing::Ambiguous);
    }

    #[test]
    fn bytes_are_kept_only_between_answer_and_head_and_only_so_many() {
        let tap = HeadTap::default();
        tap.keep(&vec![b'x'; limits::REQUEST_HEAD_MAX_BYTES + 1]);
        assert_eq!(tap.0.borrow().bytes.len(), limits::REQUEST_HEAD_MAX_BYTES);
        tap.pause();
        tap.keep(b"body");
        assert!(tap.0.borrow().bytes.is_empty());
        tap.resume();
        tap.keep(b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(tap.framing(), Framing::Plain);
    }
}
