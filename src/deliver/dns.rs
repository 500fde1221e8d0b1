//! Names to addresses: one side thread that asks the system's resolvers, and a small cache per executor.
//!
//! Nothing is judged here: the guard looks at each answer before a connection is made.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolveHosts};
use hickory_resolver::lookup_ip::LookupIp;

use crate::runtime::channel::{self, Receiver, Sender};
use crate::types::limits::{DNS_CACHE_ENTRIES, DNS_QUERIES_MAX, DNS_TTL_MAX};
use crate::types::{Duration, Time};

/// Why a name has no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnsError {
    /// The resolvers say no, or cannot be asked.
    #[error("`{host}` does not resolve: {reason}")]
    Failed {
        /// The name.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// The resolver's thread is gone: the hub's own fault.
    #[error("the resolver has stopped")]
    Stopped,
}

/// The resolver could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ResolverError {
    /// `/etc/resolv.conf` or `/etc/hosts` is missing or malformed.
    #[error("the system's resolver configuration cannot be used: {0}")]
    Configuration(String),
    /// No thread or no runtime for it.
    #[error("the resolver's thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// What a name resolved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// In the order in which they should be tried.
    pub addresses: Vec<IpAddr>,
    /// How long they may be kept.
    pub ttl: Duration,
}

/// A handle on the resolver's thread; the thread ends with its last handle.
#[derive(Clone, Debug)]
pub struct Resolver {
    queries: Sender<Query>,
}

#[derive(Debug)]
struct Query {
    host: Box<str>,
    answer: Sender<Result<Addresses, DnsError>>,
}

impl Resolver {
    /// Starts a resolver with the system's configuration and its hosts file.
    ///
    /// # Errors
    /// [`ResolverError`] when the configuration cannot be read or the thread not started.
    pub fn system() -> Result<Self, ResolverError> {
        let configuration = |error: hickory_resolver::net::NetError| ResolverError::Configuration(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut builder = TokioResolver::builder_tokio().map_err(configuration)?;
        let options = builder.options_mut();
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.use_hosts_file = ResolveHosts::Always;
        options.positive_max_ttl = Some(DNS_TTL_MAX.to_std());
        options.negative_max_ttl = Some(DNS_TTL_MAX.to_std());
        let resolver = builder.build().map_err(configuration)?;
        let (queries, inbox) = channel::bounded(DNS_QUERIES_MAX);
        start_thread(move || runtime.block_on(serve(&resolver, &inbox)))?;
        Ok(Self { queries })
    }

    /// Starts a resolver that answers from a function: for demonstrations and tests.
    ///
    /// # Errors
    /// [`ResolverError::Thread`] when the thread cannot be started.
    pub fn from_function(
        mut function: impl FnMut(&str) -> Result<Addresses, DnsError> + Send + 'static,
    ) -> Result<Self, ResolverError> {
        let (queries, inbox) = channel::bounded::<Query>(DNS_QUERIES_MAX);
        start_thread(move || {
            for query in inbox {
                // Whoever asked may have stopped waiting.
                let _ = query.answer.send(function(&query.host));
            }
        })?;
        Ok(Self { queries })
    }

    /// Resolves `host`, A and AAAA. Waits while too many queries are under way.
    ///
    /// # Errors
    /// [`DnsError`].
    pub async fn resolve(&self, host: &str) -> Result<Addresses, DnsError> {
        let (answer, receiver) = channel::reply();
        let query = Query { host: host.into(), answer };
        self.queries.send_async(query).await.map_err(|_| DnsError::Stopped)?;
        receiver.recv_async().await.map_err(|_| DnsError::Stopped)?
    }
}

/// A resolver with a cache, for one executor.
#[derive(Debug)]
pub struct DnsCache {
    resolver: Resolver,
    entries: RefCell<HashMap<Box<str>, Entry>>,
}

#[derive(Debug)]
struct Entry {
    addresses: Rc<[IpAddr]>,
    expires_at: Time,
}

impl DnsCache {
    /// An empty cache before `resolver`.
    #[must_use]
    pub fn new(resolver: Resolver) -> Self {
        Self { resolver, entries: RefCell::default() }
    }

    /// The addresses of `host`, from the cache while they are fresh.
    ///
    /// # Errors
    /// [`DnsError`]; failures are not kept.
    pub async fn resolve(&self, host: &str, now: Time) -> Result<Rc<[IpAddr]>, DnsError> {
        if let Some(known) = self.fresh(host, now) {
            return Ok(known);
        }
        let answer = self.resolver.resolve(host).await?;
        let addresses: Rc<[IpAddr]> = answer.addresses.into();
        self.keep(host, Entry { addresses: Rc::clone(&addresses), expires_at: now + answer.ttl.min(DNS_TTL_MAX) }, now);
        Ok(addresses)
    }

    fn fresh(&self, host: &str, now: Time) -> Option<Rc<[IpAddr]>> {
        let entries = self.entries.borrow();
        let entry = entries.get(host).filter(|entry| now < entry.expires_at)?;
        Some(Rc::clone(&entry.addresses))
    }

    /// A full cache drops what has expired, then everything: it is only a cache.
    fn keep(&self, host: &str, entry: Entry, now: Time) {
        let mut entries = self.entries.borrow_mut();
        if entries.len() >= DNS_CACHE_ENTRIES {
            entries.retain(|_, known| now < known.expires_at);
        }
        if entries.len() >= DNS_CACHE_ENTRIES {
            entries.clear();
        }
        entries.insert(host.into(), entry);
    }
}

fn start_thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("dns".to_owned()).spawn(work).map(|_| ())
}

/// Answers queries side by side until the last handle is gone.
async fn serve(resolver: &TokioResolver, inbox: &Receiver<Query>) {
    let slots = Arc::new(tokio::sync::Semaphore::new(DNS_QUERIES_MAX));
    while let Ok(query) = inbox.recv_async().await {
        let slot = Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
        let resolver = resolver.clone();
        tokio::spawn(async move {
            let answer = look_up(&resolver, &query.host).await;
            drop(slot);
            // Whoever asked may have stopped waiting.
            let _ = query.answer.send(answer);
        });
    }
}

async fn look_up(resolver: &TokioResolver, host: &str) -> Result<Addresses, DnsError> {
    match resolver.lookup_ip(host).await {
        Ok(found) => Ok(Addresses { addresses: found.iter().collect(), ttl: shortest_ttl(&found) }),
        Err(error) => Err(DnsError::Failed { host: host.to_owned(), reason: error.to_string() }),
    }
}

fn shortest_ttl(found: &LookupIp) -> Duration {
    let seconds = found.as_lookup().answers().iter().map(|record| record.ttl).min().unwrap_or(0);
    Duration::from_secs(seconds.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::boot::run_local;

    fn counting(ttl: Duration) -> Resolver {
        let mut count = 0;
        Resolver::from_function(move |host| {
            count += 1;
            if host == "missing.test" {
                return Err(DnsError::Failed { host: host.to_owned(), reason: "no such name".to_owned() });
            }
            Ok(Addresses { addresses: vec![IpAddr::from([10, 0, 0, count])], ttl })
        })
        .unwrap()
    }

    fn third_octet(addresses: &[IpAddr]) -> String {
        addresses[0].to_string()
    }

    #[test]
    fn answers_are_kept_for_their_time_to_live_and_no_longer_than_a_minute() {
        let cache = DnsCache::new(counting(Duration::from_hours(1)));
        run_local(async {
            let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
            assert_eq!(third_octet(&cache.resolve("a.test", at(0)).await.unwrap()), "10.0.0.1");
            assert_eq!(third_octet(&cache.resolve("a.test", at(59)).await.unwrap()), "10.0.0.1");
            assert_eq!(third_octet(&cache.resolve("a.test", at(60)).await.unwrap()), "10.0.0.2");
        });
    }

    #[test]
    fn an_answer_without_time_to_live_and_a_failure_are_not_kept() {
        let cache = DnsCache::new(counting(Duration::ZERO));
        run_local(async {
            assert_eq!(third_octet(&cache.resolve("a.test", Time::ZERO).await.unwrap()), "10.0.0.1");
            assert_eq!(third_octet(&cache.resolve("a.test", Time::ZERO).await.unwrap()), "10.0.0.2");
            assert!(matches!(cache.resolve("missing.test", Time::ZERO).await, Err(DnsError::Failed { .. })));
            assert_eq!(third_octet(&cache.resolve("missing.a.test", Time::ZERO).await.unwrap()), "10.0.0.4");
        });
    }

    #[test]
    fn a_full_cache_stays_bounded() {
        let cache = DnsCache::new(counting(Duration::from_secs(30)));
        for n in 0..=DNS_CACHE_ENTRIES {
            let addresses: Rc<[IpAddr]> = Rc::new([]);
            cache.keep(&n.to_string(), Entry { addresses, expires_at: Time(10) }, Time::ZERO);
        }
        assert!(cache.entries.borrow().len() <= DNS_CACHE_ENTRIES);
    }

    #[test]
    fn the_system_resolver_knows_the_hosts_file() {
        let resolver = Resolver::system().unwrap();
        let answer = run_local(async move { resolver.resolve("localhost").await.unwrap() });
        assert!(answer.addresses.iter().all(IpAddr::is_loopback), "{answer:?}");
        assert!(!answer.addresses.is_empty());
    }
}
