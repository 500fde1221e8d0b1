//! A blocking JSON client of the hub's API on loopback, which keeps its connection.
//!
//! Not a client for the world: no names, no TLS, no redirects.

use std::fmt::Write as _;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::message::Message;

/// For each read and write.
const PATIENCE: Duration = Duration::from_secs(10);

/// The client, with the key that it shows.
pub struct Client {
    address: SocketAddr,
    key: Option<String>,
    connection: Option<BufReader<TcpStream>>,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// The path with its query.
    pub path: &'a str,
    /// Names and values, free of control characters.
    pub headers: Vec<(&'a str, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body; `null` when it is no JSON.
    pub json: Value,
}

impl Client {
    /// A client of the hub at `address`; it connects when first used.
    #[must_use]
    pub const fn new(address: SocketAddr, key: Option<String>) -> Self {
        Self { address, key, connection: None }
    }

    /// Reads `path`.
    ///
    /// # Errors
    /// One line when there is no answer or it is no 2xx.
    pub fn read(&mut self, path: &str) -> Result<Value, String> {
        self.expect_success(&Request { method: "GET", path, headers: Vec::new(), body: Vec::new() })
    }

    /// Posts `body` to `path`.
    ///
    /// # Errors
    /// One line when there is no answer or it is no 2xx.
    pub fn create(&mut self, path: &str, body: &Value) -> Result<Value, String> {
        let headers = vec![("content-type", "application/json".to_owned())];
        self.expect_success(&Request { method: "POST", path, headers, body: body.to_string().into_bytes() })
    }

    fn expect_success(&mut self, request: &Request<'_>) -> Result<Value, String> {
        let answer = self.send(request)?;
        if (200..300).contains(&answer.status) {
            return Ok(answer.json);
        }
        Err(format!("{} {}: {} {}", request.method, request.path, answer.status, answer.json))
    }

    /// Sends a request and reads its answer, whatever its status.
    ///
    /// # Errors
    /// One line when there is no answer; the next request connects anew.
    pub fn send(&mut self, request: &Request<'_>) -> Result<Answer, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{} {}: {error}", request.method, request.path);
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.address).map_err(|error| failed(&error))?,
        };
        connection.get_mut().write_all(&self.bytes(request)).map_err(|error| failed(&error))?;
        let message = Message::read(&mut connection).map_err(|error| failed(&error))?;
        let message = message.ok_or_else(|| failed(&"the hub closed the connection"))?;
        let status = message.status().ok_or_else(|| failed(&"the answer is not HTTP/1.1"))?;
        if message.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Ok(Answer { status, json: serde_json::from_slice(&message.body).unwrap_or(Value::Null) })
    }

    fn bytes(&self, request: &Request<'_>) -> Vec<u8> {
        let Request { method, path, headers, body } = request;
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n", self.address, body.len());
        let key = self.key.iter().map(|key| ("authorization", format!("Bearer {key}")));
        for (name, value) in headers.iter().cloned().chain(key) {
            write!(head, "{name}: {value}\r\n").expect("writing to a string can't fail");
        }
        [head.as_bytes(), b"\r\n", body].concat()
    }
}

fn connect(address: SocketAddr) -> std::io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(stream))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use serde_json::json;

    use super::*;

    /// A hub that gives each of its connections `answers` and tells what it was asked.
    fn hub(answers: &'static [&'static [&'static str]]) -> (SocketAddr, std::thread::JoinHandle<Vec<Message>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move || {
            let mut asked = Vec::new();
            for answers in answers {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                for answer in *answers {
                    asked.push(Message::read(&mut stream).unwrap().unwrap());
                    stream.get_mut().write_all(answer.as_bytes()).unwrap();
                }
            }
            asked
        };
        (address, std::thread::spawn(serve))
    }

    #[test]
    fn one_connection_serves_many_requests_until_it_is_closed() {
        let (address, hub) = hub(&[
            &[
                "HTTP/1.1 201 Created\r\ncontent-length: 8\r\n\r\n{\"id\":1}",
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n[]",
            ],
            &["HTTP/1.1 404 Not Found\r\ncontent-length: 14\r\n\r\n{\"code\":\"none\"}"],
        ]);
        let mut client = Client::new(address, Some("shk_a".to_owned()));
        assert_eq!(client.create("/v1/sources", &json!({"slug": "a"})), Ok(json!({"id": 1})));
        assert_eq!(client.read("/v1/events"), Ok(json!([])));
        let refused = client.read("/v1/none").expect_err("a 404");
        assert!(refused.starts_with("GET /v1/none: 404 "), "{refused}");
        let asked = hub.join().unwrap();
        assert_eq!(
            (asked[0].start.as_str(), asked[0].body.as_slice()),
            ("POST /v1/sources HTTP/1.1", &br#"{"slug":"a"}"#[..])
        );
        assert!(asked.iter().all(|message| message.header("authorization") == Some("Bearer shk_a")));
    }

    #[test]
    fn a_hub_that_hangs_up_is_an_error_and_not_the_end() {
        let (address, hub) = hub(&[&["oops\r\n\r\n"], &["HTTP/1.1 204 No Content\r\n\r\n"]]);
        let mut client = Client::new(address, None);
        assert!(client.read("/").expect_err("no HTTP").ends_with("the answer is not HTTP/1.1"));
        assert_eq!(client.read("/"), Ok(Value::Null));
        assert_eq!(hub.join().unwrap()[1].header("authorization"), None);
    }
}
