//! Idle connections, kept for a short while under the destination's version they were made for.
//!
//! Bounded per host and in all, counted across destinations; what does not fit is closed. Knows nothing of the
//! connections it keeps: whether one still lives is tried by whoever takes it.

use std::collections::HashMap;
use std::rc::Rc;

use crate::types::limits::{IDLE_CONNECTIONS_MAX, IDLE_CONNECTIONS_PER_HOST, IDLE_TIMEOUT};
use crate::types::{DestinationId, TenantId, Time};

/// Whom a connection belongs to, and in which version of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolKey {
    /// The destination.
    pub destination: DestinationId,
    /// Its version.
    pub version: u64,
    /// Its tenant.
    pub tenant: TenantId,
}

/// Idle connections of one executor.
#[derive(Debug)]
pub struct Pool<C> {
    idle: HashMap<Rc<PoolKey>, Vec<Idle<C>>>,
    per_host: HashMap<Rc<str>, usize>,
    total: usize,
}

#[derive(Debug)]
struct Idle<C> {
    connection: C,
    host: Rc<str>,
    since: Time,
}

impl<C> Default for Pool<C> {
    fn default() -> Self {
        Self { idle: HashMap::new(), per_host: HashMap::new(), total: 0 }
    }
}

impl<C> Pool<C> {
    /// Takes the connection that was used last, unless it has been idle for too long.
    pub fn take(&mut self, key: &PoolKey, now: Time) -> Option<C> {
        let idle = self.idle.get_mut(key)?.pop()?;
        self.uncount(&idle.host);
        (now.since(idle.since) < IDLE_TIMEOUT).then_some(idle.connection)
    }

    /// Keeps a connection; drops it when its host or the pool has enough.
    pub fn put(&mut self, key: &Rc<PoolKey>, host: &Rc<str>, connection: C, now: Time) {
        let of_host = self.per_host.get(host).copied().unwrap_or(0);
        if self.total >= IDLE_CONNECTIONS_MAX || of_host >= IDLE_CONNECTIONS_PER_HOST {
            return;
        }
        self.per_host.insert(Rc::clone(host), of_host + 1);
        self.total += 1;
        self.idle.entry(Rc::clone(key)).or_default().push(Idle { connection, host: Rc::clone(host), since: now });
    }

    /// Drops what belongs to a version that is no more.
    pub fn forget(&mut self, key: &PoolKey) {
        for idle in self.idle.remove(key).unwrap_or_default() {
            self.uncount(&idle.host);
        }
    }

    /// Drops what has been idle for too long.
    pub fn evict(&mut self, now: Time) {
        let (per_host, total) = (&mut self.per_host, &mut self.total);
        self.idle.retain(|_, list| {
            // In order of idleness: the longest stand first.
            let expired = list.partition_point(|idle| now.since(idle.since) >= IDLE_TIMEOUT);
            for idle in list.drain(..expired) {
                uncount(per_host, total, &idle.host);
            }
            !list.is_empty()
        });
    }

    /// How many connections are idle.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.total
    }

    /// Whether none is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    fn uncount(&mut self, host: &str) {
        uncount(&mut self.per_host, &mut self.total, host);
    }
}

fn uncount(per_host: &mut HashMap<Rc<str>, usize>, total: &mut usize, host: &str) {
    *total -= 1;
    let count = per_host.get_mut(host).expect("a kept connection is counted for its host");
    *count -= 1;
    if *count == 0 {
        per_host.remove(host);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::types::Duration;

    fn key(version: u64) -> Rc<PoolKey> {
        let tenant = TenantId::new("t").unwrap();
        Rc::new(PoolKey { destination: DestinationId(Uuid::nil()), version, tenant })
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_last_used_comes_first_and_versions_do_not_mix() {
        let (mut pool, host) = (Pool::default(), Rc::from("h:80"));
        pool.put(&key(1), &host, 'a', at(0));
        pool.put(&key(1), &host, 'b', at(0));
        assert_eq!(pool.take(&key(2), at(0)), None);
        assert_eq!(pool.take(&key(1), at(0)), Some('b'));
        pool.forget(&key(1));
        assert!(pool.is_empty());
        assert_eq!(pool.take(&key(1), at(0)), None);
    }

    #[test]
    fn the_idle_are_evicted_and_not_handed_out() {
        let (mut pool, host) = (Pool::default(), Rc::from("h:80"));
        let end = Time::ZERO + IDLE_TIMEOUT;
        pool.put(&key(1), &host, 'a', at(0));
        pool.put(&key(1), &host, 'b', at(1));
        pool.evict(end);
        assert_eq!(pool.len(), 1);
        assert_eq!(pool.take(&key(1), end + Duration::from_secs(1)), None);
        assert!(pool.is_empty() && pool.per_host.is_empty());
    }

    #[test]
    fn a_host_and_the_pool_have_their_bounds() {
        let mut pool = Pool::default();
        for n in 0..=IDLE_CONNECTIONS_PER_HOST {
            pool.put(&key(u64::try_from(n % 2).unwrap()), &Rc::from("one:80"), n, at(0));
        }
        assert_eq!(pool.len(), IDLE_CONNECTIONS_PER_HOST);
        for n in 0..=IDLE_CONNECTIONS_MAX {
            pool.put(&key(7), &Rc::from(format!("host{n}:80")), n, at(0));
        }
        assert_eq!(pool.len(), IDLE_CONNECTIONS_MAX);
    }
}
