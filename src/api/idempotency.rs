//! `Idempotency-Key` on POST: the same key and request gets the first answer again, for as long as the operator says.
//!
//! A bounded table in memory, on purpose: answers hold what is shown once and stored nowhere, such as API keys. So a
//! restart forgets it, and a tenant that writes more keys than its part loses its own oldest, never another
//! tenant's. An answer of 5xx is not kept: the request may be tried again.

use std::collections::{BTreeMap, VecDeque};

use http::HeaderMap;
use sha2::{Digest, Sha256};

use crate::types::{Duration, Time, limits};

use super::answer::Answer;
use super::problem::Problem;

/// What a request's key means.
#[derive(Debug)]
pub enum Decision {
    /// Nobody has sent this key: do it, then [`Table::finish`].
    First(Ticket),
    /// It was done: this was the answer.
    Again(Box<Answer>),
}

/// Names the entry to finish.
#[derive(Clone, Debug)]
pub struct Ticket {
    scope: String,
    key: String,
}

/// The keys of all scopes: a tenant's id, or the empty text for the operator.
#[derive(Debug)]
pub struct Table {
    ttl: Duration,
    scopes: BTreeMap<String, Keys>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Keys {
    entries: BTreeMap<String, Entry>,
    by_age: VecDeque<(Time, String)>,
}

#[derive(Debug)]
struct Entry {
    fingerprint: [u8; 32],
    begun_at: Time,
    /// Absent while the request runs.
    answer: Option<Answer>,
}

/// The key of a request, from `Idempotency-Key` or `X-Idempotency`.
///
/// # Errors
/// 422 when it is empty, too long or not visible ASCII.
pub fn key_of(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key").or_else(|| headers.get("x-idempotency")) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or("").trim();
    if text.is_empty() || text.len() > limits::IDEMPOTENCY_KEY_MAX_BYTES {
        let rule = format!("Idempotency-Key must be 1 to {} visible characters", limits::IDEMPOTENCY_KEY_MAX_BYTES);
        return Err(Problem::new(422, "bad_idempotency_key", rule));
    }
    Ok(Some(text.to_owned()))
}

/// What makes two requests the same: target and body.
#[must_use]
pub fn fingerprint(target: &str, body: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(target.as_bytes());
    hash.update([0]);
    hash.update(body);
    hash.finalize().into()
}

impl Table {
    /// An empty table whose keys live for `ttl`.
    #[must_use]
    pub const fn new(ttl: Duration) -> Self {
        Self { ttl, scopes: BTreeMap::new(), bytes: 0 }
    }

    /// Decides what to do with a request under `key`.
    ///
    /// # Errors
    /// 409 `idempotency_key_running` while the first request runs, 422 `idempotency_key_reused` when it was another.
    pub fn begin(&mut self, scope: &str, key: String, fingerprint: [u8; 32], now: Time) -> Result<Decision, Problem> {
        let keys = self.scopes.entry(scope.to_owned()).or_default();
        let ttl = self.ttl;
        self.bytes -= keys.forget(|at, count| now.since(at) >= ttl || count >= limits::IDEMPOTENCY_KEYS_PER_TENANT);
        match keys.entries.get(&key) {
            Some(entry) if entry.fingerprint != fingerprint => Err(reused()),
            Some(Entry { answer: None, .. }) => Err(running()),
            Some(Entry { answer: Some(answer), .. }) => Ok(Decision::Again(Box::new(answer.clone()))),
            None => {
                keys.by_age.push_back((now, key.clone()));
                keys.entries.insert(key.clone(), Entry { fingerprint, begun_at: now, answer: None });
                Ok(Decision::First(Ticket { scope: scope.to_owned(), key }))
            }
        }
    }

    /// Forgets all keys of a scope.
    pub fn forget(&mut self, scope: &str) {
        let keys = self.scopes.remove(scope);
        let answers = keys.iter().flat_map(|keys| keys.entries.values()).filter_map(|entry| entry.answer.as_ref());
        self.bytes -= answers.map(|answer| answer.body.len()).sum::<usize>();
    }

    /// Keeps the answer of the first request, or forgets the key when the hub was at fault (5xx).
    pub fn finish(&mut self, ticket: &Ticket, answer: &Answer) {
        let Some(keys) = self.scopes.get_mut(&ticket.scope) else { return };
        if answer.status >= 500 {
            keys.entries.remove(&ticket.key);
            return;
        }
        if let Some(entry) = keys.entries.get_mut(&ticket.key) {
            self.bytes += answer.body.len();
            entry.answer = Some(answer.clone());
        }
        let mut excess = self.bytes.saturating_sub(limits::IDEMPOTENCY_BYTES);
        while excess > 0 && keys.by_age.len() > 1 {
            let freed = keys.forget_oldest();
            self.bytes -= freed;
            excess = excess.saturating_sub(freed);
        }
    }
}

impl Keys {
    /// Forgets the oldest keys while `due` says so of their time and the number left; returns the bytes freed.
    fn forget(&mut self, due: impl Fn(Time, usize) -> bool) -> usize {
        let mut freed = 0;
        while self.by_age.front().is_some_and(|(at, _)| due(*at, self.by_age.len())) {
            freed += self.forget_oldest();
        }
        freed
    }

    fn forget_oldest(&mut self) -> usize {
        let Some((at, key)) = self.by_age.pop_front() else { return 0 };
        if self.entries.get(&key).is_none_or(|entry| entry.begun_at != at) {
            return 0;
        }
        self.entries.remove(&key).and_then(|entry| entry.answer).map_or(0, |answer| answer.body.len())
    }
}

fn reused() -> Problem {
    Problem::new(422, "idempotency_key_reused", "this Idempotency-Key was used for another request")
}

fn running() -> Problem {
    Problem::new(409, "idempotency_key_running", "the first request with this Idempotency-Key is still running")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(90);

    fn begin(table: &mut Table, key: &str, body: &str, now: Time) -> Result<Decision, &'static str> {
        let print = fingerprint("POST /v1/sources", body.as_bytes());
        table.begin("acme", key.to_owned(), print, now).map_err(|problem| problem.code)
    }

    fn first(table: &mut Table, key: &str, body: &str, now: Time) -> Ticket {
        match begin(table, key, body, now) {
            Ok(Decision::First(ticket)) => ticket,
            other => panic!("not the first: {other:?}"),
        }
    }

    #[test]
    fn a_key_runs_replays_refuses_and_expires() {
        let (mut table, now) = (Table::new(TTL), Time::from_millis(1));
        let ticket = first(&mut table, "k", "a", now);
        assert!(matches!(begin(&mut table, "k", "a", now), Err("idempotency_key_running")));
        assert!(matches!(begin(&mut table, "k", "b", now), Err("idempotency_key_reused")));
        table.finish(&ticket, &Answer::bytes(201, "text/plain", b"made".to_vec()));
        assert!(matches!(begin(&mut table, "k", "a", now), Ok(Decision::Again(answer)) if answer.status == 201));
        assert!(matches!(begin(&mut table, "k", "b", now), Err("idempotency_key_reused")));
        let last = now + Duration::from_millis(TTL.as_millis() - 1);
        assert!(matches!(begin(&mut table, "k", "b", last), Err("idempotency_key_reused")));
        first(&mut table, "k", "b", now + TTL);
        assert_eq!(table.bytes, 0);
    }

    #[test]
    fn a_forgotten_scope_gives_its_bytes_back() {
        let mut table = Table::new(TTL);
        let ticket = first(&mut table, "k", "a", Time::ZERO);
        table.finish(&ticket, &Answer::bytes(201, "text/plain", b"made".to_vec()));
        table.forget("acme");
        assert_eq!(table.bytes, 0);
        first(&mut table, "k", "b", Time::ZERO);
    }

    #[test]
    fn an_answer_of_5xx_is_forgotten() {
        let mut table = Table::new(TTL);
        let ticket = first(&mut table, "k", "a", Time::ZERO);
        table.finish(&ticket, &Answer::bytes(503, "text/plain", Vec::new()));
        first(&mut table, "k", "a", Time::ZERO);
    }

    #[test]
    fn a_tenant_loses_its_own_oldest_key() {
        let mut table = Table::new(TTL);
        let other = fingerprint("x", b"");
        table.begin("other", "mine".to_owned(), other, Time::ZERO).expect("first");
        for n in 0..=limits::IDEMPOTENCY_KEYS_PER_TENANT {
            first(&mut table, &n.to_string(), "a", Time::ZERO + Duration(n as u64));
        }
        first(&mut table, "0", "a", Time::ZERO);
        let again = table.begin("other", "mine".to_owned(), other, Time::ZERO);
        assert_eq!(again.expect_err("still there").code, "idempotency_key_running");
    }

    #[test]
    fn a_key_is_visible_text_of_a_bounded_length() {
        let ask = |name: &'static str, value: &str| {
            let value = http::HeaderValue::from_str(value).expect("a value");
            key_of(&[(http::HeaderName::from_static(name), value)].into_iter().collect())
        };
        assert_eq!(key_of(&HeaderMap::new()), Ok(None));
        assert_eq!(ask("idempotency-key", "k"), Ok(Some("k".to_owned())));
        assert_eq!(ask("x-idempotency", "k"), Ok(Some("k".to_owned())));
        assert_eq!(ask("idempotency-key", "").map_err(|p| p.status), Err(422));
        assert_eq!(ask("idempotency-key", &"k".repeat(256)).map_err(|p| p.status), Err(422));
    }
}
