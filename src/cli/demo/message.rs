//! HTTP/1.1 messages as the demo's client and receivers read them: a head, and a body of a stated length.
//!
//! No chunks, no trailers: the hub states the length of what it sends. Heads and bodies are bounded.

use std::io::{self, BufRead, Read as _};

/// A head's bytes, at most.
const HEAD_MAX_BYTES: u64 = 64 * 1024;
/// A body's bytes, at most.
const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// One request or answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The first line, without its end.
    pub start: String,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Message {
    /// Reads one message; `None` when the other side has closed before it.
    ///
    /// # Errors
    /// When it is cut off, malformed, chunked or over the bounds.
    pub fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = reader.by_ref().take(HEAD_MAX_BYTES);
        let Some(start) = line(&mut head)? else { return Ok(None) };
        let mut message = Self { start, ..Self::default() };
        loop {
            let field = line(&mut head)?.ok_or_else(|| malformed("a head ends early"))?;
            if field.is_empty() {
                break;
            }
            let (name, value) = field.split_once(':').ok_or_else(|| malformed("a header has no colon"))?;
            message.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        message.body = vec![0; message.length()?];
        reader.read_exact(&mut message.body)?;
        Ok(Some(message))
    }

    /// The first header of that name, in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The status of an answer; `None` for a request.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.start.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()
    }

    fn length(&self) -> io::Result<usize> {
        if self.header("transfer-encoding").is_some() {
            return Err(malformed("a body has no stated length"));
        }
        let length = self.header("content-length").map_or(Ok(0), str::parse);
        length.ok().filter(|length| *length <= BODY_MAX_BYTES).ok_or_else(|| malformed("a body is too long"))
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if reader.read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    let text = bytes.strip_suffix(b"\r\n").ok_or_else(|| malformed("a head is cut off or too long"))?;
    Ok(Some(String::from_utf8_lossy(text).into_owned()))
}

fn malformed(rule: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_each_other_on_one_connection() {
        let mut bytes: &[u8] =
            b"POST / HTTP/1.1\r\nContent-Length: 2\r\nX-A:  b \r\n\r\n{}HTTP/1.1 204 No Content\r\n\r\n";
        let request = Message::read(&mut bytes).expect("well formed").expect("a message");
        assert_eq!((request.start.as_str(), request.body.as_slice()), ("POST / HTTP/1.1", &b"{}"[..]));
        assert_eq!((request.header("x-a"), request.status()), (Some("b"), None));
        let answer = Message::read(&mut bytes).expect("well formed").expect("a message");
        assert_eq!((answer.status(), answer.body.len()), (Some(204), 0));
        assert_eq!(Message::read(&mut bytes).expect("a clean end"), None);
    }

    #[test]
    fn what_is_cut_off_chunked_or_too_long_is_an_error() {
        let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(64 * 1024));
        for bad in [
            "GET / HTTP/1.1",
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nnocolon\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n{}",
            "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 4194305\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            &long,
        ] {
            assert!(Message::read(&mut bad.as_bytes()).is_err(), "{bad:.60}");
        }
    }
}
