//! The least a receiver can be: it reads each request to its end and answers 200, on an executor of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use streaming_hub::runtime::boot::{processors, spawn_pinned};
use streaming_hub::runtime::{Listener, TcpStream, channel, task};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
/// Room for a whole request.
const BUFFER_BYTES: usize = 8 * 1024;

/// A listening receiver; its thread, `receiver`, ends with the process.
pub struct Receiver {
    pub address: SocketAddr,
    answered: Arc<AtomicU64>,
}

impl Receiver {
    /// Starts on the last processor, away from the first shard.
    pub fn start() -> Self {
        let answered = Arc::new(AtomicU64::new(0));
        let (sender, receiver) = channel::reply();
        let count = Arc::clone(&answered);
        let cpu = processors().pop().expect("there is a processor");
        spawn_pinned("receiver", cpu, move || async move {
            let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
            sender.send(listener.local_address().expect("it is bound")).expect("somebody waits");
            while let Ok((stream, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                task::spawn(async move {
                    // A client that goes away ends its connection.
                    let _ = serve(stream, &count).await;
                });
            }
        })
        .expect("an executor can be made");
        Self { address: receiver.recv().expect("the receiver starts"), answered }
    }

    /// Where deliveries go.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// How many requests were answered.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, answered: &AtomicU64) -> std::io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..]).await?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        if is_complete(&buffer[..filled]) {
            filled = 0;
            answered.fetch_add(1, Ordering::Relaxed);
            stream.write_all(ANSWER).await?;
        }
    }
}

/// Whether a request's head and body are there; clients of a bench never pipeline.
fn is_complete(request: &[u8]) -> bool {
    let Some(head) = request.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let text = std::str::from_utf8(&request[..head]).expect("a bench sends plain headers");
    let length = text.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.and_then(|digits| digits.parse().ok()).unwrap_or(0);
    request.len() >= head + 4 + length
}
