//! Sample receivers: HTTP/1.1 servers on loopback, each with a temper, that note every request.
//!
//! One thread a connection, as many as the hub opens; they end with the process.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::message::Message;

/// How a receiver answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    /// 200, always.
    Healthy,
    /// 500, always.
    Failing,
    /// 500 so many times, then 200.
    Recovering {
        /// How many.
        failures: usize,
    },
    /// It reads and never answers.
    Hanging,
    /// 200, once it was asked whether it wants events and gave the challenge back.
    Challenged,
}

/// A listening receiver.
pub struct Receiver {
    address: SocketAddr,
    notes: Arc<Mutex<Notes>>,
}

/// What a receiver has seen.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Deliveries in order of their coming, with the status each was answered; none for one that got no answer.
    pub deliveries: Vec<(Message, Option<u16>)>,
    /// Challenges given back.
    pub challenges: usize,
}

impl Notes {
    /// The deliveries that were answered with 200.
    pub fn taken(&self) -> impl Iterator<Item = &Message> {
        self.deliveries.iter().filter(|(_, status)| *status == Some(200)).map(|(message, _)| message)
    }
}

impl Receiver {
    /// Listens on a free port of loopback.
    ///
    /// # Errors
    /// When the system gives no socket.
    pub fn start(temper: Temper) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (address, notes) = (listener.local_addr()?, Arc::default());
        let receiver = Self { address, notes: Arc::clone(&notes) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let notes = Arc::clone(&notes);
                std::thread::spawn(move || serve(stream, temper, &notes));
            }
        });
        Ok(receiver)
    }

    /// Where deliveries go.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// What it has seen so far.
    #[must_use]
    pub fn notes(&self) -> Notes {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves one connection to its end; a broken one is the hub's to notice.
fn serve(stream: TcpStream, temper: Temper, notes: &Mutex<Notes>) {
    let mut stream = BufReader::new(stream);
    while let Ok(Some(request)) = Message::read(&mut stream) {
        let Some((status, body)) = answer(request, temper, notes) else {
            return hang(stream);
        };
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.get_mut().write_all([head, body].concat().as_bytes()).is_err() {
            return;
        }
    }
}

/// Keeps the connection open until the hub closes it.
fn hang(stream: BufReader<TcpStream>) {
    let mut rest = stream;
    let mut byte = [0];
    while rest.read(&mut byte).is_ok_and(|read| read > 0) {}
}

/// Notes the request; gives status line and body, or nothing to hang.
fn answer(request: Message, temper: Temper, notes: &Mutex<Notes>) -> Option<(&'static str, String)> {
    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    if request.header("x-lerian-event-type") == Some("webhook.verification") {
        notes.challenges += 1;
        return Some(("200 OK", echo(&request)));
    }
    let status = match temper {
        Temper::Healthy | Temper::Challenged => Some(200),
        Temper::Failing => Some(500),
        Temper::Recovering { failures } if notes.deliveries.len() < failures => Some(500),
        Temper::Recovering { .. } => Some(200),
        Temper::Hanging => None,
    };
    notes.deliveries.push((request, status));
    let ok = status? == 200;
    let line = if ok { "200 OK" } else { "500 Internal Server Error" };
    Some((line, json!({"received": ok}).to_string()))
}

/// The challenge, given back as the hub wants it.
fn echo(request: &Message) -> String {
    let asked: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    json!({"challenge": asked["challenge"]}).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::demo::client::{Client, Request};

    fn delivered(receiver: &Receiver, kind: &str, body: &str) -> Option<(u16, Value)> {
        let mut client = Client::new(receiver.address, None);
        let headers = vec![("x-lerian-event-type", kind.to_owned())];
        let request = Request { method: "POST", path: "/hook", headers, body: body.as_bytes().to_vec() };
        client.send(&request).ok().map(|answer| (answer.status, answer.json))
    }

    #[test]
    fn each_temper_answers_as_it_says_and_notes_what_it_took() {
        let statuses = |temper: Temper| {
            let receiver = Receiver::start(temper).unwrap();
            let statuses: Vec<u16> = (0..3).filter_map(|_| delivered(&receiver, "a.b", "{}")).map(|(s, _)| s).collect();
            (statuses, receiver.notes().deliveries.len(), receiver.notes().taken().count())
        };
        assert_eq!(statuses(Temper::Healthy), (vec![200; 3], 3, 3));
        assert_eq!(statuses(Temper::Failing), (vec![500; 3], 3, 0));
        assert_eq!(statuses(Temper::Recovering { failures: 2 }), (vec![500, 500, 200], 3, 1));
    }

    #[test]
    fn a_challenge_is_given_back_and_is_no_delivery() {
        let receiver = Receiver::start(Temper::Challenged).unwrap();
        let answer = delivered(&receiver, "webhook.verification", r#"{"challenge":"abc"}"#);
        assert_eq!(answer, Some((200, json!({"challenge": "abc"}))));
        assert_eq!((receiver.notes().challenges, receiver.notes().deliveries.len()), (1, 0));
    }

    #[test]
    fn a_hanging_receiver_reads_and_is_silent() {
        let receiver = Receiver::start(Temper::Hanging).unwrap();
        let mut stream = TcpStream::connect(receiver.address).unwrap();
        stream.write_all(b"POST /hook HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(stream.read(&mut [0]).is_err(), "an answer, or the end");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.set_read_timeout(None).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        assert_eq!(receiver.notes().deliveries.len(), 1);
    }
}
