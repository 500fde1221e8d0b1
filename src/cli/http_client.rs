//! One blocking HTTP/1.1 request over plain TCP, for `publish` and `backup`: enough for a hub on the operator's own
//! network.
//!
//! Not a client for deliveries: no TLS, no redirects, no reuse.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use url::{Position, Url};

use crate::deliver::headers::USER_AGENT_TEXT;

/// For connecting, and for each read and write.
const PATIENCE: Duration = Duration::from_secs(10);
/// What of an answer is read.
const ANSWER_MAX_BYTES: u64 = 64 * 1024;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body, as text; what is not UTF-8 is replaced.
    pub body: String,
}

/// A hub's URL, for an argument.
///
/// # Errors
/// The rule that `text` breaks.
pub fn parse_url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("must be a URL: {error}"))?;
    if url.scheme() == "http" {
        Ok(url)
    } else {
        Err("must begin with `http://`: this command speaks no TLS".to_owned())
    }
}

/// Gets `url`. Header names and values must have no control characters.
///
/// # Errors
/// One line that says what failed.
pub fn get(url: &Url, headers: &[(&str, String)]) -> Result<Answer, String> {
    exchange("GET", url, headers, b"")
}

/// Posts `body` to `url`. Header names and values must have no control characters.
///
/// # Errors
/// One line that says what failed.
pub fn post(url: &Url, headers: &[(&str, String)], body: &[u8]) -> Result<Answer, String> {
    exchange("POST", url, headers, body)
}

fn exchange(method: &str, url: &Url, headers: &[(&str, String)], body: &[u8]) -> Result<Answer, String> {
    let mut stream = connect(url)?;
    let fields = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>();
    let head = format!(
        "{method} {} HTTP/1.1\r\nhost: {}\r\nuser-agent: {USER_AGENT_TEXT}\r\nconnection: close\r\ncontent-length: {}\r\n{fields}\r\n",
        &url[Position::BeforePath..Position::AfterQuery],
        &url[Position::BeforeHost..Position::AfterPort],
        body.len(),
    );
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    sent.map_err(|error| format!("can't send the request: {error}"))?;
    let mut answer = Vec::new();
    let read = stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer);
    read.map_err(|error| format!("can't read the answer: {error}"))?;
    parse(&answer).ok_or_else(|| "the answer is not HTTP/1.1".to_owned())
}

fn connect(url: &Url) -> Result<TcpStream, String> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let failed = |error: std::io::Error| format!("can't connect to {host}: {error}");
    let addresses = (host, url.port_or_known_default().unwrap_or(80)).to_socket_addrs().map_err(failed)?;
    let mut last = format!("{host} has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                let patient = stream.set_read_timeout(Some(PATIENCE)).and(stream.set_write_timeout(Some(PATIENCE)));
                return patient.map(|()| stream).map_err(failed);
            }
            Err(error) => last = failed(error),
        }
    }
    Err(last)
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let chunked = lines.any(|line| line.to_ascii_lowercase().replace(' ', "") == "transfer-encoding:chunked");
    let body = if chunked { joined_chunks(body) } else { body.to_owned() };
    Some(Answer { status, body })
}

/// The chunks' data, as far as it is well formed.
fn joined_chunks(mut body: &str) -> String {
    let mut joined = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = size.split(';').next().and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let Some((data, after)) = size.filter(|size| *size > 0).and_then(|size| rest.split_at_checked(size)) else {
            break;
        };
        joined.push_str(data);
        body = after.trim_start_matches("\r\n");
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_parsed_with_and_without_chunks() {
        let plain = parse(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        assert_eq!(plain, Some(Answer { status: 200, body: "{}".to_owned() }));
        let chunked = parse(b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n");
        assert_eq!(chunked, Some(Answer { status: 503, body: "abc".to_owned() }));
        for bad in [&b""[..], b"HTTP/1.1 200 OK\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 OK\r\n\r\n"] {
            assert_eq!(parse(bad), None);
        }
    }
}
