//! One request on its way through a handler: who calls, what the path, query and body say.

use bytes::Bytes;
use http::HeaderMap;
use serde::Serialize;

use crate::store::{Cursor, StoreError};
use crate::types::{TenantId, Time};

use super::answer::Answer;
use super::auth::Caller;
use super::input::Fields;
use super::page::{self, Page, Query};
use super::problem::{Faults, Problem};
use super::router::Endpoint;

/// One request whose key is checked and whose body is read.
#[derive(Debug)]
pub struct Call {
    /// What is asked for.
    pub endpoint: Endpoint,
    /// Who asks; absent on open endpoints.
    pub caller: Option<Caller>,
    /// Method, path and query, as sent.
    pub target: String,
    /// The query's parameters.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// When it came.
    pub now: Time,
    /// Its id in the log and in problems.
    pub request_id: String,
}

/// The parameters that every list has.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// The list's name, which its cursors carry.
    pub list: &'static str,
    /// Where a former page ended.
    pub cursor: Option<String>,
    /// At most so many entries, 1 to 100.
    pub limit: usize,
    /// Not before this time, of the list's own kind.
    pub from: Option<Time>,
    /// Before this time.
    pub to: Option<Time>,
}

impl Call {
    /// The tenant on whose behalf it works.
    ///
    /// # Errors
    /// 403 when it is not a tenant who calls.
    pub fn tenant(&self) -> Result<TenantId, Problem> {
        match &self.caller {
            Some(Caller::Tenant(tenant)) => Ok(tenant.clone()),
            Some(Caller::Operator) | None => Err(Problem::new(403, "forbidden", "this needs a tenant's key")),
        }
    }

    /// The members of the body.
    ///
    /// # Errors
    /// 400 for a body that is no JSON, 422 for one that is no object.
    pub fn fields(&self) -> Result<Fields, Problem> {
        Fields::of_body(&self.body)
    }

    /// Takes the parameters that every list has.
    ///
    /// # Errors
    /// 422 `bad_cursor`.
    pub fn list(&mut self, list: &'static str, faults: &mut Faults) -> Result<ListQuery, Problem> {
        let cursor = self.query.cursor::<String>(list)?.filter(|position| !position.is_empty());
        let (from, to) = (self.query.time("from", faults), self.query.time("to", faults));
        Ok(ListQuery { list, cursor, limit: self.query.limit(faults), from, to })
    }

    /// Ends the reading of the query.
    ///
    /// # Errors
    /// 422 with all faults.
    pub fn check(&mut self, mut faults: Faults) -> Result<(), Problem> {
        std::mem::take(&mut self.query).finish(&mut faults);
        faults.check()
    }
}

impl ListQuery {
    /// Whether `at` lies within `from` and `to`.
    #[must_use]
    pub fn covers(&self, at: Time) -> bool {
        self.from.is_none_or(|from| at >= from) && self.to.is_none_or(|to| at < to)
    }

    /// The cursor as the store knows it.
    ///
    /// # Errors
    /// 422 `bad_cursor`.
    pub fn store_cursor(&self) -> Result<Option<Cursor>, Problem> {
        self.cursor.as_deref().map(Cursor::parse).transpose().map_err(|_| bad_cursor())
    }

    /// The answer of a list that the store made.
    #[must_use]
    pub fn answer<V: Serialize>(&self, items: Vec<V>, next: Option<&Cursor>) -> Answer {
        let next_cursor = next.map(|next| page::cursor(self.list, next.to_text()));
        Answer::json(200, &Page { items, next_cursor })
    }

    /// The answer of a list that the directory made: entries newest first, found by their ids.
    ///
    /// # Errors
    /// 422 `bad_cursor` when the cursor names no id.
    pub fn answer_objects<T, K, V>(
        &self,
        newest_first: impl Iterator<Item = T>,
        (key, made_at): (impl Fn(&T) -> K, impl Fn(&T) -> Time),
        view: impl Fn(&T) -> V,
    ) -> Result<Answer, Problem>
    where
        K: Ord + std::fmt::Display + std::str::FromStr,
        V: Serialize,
    {
        let after = match &self.cursor {
            Some(text) => Some(text.parse::<K>().map_err(|_| bad_cursor())?),
            None => None,
        };
        let within = newest_first.filter(|entry| self.covers(made_at(entry)));
        let page = page::slice(self.list, within, key, (after.as_ref(), self.limit));
        let items: Vec<V> = page.items.iter().map(view).collect();
        Ok(Answer::json(200, &Page { items, next_cursor: page.next_cursor }))
    }
}

/// What was made or changed, unless faults were noted.
///
/// # Errors
/// 422 with all faults.
pub fn checked<T>(made: Option<T>, faults: Faults) -> Result<T, Problem> {
    faults.check()?;
    made.ok_or_else(|| Problem::new(500, "internal", "the object could not be made"))
}

/// 422 `bad_cursor`.
fn bad_cursor() -> Problem {
    Problem::unprocessable("bad_cursor", "/cursor", "is no cursor of this list")
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Cursor(_) => bad_cursor(),
            StoreError::Busy
            | StoreError::Stopped
            | StoreError::Codec(_)
            | StoreError::Database(_)
            | StoreError::Cluster(_)
            | StoreError::Io(_)
            | StoreError::Seal(_) => Self::unavailable(error.to_string()),
        }
    }
}
