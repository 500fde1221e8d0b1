//! What operators look at: quarantine, producers' dead letters, lane positions, the store itself.

use fjall::Keyspace;
use uuid::Uuid;

use super::super::tables::Tables;
use super::{Queries, page_size};
use crate::engine::QuarantineRecord;
use crate::store::codec::batch::{EncodedBatch, Table};
use crate::store::codec::{CodecError, lane, producer_dlq, quarantine};
use crate::store::{Cursor, Page, StoreError};
use crate::types::ids::uuid_v7;
use crate::types::{LaneName, ProducerDeadLetter, Time, limits};

/// Which quarantined records.
#[derive(Clone, Debug, Default)]
pub struct QuarantineQuery {
    /// Where the last page ended.
    pub cursor: Option<Cursor>,
    /// At most so many, 1 to 100.
    pub limit: usize,
    /// Met at or after.
    pub from: Option<Time>,
    /// Met before.
    pub to: Option<Time>,
    /// Of which topic.
    pub topic: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Which of the producers' dead letters.
#[derive(Clone, Debug, Default)]
pub struct ProducerDlqQuery {
    /// Where the last page ended.
    pub cursor: Option<Cursor>,
    /// At most so many, 1 to 100.
    pub limit: usize,
    /// Read at or after.
    pub from: Option<Time>,
    /// Read before.
    pub to: Option<Time>,
    /// Of which dead-letter topic.
    pub topic: Option<String>,
    /// With which `x-lerian-dlq-error-class`.
    pub error_class: Option<String>,
    /// Of which `ce-tenantid`.
    pub tenant: Option<String>,
}

/// How the store stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreReport {
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Rows of the log, roughly.
    pub log_rows: usize,
    /// Journals that are not written to tables yet.
    pub journals: usize,
    /// Whether there is enough disk to take in more.
    pub intake_allowed: bool,
}

impl Queries {
    /// A page of quarantined records, latest first, with their ids.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a cursor of another list; [`StoreError::Busy`] when too many wait.
    pub async fn quarantine(&self, query: QuarantineQuery) -> Result<Page<(Uuid, QuarantineRecord)>, StoreError> {
        let list = move |tables: &Tables| {
            let range = TimeRange { from: query.from, to: query.to, cursor: query.cursor.as_ref() };
            let wants = |record: &QuarantineRecord| {
                query.topic.as_deref().is_none_or(|topic| *record.topic == *topic)
                    && query.reason.as_deref().is_none_or(|reason| record.reason == reason)
            };
            page(tables.of(Table::Quarantine), &range, query.limit, |bytes| {
                Ok(Some(quarantine::decode(bytes)?).filter(wants))
            })
        };
        self.store.ask(list).await
    }

    /// One quarantined record.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait.
    pub async fn quarantined(&self, id: Uuid) -> Result<Option<QuarantineRecord>, StoreError> {
        let find = move |tables: &Tables| {
            let value = tables.of(Table::Quarantine).get(id.as_bytes())?;
            Ok(value.map(|bytes| quarantine::decode(&bytes)).transpose()?)
        };
        self.store.ask(find).await
    }

    /// A page of the producers' dead letters, latest first, with their ids.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a cursor of another list; [`StoreError::Busy`] when too many wait.
    pub async fn producer_dlq(&self, query: ProducerDlqQuery) -> Result<Page<(Uuid, ProducerDeadLetter)>, StoreError> {
        let list = move |tables: &Tables| {
            let range = TimeRange { from: query.from, to: query.to, cursor: query.cursor.as_ref() };
            page(tables.of(Table::ProducerDlq), &range, query.limit, |bytes| {
                Ok(Some(producer_dlq::decode(bytes)?).filter(|record| query.wants(record)))
            })
        };
        self.store.ask(list).await
    }

    /// Makes records of producers' dead-letter topics durable, with the position of their lane.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] when the store has failed.
    pub async fn put_producer_dead_letters(
        &self,
        records: &[ProducerDeadLetter],
        position: Option<(&LaneName, u64)>,
    ) -> Result<(), StoreError> {
        let mut batch = EncodedBatch::default();
        for record in records {
            let id = quarantine::record_id(record.received_at, &record.topic, record.partition, record.offset);
            batch.put_with(
                Table::ProducerDlq,
                |out| out.extend_from_slice(id.as_bytes()),
                |out| producer_dlq::encode(record, out),
            );
        }
        if let Some((name, position)) = position {
            let key = name.0.as_bytes();
            batch.put_with(Table::Lanes, |out| out.extend_from_slice(key), |out| lane::encode(position, out));
        }
        self.store.write(batch).await
    }

    /// Every lane's stored position: the next offset to read.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait.
    pub async fn lanes(&self) -> Result<Vec<(LaneName, u64)>, StoreError> {
        self.store.ask(lanes).await
    }

    /// How the store stands.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait.
    pub async fn report(&self) -> Result<StoreReport, StoreError> {
        let intake_allowed = self.store.intake_allowed();
        let report = move |tables: &Tables| {
            Ok(StoreReport {
                disk_bytes: tables.database.disk_space()?,
                log_rows: tables.of(Table::Log).approximate_len(),
                journals: tables.database.journal_count(),
                intake_allowed,
            })
        };
        self.store.ask(report).await
    }
}

impl super::Embedded {
    /// Every lane's stored position. For the start: it reads on this thread.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails or a position is damaged.
    pub fn load_lanes(&self) -> Result<Vec<(LaneName, u64)>, StoreError> {
        lanes(self.tables())
    }
}

fn lanes(tables: &Tables) -> Result<Vec<(LaneName, u64)>, StoreError> {
    let mut positions = Vec::new();
    for guard in tables.of(Table::Lanes).iter() {
        let (name, value) = guard.into_inner()?;
        let damaged = CodecError::Value { kind: "lane", field: "name" };
        let name = std::str::from_utf8(&name).map_err(|_| damaged)?;
        positions.push((LaneName(name.into()), lane::decode(&value)?));
    }
    Ok(positions)
}

/// A part of a table whose keys are UUIDv7.
struct TimeRange<'a> {
    from: Option<Time>,
    to: Option<Time>,
    cursor: Option<&'a Cursor>,
}

fn page<T>(
    table: &Keyspace,
    range: &TimeRange<'_>,
    limit: usize,
    mut decode: impl FnMut(&[u8]) -> Result<Option<T>, StoreError>,
) -> Result<Page<(Uuid, T)>, StoreError> {
    let low = uuid_v7(range.from.unwrap_or(Time::ZERO), 0).into_bytes();
    let mut high = range.to.map_or([0xff; 16], |to| uuid_v7(to, 0).into_bytes());
    if let Some(cursor) = range.cursor {
        high = high.min(cursor.exactly::<16>()?);
    }
    let mut items = Vec::new();
    let mut bytes = 0;
    for (guard, looked_at) in table.range(low..high.max(low)).rev().zip(1..) {
        let (key, value) = guard.into_inner()?;
        bytes += value.len();
        let id = Uuid::from_slice(&key).map_err(|_| CodecError::Value { kind: "record", field: "id" })?;
        items.extend(decode(&value)?.map(|record| (id, record)));
        let full = items.len() >= page_size(limit);
        if full || looked_at >= limits::SCAN_MAX_EVENTS || bytes >= limits::SCAN_MAX_BYTES {
            return Ok(Page { items, next: Some(Cursor::new(id.into_bytes().to_vec())) });
        }
    }
    Ok(Page { items, next: None })
}

impl ProducerDlqQuery {
    fn wants(&self, record: &ProducerDeadLetter) -> bool {
        let fits = |wanted: &Option<String>, own: Option<&str>| wanted.is_none() || wanted.as_deref() == own;
        fits(&self.topic, Some(&record.topic))
            && fits(&self.error_class, record.error_class.as_deref())
            && fits(&self.tenant, record.tenant.as_deref())
    }
}
