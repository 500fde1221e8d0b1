//! What an executor makes once per version of a destination: target, fixed headers, absorbed keys, TLS scope.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use http::header::HeaderMap;
use http::uri::PathAndQuery;
use http::{Method, Uri};
use rustls_pki_types::ServerName;
use url::{Host, Position, Url};

use super::classify::Failure;
use super::guard::Guard;
use super::headers::{fixed_headers, url_headers};
use super::pool::PoolKey;
use super::sign::Signer;
use super::tls::{Tls, TlsScope};
use crate::types::limits::{PREPARED_DESTINATIONS_MAX, PREPARED_IDLE_MAX};
use crate::types::{Destination, DestinationId, ErrorKind, Time, destination};

/// Where a request goes.
#[derive(Debug)]
pub struct Target {
    /// The URL's host as it stands there, for the resolver and the guard.
    pub host: Box<str>,
    /// The port, the scheme's own if the URL has none.
    pub port: u16,
    /// `host:port`, what idle connections are counted under.
    pub authority: Rc<str>,
    /// The address, where the host is a literal one.
    pub literal: Option<IpAddr>,
    /// For https.
    pub tls: Option<TlsScope>,
    /// Path and query.
    pub uri: Uri,
    /// The same with scheme and authority, as HTTP/2 wants it.
    pub absolute_uri: Uri,
}

impl Target {
    /// Judges and takes apart a URL.
    ///
    /// # Errors
    /// [`Failure`] of kind `blocked` when the guard refuses it, `internal` when it cannot be sent.
    pub fn new(url: &Url, guard: &Guard, tls: &Tls) -> Result<Self, Failure> {
        guard.check_url(url).map_err(|error| Failure::new(ErrorKind::Blocked, error.to_string()))?;
        let unusable = |what: &str| Failure::new(ErrorKind::Internal, format!("the URL's {what} cannot be used"));
        let host = url.host().ok_or_else(|| unusable("host"))?;
        let port = url.port_or_known_default().ok_or_else(|| unusable("port"))?;
        let host_text = url.host_str().unwrap_or_default();
        let server = server_name(&host).ok_or_else(|| unusable("host"))?;
        let path: PathAndQuery =
            url[Position::BeforePath..Position::AfterQuery].parse().map_err(|_| unusable("path"))?;
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let absolute = Uri::builder().scheme(url.scheme()).authority(authority).path_and_query(path.clone());
        Ok(Self {
            host: host_text.into(),
            port,
            authority: format!("{host_text}:{port}").into(),
            literal: literal(&host),
            tls: (url.scheme() == "https").then(|| tls.scope(server)),
            uri: path.into(),
            absolute_uri: absolute.build().map_err(|_| unusable("host"))?,
        })
    }
}

/// One version of a destination, ready to be called.
#[derive(Debug)]
pub struct Prepared {
    /// Where to.
    pub target: Target,
    /// What its connections are kept under.
    pub key: Rc<PoolKey>,
    /// The method.
    pub method: Method,
    /// Headers that each request has.
    pub headers: HeaderMap,
    /// Its keys.
    pub signer: Signer,
    last_used: Cell<Time>,
}

impl Prepared {
    fn new(destination: &Destination, guard: &Guard, tls: &Tls) -> Result<Self, Failure> {
        let internal = |error: super::headers::StaticHeaderError| Failure::new(ErrorKind::Internal, error.to_string());
        Ok(Self {
            target: Target::new(&destination.url, guard, tls)?,
            key: Rc::new(key(destination)),
            method: method(destination.method),
            headers: fixed_headers(destination).map_err(internal)?,
            signer: Signer::new(&destination.secrets),
            last_used: Cell::default(),
        })
    }

    fn is_of(&self, destination: &Destination) -> bool {
        self.key.version == destination.version && self.key.tenant == destination.tenant
    }
}

/// The headers of a request that belongs to no destination.
///
/// # Errors
/// [`Failure`] of kind `internal` when the host cannot be sent.
pub fn plain_headers(url: &Url) -> Result<HeaderMap, Failure> {
    url_headers(url).map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()))
}

/// The prepared destinations of one executor, one version of each.
#[derive(Debug, Default)]
pub struct PreparedDestinations {
    known: RefCell<HashMap<DestinationId, Rc<Prepared>>>,
}

impl PreparedDestinations {
    /// The destination as it stands, and the key of the version it replaces, if it does.
    ///
    /// # Errors
    /// [`Failure`] when it cannot be called; failures are not kept.
    pub fn of(
        &self,
        destination: &Destination,
        guard: &Guard,
        tls: &Tls,
        now: Time,
    ) -> Result<(Rc<Prepared>, Option<Rc<PoolKey>>), Failure> {
        let mut known = self.known.borrow_mut();
        if let Some(prepared) = known.get(&destination.id).filter(|prepared| prepared.is_of(destination)) {
            prepared.last_used.set(now);
            return Ok((Rc::clone(prepared), None));
        }
        let prepared = Rc::new(Prepared::new(destination, guard, tls)?);
        prepared.last_used.set(now);
        if known.len() >= PREPARED_DESTINATIONS_MAX {
            // It is only a cache.
            known.clear();
        }
        let replaced = known.insert(destination.id, Rc::clone(&prepared));
        Ok((prepared, replaced.map(|old| Rc::clone(&old.key))))
    }

    /// Drops what has not been called for long.
    pub fn evict(&self, now: Time) {
        self.known.borrow_mut().retain(|_, prepared| now.since(prepared.last_used.get()) < PREPARED_IDLE_MAX);
    }
}

fn key(destination: &Destination) -> PoolKey {
    PoolKey { destination: destination.id, version: destination.version, tenant: destination.tenant.clone() }
}

const fn method(method: destination::Method) -> Method {
    match method {
        destination::Method::Post => Method::POST,
        destination::Method::Put => Method::PUT,
        destination::Method::Patch => Method::PATCH,
    }
}

const fn literal(host: &Host<&str>) -> Option<IpAddr> {
    match host {
        Host::Ipv4(address) => Some(IpAddr::V4(*address)),
        Host::Ipv6(address) => Some(IpAddr::V6(*address)),
        Host::Domain(_) => None,
    }
}

/// What the certificate is verified for; without a trailing dot (RFC 6066, section 3).
fn server_name(host: &Host<&str>) -> Option<ServerName<'static>> {
    match host {
        Host::Ipv4(address) => Some(ServerName::IpAddress(IpAddr::V4(*address).into())),
        Host::Ipv6(address) => Some(ServerName::IpAddress(IpAddr::V6(*address).into())),
        Host::Domain(name) => ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::sample;

    fn target(url: &str) -> Result<Target, Failure> {
        Target::new(&url.parse().unwrap(), &Guard::default(), &Tls::new(None).unwrap())
    }

    #[test]
    fn a_url_is_taken_apart_once() {
        let plain = target("http://name.test:8099/a%20b/?q=%7B|#fragment").unwrap();
        assert_eq!((&*plain.host, plain.port, plain.literal), ("name.test", 8099, None));
        assert_eq!(plain.uri, "/a%20b/?q=%7B|");
        assert_eq!(plain.absolute_uri, "http://name.test:8099/a%20b/?q=%7B|");
        assert!(plain.tls.is_none());
        let literal = target("https://[2606:4700::1111]").unwrap();
        assert_eq!(&*literal.authority, "[2606:4700::1111]:443");
        assert_eq!(literal.literal, Some("2606:4700::1111".parse().unwrap()));
        assert!(literal.tls.is_some());
    }

    #[test]
    fn a_forbidden_url_is_blocked() {
        assert_eq!(target("http://127.0.0.1/").unwrap_err().kind, ErrorKind::Blocked);
    }

    #[test]
    fn a_version_is_prepared_once_and_replaces_the_one_before() {
        let known = PreparedDestinations::default();
        let (guard, tls) = (Guard::default(), Tls::new(None).unwrap());
        let mut destination = sample::destination("http://name.test/");
        let (first, replaced) = known.of(&destination, &guard, &tls, Time(1)).unwrap();
        assert!(replaced.is_none());
        let (again, _) = known.of(&destination, &guard, &tls, Time(2)).unwrap();
        assert!(Rc::ptr_eq(&first, &again));
        destination.version = 2;
        let (second, replaced) = known.of(&destination, &guard, &tls, Time(3)).unwrap();
        assert_eq!(replaced.unwrap().version, 1);
        assert_eq!(second.key.version, 2);
        known.evict(Time(3) + PREPARED_IDLE_MAX);
        assert!(known.known.borrow().is_empty());
    }
}
