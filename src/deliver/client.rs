//! The client: one guarded way out for every call of the hub, one per executor.
//!
//! An attempt has one deadline for all it does. Redirects are never followed. A complete response head decides,
//! whatever becomes of the body.

use std::cell::RefCell;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};

use bytes::Bytes;
use http::header::{HOST, HeaderMap, HeaderValue};
use http::{Method, Request, Version};
use http_body_util::Full;
use url::Url;

use super::classify::{self, Answer, Failure};
use super::connection::{Connection, Received, Stream};
use super::dial::dial;
use super::dns::{DnsCache, DnsError, Resolver};
use super::guard::Guard;
use super::headers::{Message, add_delivery_headers, add_message_headers};
use super::http2::{Http2, Unanswered, is_breach};
use super::pool::{Pool, PoolKey};
use super::prepared::{Prepared, PreparedDestinations, Target, plain_headers};
use super::tls::{Tls, TlsScope, TlsStream, is_http2, tls_cause};
use crate::engine::Dispatch;
use crate::runtime::{Clock, sleep, task, timeout};
use crate::types::limits::{HTTP2_RESENDS_MAX, OUTBOUND_SWEEP};
use crate::types::{AttemptId, AttemptOutcome, Destination, ErrorKind, SubscriptionId, Time};

/// Headers that a delivery usually adds to its destination's.
const DELIVERY_HEADERS: usize = 24;

/// What a client needs; can be sent to the executor that makes one.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Which targets are allowed.
    pub guard: Guard,
    /// Trust.
    pub tls: Tls,
    /// Names.
    pub resolver: Resolver,
    /// Time.
    pub clock: Clock,
}

/// A signed request to a destination that carries no event: a verification.
#[derive(Debug)]
pub struct Probe<'a> {
    /// Where to, and whose keys sign.
    pub destination: &'a Destination,
    /// For which subscription.
    pub subscription: SubscriptionId,
    /// Sent as `X-Lerian-Delivery-Id`, `X-Lerian-Event-Id` and `webhook-id`.
    pub id: AttemptId,
    /// Sent as `X-Lerian-Event-Type`.
    pub event_type: &'a str,
    /// A JSON body.
    pub body: Bytes,
    /// By when it must have ended.
    pub deadline: Time,
}

/// A request that belongs to no destination. It gets `Host` and `User-Agent`, and a connection of its own.
#[derive(Debug)]
pub struct Outbound {
    /// Any method.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// Further headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// By when it must have ended.
    pub deadline: Time,
}

/// The client of one executor. Clones share connections and caches.
#[derive(Clone, Debug)]
pub struct Client(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: ClientSettings,
    dns: DnsCache,
    prepared: PreparedDestinations,
    pool: RefCell<Pool<Box<Connection>, Http2>>,
}

/// How far an attempt has come: what a deadline's error names.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Resolving,
    Connecting,
    Handshake,
    Response,
}

/// What is known when an attempt ends, also when it is cut.
#[derive(Debug, Default)]
struct Progress {
    stage: Stage,
    received: Received,
    pooled: bool,
}

/// What carries a request.
enum Carrier {
    /// A connection of its own.
    Http1(Box<Connection>),
    /// A stream of a connection that others use, too.
    Http2(Http2),
}

/// Where an attempt may take its connection from, and give it back to.
struct Route<'a> {
    target: &'a Target,
    key: Option<&'a Rc<PoolKey>>,
    fresh: bool,
    deadline: Time,
}

impl Client {
    /// Makes the executor's client; call it on the executor.
    #[must_use]
    pub fn new(settings: ClientSettings) -> Self {
        let dns = DnsCache::new(settings.resolver.clone());
        let shared =
            Rc::new(Shared { settings, dns, prepared: PreparedDestinations::default(), pool: RefCell::default() });
        task::spawn(sweep(Rc::downgrade(&shared)));
        Self(shared)
    }

    /// Sends one attempt and returns the facts; never fails otherwise.
    pub async fn attempt(&self, dispatch: &Dispatch) -> AttemptOutcome {
        let shared = &self.0;
        let prepared = match shared.prepare(&dispatch.destination) {
            Ok(prepared) => prepared,
            Err(failure) => return classify::failed(&failure, shared.now()),
        };
        let make = |version| {
            let mut headers = roomy(&prepared.headers);
            add_delivery_headers(&mut headers, &prepared.signer, dispatch);
            request(version, &prepared.method, &prepared.target, headers, dispatch.event.payload.clone())
        };
        let route = Route {
            target: &prepared.target,
            key: Some(&prepared.key),
            fresh: dispatch.fresh_connection,
            deadline: dispatch.deadline,
        };
        shared.run(&route, make).await
    }

    /// Sends a signed request without an event, on the destination's own connections.
    pub async fn probe(&self, probe: &Probe<'_>) -> AttemptOutcome {
        let shared = &self.0;
        let prepared = match shared.prepare(probe.destination) {
            Ok(prepared) => prepared,
            Err(failure) => return classify::failed(&failure, shared.now()),
        };
        let make = |version| {
            let headers = probe_headers(&prepared, probe, shared.now());
            request(version, &prepared.method, &prepared.target, headers, probe.body.clone())
        };
        let route =
            Route { target: &prepared.target, key: Some(&prepared.key), fresh: false, deadline: probe.deadline };
        shared.run(&route, make).await
    }

    /// Sends any other request of the hub, such as for a token.
    pub async fn send(&self, outbound: &Outbound) -> AttemptOutcome {
        let shared = &self.0;
        let target = Target::new(&outbound.url, &shared.settings.guard, &shared.settings.tls);
        let prepared = target.and_then(|target| Ok((target, plain_headers(&outbound.url)?)));
        let (target, fixed) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return classify::failed(&failure, shared.now()),
        };
        let make = |version| {
            let mut headers = fixed.clone();
            headers.extend(outbound.headers.clone());
            request(version, &outbound.method, &target, headers, outbound.body.clone())
        };
        shared.run(&Route { target: &target, key: None, fresh: true, deadline: outbound.deadline }, make).await
    }

    /// How many connections are kept: idle ones, and those that attempts share.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.0.pool.borrow().len()
    }
}

impl Shared {
    fn now(&self) -> Time {
        self.settings.clock.now()
    }

    fn prepare(&self, destination: &Destination) -> Result<Rc<Prepared>, Failure> {
        let settings = &self.settings;
        let (prepared, replaced) = self.prepared.of(destination, &settings.guard, &settings.tls, self.now())?;
        if let Some(key) = replaced {
            self.pool.borrow_mut().forget(&key);
        }
        Ok(prepared)
    }

    async fn run(&self, route: &Route<'_>, make: impl Fn(Version) -> Request<Full<Bytes>>) -> AttemptOutcome {
        let mut progress = Progress::default();
        let limit = self.settings.clock.until(route.deadline);
        // Pinned here, since every layer of futures that takes it by value would hold it twice.
        let result = timeout(limit, pin!(self.exchange(route, make, &mut progress))).await;
        conclude(result, progress, self.now())
    }

    /// Tries pooled connections until one takes the request, then a fresh one.
    async fn exchange(
        &self,
        route: &Route<'_>,
        make: impl Fn(Version) -> Request<Full<Bytes>>,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let mut resent = 0;
        loop {
            let pooled = self.pooled(route);
            progress.pooled = pooled.is_some();
            let carrier = match pooled {
                Some(carrier) => carrier,
                // Boxed: few attempts connect, and all would carry the room for it.
                None => Box::pin(self.connect(route, progress)).await?,
            };
            progress.stage = Stage::Response;
            let error = match carrier {
                Carrier::Http1(mut connection) => {
                    let before = connection.written();
                    match connection.exchange(make(Version::HTTP_11), &mut progress.received).await {
                        Ok(reusable) => {
                            self.give_back(route, connection, reusable);
                            return Ok(());
                        }
                        // Not a byte of the request was written: it is as if the connection had not been there.
                        Err(_) if progress.pooled && connection.written() == before => continue,
                        Err(error) => error,
                    }
                }
                Carrier::Http2(connection) => {
                    // Boxed: such connections are few, and all attempts would carry the room for them.
                    let exchange = Box::pin(connection.exchange(make(Version::HTTP_2), &mut progress.received));
                    match exchange.await {
                        Ok(()) => return Ok(()),
                        Err(unanswered)
                            if resent < HTTP2_RESENDS_MAX && may_go_elsewhere(&unanswered, progress.pooled) =>
                        {
                            resent += 1;
                            continue;
                        }
                        Err(unanswered) => unanswered.into_error(),
                    }
                }
            };
            return Err(response_failure(&error, route.target.tls.as_ref(), progress.pooled));
        }
    }

    fn pooled(&self, route: &Route<'_>) -> Option<Carrier> {
        let key = route.key.filter(|_| !route.fresh)?;
        let now = self.now();
        loop {
            let Some(mut connection) = self.pool.borrow_mut().take(key, now) else { break };
            if connection.is_usable() {
                return Some(Carrier::Http1(connection));
            }
        }
        self.pool.borrow_mut().join(key, now).map(Carrier::Http2)
    }

    fn give_back(&self, route: &Route<'_>, connection: Box<Connection>, reusable: bool) {
        if let Some(key) = route.key.filter(|_| reusable) {
            self.pool.borrow_mut().put(key, &route.target.authority, connection, self.now());
        }
    }

    async fn connect(&self, route: &Route<'_>, progress: &mut Progress) -> Result<Carrier, Failure> {
        let target = route.target;
        progress.stage = Stage::Resolving;
        let addresses = self.vetted_addresses(target).await?;
        progress.stage = Stage::Connecting;
        let limit = route.deadline.since(self.now());
        let stream = dial(&addresses, target.port, limit).await?;
        progress.stage = Stage::Handshake;
        let stream = match &target.tls {
            None => Stream::Plain(stream),
            Some(scope) => {
                let stream = scope.connect(stream).await?;
                if is_http2(&stream) {
                    return self.begin_http2(route, stream).await;
                }
                Stream::Tls(Box::new(stream))
            }
        };
        let connection = Connection::new(stream).await.map_err(|error| unbegun(&error))?;
        Ok(Carrier::Http1(Box::new(connection)))
    }

    async fn begin_http2(&self, route: &Route<'_>, stream: TlsStream) -> Result<Carrier, Failure> {
        let connection = Http2::new(stream).await.map_err(|error| unbegun(&error))?;
        if let Some(key) = route.key {
            self.pool.borrow_mut().share(key, &route.target.authority, &connection, self.now());
        }
        Ok(Carrier::Http2(connection))
    }

    /// What the host resolves to, judged: these addresses and no others are connected to.
    async fn vetted_addresses(&self, target: &Target) -> Result<Rc<[IpAddr]>, Failure> {
        let addresses = match target.literal {
            Some(address) => Rc::new([address]),
            None => self.dns.resolve(&target.host, self.now()).await.map_err(|error| dns_failure(&error))?,
        };
        if addresses.is_empty() {
            return Err(Failure::new(ErrorKind::Dns, format!("`{}` has no address", target.host)));
        }
        let verdict = self.settings.guard.check_addresses(&target.host, &addresses);
        verdict.map_err(|error| Failure::new(ErrorKind::Blocked, error.to_string()))?;
        Ok(addresses)
    }
}

/// Looks through idle connections and prepared destinations until the client is gone.
async fn sweep(shared: Weak<Shared>) {
    loop {
        sleep(OUTBOUND_SWEEP.to_std()).await;
        let Some(shared) = shared.upgrade() else { return };
        let now = shared.now();
        shared.pool.borrow_mut().evict(now);
        shared.prepared.evict(now);
    }
}

/// HTTP/2 has the authority in the target instead of `Host` (RFC 9113, section 8.3.1).
fn request(
    version: Version,
    method: &Method,
    target: &Target,
    mut headers: HeaderMap,
    body: Bytes,
) -> Request<Full<Bytes>> {
    let is_http2 = version == Version::HTTP_2;
    if is_http2 {
        headers.remove(HOST);
    }
    let mut request = Request::new(Full::new(body));
    *request.version_mut() = version;
    *request.method_mut() = method.clone();
    *request.uri_mut() = if is_http2 { target.absolute_uri.clone() } else { target.uri.clone() };
    *request.headers_mut() = headers;
    request
}

/// A request that the receiver says it did not process may go to another connection, and so may one of which a
/// connection from the pool sent nothing.
const fn may_go_elsewhere(unanswered: &Unanswered, pooled: bool) -> bool {
    match unanswered {
        Unanswered::Refused(_) => true,
        Unanswered::Unsent(_) => pooled,
        Unanswered::Failed(_) => false,
    }
}

fn unbegun(error: &hyper::Error) -> Failure {
    Failure::new(ErrorKind::Internal, error.to_string())
}

/// A copy with room for a delivery's own headers: a plain clone would grow step by step.
fn roomy(fixed: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(fixed.len() + DELIVERY_HEADERS);
    headers.extend(fixed.iter().map(|(name, value)| (name.clone(), value.clone())));
    headers
}

fn probe_headers(prepared: &Prepared, probe: &Probe<'_>, now: Time) -> HeaderMap {
    let mut headers = prepared.headers.clone();
    let id = HeaderValue::try_from(probe.id.to_string()).expect("a UUID is a header value");
    let message = Message {
        id: &id,
        attempt: probe.id,
        event_type: probe.event_type,
        subscription: probe.subscription,
        at: now,
        body: &probe.body,
    };
    add_message_headers(&mut headers, &prepared.signer, &message);
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// A complete head decides; without one it is the failure, or the deadline.
fn conclude(result: Option<Result<(), Failure>>, progress: Progress, now: Time) -> AttemptOutcome {
    let Received { head, body, complete } = progress.received;
    if let Some(head) = head {
        let (status, headers) = (head.status.as_u16(), &head.headers);
        return classify::answered(Answer { status, headers, body: body.freeze(), truncated: !complete }, now);
    }
    let failure = match result {
        Some(Err(failure)) => failure,
        Some(Ok(())) | None => Failure::new(ErrorKind::Timeout, progress.stage.timeout_text().to_owned()),
    };
    let mut outcome = classify::failed(&failure, now);
    outcome.stale_connection = progress.pooled && failure.kind == ErrorKind::Reset;
    outcome
}

impl Stage {
    const fn timeout_text(self) -> &'static str {
        match self {
            Self::Resolving => "the deadline passed while the name was being resolved",
            Self::Connecting => "the deadline passed while connecting",
            Self::Handshake => "the deadline passed during the TLS handshake",
            Self::Response => "the deadline passed before a complete response head",
        }
    }
}

fn dns_failure(error: &DnsError) -> Failure {
    let kind = match error {
        DnsError::Failed { .. } => ErrorKind::Dns,
        DnsError::Stopped => ErrorKind::Internal,
    };
    Failure::new(kind, error.to_string())
}

/// Why no complete head arrived once the request was under way.
fn response_failure(error: &hyper::Error, tls: Option<&TlsScope>, pooled: bool) -> Failure {
    let cause = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    if let (Some(scope), Some(cause)) = (tls, cause)
        && tls_cause(cause).is_some()
    {
        return scope.failure(cause);
    }
    let kind = if error.is_parse() || is_breach(error) {
        ErrorKind::Protocol
    } else if error.is_user() {
        ErrorKind::Internal
    } else if !pooled && tls.is_some_and(TlsScope::certificate_asked) {
        // In TLS 1.3 the refusal comes after the handshake, and a reset may overtake the alert that names it.
        ErrorKind::TlsClientCertificate
    } else {
        ErrorKind::Reset
    };
    let text = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    Failure::new(kind, text)
}
