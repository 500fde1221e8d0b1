//! The load test's own HTTP/1.1 client: one request and one answer at a time over a connection that is kept.
//!
//! It costs the shared cores as little as it can: requests are bytes made by the caller, answers are looked at in
//! place. Answers without `Content-Length` have no body here; the hub sends none such.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use streaming_hub::runtime::{TcpStream, net, timeout};

/// For connecting, and for a whole exchange: longer than the hub takes for anything.
const PATIENCE: Duration = Duration::from_secs(40);
const HEADERS_MAX: usize = 32;
const READ_BYTES: usize = 16 * 1024;
/// More than any answer of the hub.
const ANSWER_MAX_BYTES: usize = 4 * 1024 * 1024;

/// A connection to the hub.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The status.
    pub status: u16,
    /// The whole body.
    pub body: &'a [u8],
}

/// Where a complete answer's parts are.
struct Shape {
    status: u16,
    head: usize,
    body: usize,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// What the system says.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { stream: net::connect(address, PATIENCE).await?, buffer: Vec::with_capacity(READ_BYTES) })
    }

    /// Sends a whole request and reads the answer. After an error the connection is of no use.
    ///
    /// # Errors
    /// What the system says; `InvalidData` for what is not HTTP/1.1, `TimedOut` when nothing comes.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        let shape = timeout(PATIENCE, self.exchanged(request)).await;
        let shape = shape.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(Answer { status: shape.status, body: &self.buffer[shape.head..shape.head + shape.body] })
    }

    async fn exchanged(&mut self, request: &[u8]) -> io::Result<Shape> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            let filled = self.buffer.len();
            self.buffer.resize(filled + READ_BYTES, 0);
            let count = self.stream.read(&mut self.buffer[filled..]).await?;
            self.buffer.truncate(filled + count);
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(shape) = shape_of(&self.buffer)? {
                return Ok(shape);
            }
        }
    }
}

/// The parts of an answer once all of it is there.
fn shape_of(bytes: &[u8]) -> io::Result<Option<Shape>> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let head = match response.parse(bytes).map_err(|error| invalid(error.to_string()))? {
        httparse::Status::Complete(head) => head,
        httparse::Status::Partial if bytes.len() > ANSWER_MAX_BYTES => return Err(invalid("no end of a head".into())),
        httparse::Status::Partial => return Ok(None),
    };
    let length = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse::<usize>().ok());
    let body = length.unwrap_or(0);
    if body > ANSWER_MAX_BYTES {
        return Err(invalid(format!("a body of {body} bytes")));
    }
    let status = response.code.ok_or_else(|| invalid("no status".into()))?;
    Ok((bytes.len() >= head + body).then_some(Shape { status, head, body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_with_its_body() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
        for cut in 0..answer.len() {
            assert!(shape_of(&answer[..cut]).unwrap().is_none(), "{cut}");
        }
        let shape = shape_of(answer).unwrap().unwrap();
        assert_eq!((shape.status, &answer[shape.head..]), (201, &b"{}"[..]));
        assert_eq!(shape_of(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().unwrap().body, 0);
        assert!(shape_of(b"nonsense\r\n\r\n").is_err());
    }
}
