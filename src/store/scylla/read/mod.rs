//! Answers to the engine's reads.

mod due;
pub(super) mod event;
mod log;
mod queue;

use std::collections::BTreeSet;
use std::sync::Arc;

use scylla::response::PagingState;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::query::Query;
use super::session::{Failure, Session};
use super::statement::Value;
use super::take::last_owner;
use crate::engine::{Read, ReadAnswer};
use crate::store::codec::{CodecError, destination, ids, overflow};
use crate::types::{DestinationId, JobKey, Sequence, Slot, SubscriptionId, TenantId, limits};

/// What the tenants' index does not have yet.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    /// The index is complete below this.
    pub(super) indexed_below: Sequence,
    /// Of what a queue's read asks for: wanted events from there on, in order.
    pub(super) pending: Vec<Sequence>,
}

/// Whether a page takes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Left,
    Full,
}

/// Why a read has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] Failure),
    /// Stored bytes are not the record they should be.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The slot that a read is about.
pub(super) const fn slot_of(read: &Read) -> Slot {
    match read {
        Read::Slot(slot)
        | Read::Log { slot, .. }
        | Read::Queue { slot, .. }
        | Read::Due { slot, .. }
        | Read::Ids { slot, .. }
        | Read::Event { slot, .. } => *slot,
    }
}

/// Answers `read`; whatever fails, the engine asks again.
pub(super) async fn answer(session: &Arc<Session>, read: &Read, ahead: Ahead) -> ReadAnswer {
    try_answer(session, read, ahead).await.unwrap_or_else(|error| {
        tracing::warn!(%error, ?read, "a read of the store failed");
        ReadAnswer::Failed
    })
}

async fn try_answer(session: &Arc<Session>, read: &Read, ahead: Ahead) -> Result<ReadAnswer, ReadError> {
    match read {
        Read::Slot(slot) => read_slot(session, *slot).await,
        Read::Log { slot, from, after } => {
            let from = after.as_ref().map_or(*from, |(_, last)| (*from).max(next(*last)));
            log::read(session, *slot, from, ahead.indexed_below).await
        }
        Read::Queue { slot, tenant, from, to, wanted, bytes_max } => {
            let asked = queue::Asked { slot: *slot, tenant, from: *from, to: *to, wanted, bytes_max: *bytes_max };
            queue::read(session, asked, ahead).await
        }
        Read::Due { slot, from, after, to } => due::read(session, *slot, (*from, *after), *to).await,
        Read::Ids { slot, minute, from } => read_ids(session, *slot, *minute, *from).await,
        Read::Event { slot, tenant, sequence } => {
            let found = event::read(session, *slot, *sequence).await?;
            let Some(found) = found.filter(|found| found.is_of(tenant)) else { return Ok(ReadAnswer::Event(None)) };
            Ok(ReadAnswer::Event(Some(found.with_payload(session).await?.0)))
        }
    }
}

/// Runs reads side by side; what they read comes in their order.
pub(super) async fn together<T: Send + 'static>(
    reads: impl IntoIterator<Item = impl Future<Output = Result<T, ReadError>> + Send + 'static>,
) -> Result<Vec<T>, ReadError> {
    let mut reading = JoinSet::new();
    for (place, read) in reads.into_iter().enumerate() {
        reading.spawn(async move { read.await.map(|found| (place, found)) });
    }
    let mut all = Vec::with_capacity(reading.len());
    while let Some(joined) = reading.join_next().await {
        all.push(joined.map_err(|panic| Failure::unreadable(&panic))??);
    }
    all.sort_unstable_by_key(|(place, _)| *place);
    Ok(all.into_iter().map(|(_, found)| found).collect())
}

/// The sequence after, where there is one.
pub(super) const fn next(sequence: Sequence) -> Sequence {
    Sequence(sequence.0.saturating_add(1))
}

async fn read_slot(session: &Session, slot: Slot) -> Result<ReadAnswer, ReadError> {
    type Member = (String, Uuid, Vec<u8>);
    let last = last_owner(session, slot).await?;
    let record = last.map(|last| last.slot_record()).transpose()?.flatten();
    let mut cursors = Vec::new();
    let members: Vec<Member> = session.rows(Query::Overflow, &[Value::slot(slot)]).await?;
    for (tenant, id, value) in members {
        cursors.push((tenant_id(&tenant)?, SubscriptionId(id), overflow::decode(&value)?));
    }
    let mut destinations = Vec::new();
    let members: Vec<Member> = session.rows(Query::Destinations, &[Value::slot(slot)]).await?;
    for (tenant, id, value) in members {
        destinations.push((tenant_id(&tenant)?, DestinationId(id), destination::decode(&value)?));
    }
    let found = record.unwrap_or_default();
    let first_due = due::first(session, slot, found.due_bound).await?;
    let claimed = read_claimed(session, slot, found.low_water).await?;
    Ok(ReadAnswer::Slot { record, overflow: cursors, destinations, first_due, claimed })
}

/// Jobs before low-water that were claimed lately: what has become of them stands in the log.
async fn read_claimed(
    session: &Session,
    slot: Slot,
    low_water: Sequence,
) -> Result<Vec<(TenantId, JobKey)>, ReadError> {
    let rows: Vec<(i64, i32, String)> = session.rows(Query::Claims, &[Value::slot(slot)]).await?;
    let mut claimed = BTreeSet::new();
    for (sequence, ordinal, tenant) in rows {
        let sequence = sequence_of(sequence)?;
        if sequence < low_water {
            let ordinal = ordinal_of(ordinal)?;
            claimed.insert((tenant_id(&tenant)?, JobKey { slot, sequence, ordinal }));
        }
    }
    Ok(claimed.into_iter().collect())
}

/// Packs with the same first sequence, of two owners, are never parted: the next page begins after them.
async fn read_ids(session: &Session, slot: Slot, minute: u64, from: Sequence) -> Result<ReadAnswer, ReadError> {
    let values = [Value::slot(slot), Value::long(minute), Value::long(from.0)];
    let mut entries = Vec::new();
    let (mut last, mut page) = (None, PagingState::start());
    loop {
        let (rows, more): (Vec<(i64, Vec<u8>)>, _) = session.page(Query::Ids, &values, page).await?;
        for (first, value) in rows {
            let first = sequence_of(first)?;
            if let Some(last) = last.filter(|last| *last != first && entries.len() >= limits::IDS_PAGE) {
                return Ok(ReadAnswer::Ids { entries, next: Some(next(last)) });
            }
            ids::decode(first, &value, &mut entries)?;
            last = Some(first);
        }
        match more {
            Some(state) => page = state,
            None => return Ok(ReadAnswer::Ids { entries, next: None }),
        }
    }
}

pub(super) fn tenant_id(text: &str) -> Result<TenantId, CodecError> {
    TenantId::new(text).map_err(|_| CodecError::Value { kind: "row", field: "tenant" })
}

pub(super) fn sequence_of(number: i64) -> Result<Sequence, CodecError> {
    Ok(Sequence(number_of(number)?))
}

pub(super) fn ordinal_of(ordinal: i32) -> Result<u16, CodecError> {
    u16::try_from(ordinal).map_err(|_| CodecError::Value { kind: "row", field: "ordinal" })
}

pub(super) fn number_of(number: i64) -> Result<u64, CodecError> {
    u64::try_from(number).map_err(|_| CodecError::Value { kind: "row", field: "number" })
}
