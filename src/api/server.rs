//! The HTTP/1.1 server on the API's executor: connections in, answers out.
//!
//! Bounds: connections, head size and time, body size, time and bytes in all. A request that is admitted runs to
//! its end even when its client goes away; ingest is the exception, since its shard needs nobody to wait.

use std::cell::Cell;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;

use crate::runtime::{HyperIo, HyperTimer, Listener, TcpStream, channel, sleep, task, timeout};
use crate::types::limits;

use super::answer::Answer;
use super::body::{BodyBudget, discard};
use super::call::Call;
use super::head_tap::{Framing, HeadTap};
use super::ingest;
use super::problem::Problem;
use super::router::{IngestPath, ingest_path};
use super::service::Service;
use super::stall::Unstalled;

/// What accepting waits after an error that passes, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// How often a draining server looks whether its connections have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(10);

/// The server of one executor.
#[derive(Clone)]
pub struct Server {
    api: Rc<Service>,
    bodies: BodyBudget,
    open: Rc<Cell<usize>>,
    /// Never sent on: it closes when the server is to stop.
    stop: channel::Receiver<()>,
}

impl Server {
    /// A server that stops once the sender of `stop` is dropped.
    #[must_use]
    pub fn new(api: Rc<Service>, stop: channel::Receiver<()>) -> Self {
        Self { api, bodies: BodyBudget::default(), open: Rc::default(), stop }
    }

    /// Accepts connections until it is to stop; then ends when every request begun is answered, at the latest
    /// after [`limits::HTTP_DRAIN_MAX`].
    pub async fn serve(self, listener: Listener) {
        while let Some(accepted) = until(&self.stop, listener.accept()).await {
            match accepted {
                Ok(connection) if self.open.get() < limits::HTTP_CONNECTIONS_MAX => self.begin(connection),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        let drained = async {
            while self.open.get() > 0 {
                sleep(DRAIN_LOOK).await;
            }
        };
        if timeout(limits::HTTP_DRAIN_MAX.to_std(), drained).await.is_none() {
            tracing::warn!(connections = self.open.get(), "connections were cut");
        }
    }

    fn begin(&self, (stream, peer): (TcpStream, SocketAddr)) {
        let server = self.clone();
        self.open.set(self.open.get() + 1);
        task::spawn(async move {
            server.connection(stream, peer.ip()).await;
            server.open.set(server.open.get() - 1);
        });
    }

    async fn connection(&self, stream: TcpStream, peer: IpAddr) {
        let tap = HeadTap::default();
        let io = HyperIo(tap.on(Unstalled::new(stream, limits::RESPONSE_STALL.to_std())));
        let service = service_fn(|request| {
            let (server, tap) = (self.clone(), tap.clone());
            async move { Ok::<_, Infallible>(server.tapped(request, peer, &tap).await) }
        });
        let connection = http().serve_connection(io, service);
        let mut connection = std::pin::pin!(connection);
        // A connection that breaks is its client's business.
        if until(&self.stop, connection.as_mut()).await.is_none() {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }

    async fn tapped(&self, request: Request<Incoming>, peer: IpAddr, tap: &HeadTap) -> Response<Full<Bytes>> {
        let chunked = request.headers().contains_key(TRANSFER_ENCODING);
        let framing = if chunked { tap.framing() } else { Framing::Plain };
        tap.pause();
        let response = match framing {
            Framing::Plain => response(self.answer(request, peer).await),
            Framing::Ambiguous => ambiguous(),
        };
        tap.resume();
        response
    }

    async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Answer {
        let (head, mut body) = request.into_parts();
        match ingest_path(head.uri.path()) {
            Some(path) => self.ingest(path, &head, &mut body, peer).await,
            None => self.call(&head, &mut body).await,
        }
    }

    async fn ingest(
        &self,
        path: Result<IngestPath<'_>, Problem>,
        head: &Parts,
        body: &mut Incoming,
        peer: IpAddr,
    ) -> Answer {
        let api = &*self.api;
        let read = async {
            let admitted = ingest::admit(api, &path?, head)?;
            let (owner, limit) = (Some(admitted.source.tenant.clone()), admitted.source.max_body_bytes as usize);
            let bytes = self.bodies.read(owner, body, limit).await?;
            Ok((admitted, bytes))
        };
        let answered = match read.await {
            Ok((admitted, bytes)) => ingest::accept(api, &admitted, head, bytes, peer).await,
            Err(problem) => {
                discard(body).await;
                Err(problem)
            }
        };
        answered.unwrap_or_else(|problem| Answer::problem(&problem, &api.new_id(api.now()).to_string()))
    }

    async fn call(&self, head: &Parts, body: &mut Incoming) -> Answer {
        let mut call = match self.api.admit(head) {
            Ok(call) => call,
            Err(answer) => {
                discard(body).await;
                return answer;
            }
        };
        match self.bodies.read(call.tenant().ok(), body, limits::API_BODY_MAX_BYTES).await {
            Ok(bytes) => call.body = bytes,
            Err(problem) => {
                discard(body).await;
                return Answer::problem(&problem, &call.request_id);
            }
        }
        self.run(call).await
    }

    /// On a task of its own, so that a client that goes away does not cut a change in two.
    async fn run(&self, call: Call) -> Answer {
        let (answer, receiver) = channel::reply();
        let (api, request_id) = (Rc::clone(&self.api), call.request_id.clone());
        task::spawn(async move {
            // Whoever asked may have gone.
            let _ = answer.send_async(api.answer(call).await).await;
        });
        let lost = || Answer::problem(&Problem::new(500, "internal", "the request was lost"), &request_id);
        receiver.recv_async().await.unwrap_or_else(|_| lost())
    }
}

fn http() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(HyperTimer)
        .header_read_timeout(limits::REQUEST_HEAD_TIMEOUT.to_std())
        .max_headers(limits::REQUEST_HEADERS_MAX)
        .max_header_size(limits::REQUEST_HEAD_MAX_BYTES);
    builder
}

/// What `future` gives, or `None` once the server is to stop.
async fn until<T>(stop: &channel::Receiver<()>, future: impl Future<Output = T>) -> Option<T> {
    let stopped = async {
        let _ = stop.recv_async().await;
        None
    };
    futures_lite::future::or(stopped, async { Some(future.await) }).await
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Both `Content-Length` and `Transfer-Encoding` (RFC 9112, section 6.1): refused, and the connection closed.
fn ambiguous() -> Response<Full<Bytes>> {
    let detail = "the request has both Content-Length and Transfer-Encoding";
    let mut response = response(Answer::problem(&Problem::new(400, "ambiguous_length", detail), ""));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
