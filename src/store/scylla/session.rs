//! A connected cluster: prepared statements, carried out one by one or phase by phase.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scylla::client::session::Session as Driver;
use scylla::cluster::metadata::ColumnType;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::api_query::ApiQuery;
use super::connect::ClusterError;
use super::phase::{PartitionWrite, Phase};
use super::query::Query;
use super::statement::{Statement, Value, qualified};
use crate::engine::Refusal;
use crate::types::counters::CqlCounters;
use crate::types::limits;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No answer, or one that says "not now": what became of the request is unknown.
    #[error("{0}")]
    Unavailable(String),
    /// The server takes no such request, now or later.
    #[error("the server rejects it: {0}")]
    Rejected(String),
}

impl Failure {
    /// An answer that is not what was asked for.
    pub(super) fn unreadable(error: &dyn std::fmt::Display) -> Self {
        Self::Unavailable(error.to_string())
    }

    /// What it means for a batch.
    #[must_use]
    pub const fn refusal(&self) -> Refusal {
        match self {
            Self::Unavailable(_) => Refusal::Unavailable,
            Self::Rejected(_) => Refusal::Rejected,
        }
    }
}

impl From<&ExecutionError> for Failure {
    fn from(error: &ExecutionError) -> Self {
        if is_to_blame(error) { Self::Rejected(error.to_string()) } else { Self::Unavailable(error.to_string()) }
    }
}

/// Whether the request itself is at fault: it can't be sent, or the server finds it invalid or too large.
fn is_to_blame(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::BadQuery(_)
            | ExecutionError::LastAttemptError(
                RequestAttemptError::DbError(DbError::Invalid, _)
                    | RequestAttemptError::SerializationError(_)
                    | RequestAttemptError::CqlRequestSerialization(_)
            )
    )
}

/// Requests sent so far.
#[derive(Debug, Default)]
pub struct Requests {
    writes: AtomicU64,
    rows: AtomicU64,
    reads: AtomicU64,
    conditional: AtomicU64,
}

impl Requests {
    /// So far.
    #[must_use]
    pub fn counters(&self) -> CqlCounters {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CqlCounters {
            writes: of(&self.writes),
            rows: of(&self.rows),
            reads: of(&self.reads),
            conditional: of(&self.conditional),
        }
    }
}

/// A connected cluster with every statement prepared.
pub(super) struct Session {
    driver: Driver,
    keyspace: String,
    writes: BTreeMap<Statement, PreparedStatement>,
    queries: BTreeMap<Query, PreparedStatement>,
    /// One for each request on its way.
    permits: Semaphore,
    requests: Arc<Requests>,
}

impl Session {
    /// Prepares all statements in the keyspace in use.
    ///
    /// # Errors
    /// [`ClusterError::Request`].
    pub(super) async fn prepare(
        driver: Driver,
        keyspace: String,
        requests: Arc<Requests>,
    ) -> Result<Self, ClusterError> {
        let mut writes = BTreeMap::new();
        for statement in Statement::ALL {
            writes.insert(statement, prepared(&driver, &qualified(statement.text(), &keyspace)).await?);
        }
        let mut queries = BTreeMap::new();
        for query in Query::ALL.into_iter().chain(ApiQuery::ALL.map(Query::Api)) {
            let mut prepared = prepared(&driver, &qualified(query.text(), &keyspace)).await?;
            prepared.set_page_size(query.page_rows());
            prepared.set_is_idempotent(!query.is_conditional());
            if query.is_serial() {
                prepared.set_consistency(Consistency::LocalSerial);
            }
            queries.insert(query, prepared);
        }
        Ok(Self { driver, keyspace, writes, queries, permits: Semaphore::new(limits::CQL_IN_FLIGHT), requests })
    }

    /// Carries out phases in order: the writes of one together, the next one only when all of them are
    /// acknowledged.
    ///
    /// # Errors
    /// [`Failure::Unavailable`] when any write of the phase has an unknown fate, else [`Failure::Rejected`].
    pub(super) async fn carry_out(self: &Arc<Self>, phases: Vec<Phase>) -> Result<(), Failure> {
        for phase in phases {
            let mut running = JoinSet::new();
            for write in phase.writes {
                let session = Arc::clone(self);
                running.spawn(async move { session.write(write).await });
            }
            let mut failure = None;
            while let Some(joined) = running.join_next().await {
                let outcome = joined.unwrap_or_else(|panic| Err(Failure::Unavailable(panic.to_string())));
                failure = worse(failure, outcome.err());
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Ok(())
    }

    async fn write(&self, write: PartitionWrite) -> Result<(), Failure> {
        let _permit = self.permit().await;
        self.requests.writes.fetch_add(1, Ordering::Relaxed);
        self.requests.rows.fetch_add(write.rows.len() as u64, Ordering::Relaxed);
        let table = write.partition.table();
        let sent = if let [row] = write.rows.as_slice() {
            self.driver.execute_unpaged(&self.writes[&row.statement], row.values.as_slice()).await
        } else {
            let mut batch = Batch::new(BatchType::Unlogged);
            batch.set_is_idempotent(true);
            let mut values = Vec::with_capacity(write.rows.len());
            for row in write.rows {
                batch.append_statement(self.writes[&row.statement].clone());
                values.push(row.values);
            }
            self.driver.batch(&batch, values).await
        };
        match sent {
            Ok(_) => Ok(()),
            Err(error) => Err(self.judged(table, &error).await),
        }
    }

    /// A row of a table that is not there is rejected like a bad one, and is not to blame for it.
    async fn judged(&self, table: &str, error: &ExecutionError) -> Failure {
        let failure = Failure::from(error);
        if failure.refusal() == Refusal::Rejected && !self.has_table(table).await {
            return Failure::Unavailable(format!("no table `{table}`: {error}"));
        }
        failure
    }

    async fn has_table(&self, table: &str) -> bool {
        let query = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
        let found = self.driver.query_unpaged(query, (self.keyspace.as_str(), table)).await;
        found.ok().and_then(|found| found.into_rows_result().ok()).is_some_and(|rows| rows.rows_num() > 0)
    }

    /// A page of rows, and where the next one begins.
    ///
    /// # Errors
    /// [`Failure`].
    pub(super) async fn page<R>(
        &self,
        query: impl Into<Query>,
        values: &[Value],
        from: PagingState,
    ) -> Result<(Vec<R>, Option<PagingState>), Failure>
    where
        R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
    {
        let _permit = self.permit().await;
        self.requests.reads.fetch_add(1, Ordering::Relaxed);
        let page = self.driver.execute_single_page(&self.queries[&query.into()], values, from).await;
        let (result, next) = page.map_err(|error| Failure::from(&error))?;
        let next = match next {
            PagingStateResponse::HasMorePages { state } => Some(state),
            PagingStateResponse::NoMorePages => None,
        };
        Ok((rows_of(result)?, next))
    }

    /// All rows: only where they are few.
    ///
    /// # Errors
    /// [`Failure`].
    pub(super) async fn rows<R>(&self, query: impl Into<Query>, values: &[Value]) -> Result<Vec<R>, Failure>
    where
        R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
    {
        let query = query.into();
        let mut all = Vec::new();
        let mut from = PagingState::start();
        loop {
            let (mut rows, next) = self.page(query, values, from).await?;
            all.append(&mut rows);
            match next {
                Some(state) => from = state,
                None => return Ok(all),
            }
        }
    }

    /// A conditional write; whether it was applied.
    ///
    /// # Errors
    /// [`Failure`]; it may have been applied or not.
    pub(super) async fn condition(&self, query: Query, values: &[Value]) -> Result<bool, Failure> {
        let _permit = self.permit().await;
        self.requests.conditional.fetch_add(1, Ordering::Relaxed);
        let result = self.driver.execute_unpaged(&self.queries[&query], values).await;
        let result = result.map_err(|error| Failure::from(&error))?;
        // A row that was found instead has more columns than the answer: only the first says what happened.
        let rows = result.into_rows_result().map_err(|error| Failure::unreadable(&error))?;
        let row: scylla::value::Row = rows.first_row().map_err(|error| Failure::unreadable(&error))?;
        let applied = row.columns.first().and_then(|value| value.as_ref()).and_then(|value| value.as_boolean());
        applied.ok_or_else(|| Failure::Unavailable("the answer does not say whether it was applied".to_owned()))
    }

    async fn permit(&self) -> tokio::sync::SemaphorePermit<'_> {
        self.permits.acquire().await.expect("the semaphore is never closed")
    }
}

/// The rows of an answer.
///
/// # Errors
/// [`Failure::Unavailable`] when it is no such answer.
pub(super) fn rows_of<R>(result: QueryResult) -> Result<Vec<R>, Failure>
where
    R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>,
{
    let rows = result.into_rows_result().map_err(|error| Failure::unreadable(&error))?;
    let typed = rows.rows::<R>().map_err(|error| Failure::unreadable(&error))?;
    typed.collect::<Result<_, _>>().map_err(|error| Failure::unreadable(&error))
}

async fn prepared(driver: &Driver, text: &str) -> Result<PreparedStatement, ClusterError> {
    let mut prepared = driver.prepare(text).await.map_err(|error| Failure::unreadable(&error))?;
    prepared.set_is_idempotent(true);
    Ok(prepared)
}

/// An unknown fate is worse than a rejection: the batch must be tried again as it is.
fn worse(one: Option<Failure>, other: Option<Failure>) -> Option<Failure> {
    match (&one, &other) {
        (Some(Failure::Unavailable(_)), _) | (Some(Failure::Rejected(_)), Some(Failure::Rejected(_)) | None) => one,
        (Some(Failure::Rejected(_)), Some(Failure::Unavailable(_))) | (None, _) => other,
    }
}

impl SerializeValue for Value {
    fn serialize<'b>(
        &self,
        typ: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        match self {
            Self::Tiny(number) => number.serialize(typ, writer),
            Self::Int(number) => number.serialize(typ, writer),
            Self::Long(number) => number.serialize(typ, writer),
            Self::Text(text) => (**text).serialize(typ, writer),
            Self::Blob(bytes) => bytes.serialize(typ, writer),
            Self::Uuid(id) => id.serialize(typ, writer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_fate_is_worse_than_a_rejection() {
        let (unknown, rejected) = (Failure::Unavailable("a".into()), Failure::Rejected("b".into()));
        assert_eq!(worse(None, None), None);
        assert_eq!(worse(Some(rejected.clone()), Some(unknown.clone())), Some(unknown.clone()));
        assert_eq!(worse(Some(unknown.clone()), Some(rejected.clone())), Some(unknown));
        assert_eq!(worse(None, Some(rejected.clone())), Some(rejected));
    }

    #[test]
    fn only_the_request_s_own_fault_is_a_rejection() {
        let told = |error| {
            let error = ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, String::new()));
            Failure::from(&error).refusal()
        };
        assert_eq!(told(DbError::Invalid), Refusal::Rejected);
        for error in [DbError::Overloaded, DbError::Unauthorized, DbError::ServerError, DbError::IsBootstrapping] {
            assert_eq!(told(error), Refusal::Unavailable);
        }
        let timeout = ExecutionError::RequestTimeout(std::time::Duration::from_secs(1));
        assert_eq!(Failure::from(&timeout).refusal(), Refusal::Unavailable);
    }
}
