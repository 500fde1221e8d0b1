//! hyper's I/O traits over any asynchronous stream of this runtime: plain TCP or TLS.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_lite::{AsyncRead, AsyncWrite};
use hyper::rt::ReadBufCursor;

/// What one read asks for at most: a response or request head fits.
const READ_BYTES: usize = 16 * 1024;

thread_local! {
    /// Where a thread's streams read to. hyper's own buffers are not initialised: to clear one for each read costs
    /// more than to copy the few bytes that came.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// A stream as hyper wants it.
#[derive(Debug)]
pub struct HyperIo<S>(pub S);

impl<S: AsyncRead + Unpin> hyper::rt::Read for HyperIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let wanted = buffer.remaining().min(READ_BYTES);
            let count = ready!(Pin::new(&mut self.0).poll_read(context, &mut scratch[..wanted]))?;
            buffer.put_slice(&scratch[..count]);
            Poll::Ready(Ok(()))
        })
    }
}

impl<S: AsyncWrite + Unpin> hyper::rt::Write for HyperIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(context)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::{Read as _, Write as _};
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full};
    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use hyper::{Request, Response};

    use super::*;
    use crate::runtime::boot::run_local;
    use crate::runtime::{HyperTimer, Listener, LocalExecutor, net, task};

    async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let body = request.into_body().collect().await.map_or_else(|_| Bytes::new(), |body| body.to_bytes());
        Ok(Response::new(Full::new(body)))
    }

    #[test]
    fn a_server_answers_and_cuts_a_head_that_never_ends() {
        let (good, slow) = run_local(async {
            let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let address = listener.local_address().unwrap();
            let request = |text: &'static str| {
                std::thread::spawn(move || {
                    let mut stream = std::net::TcpStream::connect(address).unwrap();
                    stream.write_all(text.as_bytes()).unwrap();
                    let mut answer = String::new();
                    let _ = stream.read_to_string(&mut answer);
                    answer
                })
            };
            let good = request("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi");
            let slow = request("POST / HTTP/1.1\r\nhost: x\r\n");
            for _ in 0..2 {
                let (stream, _) = listener.accept().await.unwrap();
                let mut server = hyper::server::conn::http1::Builder::new();
                server.timer(HyperTimer).header_read_timeout(Duration::from_millis(100));
                // The slow one ends with an error.
                let _ = server.serve_connection(HyperIo(stream), service_fn(echo)).await;
            }
            (good, slow)
        });
        // Waited for outside: a connection is closed only when its executor comes around to it.
        let (good, slow) = (good.join().unwrap(), slow.join().unwrap());
        assert!(good.starts_with("HTTP/1.1 200 OK") && good.ends_with("\r\n\r\nhi"), "{good}");
        assert!(!slow.contains("200"), "{slow}");
    }

    #[test]
    fn http2_runs_on_the_local_executor() {
        let echoed = run_local(async {
            let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let address = listener.local_address().unwrap();
            task::spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                let server = hyper::server::conn::http2::Builder::new(LocalExecutor);
                let _ = server.serve_connection(HyperIo(stream), service_fn(echo)).await;
            });
            let stream = net::connect(address, Duration::from_secs(5)).await.unwrap();
            let client = hyper::client::conn::http2::Builder::new(LocalExecutor);
            let (mut sender, driver) = client.handshake(HyperIo(stream)).await.unwrap();
            task::spawn(async move {
                let _ = driver.await;
            });
            let request = Request::post("http://name.test/").body(Full::new(Bytes::from_static(b"hi"))).unwrap();
            sender.send_request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes()
        });
        assert_eq!(echoed, "hi");
    }
}
