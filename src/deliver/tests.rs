//! The client against receivers on loopback, good and hostile.

use std::cell::Cell;
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener};
use std::rc::Rc;
use std::sync::mpsc;

use bytes::Bytes;
use http::{HeaderMap, Method};
use uuid::Uuid;

use super::receiver::{Receiver, answer, read_request};
use super::{Client, ClientSettings, Outbound, Probe, sample};
use crate::deliver::dns::{Addresses, DnsError, Resolver};
use crate::deliver::guard::Guard;
use crate::deliver::tls::Tls;
use crate::engine::Dispatch;
use crate::runtime::boot::run_local;
use crate::runtime::{Clock, task};
use crate::types::limits::{RESPONSE_BODY_BYTES, RESPONSE_HEAD_MAX_BYTES};
use crate::types::{AttemptId, AttemptOutcome, Duration, ErrorKind, SubscriptionId};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Names under `.test` are on loopback; `public.test` turns private with its second answer; others do not exist.
fn names() -> Resolver {
    let mut asked = 0;
    Resolver::from_function(move |host| {
        let addresses = match host {
            "public.test" => {
                asked += 1;
                vec![if asked == 1 { IpAddr::from([127, 0, 0, 1]) } else { IpAddr::from([10, 0, 0, 1]) }]
            }
            "mixed.test" => vec![IpAddr::from([10, 0, 0, 1]), IpAddr::from(Ipv4Addr::LOCALHOST)],
            host if host.ends_with(".test") => vec![IpAddr::from(Ipv4Addr::LOCALHOST)],
            host => return Err(DnsError::Failed { host: host.to_owned(), reason: "no such name".to_owned() }),
        };
        Ok(Addresses { addresses, ttl: Duration::ZERO })
    })
    .unwrap()
}

pub fn settings(ca_pem: Option<&str>) -> ClientSettings {
    ClientSettings {
        guard: Guard::new(false, vec!["127.0.0.0/8".parse().unwrap()]),
        tls: Tls::new(ca_pem.map(str::as_bytes)).unwrap(),
        resolver: names(),
        clock: Clock::start(),
    }
}

/// Runs `test` with a client on an executor of this thread.
pub fn with_client<T, F: Future<Output = T>>(settings: ClientSettings, test: impl FnOnce(Client) -> F) -> T {
    run_local(async move { test(Client::new(settings)).await })
}

/// An attempt at `url` that starts now and may take `limit_ms`.
pub fn dispatch(url: &str, limit_ms: u64) -> Dispatch {
    let now = Clock::start().now();
    Dispatch { started_at: now, deadline: now + Duration::from_millis(limit_ms), ..sample::dispatch(url, &[]) }
}

async fn attempt(client: &Client, url: &str) -> AttemptOutcome {
    client.attempt(&dispatch(url, 10_000)).await
}

fn attempt_once(url: &str) -> AttemptOutcome {
    with_client(settings(None), |client| async move { attempt(&client, url).await })
}

fn kind(outcome: &AttemptOutcome) -> Option<ErrorKind> {
    outcome.error_kind
}

#[test]
fn a_delivery_arrives_byte_for_byte_and_the_answer_is_kept() {
    let (sender, requests) = mpsc::channel();
    let receiver = Receiver::start(move |mut stream| {
        while let Some(request) = answer(&mut stream, OK) {
            sender.send(request).unwrap();
        }
    });
    let outcome = attempt_once(&receiver.url());
    assert_eq!((outcome.status, kind(&outcome), outcome.truncated), (Some(200), None, false), "{outcome:?}");
    assert_eq!(outcome.response_body, "ok");
    let request = String::from_utf8(requests.recv().unwrap()).unwrap();
    assert!(request.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: {}\r\n", receiver.address)), "{request}");
    assert!(request.contains("x-lerian-signature: v1,sha256="), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"n\":12345678901234567890.123456789}"), "{request}");
}

#[test]
fn connections_are_kept_and_used_again() {
    let receiver = Receiver::answering(OK);
    let url = receiver.url();
    let idle = with_client(settings(None), |client| async move {
        for _ in 0..300 {
            assert_eq!(attempt(&client, &url).await.status, Some(200));
        }
        client.idle_connections()
    });
    assert_eq!((receiver.connections(), idle), (1, 1));
}

#[test]
fn attempts_side_by_side_use_no_more_connections_than_there_are_attempts() {
    let receiver = Receiver::answering(OK);
    let url = receiver.url();
    let delivered = with_client(settings(None), |client| async move {
        let (done, finished) = crate::runtime::channel::bounded(16);
        for _ in 0..16 {
            let (client, url, done) = (client.clone(), url.clone(), done.clone());
            task::spawn(async move {
                for _ in 0..50 {
                    done.send_async(attempt(&client, &url).await.status).await.unwrap();
                }
            });
        }
        drop(done);
        let mut delivered = 0;
        while let Ok(status) = finished.recv_async().await {
            delivered += usize::from(status == Some(200));
        }
        delivered
    });
    assert_eq!(delivered, 800);
    assert!(receiver.connections() <= 16, "{} connections", receiver.connections());
}

#[test]
fn a_new_version_of_a_destination_uses_no_connection_of_the_old() {
    let receiver = Receiver::answering(OK);
    let url = receiver.url();
    let idle = with_client(settings(None), |client| async move {
        attempt(&client, &url).await;
        let mut changed = dispatch(&url, 10_000);
        Rc::make_mut(&mut changed.destination).version = 2;
        client.attempt(&changed).await;
        client.idle_connections()
    });
    assert_eq!((receiver.connections(), idle), (2, 1));
}

#[test]
fn a_fresh_connection_is_made_when_asked_for() {
    let receiver = Receiver::answering(OK);
    let url = receiver.url();
    with_client(settings(None), |client| async move {
        attempt(&client, &url).await;
        client.attempt(&Dispatch { fresh_connection: true, ..dispatch(&url, 10_000) }).await;
    });
    assert_eq!(receiver.connections(), 2);
}

/// A receiver that closes after each answer without saying so: the closing is seen before the next request, or
/// makes that one `stale`, which is tried again at once.
#[test]
fn closing_after_each_answer_fails_no_job() {
    let receiver = Receiver::start(|mut stream| {
        answer(&mut stream, OK);
    });
    let url = receiver.url();
    with_client(settings(None), |client| async move {
        for _ in 0..300 {
            let mut outcome = attempt(&client, &url).await;
            if outcome.stale_connection {
                outcome = client.attempt(&Dispatch { fresh_connection: true, ..dispatch(&url, 10_000) }).await;
            }
            assert_eq!(outcome.status, Some(200), "{outcome:?}");
        }
    });
}

#[test]
fn a_break_after_the_request_was_written_is_a_reset_and_stale_only_from_the_pool() {
    let receiver = Receiver::start(|mut stream| {
        answer(&mut stream, OK);
        let _ = read_request(&mut stream);
    });
    let url = receiver.url();
    let stale = with_client(settings(None), |client| async move {
        attempt(&client, &url).await;
        attempt(&client, &url).await
    });
    assert_eq!((kind(&stale), stale.stale_connection), (Some(ErrorKind::Reset), true), "{stale:?}");
    let broken = Receiver::start(|mut stream| {
        let _ = read_request(&mut stream);
    });
    let fresh = attempt_once(&broken.url());
    assert_eq!((kind(&fresh), fresh.stale_connection), (Some(ErrorKind::Reset), false), "{fresh:?}");
}

#[test]
fn half_closing_without_an_answer_ends_the_attempt_at_once() {
    let receiver = Receiver::start(|mut stream| {
        let _ = read_request(&mut stream);
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = stream.read(&mut [0]);
    });
    assert_eq!(kind(&attempt_once(&receiver.url())), Some(ErrorKind::Reset));
}

#[test]
fn what_is_no_http_is_a_protocol_error() {
    for garbage in ["SSH-2.0-server\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\nbad header\r\n\r\n"] {
        let receiver = Receiver::answering(garbage);
        assert_eq!(kind(&attempt_once(&receiver.url())), Some(ErrorKind::Protocol), "{garbage:?}");
    }
}

#[test]
fn a_head_over_the_bound_is_a_protocol_error() {
    let mut endless = b"HTTP/1.1 200 OK\r\n".to_vec();
    endless.extend(b"x-a: ".iter().chain(&vec![b'a'; RESPONSE_HEAD_MAX_BYTES]));
    let receiver = Receiver::answering(endless);
    assert_eq!(kind(&attempt_once(&receiver.url())), Some(ErrorKind::Protocol));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: 1\r\n".repeat(10_000));
    assert_eq!(kind(&attempt_once(&Receiver::answering(many).url())), Some(ErrorKind::Protocol));
}

#[test]
fn interim_responses_are_skipped() {
    let interim = [b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n", OK].concat();
    let outcome = attempt_once(&Receiver::answering(interim).url());
    assert_eq!((outcome.status, &outcome.response_body[..]), (Some(200), &b"ok"[..]));
}

#[test]
fn an_answer_before_the_whole_request_is_an_answer() {
    let receiver = Receiver::start(|mut stream| {
        let _ = stream.read(&mut [0; 16]);
        let _ = stream.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n");
        let _ = stream.shutdown(Shutdown::Write);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let mut large = dispatch(&receiver.url(), 10_000);
    Rc::make_mut(&mut large.event).payload = Bytes::from(vec![b'x'; 8 << 20]);
    let outcome = with_client(settings(None), |client| async move { client.attempt(&large).await });
    assert_eq!((outcome.status, kind(&outcome)), (Some(413), Some(ErrorKind::Status)), "{outcome:?}");
}

#[test]
fn a_redirect_is_not_followed() {
    let other = Receiver::answering(OK);
    let location = other.url();
    let redirect = format!("HTTP/1.1 301 Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
    let outcome = attempt_once(&Receiver::answering(redirect).url());
    assert_eq!((outcome.status, kind(&outcome)), (Some(301), Some(ErrorKind::Status)));
    assert!(outcome.error.as_deref().is_some_and(|error| error.contains(&location)), "{outcome:?}");
    assert_eq!(other.connections(), 0);
}

#[test]
fn a_silent_receiver_is_cut_at_the_deadline() {
    let receiver = Receiver::start(|mut stream| {
        let _ = read_request(&mut stream);
        let _ = stream.read(&mut [0]);
    });
    let url = receiver.url();
    let (outcome, took) = with_client(settings(None), |client| async move {
        let clock = Clock::start();
        let before = clock.now();
        (client.attempt(&dispatch(&url, 150)).await, clock.now().since(before))
    });
    assert_eq!((outcome.status, kind(&outcome)), (None, Some(ErrorKind::Timeout)));
    assert!(took >= Duration::from_millis(140) && took < Duration::from_secs(5), "took {took:?}");
}

#[test]
fn a_body_that_drips_for_ever_is_a_truncated_success() {
    let receiver = Receiver::start(|mut stream| {
        let _ = read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nabc");
        let _ = stream.read(&mut [0]);
    });
    let url = receiver.url();
    let (outcome, idle) = with_client(settings(None), |client| async move {
        (client.attempt(&dispatch(&url, 150)).await, client.idle_connections())
    });
    assert_eq!((outcome.status, kind(&outcome), outcome.truncated), (Some(200), None, true));
    assert_eq!((&outcome.response_body[..], idle), (&b"abc"[..], 0));
}

#[test]
fn endless_bodies_are_cut_at_the_bound() {
    let endless: [(&[u8], &[u8]); 3] = [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n", &[b'x'; 8_192]),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"4\r\nabcd\r\n"),
        (b"HTTP/1.0 500 Broken\r\n\r\n", &[0xff; 8_192]),
    ];
    for (head, more) in endless {
        let receiver = Receiver::start(move |mut stream| {
            let _ = read_request(&mut stream);
            let _ = stream.write_all(head);
            while stream.write_all(more).is_ok() {}
        });
        let outcome = attempt_once(&receiver.url());
        assert_eq!(outcome.response_body.len(), RESPONSE_BODY_BYTES);
        assert!(outcome.truncated && outcome.status.is_some(), "{outcome:?}");
    }
}

#[test]
fn broken_bodies_do_not_undo_a_complete_head() {
    for response in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        let receiver = Receiver::start(move |mut stream| {
            answer(&mut stream, response);
        });
        let outcome = attempt_once(&receiver.url());
        assert_eq!((outcome.status, kind(&outcome), outcome.truncated), (Some(200), None, true));
        assert_eq!(outcome.response_body, "abc");
    }
}

#[test]
fn nobody_listening_is_a_connect_failure() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let outcome = attempt_once(&format!("http://127.0.0.1:{port}/"));
    assert_eq!(kind(&outcome), Some(ErrorKind::Connect), "{outcome:?}");
}

/// A backlog that is full answers no further handshake.
#[test]
fn a_receiver_that_accepts_nobody_is_cut_at_the_deadline() {
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    listener.listen(1).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let patience = std::time::Duration::from_millis(100);
    let held: Vec<_> = (0..64).map_while(|_| std::net::TcpStream::connect_timeout(&address, patience).ok()).collect();
    assert!(held.len() < 64, "the backlog never filled");
    let url = format!("http://{address}/");
    let outcome = with_client(settings(None), |client| async move { client.attempt(&dispatch(&url, 150)).await });
    assert_eq!(kind(&outcome), Some(ErrorKind::Timeout), "{outcome:?}");
    assert_eq!(outcome.error.as_deref(), Some("the deadline passed while connecting"));
}

#[test]
fn a_connection_that_the_receiver_ends_is_not_kept() {
    let closing = Receiver::answering("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
    let old = Receiver::start(|mut stream| {
        answer(&mut stream, b"HTTP/1.0 200 OK\r\n\r\nok");
    });
    for url in [closing.url(), old.url()] {
        let (outcome, idle) =
            with_client(
                settings(None),
                |client| async move { (attempt(&client, &url).await, client.idle_connections()) },
            );
        assert_eq!((&outcome.response_body[..], outcome.truncated, idle), (&b"ok"[..], false, 0));
    }
}

#[test]
fn a_name_that_does_not_resolve_is_a_dns_failure() {
    assert_eq!(kind(&attempt_once("http://missing.example/")), Some(ErrorKind::Dns));
}

#[test]
fn the_guard_judges_each_time_before_a_connection_is_made() {
    let receiver = Receiver::start(|mut stream| {
        answer(&mut stream, OK);
    });
    let port = receiver.address.port();
    with_client(settings(None), |client| async move {
        let url = format!("http://public.test:{port}/");
        let fresh = || Dispatch { fresh_connection: true, ..dispatch(&url, 10_000) };
        assert_eq!(client.attempt(&fresh()).await.status, Some(200));
        assert_eq!(kind(&client.attempt(&fresh()).await), Some(ErrorKind::Blocked));
        let mixed = format!("http://mixed.test:{port}/");
        for (version, blocked) in
            [mixed.as_str(), "http://10.0.0.1/", "http://metadata.google.internal/"].iter().enumerate()
        {
            let mut dispatch = dispatch(blocked, 10_000);
            Rc::make_mut(&mut dispatch.destination).version = u64::try_from(version).unwrap() + 10;
            assert_eq!(kind(&client.attempt(&dispatch).await), Some(ErrorKind::Blocked), "{blocked}");
        }
    });
    assert_eq!(receiver.connections(), 1);
}

#[test]
fn a_probe_is_signed_and_other_calls_are_guarded_too() {
    let (sender, requests) = mpsc::channel();
    let receiver = Receiver::start(move |mut stream| {
        while let Some(request) = answer(&mut stream, OK) {
            sender.send(String::from_utf8(request).unwrap()).unwrap();
        }
    });
    let url = receiver.url();
    with_client(settings(None), |client| async move {
        let destination = sample::destination(&url);
        let deadline = Clock::start().now() + Duration::from_secs(10);
        let probe = Probe {
            destination: &destination,
            subscription: SubscriptionId(Uuid::from_u128(3)),
            id: AttemptId(Uuid::from_u128(4)),
            event_type: "webhook.verification",
            body: Bytes::from_static(b"{\"challenge\":\"x\"}"),
            deadline,
        };
        let outcome = client.probe(&probe).await;
        assert_eq!((outcome.status, &outcome.response_body[..]), (Some(200), &b"ok"[..]));
        let mut outbound = Outbound {
            method: Method::OPTIONS,
            url: url.parse().unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            deadline,
        };
        assert_eq!(client.send(&outbound).await.status, Some(200));
        outbound.url = "http://169.254.169.254/token".parse().unwrap();
        assert_eq!(kind(&client.send(&outbound).await), Some(ErrorKind::Blocked));
    });
    // Each came over a connection of its own, so their order is open.
    let mut seen = [requests.recv().unwrap(), requests.recv().unwrap()];
    seen.sort_unstable();
    let [options, probe] = seen;
    assert!(probe.contains("x-lerian-event-type: webhook.verification\r\n"), "{probe}");
    assert!(probe.contains("webhook-signature: v1,"), "{probe}");
    assert!(options.starts_with("OPTIONS /hook?x=1 HTTP/1.1\r\n"), "{options}");
}

#[test]
fn an_idle_connection_costs_nothing_and_is_closed_in_time() {
    let receiver = Receiver::start(|mut stream| {
        answer(&mut stream, OK);
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = stream.read(&mut [0]);
    });
    let url = receiver.url();
    let turns = Rc::new(Cell::new(0));
    with_client(settings(None), |client| async move {
        attempt(&client, &url).await;
        // A half-closed idle connection must not keep the executor busy: this loop has it to itself.
        while client.idle_connections() > 0 {
            turns.set(turns.get() + 1);
            crate::runtime::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert!(turns.get() < 100, "the connection was still kept after {} turns", turns.get());
    });
}
