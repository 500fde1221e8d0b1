//! The bare loop: hyper clients on one executor, both signatures for each request, and nothing else.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use streaming_hub::deliver::sign::Signer;
use streaming_hub::runtime::boot::{processors, spawn_pinned};
use streaming_hub::runtime::{Clock, HyperIo, channel, net, task};
use streaming_hub::types::destination::Ordering;

use super::PAYLOAD_BYTES;
use super::common::{destination, payload, tenant};
use super::processor::processor_seconds;

const ID: &str = "018bcfe5-6800-7abc-8def-0123456789ab";

/// Sends `count` requests, `concurrency` at once, from the processor that the first shard has; the processor
/// seconds they took.
pub fn run(address: SocketAddr, concurrency: u32, count: u64) -> f64 {
    let cpu = processors()[0];
    let thread = spawn_pinned("bare", cpu, move || async move {
        let left = Rc::new(Cell::new(count));
        let (done, ends) = channel::bounded::<()>(usize::try_from(concurrency).expect("few"));
        for _ in 0..concurrency {
            let (left, done) = (Rc::clone(&left), done.clone());
            task::spawn(async move {
                send(address, &left).await;
                done.send(()).expect("room for all");
            });
        }
        for _ in 0..concurrency {
            ends.recv_async().await.expect("a sender is kept");
        }
        processor_seconds().get("bare").copied().unwrap_or_default()
    });
    thread.expect("an executor").join().expect("it ends")
}

async fn send(address: SocketAddr, left: &Cell<u64>) {
    let stream = net::connect(address, std::time::Duration::from_secs(5)).await.expect("the receiver listens");
    let (mut sender, connection) = http1::handshake(HyperIo(stream)).await.expect("nothing is sent yet");
    task::spawn(async move {
        // It ends with the sender.
        let _ = connection.await;
    });
    let signer = Signer::new(&destination(&tenant(0), 0, "http://example.com/", Ordering::Parallel).secrets);
    let body = payload(PAYLOAD_BYTES);
    let clock = Clock::start();
    while left.get() > 0 {
        left.set(left.get() - 1);
        sender.ready().await.expect("the receiver keeps connections");
        let response = sender.send_request(request(&signer, &body, clock)).await.expect("the receiver answers");
        response.into_body().collect().await.expect("an empty body");
    }
}

fn request(signer: &Signer, body: &Bytes, clock: Clock) -> Request<Full<Bytes>> {
    let now = clock.now();
    let seconds = now.as_secs().to_string();
    let (mut lerian, mut standard) = (BytesMut::with_capacity(128), BytesMut::with_capacity(128));
    signer.write_lerian(&mut lerian, now, &seconds, body);
    signer.write_standard(&mut standard, now, ID, &seconds, body);
    Request::post("/hook")
        .header("host", "127.0.0.1")
        .header("content-type", "application/json")
        .header("webhook-id", ID)
        .header("webhook-timestamp", &seconds)
        .header("webhook-signature", &standard[..])
        .header("x-lerian-signature", &lerian[..])
        .body(Full::new(body.clone()))
        .expect("the parts of a request")
}
