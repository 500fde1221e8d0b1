//! The bare loop: hyper clients on one executor, both signatures for each request, and nothing else. It is the
//! least that could do the hub's work, and the measure of what this machine can do now.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use streaming_hub::deliver::sign::Signer;
use streaming_hub::runtime::boot::{processors, spawn_pinned};
use streaming_hub::runtime::{Clock, HyperIo, channel, net, task};
use streaming_hub::types::destination::SigningSecret;
use streaming_hub::types::{Secret, Time};

use super::process::own_thread_seconds;
use crate::failure::Failure;
use crate::receive::SECRET;

const ID: &str = "018bcfe5-6800-7abc-8def-0123456789ab";
/// Requests at once, as many as the hub may have at one parallel destination.
const CONCURRENCY: usize = 256;
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// What it did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bare {
    /// Requests answered.
    pub requests: u64,
    /// How long it took.
    pub seconds: f64,
    /// Processor time of its thread.
    pub processor_seconds: f64,
}

/// Runs for `span`, on the processor that the hub's first shard has, against one receiver.
///
/// # Errors
/// When the thread fails.
pub async fn run(address: SocketAddr, payload_bytes: usize, span: Duration, clock: Clock) -> Result<Bare, Failure> {
    let failed = |reason: String| Failure::Thread { name: "bare loop", reason };
    let (sender, answer) = channel::reply();
    let thread = spawn_pinned("bare", processors()[0], move || async move {
        let bare = run_here(address, payload_bytes, span, clock).await;
        let _ = sender.send(bare);
    });
    let thread = thread.map_err(|error| failed(error.to_string()))?;
    let bare = answer.recv_async().await.map_err(|_| failed("it panicked".to_owned()))?;
    thread.join().map_err(|error| failed(error.to_string()))?;
    Ok(bare)
}

async fn run_here(address: SocketAddr, payload_bytes: usize, span: Duration, clock: Clock) -> Bare {
    let begun = clock.now();
    let end = begun + streaming_hub::types::Duration(u64::try_from(span.as_micros()).unwrap_or(u64::MAX));
    let requests = Rc::new(Cell::new(0));
    let (done, ended) = channel::bounded::<()>(1);
    let before = own_thread_seconds();
    for _ in 0..CONCURRENCY {
        let (requests, done) = (Rc::clone(&requests), done.clone());
        task::spawn(async move {
            send(address, payload_bytes, end, clock, &requests).await;
            drop(done);
        });
    }
    drop(done);
    while ended.recv_async().await.is_ok() {}
    Bare {
        requests: requests.get(),
        seconds: clock.now().since(begun).to_std().as_secs_f64(),
        processor_seconds: own_thread_seconds() - before,
    }
}

async fn send(address: SocketAddr, payload_bytes: usize, end: Time, clock: Clock, requests: &Cell<u64>) {
    let stream = net::connect(address, CONNECT_PATIENCE).await.expect("the receiver listens");
    let (mut sender, connection) = http1::handshake(HyperIo(stream)).await.expect("nothing is sent yet");
    task::spawn(async move {
        // It ends with the sender.
        let _ = connection.await;
    });
    let secret = Secret::parse_whsec(SECRET).expect("the secret is one");
    let signer = Signer::new(&[SigningSecret { secret, expires_at: None }]);
    let body = Bytes::from(vec![b'x'; payload_bytes]);
    while clock.now() < end {
        sender.ready().await.expect("the receiver keeps connections");
        let response = sender.send_request(request(&signer, &body, clock)).await.expect("the receiver answers");
        response.into_body().collect().await.expect("an empty body");
        requests.set(requests.get() + 1);
    }
}

fn request(signer: &Signer, body: &Bytes, clock: Clock) -> Request<Full<Bytes>> {
    let now = clock.now();
    let seconds = now.as_secs().to_string();
    let (mut lerian, mut standard) = (BytesMut::with_capacity(128), BytesMut::with_capacity(128));
    signer.write_lerian(&mut lerian, now, &seconds, body);
    signer.write_standard(&mut standard, now, ID, &seconds, body);
    Request::post("/bare")
        .header("host", "127.0.0.1")
        .header("content-type", "application/json")
        .header("webhook-id", ID)
        .header("webhook-timestamp", &seconds)
        .header("webhook-signature", &standard[..])
        .header("x-lerian-signature", &lerian[..])
        .body(Full::new(body.clone()))
        .expect("the parts of a request")
}
