//! HTTP/1.1 as text on a stream, both ways, with no more rules than the tests need.

use std::io::{self, BufRead, Read};

/// A start line, headers in order, and the whole body.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub start: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    /// The first header of that name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Reads a request; `None` when the stream ends before its first byte.
pub fn read_request(from: &mut impl BufRead) -> io::Result<Option<Message>> {
    let Some(mut message) = read_head(from)? else { return Ok(None) };
    message.body = match length(&message) {
        Length::Chunked => read_chunks(from)?,
        Length::Known(bytes) => read_exactly(from, bytes)?,
        Length::Unknown => Vec::new(),
    };
    Ok(Some(message))
}

/// Reads an answer; interim ones are skipped.
pub fn read_answer(from: &mut impl BufRead) -> io::Result<Message> {
    let mut message = read_head(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    while message.start.contains(" 100 ") {
        message = read_head(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    }
    message.body = match length(&message) {
        Length::Chunked => read_chunks(from)?,
        Length::Known(bytes) => read_exactly(from, bytes)?,
        Length::Unknown => read_all(from)?,
    };
    Ok(message)
}

enum Length {
    Chunked,
    Known(usize),
    Unknown,
}

fn length(message: &Message) -> Length {
    if message.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        return Length::Chunked;
    }
    message.header("content-length").and_then(|value| value.parse().ok()).map_or(Length::Unknown, Length::Known)
}

fn read_head(from: &mut impl BufRead) -> io::Result<Option<Message>> {
    let Some(start) = read_line(from)? else { return Ok(None) };
    let mut message = Message { start, ..Message::default() };
    loop {
        let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if line.is_empty() {
            return Ok(Some(message));
        }
        let (name, value) = line.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
        message.headers.push((name.to_owned(), value.trim().to_owned()));
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if from.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned()))
}

fn read_chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
        body.extend(read_exactly(from, size)?);
        read_line(from)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn read_exactly(from: &mut impl BufRead, bytes: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; bytes];
    from.read_exact(&mut body)?;
    Ok(body)
}

fn read_all(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    from.read_to_end(&mut body)?;
    Ok(body)
}
