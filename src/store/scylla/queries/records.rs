//! What operators look at: quarantine and producers' dead letters hour by hour, latest first; lanes' positions; the store.

use std::sync::Arc;

use scylla::response::PagingState;
use uuid::Uuid;

use super::Queries;
use crate::engine::QuarantineRecord;
use crate::store::codec::{CodecError, lane, producer_dlq, quarantine};
use crate::store::queries::records::{TimeRange, cursor_at, first_id};
use crate::store::queries::{ProducerDlqQuery, QuarantineQuery, StoreReport, page_size};
use crate::store::scylla::api_query::ApiQuery;
use crate::store::scylla::read::ReadError;
use crate::store::scylla::rows::{HOUR, hour_of, plan_producer_dead_letters};
use crate::store::scylla::session::Session;
use crate::store::scylla::statement::Value;
use crate::store::{Page, StoreError};
use crate::types::ids::uuid_v7_time;
use crate::types::{LaneName, ProducerDeadLetter, Time, limits};

/// A list's part of a table of hours.
struct Reach {
    /// From this id on, and before that one.
    low: Uuid,
    high: Uuid,
    limit: usize,
}

impl Queries {
    /// See [`crate::store::Queries::quarantine`].
    ///
    /// # Errors
    /// As there.
    pub async fn quarantine(&self, query: QuarantineQuery) -> Result<Page<(Uuid, QuarantineRecord)>, StoreError> {
        let reach = self.reach(&query.range())?;
        let list = move |session: Arc<Session>| async move {
            let decode = |bytes: &[u8]| Ok(Some(quarantine::decode(bytes)?).filter(|record| query.wants(record)));
            Ok(page(&session, ApiQuery::Quarantine, &reach, decode).await?)
        };
        self.store.query(list).await
    }

    /// See [`crate::store::Queries::quarantined`].
    ///
    /// # Errors
    /// As there.
    pub async fn quarantined(&self, id: Uuid) -> Result<Option<QuarantineRecord>, StoreError> {
        let values = [Value::long(hour_of(uuid_v7_time(id))), Value::Uuid(id)];
        let find = move |session: Arc<Session>| async move {
            let rows: Vec<(Vec<u8>,)> = session.rows(ApiQuery::Quarantined, &values).await?;
            Ok(rows.into_iter().next().map(|(value,)| quarantine::decode(&value)).transpose()?)
        };
        self.store.query(find).await
    }

    /// See [`crate::store::Queries::producer_dlq`].
    ///
    /// # Errors
    /// As there.
    pub async fn producer_dlq(&self, query: ProducerDlqQuery) -> Result<Page<(Uuid, ProducerDeadLetter)>, StoreError> {
        let reach = self.reach(&query.range())?;
        let list = move |session: Arc<Session>| async move {
            let decode = |bytes: &[u8]| Ok(Some(producer_dlq::decode(bytes)?).filter(|record| query.wants(record)));
            Ok(page(&session, ApiQuery::ProducerDlq, &reach, decode).await?)
        };
        self.store.query(list).await
    }

    /// See [`crate::store::Queries::put_producer_dead_letters`]: the position is written when all records are durable.
    ///
    /// # Errors
    /// As there.
    pub async fn put_producer_dead_letters(
        &self,
        records: &[ProducerDeadLetter],
        position: Option<(&LaneName, u64)>,
    ) -> Result<(), StoreError> {
        let phases = plan_producer_dead_letters(records, position, &self.store.kept());
        self.store.query(move |session| async move { Ok(session.carry_out(phases).await?) }).await
    }

    /// See [`crate::store::Queries::lanes`].
    ///
    /// # Errors
    /// As there.
    pub async fn lanes(&self) -> Result<Vec<(LaneName, u64)>, StoreError> {
        self.store.query(|session| async move { Ok(lanes(&session).await?) }).await
    }

    /// See [`crate::store::Queries::report`]. A cluster's servers report themselves, and one that is out of room refuses
    /// batches, which stops intake: here all is zero, and intake allowed.
    #[must_use]
    pub const fn report(&self) -> StoreReport {
        StoreReport { disk_bytes: 0, log_rows: 0, journals: 0, intake_allowed: true }
    }

    /// What retention has left of a range, up to now.
    fn reach(&self, range: &TimeRange<'_>) -> Result<Reach, StoreError> {
        let (now, kept) = (self.store.now(), self.store.retention().quarantine);
        let oldest = Time(now.0.saturating_sub(kept.0)).max(range.from.unwrap_or(Time::ZERO));
        let mut high = first_id(self.soon().min(range.to.unwrap_or(Time::MAX)));
        if let Some(cursor) = range.cursor {
            high = high.min(Uuid::from_bytes(cursor.exactly::<16>()?));
        }
        Ok(Reach { low: first_id(oldest), high, limit: range.limit })
    }
}

async fn page<T>(
    session: &Session,
    query: ApiQuery,
    reach: &Reach,
    decode: impl Fn(&[u8]) -> Result<Option<T>, CodecError>,
) -> Result<Page<(Uuid, T)>, ReadError> {
    let (mut items, mut looked_at, mut bytes) = (Vec::new(), 0, 0);
    let hours = hour_of(uuid_v7_time(reach.low))..=hour_before(reach.high);
    for (hour, looked_into) in hours.rev().zip(0..) {
        if looked_into >= limits::CQL_PARTITIONS_PER_PAGE {
            let border = first_id(Time(HOUR.0.saturating_mul(hour + 1)));
            return Ok(Page { items, next: Some(cursor_at(border)) });
        }
        let values = [Value::long(hour), Value::Uuid(reach.low), Value::Uuid(reach.high)];
        let mut next = Some(PagingState::start());
        while let Some(state) = next {
            let (rows, more): (Vec<(Uuid, Vec<u8>)>, _) = session.page(query, &values, state).await?;
            for (id, value) in rows {
                items.extend(decode(&value)?.map(|record| (id, record)));
                looked_at += 1;
                bytes += value.len();
                let full = items.len() >= page_size(reach.limit);
                if full || looked_at >= limits::SCAN_MAX_EVENTS || bytes >= limits::SCAN_MAX_BYTES {
                    return Ok(Page { items, next: Some(cursor_at(id)) });
                }
            }
            next = more;
        }
    }
    Ok(Page { items, next: None })
}

/// The hour of the last records before `id`.
fn hour_before(id: Uuid) -> u64 {
    let at = uuid_v7_time(id);
    // What begins an hour lies after all of the one before.
    hour_of(if id == first_id(at) { Time(at.0.saturating_sub(1)) } else { at })
}

async fn lanes(session: &Session) -> Result<Vec<(LaneName, u64)>, ReadError> {
    let mut positions = Vec::new();
    for bucket in 0..limits::CQL_LANE_BUCKETS {
        let rows: Vec<(String, Vec<u8>)> = session.rows(ApiQuery::Lanes, &[Value::Int(bucket.into())]).await?;
        for (name, value) in rows {
            positions.push((LaneName(name.into()), lane::decode(&value)?));
        }
    }
    positions.sort_unstable();
    Ok(positions)
}
