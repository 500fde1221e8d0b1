//! Query parameters and pages: `limit`, `cursor`, `from`, `to`, and what a list answers.
//!
//! A cursor is opaque to clients: the list's name and a position, in base64url. One list's cursor is no
//! other's. Unknown and repeated parameters are faults, like unknown members of a body.

use std::collections::BTreeMap;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use crate::types::{Time, limits};

use super::problem::{Faults, Problem};

/// One page of a list.
#[derive(Debug, Serialize)]
pub struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Where the next page begins; `null` at the end.
    pub next_cursor: Option<String>,
}

/// The query parameters that have not been read yet.
#[derive(Debug, Default)]
pub struct Query {
    parameters: BTreeMap<String, String>,
    repeated: Vec<String>,
}

impl Query {
    /// Splits a raw query (WHATWG `application/x-www-form-urlencoded`).
    #[must_use]
    pub fn parse(raw: &str) -> Self {
        let mut query = Self::default();
        for (name, value) in url::form_urlencoded::parse(raw.as_bytes()) {
            if query.parameters.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                query.repeated.push(name.into_owned());
            }
        }
        query
    }

    /// Takes a parameter as text; an empty one counts as absent.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.parameters.remove(name).filter(|text| !text.is_empty())
    }

    /// Takes a parameter that parses; one that does not is a fault told by `rule`.
    pub fn parsed<T: FromStr>(&mut self, name: &str, rule: &str, faults: &mut Faults) -> Option<T> {
        let text = self.text(name)?;
        text.parse().ok().or_else(|| {
            faults.add(format!("/{name}"), rule);
            None
        })
    }

    /// Takes a parameter that names one of `words`.
    pub fn word(&mut self, name: &str, words: &[&'static str], faults: &mut Faults) -> Option<&'static str> {
        let text = self.text(name)?;
        let known = words.iter().copied().find(|word| *word == text);
        if known.is_none() {
            faults.add(format!("/{name}"), format!("must be one of {}", words.join(", ")));
        }
        known
    }

    /// Takes a point in time, RFC 3339.
    pub fn time(&mut self, name: &str, faults: &mut Faults) -> Option<Time> {
        let text = self.text(name)?;
        let time = Time::parse_rfc3339(&text);
        if time.is_none() {
            faults.add(format!("/{name}"), "must be a time as in RFC 3339, such as 2026-01-31T08:00:00Z");
        }
        time
    }

    /// Takes `limit`: 1 to 100, 20 when absent.
    pub fn limit(&mut self, faults: &mut Faults) -> usize {
        let Some(text) = self.text("limit") else { return limits::PAGE_DEFAULT };
        let allowed = 1..=limits::PAGE_MAX;
        text.parse().ok().filter(|limit| allowed.contains(limit)).unwrap_or_else(|| {
            faults.add("/limit", format!("must be a whole number from 1 to {}", limits::PAGE_MAX));
            limits::PAGE_DEFAULT
        })
    }

    /// Takes the position that `cursor` of list `list` names.
    ///
    /// # Errors
    /// 422 `bad_cursor` when it is no cursor of that list.
    pub fn cursor<T: FromStr>(&mut self, list: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.text("cursor") else { return Ok(None) };
        let position = read_cursor(list, &text).and_then(|position| position.parse().ok());
        position.map(Some).ok_or_else(|| Problem::unprocessable("bad_cursor", "/cursor", "is no cursor of this list"))
    }

    /// Notes every parameter that is repeated or that nobody took.
    pub fn finish(self, faults: &mut Faults) {
        for name in self.repeated {
            faults.add(format!("/{name}"), "must be given once");
        }
        for name in self.parameters.keys() {
            faults.add(format!("/{name}"), "is not a known parameter");
        }
    }
}

/// The cursor of list `list` that names `position`.
#[must_use]
pub fn cursor(list: &str, position: impl std::fmt::Display) -> String {
    URL_SAFE_NO_PAD.encode(format!("{list}\n{position}"))
}

fn read_cursor(list: &str, text: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let plain = String::from_utf8(bytes).ok()?;
    let (name, position) = plain.split_once('\n')?;
    (name == list).then(|| position.to_owned())
}

/// The page of `all`, which is in the list's order, that follows the entry whose key is `after`.
#[must_use]
pub fn slice<T, K: Ord + std::fmt::Display>(
    list: &str,
    all: impl Iterator<Item = T>,
    key: impl Fn(&T) -> K,
    (after, limit): (Option<&K>, usize),
) -> Page<T> {
    let mut rest = all.skip_while(|entry| after.is_some_and(|after| key(entry) >= *after));
    let items: Vec<T> = rest.by_ref().take(limit).collect();
    let more = rest.next().is_some();
    let next_cursor = items.last().filter(|_| more).map(|last| cursor(list, key(last)));
    Page { items, next_cursor }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(raw: &str) -> Vec<String> {
        let mut faults = Faults::default();
        let mut query = Query::parse(raw);
        query.limit(&mut faults);
        query.time("from", &mut faults);
        query.word("order", &["asc", "desc"], &mut faults);
        query.parsed::<u32>("partition", "must be a number", &mut faults);
        query.finish(&mut faults);
        faults.check().map_or_else(|p| p.errors.into_iter().map(|f| f.pointer).collect(), |()| Vec::new())
    }

    #[test]
    fn every_fault_of_a_query_is_named() {
        assert!(faults_of("limit=100&from=2026-01-31T08:00:00Z&order=desc&partition=1").is_empty());
        assert_eq!(faults_of("limit=0"), ["/limit"]);
        assert_eq!(faults_of("limit=101"), ["/limit"]);
        assert_eq!(faults_of("limit=-1&from=now&order=up&partition=x"), ["/limit", "/from", "/order", "/partition"]);
        assert_eq!(faults_of("limit=1&limit=2&other=1"), ["/limit", "/other"]);
    }

    #[test]
    fn a_cursor_belongs_to_its_list() {
        let text = cursor("events", 42);
        let read = |list: &str, text: &str| Query::parse(&format!("cursor={text}")).cursor::<u64>(list);
        assert_eq!(read("events", &text), Ok(Some(42)));
        assert_eq!(read("events", ""), Ok(None));
        for (list, text) in [("deliveries", text.as_str()), ("events", "!!"), ("events", "YWJj")] {
            let problem = read(list, text).expect_err("a bad cursor");
            assert_eq!((problem.status, problem.code), (422, "bad_cursor"));
        }
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repetition() {
        let all = [9, 7, 5, 3, 1];
        let first = slice("n", all.iter().copied(), |n| *n, (None, 2));
        assert_eq!(first.items, [9, 7]);
        let next = slice("n", all.iter().copied(), |n| *n, (Some(&7), 3));
        assert_eq!((next.items, next.next_cursor), (vec![5, 3, 1], None));
    }
}
