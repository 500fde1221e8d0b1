//! What a receiver does with a request: from a plain answer to every way of being hostile.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::gate::Gate;

/// One reaction to one request.
pub enum Reply {
    /// A whole answer; the connection stays open.
    Answer { status: u16, headers: Vec<(&'static str, String)>, body: Vec<u8> },
    /// The same, and then the connection is closed without notice.
    ThenClose(Box<Reply>),
    /// After a pause.
    Late(Duration, Box<Reply>),
    /// Once the gate is open.
    Held(Gate, Box<Reply>),
    /// These very bytes, then the end of the stream.
    Raw(Vec<u8>),
    /// These bytes once, then this one again and again, with a pause before each, until the peer has enough.
    Drip { first: &'static str, again: &'static str, pause: Duration },
    /// These bytes once, then this block as fast as it goes, until the peer has enough or so many bytes are sent.
    Flood { first: String, block: Vec<u8>, bytes: u64 },
    /// The end of the stream, without a byte.
    Cut,
    /// A reset of the connection.
    Reset,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self::Answer { status, headers: Vec::new(), body: Vec::new() }
    }

    pub fn with(status: u16, name: &'static str, value: impl Into<String>) -> Self {
        Self::Answer { status, headers: vec![(name, value.into())], body: Vec::new() }
    }

    pub fn body(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::Answer { status, headers: Vec::new(), body: body.into() }
    }

    pub fn late(self, pause: Duration) -> Self {
        Self::Late(pause, Box::new(self))
    }

    pub fn held(self, gate: &Gate) -> Self {
        Self::Held(gate.clone(), Box::new(self))
    }

    /// Waits as long as it is late or held; gives what is to be done then.
    pub fn awaited(self) -> Self {
        match self {
            Self::Late(pause, reply) => {
                std::thread::sleep(pause);
                reply.awaited()
            }
            Self::Held(gate, reply) => {
                gate.pass();
                reply.awaited()
            }
            now @ (Self::Answer { .. }
            | Self::ThenClose(_)
            | Self::Raw(_)
            | Self::Drip { .. }
            | Self::Flood { .. }
            | Self::Cut
            | Self::Reset) => now,
        }
    }

    /// Acts on the stream; tells whether the connection serves on.
    pub fn play(self, stream: &mut impl Write, socket: &TcpStream) -> io::Result<bool> {
        match self {
            Self::Answer { status, headers, body } => answer(stream, status, &headers, &body).map(|()| true),
            Self::ThenClose(reply) => reply.play(stream, socket).map(|_| false),
            Self::Late(..) | Self::Held(..) => self.awaited().play(stream, socket),
            Self::Raw(bytes) => send(stream, &bytes).map(|()| false),
            Self::Drip { first, again, pause } => drip(stream, first, again, pause),
            Self::Flood { first, block, bytes } => flood(stream, &first, &block, bytes).map(|()| false),
            Self::Cut => Ok(false),
            Self::Reset => reset(socket).map(|()| false),
        }
    }
}

fn answer(stream: &mut impl Write, status: u16, headers: &[(&str, String)], body: &[u8]) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {status} Whatever\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    // No answer of these has a body or a length (RFC 9110, section 8.6).
    if !matches!(status, 100..=199 | 204 | 304) {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    send(stream, &[text.as_bytes(), b"\r\n", body].concat())
}

fn send(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

fn drip(stream: &mut impl Write, first: &str, again: &str, pause: Duration) -> io::Result<bool> {
    send(stream, first.as_bytes())?;
    loop {
        std::thread::sleep(pause);
        send(stream, again.as_bytes())?;
    }
}

fn flood(stream: &mut impl Write, first: &str, block: &[u8], bytes: u64) -> io::Result<()> {
    send(stream, first.as_bytes())?;
    let mut left = bytes;
    while left > 0 {
        let piece = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
        stream.write_all(&block[..piece])?;
        left -= piece as u64;
    }
    stream.flush()
}

/// With no time to linger, closing sends a reset.
fn reset(socket: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO))
}
