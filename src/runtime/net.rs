//! TCP on the current executor: connecting, listening, and a look at an idle connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd};
use std::time::Duration;

use glommio::GlommioError;
use socket2::{Domain, Socket, Type};

/// A TCP connection of the current executor; reads and writes as `futures_lite::AsyncRead` and `AsyncWrite`.
pub type TcpStream = glommio::net::TcpStream;

/// Look at bytes without taking them (`recv(2)`).
const MSG_PEEK: i32 = 0x02;
/// Do not wait for bytes (`recv(2)`).
const MSG_DONTWAIT: i32 = 0x40;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 1_024;

/// Connects to `address` within `limit`, with `TCP_NODELAY`.
///
/// # Errors
/// `TimedOut` after `limit`, else what the system says.
pub async fn connect(address: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let limit = limit.max(Duration::from_micros(1));
    let stream = TcpStream::connect_timeout(address, limit).await.map_err(plain)?;
    stream.set_nodelay(true).map_err(plain)?;
    Ok(stream)
}

/// Whether an idle connection is open and has nothing to say: no bytes, no end, no error is waiting.
#[must_use]
pub fn is_quiet(stream: &TcpStream) -> bool {
    // SAFETY: the stream owns the descriptor and is borrowed for as long as the borrowed descriptor lives.
    let descriptor = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
    let mut byte = [std::mem::MaybeUninit::uninit()];
    let seen = socket2::SockRef::from(&descriptor).recv_with_flags(&mut byte, MSG_PEEK | MSG_DONTWAIT);
    seen.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// A listening socket of the current executor.
#[derive(Debug)]
pub struct Listener(glommio::net::TcpListener);

impl Listener {
    /// Listens on `address`; port 0 picks a free one. Connections that a former process left behind do not hold the
    /// address, a process that listens does: the runtime's own way to bind would share it (`SO_REUSEPORT`).
    ///
    /// # Errors
    /// What the system says, such as `AddrInUse`.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        // SAFETY: the descriptor is a bound and listening socket's, and nothing else owns it.
        Ok(Self(unsafe { glommio::net::TcpListener::from_raw_fd(socket.into_raw_fd()) }))
    }

    /// The address it listens on.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr().map_err(plain)
    }

    /// Waits for a connection, with `TCP_NODELAY`.
    ///
    /// # Errors
    /// What the system says. Errors such as `ConnectionAborted` or too many open files pass: pause shortly and
    /// accept again.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let stream = self.0.accept().await.map_err(plain)?;
        let peer = stream.peer_addr().map_err(plain)?;
        stream.set_nodelay(true).map_err(plain)?;
        Ok((stream, peer))
    }
}

fn plain(error: GlommioError<()>) -> io::Error {
    error.into()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};

    use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::runtime::boot::run_local;
    use crate::runtime::{task, timer};

    fn loopback(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    #[test]
    fn an_address_that_is_taken_is_an_error() {
        let second = run_local(async {
            let first = Listener::bind(loopback(0)).unwrap();
            Listener::bind(first.local_address().unwrap()).map(|_| ())
        });
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn connections_carry_bytes_both_ways() {
        let echoed = run_local(async {
            let listener = Listener::bind(loopback(0)).unwrap();
            let address = listener.local_address().unwrap();
            task::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = [0; 4];
                stream.read_exact(&mut bytes).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
            });
            let mut stream = connect(address, Duration::from_secs(5)).await.unwrap();
            stream.write_all(b"ping").await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            answer
        });
        assert_eq!(echoed, b"ping");
    }

    #[test]
    fn a_refused_connection_is_an_error() {
        let port = TcpListener::bind(loopback(0)).unwrap().local_addr().unwrap().port();
        let refused = run_local(async move { connect(loopback(port), Duration::from_secs(5)).await.map(|_| ()) });
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_connection_is_quiet_until_the_peer_speaks_or_ends() {
        let listener = TcpListener::bind(loopback(0)).unwrap();
        let address = listener.local_addr().unwrap();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(b"x").unwrap();
            stream.read_exact(&mut [0]).unwrap();
        });
        run_local(async move {
            let mut stream = connect(address, Duration::from_secs(5)).await.unwrap();
            assert!(is_quiet(&stream));
            stream.write_all(b"1").await.unwrap();
            while is_quiet(&stream) {
                timer::sleep(Duration::from_millis(1)).await;
            }
            stream.read_exact(&mut [0]).await.unwrap();
            assert!(is_quiet(&stream));
            stream.write_all(b"2").await.unwrap();
            while is_quiet(&stream) {
                timer::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        });
        peer.join().unwrap();
    }
}
