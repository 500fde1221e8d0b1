//! The client against encrypted receivers, with good and bad certificates.

use std::io::{Read as _, Write as _};
use std::rc::Rc;
use std::sync::mpsc;

use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};

use super::receiver::{Authority, Receiver, answer, read_request};
use super::tests::{dispatch, settings, with_client};
use crate::engine::Dispatch;
use crate::types::{AttemptOutcome, ErrorKind, TenantId};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn serving(config: rustls::ServerConfig) -> Receiver {
    Receiver::start_tls(config, |stream| while answer(stream, OK).is_some() {})
}

fn attempt(receiver: &Receiver, host: &str, authority: &Authority) -> AttemptOutcome {
    let url = format!("https://{host}:{}/", receiver.address.port());
    with_client(settings(Some(&authority.pem())), |client| async move { client.attempt(&dispatch(&url, 10_000)).await })
}

#[test]
fn a_certificate_of_the_operators_authority_is_trusted_and_the_connection_kept() {
    let authority = Authority::new();
    let receiver = serving(authority.server("name.test", |_| {}));
    let url = format!("https://name.test:{}/", receiver.address.port());
    with_client(settings(Some(&authority.pem())), |client| async move {
        for _ in 0..50 {
            let outcome = client.attempt(&dispatch(&url, 10_000)).await;
            assert_eq!((outcome.status, &outcome.response_body[..]), (Some(200), &b"ok"[..]), "{outcome:?}");
        }
    });
    assert_eq!(receiver.connections(), 1);
}

#[test]
fn sessions_are_resumed_within_one_version_of_one_destination_only() {
    let authority = Authority::new();
    let (sender, handshakes) = mpsc::channel();
    let receiver = Receiver::start_tls(authority.server("name.test", |_| {}), move |stream| {
        if answer(stream, OK).is_some() {
            sender.send(stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)).unwrap();
        }
    });
    let url = format!("https://name.test:{}/", receiver.address.port());
    with_client(settings(Some(&authority.pem())), |client| async move {
        for (tenant, version) in [("a", 1), ("a", 1), ("a", 2), ("b", 2)] {
            let mut dispatch = Dispatch { fresh_connection: true, ..dispatch(&url, 10_000) };
            let destination = Rc::make_mut(&mut dispatch.destination);
            destination.tenant = TenantId::new(tenant).unwrap();
            destination.version = version;
            assert_eq!(client.attempt(&dispatch).await.status, Some(200));
        }
    });
    assert_eq!(handshakes.iter().take(4).collect::<Vec<_>>(), [false, true, false, false]);
}

#[test]
fn an_address_is_verified_by_its_own_entry_in_the_certificate() {
    let authority = Authority::new();
    let good = serving(authority.server("127.0.0.1", |_| {}));
    assert_eq!(attempt(&good, "127.0.0.1", &authority).status, Some(200));
    let named = serving(authority.server("name.test", |_| {}));
    assert_eq!(attempt(&named, "127.0.0.1", &authority).error_kind, Some(ErrorKind::TlsWrongHost));
}

#[test]
fn each_bad_certificate_has_its_own_kind() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let wrong_host = serving(authority.server("other.test", |_| {}));
    assert_eq!(attempt(&wrong_host, "name.test", &authority).error_kind, Some(ErrorKind::TlsWrongHost));
    let untrusted = serving(stranger.server("name.test", |_| {}));
    assert_eq!(attempt(&untrusted, "name.test", &authority).error_kind, Some(ErrorKind::TlsUntrusted));
    let expired = serving(authority.server("name.test", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    }));
    assert_eq!(attempt(&expired, "name.test", &authority).error_kind, Some(ErrorKind::TlsExpired));
    let early = serving(authority.server("name.test", |params| {
        params.not_before = rcgen::date_time_ymd(3001, 1, 1);
        params.not_after = rcgen::date_time_ymd(3002, 1, 1);
    }));
    assert_eq!(attempt(&early, "name.test", &authority).error_kind, Some(ErrorKind::TlsExpired));
}

#[test]
fn a_demand_for_a_client_certificate_is_named() {
    let authority = Authority::new();
    for version in [&TLS13, &TLS12] {
        let receiver = serving(authority.demanding_server("name.test", &[version]));
        let outcome = attempt(&receiver, "name.test", &authority);
        assert_eq!(outcome.error_kind, Some(ErrorKind::TlsClientCertificate), "{version:?}: {outcome:?}");
    }
}

#[test]
fn a_receiver_without_tls_is_a_tls_failure() {
    let authority = Authority::new();
    let plain = Receiver::start(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read(&mut [0; 1_024]);
    });
    assert_eq!(attempt(&plain, "name.test", &authority).error_kind, Some(ErrorKind::Tls));
}

#[test]
fn an_unclean_close_after_a_full_response_is_a_response_and_before_it_is_not() {
    let authority = Authority::new();
    let abrupt = Receiver::start_tls(authority.server("name.test", |_| {}), |stream| {
        answer(stream, OK);
    });
    let outcome = attempt(&abrupt, "name.test", &authority);
    assert_eq!((outcome.status, outcome.truncated), (Some(200), false), "{outcome:?}");
    let early = Receiver::start_tls(authority.server("name.test", |_| {}), |stream| {
        let _ = read_request(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-le");
        let _ = stream.flush();
    });
    let outcome = attempt(&early, "name.test", &authority);
    assert_eq!((outcome.status, outcome.error_kind), (None, Some(ErrorKind::Reset)), "{outcome:?}");
}

#[test]
fn a_closed_encrypted_connection_fails_no_job() {
    let authority = Authority::new();
    let receiver = Receiver::start_tls(authority.server("name.test", |_| {}), |stream| {
        answer(stream, OK);
        stream.conn.send_close_notify();
        let _ = stream.flush();
    });
    let url = format!("https://name.test:{}/", receiver.address.port());
    with_client(settings(Some(&authority.pem())), |client| async move {
        for _ in 0..30 {
            let mut outcome = client.attempt(&dispatch(&url, 10_000)).await;
            if outcome.stale_connection {
                outcome = client.attempt(&Dispatch { fresh_connection: true, ..dispatch(&url, 10_000) }).await;
            }
            assert_eq!(outcome.status, Some(200), "{outcome:?}");
        }
    });
}
