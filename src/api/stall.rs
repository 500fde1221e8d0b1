//! A stream whose peer must read: a write that makes no progress for long enough is an error.
//!
//! Without it a client that asks and never reads would hold its connection, and its answer's bytes, for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_lite::{AsyncRead, AsyncWrite};
use hyper::rt::{Sleep, Timer as _};

use crate::runtime::HyperTimer;

/// The stream and, while a write waits, its deadline.
pub struct Unstalled<S> {
    stream: S,
    limit: Duration,
    deadline: Option<Pin<Box<dyn Sleep>>>,
}

impl<S> Unstalled<S> {
    /// Gives `stream` at most `limit` for each write.
    pub const fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, deadline: None }
    }

    /// The write's own answer, or an error when it has waited too long.
    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let limit = self.limit;
        let deadline = self.deadline.get_or_insert_with(|| HyperTimer.sleep(limit));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_close(context);
        self.watch(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::AsyncWriteExt as _;

    use super::*;
    use crate::runtime::boot::run_local;

    /// Takes `room` bytes and then nothing.
    struct Full {
        room: usize,
    }

    impl AsyncWrite for Full {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            if taken == 0 { Poll::Pending } else { Poll::Ready(Ok(taken)) }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_peer_that_reads_nothing_is_an_error_in_time() {
        let mut stream = Unstalled::new(Full { room: 3 }, Duration::from_millis(5));
        let written = run_local(async { stream.write_all(b"abcdef").await });
        assert_eq!(written.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
    }

    #[test]
    fn a_peer_that_reads_has_no_deadline() {
        let mut stream = Unstalled::new(Full { room: 6 }, Duration::from_millis(5));
        let written = run_local(async { stream.write_all(b"abcdef").await });
        assert!(written.is_ok() && stream.deadline.is_none());
    }
}
