//! The server over real connections, from a plain thread.

use super::*;
use crate::api::server::Server;
use crate::runtime::{Listener, channel};
use serde_json::json;

/// Runs `client` on a thread against a server with one source of at most 64 bytes; tells it the source's path.
fn with_server(client: impl FnOnce(SocketAddr, String) + Send + 'static) {
    with_hub(|hub| async move {
        let key = hub.key("acme").await;
        let made = hub.ask(&key, "POST /v1/sources", json!({"slug": "shop", "max_body_bytes": 64})).await;
        let path = format!("/v1/ingest/{}", made.id());
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
        let address = listener.local_address().expect("an address");
        let (stop, stopped) = channel::bounded::<()>(1);
        let (report, outcome) = channel::reply();
        std::thread::spawn(move || {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client(address, path)));
            drop(stop);
            let _ = report.send(ended.is_ok());
        });
        Server::new(Rc::clone(&hub.api), stopped).serve(listener).await;
        assert_eq!(outcome.recv_async().await, Ok(true), "the client's checks hold");
    });
}

/// Sends raw bytes and reads until the server closes.
fn exchange(address: SocketAddr, raw: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(raw.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    answer
}

#[test]
fn requests_are_answered_on_one_connection() {
    with_server(|address, path| {
        let get = "GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n";
        let post = format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nhi");
        let chunked =
            format!("POST {path} HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
        let last = "GET /nowhere HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
        let mut stream = TcpStream::connect(address).expect("a connection");
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        for (raw, expected) in [(get, "200 OK"), (&post, "200 OK"), (&chunked, "200 OK"), (last, "404 Not Found")] {
            stream.write_all(raw.as_bytes()).expect("the server reads");
            let (mut length, mut line, mut head) = (0, String::new(), String::new());
            while reader.read_line(&mut line).expect("the server answers") > 2 {
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.trim().parse().expect("a length");
                }
                head.push_str(&std::mem::take(&mut line));
            }
            assert!(head.starts_with(&format!("HTTP/1.1 {expected}")), "{raw} → {head}");
            reader.read_exact(&mut vec![0; length]).expect("a body");
        }
    });
}

#[test]
fn both_lengths_are_400_and_the_connection_closes() {
    with_server(|address, path| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\n");
        for lengths in [
            "content-length: 2\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ncontent-length: 2\r\n",
        ] {
            let smuggled = "GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n";
            let answer = exchange(address, &format!("{head}{lengths}\r\n0\r\n\r\n{smuggled}"));
            assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
            assert!(answer.contains("ambiguous_length"), "{answer}");
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "nothing more is answered: {answer}");
        }
    });
}

#[test]
fn a_body_over_the_limit_is_413_with_and_without_its_length() {
    with_server(|address, path| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n");
        let body = "x".repeat(65);
        let sized = exchange(address, &format!("{head}content-length: 65\r\n\r\n{body}"));
        assert!(sized.starts_with("HTTP/1.1 413"), "{sized}");
        let chunks = format!("20\r\n{}\r\n21\r\n{}\r\n0\r\n\r\n", &body[..32], &body[..33]);
        let chunked = exchange(address, &format!("{head}transfer-encoding: chunked\r\n\r\n{chunks}"));
        assert!(chunked.starts_with("HTTP/1.1 413"), "{chunked}");
        let fits = exchange(address, &format!("{head}content-length: 64\r\n\r\n{}", &body[..64]));
        assert!(fits.starts_with("HTTP/1.1 200"), "{fits}");
    });
}

#[test]
fn malformed_chunks_end_the_connection() {
    with_server(|address, path| {
        let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n");
        let answer = exchange(address, &format!("{head}2\r\nhiXX0\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    });
}

#[test]
fn errors_are_problems_with_the_requests_id() {
    with_server(|address, _| {
        let answer = exchange(address, "PUT /v1/sources HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        assert!(answer.contains("content-type: application/problem+json"), "{answer}");
        assert!(answer.contains("allow: GET, POST"), "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        let body: Value = serde_json::from_str(body).expect("JSON");
        let id = body["request_id"].as_str().expect("an id");
        assert!(answer.contains(&format!("x-request-id: {id}")), "{answer}");
    });
}
