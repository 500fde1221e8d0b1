//! Connections kept for a short while under the destination's version they were made for: idle ones that carry one
//! request at a time, and those that many requests share.
//!
//! Bounded per host and in all, counted across destinations; what does not fit is closed. Knows nothing of the
//! connections it keeps: whether an idle one still lives is tried by whoever takes it.

use std::collections::HashMap;
use std::rc::Rc;

use ahash::RandomState;

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

/// A connection that carries many requests at once.
pub trait Shared: Clone {
    /// Whether it can carry one more.
    fn has_room(&self) -> bool;
    /// How many it carries.
    fn in_use(&self) -> usize;
    /// It will never carry another one.
    fn is_over(&self) -> bool;
}

/// The connections of one executor.
#[derive(Debug)]
pub struct Pool<C, S> {
    idle: ByKey<C>,
    shared: ByKey<S>,
    counts: Counts,
}

type ByKey<C> = HashMap<Rc<PoolKey>, Vec<Kept<C>>, RandomState>;

#[derive(Debug)]
struct Kept<C> {
    connection: C,
    host: Rc<str>,
    /// When it was used last.
    since: Time,
}

/// How many are kept.
#[derive(Debug)]
struct Counts {
    per_host: HashMap<Rc<str>, usize, RandomState>,
    total: usize,
}

/// Nobody can choose what is hashed here: ids are the hub's own, and hosts are few.
const fn hasher() -> RandomState {
    RandomState::with_seeds(1, 2, 3, 4)
}

impl<C, S> Default for Pool<C, S> {
    fn default() -> Self {
        let counts = Counts { per_host: HashMap::with_hasher(hasher()), total: 0 };
        Self { idle: HashMap::with_hasher(hasher()), shared: HashMap::with_hasher(hasher()), counts }
    }
}

impl<C, S: Shared> Pool<C, S> {
    /// Takes the connection that was used last, unless it has been idle for too long.
    pub fn take(&mut self, key: &PoolKey, now: Time) -> Option<C> {
        let idle = self.idle.get_mut(key)?.pop()?;
        self.counts.remove(&idle.host);
        (now.since(idle.since) < IDLE_TIMEOUT).then_some(idle.connection)
    }

    /// Keeps a connection; drops it when its host or the pool has enough.
    pub fn put(&mut self, key: &Rc<PoolKey>, host: &Rc<str>, connection: C, now: Time) {
        if self.counts.add(host) {
            self.idle.entry(Rc::clone(key)).or_default().push(Kept { connection, host: Rc::clone(host), since: now });
        }
    }

    /// Takes part in the fullest shared connection that has room, so that those which are not needed become idle.
    pub fn join(&mut self, key: &PoolKey, now: Time) -> Option<S> {
        let with_room = self.shared.get_mut(key)?.iter_mut().filter(|kept| kept.connection.has_room());
        let kept = with_room.max_by_key(|kept| kept.connection.in_use())?;
        kept.since = now;
        Some(kept.connection.clone())
    }

    /// Lets others take part in a connection, if its host and the pool have not enough.
    pub fn share(&mut self, key: &Rc<PoolKey>, host: &Rc<str>, connection: &S, now: Time) {
        if self.counts.add(host) {
            let kept = Kept { connection: connection.clone(), host: Rc::clone(host), since: now };
            self.shared.entry(Rc::clone(key)).or_default().push(kept);
        }
    }

    /// Drops what belongs to a version that is no more.
    pub fn forget(&mut self, key: &PoolKey) {
        for idle in self.idle.remove(key).unwrap_or_default() {
            self.counts.remove(&idle.host);
        }
        for shared in self.shared.remove(key).unwrap_or_default() {
            self.counts.remove(&shared.host);
        }
    }

    /// Drops what has been idle for too long, or is over.
    pub fn evict(&mut self, now: Time) {
        let counts = &mut self.counts;
        self.idle.retain(|_, list| {
            // In order of idleness: the longest stand first.
            let expired = list.partition_point(|idle| now.since(idle.since) >= IDLE_TIMEOUT);
            for idle in list.drain(..expired) {
                counts.remove(&idle.host);
            }
            !list.is_empty()
        });
        self.shared.retain(|_, list| {
            list.retain(|kept| {
                let idle = kept.connection.in_use() == 0 && now.since(kept.since) >= IDLE_TIMEOUT;
                let keep = !idle && !kept.connection.is_over();
                if !keep {
                    counts.remove(&kept.host);
                }
                keep
            });
            !list.is_empty()
        });
    }

    /// How many connections are kept.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.counts.total
    }

    /// Whether none is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.counts.total == 0
    }
}

impl Counts {
    /// Counts one more of a host, unless there are enough.
    fn add(&mut self, host: &Rc<str>) -> bool {
        let of_host = self.per_host.get(host).copied().unwrap_or(0);
        if self.total >= IDLE_CONNECTIONS_MAX || of_host >= IDLE_CONNECTIONS_PER_HOST {
            return false;
        }
        self.per_host.insert(Rc::clone(host), of_host + 1);
        self.total += 1;
        true
    }

    fn remove(&mut self, host: &str) {
        self.total -= 1;
        let count = self.per_host.get_mut(host).expect("a kept connection is counted for its host");
        *count -= 1;
        if *count == 0 {
            self.per_host.remove(host);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use uuid::Uuid;

    use super::*;
    use crate::types::Duration;

    /// Carries at most three requests; the fourth ends it.
    #[derive(Clone, Debug, PartialEq)]
    struct Many(char, Rc<Cell<usize>>);

    impl Shared for Many {
        fn has_room(&self) -> bool {
            self.1.get() < 3
        }

        fn in_use(&self) -> usize {
            self.1.get()
        }

        fn is_over(&self) -> bool {
            self.1.get() > 3
        }
    }

    fn pool<C>() -> Pool<C, Many> {
        Pool::default()
    }

    fn key(version: u64) -> Rc<PoolKey> {
        let tenant = TenantId::new("t").unwrap();
        Rc::new(PoolKey { destination: DestinationId(Uuid::nil()), version, tenant })
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_last_used_comes_first_and_versions_do_not_mix() {
        let (mut pool, host) = (pool(), Rc::from("h:80"));
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
        let (mut pool, host) = (pool(), Rc::from("h:80"));
        let end = Time::ZERO + IDLE_TIMEOUT;
        pool.put(&key(1), &host, 'a', at(0));
        pool.put(&key(1), &host, 'b', at(1));
        pool.evict(end);
        assert_eq!(pool.len(), 1);
        assert_eq!(pool.take(&key(1), end + Duration::from_secs(1)), None);
        assert!(pool.is_empty() && pool.counts.per_host.is_empty());
    }

    #[test]
    fn the_fullest_shared_connection_with_room_is_joined_until_it_is_over() {
        let (mut pool, host) = (pool::<char>(), Rc::from("h:443"));
        let [few, most, full] =
            [('a', 1), ('b', 2), ('c', 3)].map(|(name, count)| Many(name, Rc::new(Cell::new(count))));
        for connection in [&few, &most, &full] {
            pool.share(&key(1), &host, connection, at(0));
        }
        assert_eq!(pool.join(&key(1), at(0)), Some(most.clone()));
        assert_eq!(pool.join(&key(2), at(0)), None);
        most.1.set(4);
        assert_eq!(pool.join(&key(1), at(1)), Some(few.clone()));
        few.1.set(0);
        pool.evict(Time::ZERO + IDLE_TIMEOUT);
        assert_eq!(pool.len(), 2, "one was over");
        pool.evict(at(1) + IDLE_TIMEOUT);
        assert_eq!(pool.len(), 1, "one was idle, one is in use");
        pool.forget(&key(1));
        assert!(pool.is_empty() && pool.counts.per_host.is_empty());
    }

    #[test]
    fn a_host_and_the_pool_have_their_bounds() {
        let mut pool = pool();
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
