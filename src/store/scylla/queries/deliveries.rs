//! Deliveries: the jobs of a tenant's events, newest event first, and one job with its attempts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Queries;
use super::index::{Step, Walk};
use super::marks::{flushed, high_mark, low_mark};
use crate::store::codec::fold::FoldedEvent;
use crate::store::codec::job::{AttemptRow, decode_attempt};
use crate::store::queries::deliveries::Filling;
use crate::store::queries::{DeliveriesQuery, Delivery, ListOrder};
use crate::store::scylla::api_query::ApiQuery;
use crate::store::scylla::part::Part;
use crate::store::scylla::plan::log_chunk;
use crate::store::scylla::read::event::{self, LogRow, RawPart};
use crate::store::scylla::read::{ReadError, together};
use crate::store::scylla::session::Session;
use crate::store::scylla::statement::Value;
use crate::store::{Page, StoreError};
use crate::types::{AttemptRecord, JobKey, Sequence, Slot, TenantId, limits};

/// Events to be read next.
struct Group {
    events: Vec<Sequence>,
    then: Then,
}

/// What follows a group.
#[derive(Clone, Copy)]
enum Then {
    /// More of them.
    More,
    /// The page's end, though not the list's: the next begins below this event.
    Pause(Sequence),
    /// The list's end.
    End,
}

impl Queries {
    /// See [`crate::store::Queries::deliveries`]: of events up to `flushed`.
    ///
    /// # Errors
    /// As there.
    pub async fn deliveries(&self, query: DeliveriesQuery) -> Result<Page<Delivery>, StoreError> {
        let slot = self.slot_of(&query.tenant);
        self.store.query(move |session| async move { list(&session, slot, &query).await }).await
    }

    /// See [`crate::store::Queries::delivery`].
    ///
    /// # Errors
    /// As there.
    pub async fn delivery(
        &self,
        tenant: TenantId,
        (sequence, ordinal): (Sequence, u16),
    ) -> Result<Option<Delivery>, StoreError> {
        let slot = self.slot_of(&tenant);
        let find = move |session: Arc<Session>| async move {
            let event = read_one(session, slot, tenant, sequence).await?;
            Ok(event.and_then(|(event, _)| {
                let job = event.logged.jobs.iter().find(|job| job.key.ordinal == ordinal)?;
                Some(Delivery::of(&event, job))
            }))
        };
        self.store.query(find).await
    }

    /// See [`crate::store::Queries::attempts`].
    ///
    /// # Errors
    /// As there.
    pub async fn attempts(
        &self,
        tenant: TenantId,
        (sequence, ordinal): (Sequence, u16),
    ) -> Result<Vec<AttemptRecord>, StoreError> {
        let key = JobKey { slot: self.slot_of(&tenant), sequence, ordinal };
        self.store.query(move |session| async move { Ok(attempts(&session, &tenant, key).await?) }).await
    }
}

async fn list(session: &Arc<Session>, slot: Slot, query: &DeliveriesQuery) -> Result<Page<Delivery>, StoreError> {
    let mut page = Filling::new(query)?;
    if let Some(sequence) = query.event {
        let event = read_one(Arc::clone(session), slot, query.tenant.clone(), sequence).await?;
        let event = event.filter(|_| sequence.0 < page.high());
        let full = event.and_then(|(event, _)| page.add(&event));
        return Ok(full.unwrap_or_else(|| page.end()));
    }
    // A run is made after its event: only the upper bound of time holds for events too.
    let high = flushed(session, slot).await?.0.min(page.high());
    let high = high_mark(session, slot, (0, high), query.to).await?;
    let low = low_mark(session, slot, (0, high), None).await?;
    let mut walk = Walk::new(session, (slot, &query.tenant), ListOrder::NewestFirst, (low, high));
    let (mut read, mut bytes) = (0, 0);
    loop {
        let group = next_group(&mut walk, query).await?;
        let events = group.events.iter();
        let reads = events.map(|sequence| read_one(Arc::clone(session), slot, query.tenant.clone(), *sequence));
        for (sequence, found) in group.events.iter().zip(together(reads).await?) {
            let Some((event, size)) = found else { continue };
            if let Some(full) = page.add(&event) {
                return Ok(full);
            }
            bytes += size;
            if bytes >= limits::SCAN_MAX_BYTES {
                return Ok(page.paused(*sequence));
            }
        }
        read += group.events.len();
        match (group.then, group.events.last()) {
            (Then::Pause(below), _) => return Ok(page.paused(below)),
            (Then::End, _) => return Ok(page.end()),
            (Then::More, Some(last)) if read >= limits::CQL_DELIVERIES_EVENTS => return Ok(page.paused(*last)),
            (Then::More, _) => {}
        }
    }
}

/// Looks through the index for the next events that may have such jobs.
async fn next_group(walk: &mut Walk<'_>, query: &DeliveriesQuery) -> Result<Group, ReadError> {
    let mut group = Group { events: Vec::new(), then: Then::More };
    while group.events.len() < limits::CQL_READS_AT_ONCE {
        match walk.next().await? {
            Step::Event(row) => {
                let sequence = row.event.sequence;
                group.events.extend(query.may_want(&row.event).then_some(sequence));
                if walk.looked_at >= limits::SCAN_MAX_EVENTS {
                    group.then = Then::Pause(sequence);
                    break;
                }
            }
            Step::Paused(border) => {
                group.then = Then::Pause(Sequence(border));
                break;
            }
            Step::End => {
                group.then = Then::End;
                break;
            }
        }
    }
    Ok(group)
}

/// The event of this number, if it is this tenant's, and the bytes read for it.
async fn read_one(
    session: Arc<Session>,
    slot: Slot,
    tenant: TenantId,
    sequence: Sequence,
) -> Result<Option<(FoldedEvent, usize)>, ReadError> {
    let event = event::read_parts(&session, slot, sequence).await?;
    Ok(event.filter(|(event, _)| event.logged.event.tenant == tenant))
}

/// Rows come in order of kind: of one number, the outcome takes the place of a reclaim.
async fn attempts(session: &Session, tenant: &TenantId, job: JobKey) -> Result<Vec<AttemptRecord>, ReadError> {
    let (first, last) = Part::OUTCOMES;
    let values = [
        Value::slot(job.slot),
        Value::long(log_chunk(job.sequence)),
        Value::long(job.sequence.0),
        Value::Int(job.ordinal.into()),
        Value::Tiny(first),
        Value::Tiny(last),
    ];
    let rows: Vec<RawPart> = session.rows(ApiQuery::Attempts, &values).await?;
    let mut records: BTreeMap<u32, AttemptRecord> = BTreeMap::new();
    for raw in rows {
        let Some(row) = LogRow::of_part(raw)?.filter(|row| row.is_of(tenant)) else { continue };
        let number = row.part.number.cast_unsigned();
        if let AttemptRow::Ended(record, _) = decode_attempt(number, &row.value)? {
            records.insert(number, *record);
        }
    }
    let before = records.len().saturating_sub(limits::ATTEMPTS_SHOWN);
    Ok(records.into_values().skip(before).collect())
}
