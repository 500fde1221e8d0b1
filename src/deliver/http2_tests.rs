//! The client against receivers that speak HTTP/2, well and badly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Client;
use super::receiver::{Authority, Receiver, Reply, speak_http2};
use super::tests::{dispatch, settings, with_client};
use crate::runtime::{channel, task};
use crate::types::limits::{HTTP2_RESENDS_MAX, RESPONSE_BODY_BYTES};
use crate::types::{AttemptOutcome, ErrorKind};

/// A receiver that replies as `script` says, told how many streams its connection had before; and how many it
/// answered.
fn serving(
    authority: &Authority,
    script: impl Fn(usize) -> Reply + Send + Sync + 'static,
) -> (Receiver, Arc<AtomicUsize>) {
    let mut config = authority.server("name.test", |_| {});
    config.alpn_protocols = vec![b"h2".to_vec()];
    let answered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    let receiver = Receiver::start_tls(config, move |stream| {
        speak_http2(stream, |before| {
            let reply = script(before);
            count.fetch_add(usize::from(matches!(reply, Reply::Answer)), Ordering::SeqCst);
            reply
        });
    });
    (receiver, answered)
}

fn with_receiver<T, F: Future<Output = T>>(
    receiver: &Receiver,
    authority: &Authority,
    test: impl FnOnce(Client, String) -> F,
) -> T {
    let url = format!("https://name.test:{}/hook", receiver.address.port());
    with_client(settings(Some(&authority.pem())), |client| test(client, url))
}

async fn attempt(client: &Client, url: &str) -> AttemptOutcome {
    client.attempt(&dispatch(url, 20_000)).await
}

/// So many attempts at once; how many were delivered.
async fn at_once(client: &Client, url: &str, number: usize) -> usize {
    let (sender, outcomes) = channel::bounded(number);
    for _ in 0..number {
        let (client, url, sender) = (client.clone(), url.to_owned(), sender.clone());
        task::spawn(async move {
            let _ = sender.send_async(attempt(&client, &url).await.status).await;
        });
    }
    drop(sender);
    let mut delivered = 0;
    while let Ok(status) = outcomes.recv_async().await {
        delivered += usize::from(status == Some(200));
    }
    delivered
}

#[test]
fn attempts_share_a_connection() {
    let authority = Authority::new();
    let (receiver, answered) = serving(&authority, |_| Reply::Answer);
    let delivered = with_receiver(&receiver, &authority, |client, url| async move {
        let first = attempt(&client, &url).await;
        assert_eq!((first.status, first.truncated), (Some(200), false), "{first:?}");
        at_once(&client, &url, 90).await + at_once(&client, &url, 90).await
    });
    assert_eq!((delivered, answered.load(Ordering::SeqCst)), (180, 181));
    assert_eq!(receiver.connections(), 1);
}

#[test]
fn a_receiver_that_goes_away_every_ten_streams_processes_each_delivery_once() {
    let authority = Authority::new();
    let script = |before| if before < 10 { Reply::Answer } else { Reply::GoAway };
    let (receiver, answered) = serving(&authority, script);
    let delivered = with_receiver(&receiver, &authority, |client, url| async move {
        let mut delivered = 0;
        for _ in 0..10 {
            delivered += at_once(&client, &url, 40).await;
        }
        delivered
    });
    assert_eq!((delivered, answered.load(Ordering::SeqCst)), (400, 400));
    assert!(receiver.connections() >= 40, "{} connections", receiver.connections());
}

#[test]
fn a_refused_stream_is_sent_again_within_the_attempt_but_not_for_ever() {
    let authority = Authority::new();
    let refusals = AtomicUsize::new(0);
    let (receiver, _) =
        serving(
            &authority,
            move |_| {
                if refusals.fetch_add(1, Ordering::SeqCst) < 3 { Reply::Refuse } else { Reply::Answer }
            },
        );
    let outcome = with_receiver(&receiver, &authority, |client, url| async move { attempt(&client, &url).await });
    assert_eq!((outcome.status, receiver.connections()), (Some(200), 4), "{outcome:?}");
    let (never, _) = serving(&authority, |_| Reply::Refuse);
    let outcome = with_receiver(&never, &authority, |client, url| async move { attempt(&client, &url).await });
    assert_eq!((outcome.status, outcome.error_kind), (None, Some(ErrorKind::Reset)), "{outcome:?}");
    assert_eq!(never.connections(), 1 + HTTP2_RESENDS_MAX);
}

#[test]
fn no_more_of_a_body_is_read_than_is_kept_and_the_connection_lives_on() {
    let authority = Authority::new();
    let (receiver, _) = serving(&authority, |before| if before == 0 { Reply::Endless } else { Reply::Answer });
    let [endless, next] = with_receiver(&receiver, &authority, |client, url| async move {
        [attempt(&client, &url).await, attempt(&client, &url).await]
    });
    let kept = (endless.status, endless.truncated, endless.response_body.len());
    assert_eq!(kept, (Some(200), true, RESPONSE_BODY_BYTES));
    assert_eq!((next.status, receiver.connections()), (Some(200), 1), "{next:?}");
}

#[test]
fn a_connection_without_an_answer_is_not_used_again() {
    let authority = Authority::new();
    let (receiver, _) = serving(&authority, |before| if before == 1 { Reply::Silence } else { Reply::Answer });
    let outcomes = with_receiver(&receiver, &authority, |client, url| async move {
        let first = attempt(&client, &url).await;
        let silent = client.attempt(&dispatch(&url, 300)).await;
        [first, silent, attempt(&client, &url).await]
    });
    assert_eq!(outcomes.each_ref().map(|outcome| outcome.status), [Some(200), None, Some(200)]);
    assert_eq!(outcomes[1].error_kind, Some(ErrorKind::Timeout));
    assert_eq!(receiver.connections(), 2);
}

#[test]
fn a_shared_connection_that_breaks_is_stale_and_a_breach_is_the_protocol() {
    let authority = Authority::new();
    let script = |reply| move |before| if before == 1 { reply } else { Reply::Answer };
    let cases =
        [(Reply::Close, ErrorKind::Reset), (Reply::Breach, ErrorKind::Protocol), (Reply::Flood, ErrorKind::Protocol)];
    for (reply, kind) in cases {
        let (receiver, _) = serving(&authority, script(reply));
        let outcome = with_receiver(&receiver, &authority, |client, url| async move {
            assert_eq!(attempt(&client, &url).await.status, Some(200));
            attempt(&client, &url).await
        });
        assert_eq!((outcome.status, outcome.error_kind), (None, Some(kind)), "{outcome:?}");
        assert_eq!(outcome.stale_connection, kind == ErrorKind::Reset);
    }
}
