//! What operators look at: quarantine, producers' dead letters, lane positions, the store itself.

use fjall::Keyspace;
use uuid::Uuid;

use super::super::tables::Tables;
use super::Queries;
use crate::engine::QuarantineRecord;
use crate::store::codec::batch::{EncodedBatch, Table};
use crate::store::codec::{CodecError, lane, producer_dlq, quarantine};
use crate::store::queries::records::{TimeRange, cursor_at, first_id};
use crate::store::queries::{ProducerDlqQuery, QuarantineQuery, StoreReport, page_size};
use crate::store::{Page, StoreError};
use crate::types::{LaneName, ProducerDeadLetter, Time, limits};

impl Queries {
    /// A page of quarantined records, latest first, with their ids.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a cursor of another list; [`StoreError::Busy`] when too many wait.
    pub async fn quarantine(&self, query: QuarantineQuery) -> Result<Page<(Uuid, QuarantineRecord)>, StoreError> {
        let list = move |tables: &Tables| {
            page(tables.of(Table::Quarantine), &query.range(), |bytes| {
                Ok(Some(quarantine::decode(bytes)?).filter(|record| query.wants(record)))
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
            page(tables.of(Table::ProducerDlq), &query.range(), |bytes| {
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

fn page<T>(
    table: &Keyspace,
    range: &TimeRange<'_>,
    mut decode: impl FnMut(&[u8]) -> Result<Option<T>, StoreError>,
) -> Result<Page<(Uuid, T)>, StoreError> {
    let low = first_id(range.from.unwrap_or(Time::ZERO)).into_bytes();
    let mut high = range.to.map_or([0xff; 16], |to| first_id(to).into_bytes());
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
        let full = items.len() >= page_size(range.limit);
        if full || looked_at >= limits::SCAN_MAX_EVENTS || bytes >= limits::SCAN_MAX_BYTES {
            return Ok(Page { items, next: Some(cursor_at(id)) });
        }
    }
    Ok(Page { items, next: None })
}
