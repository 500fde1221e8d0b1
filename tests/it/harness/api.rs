//! A blocking client of the hub's HTTP side: one connection per request, JSON where there is any.

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::time::DEADLINE;
use super::wire::{self, Message};

/// Calls a hub with one key, or none.
#[derive(Clone)]
pub struct Api {
    address: SocketAddr,
    key: Option<String>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    message: Message,
}

impl Answer {
    fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let message = wire::read_answer(from)?;
        let status = message.start.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok(Self { status: status.ok_or(io::ErrorKind::InvalidData)?, message })
    }

    /// The first header of that name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.message.header(name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.message.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.message.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The JSON of an answer that must have this status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.message.body.is_empty() { Value::Null } else { self.json() }
    }

    /// The `code` of a problem that must have this status.
    #[track_caller]
    pub fn problem(&self, status: u16) -> String {
        let problem = self.expect(status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{problem}");
        for member in ["type", "title", "detail", "request_id"] {
            assert!(problem[member].is_string(), "no `{member}` in {problem}");
        }
        assert_eq!(problem["status"], status);
        problem["code"].as_str().expect("a problem has a code").to_owned()
    }

    /// The pointers of a 422, sorted.
    #[track_caller]
    pub fn pointers(&self) -> Vec<String> {
        self.problem(422);
        let json = self.json();
        let errors = json["errors"].as_array().expect("a 422 has errors");
        let pointer = |error: &Value| error["pointer"].as_str().expect("an error has a pointer").to_owned();
        let mut pointers: Vec<String> = errors.iter().map(pointer).collect();
        pointers.sort();
        pointers
    }
}

impl Api {
    pub fn new(address: SocketAddr, key: Option<&str>) -> Self {
        Self { address, key: key.map(str::to_owned) }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path, Some(body))
    }

    pub fn patch(&self, path: &str, body: &Value) -> Answer {
        self.call("PATCH", path, Some(body))
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, None)
    }

    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let text = body.map(Value::to_string).unwrap_or_default();
        let headers: &[(&str, &str)] = if body.is_some() { &[("Content-Type", "application/json")] } else { &[] };
        self.send(method, path, headers, text.as_bytes())
    }

    /// Sends any request; a hub that does not answer fails the test.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let sent = self.try_send(method, path, headers, body);
        sent.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// The same where the hub may be gone.
    ///
    /// # Errors
    /// Whatever the socket says.
    pub fn try_send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        head += &format!("Content-Length: {}\r\n", body.len());
        if let Some(key) = &self.key {
            head += &format!("Authorization: Bearer {key}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        self.raw(&[head.as_bytes(), b"\r\n", body].concat())
    }

    /// Sends these very bytes and reads one answer, even if the hub stops reading before their end.
    ///
    /// # Errors
    /// Whatever the socket says.
    pub fn raw(&self, bytes: &[u8]) -> io::Result<Answer> {
        let mut stream = self.connect()?;
        let written = stream.write_all(bytes);
        Answer::read(&mut BufReader::new(stream)).map_err(|error| written.err().unwrap_or(error))
    }

    /// Sends these very bytes and reads that many answers of one connection.
    #[track_caller]
    pub fn pipelined(&self, bytes: &[u8], answers: usize) -> Vec<Answer> {
        let mut stream = self.connect().expect("the hub listens");
        stream.write_all(bytes).expect("the hub reads");
        let mut reader = BufReader::new(stream);
        (0..answers).map(|_| Answer::read(&mut reader).expect("an answer")).collect()
    }

    /// A connection of its own.
    ///
    /// # Errors
    /// Whatever the socket says.
    pub fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, DEADLINE)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        Ok(stream)
    }
}
