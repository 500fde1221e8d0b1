//! How far the tenants' index of a slot is complete, and which of its numbers belong to which time.
//!
//! *A list that stops at `flushed` skips nothing.* `flushed` is read from the record of the slot's newest epoch, or, before
//! its owner has written one, from what it took over. The pull list goes up in numbers and its cursor never passes that
//! number, so it is enough that below it no event comes into the index later, whoever writes:
//!
//! 1. An owner writes a record only after the index's rows of all events below its `flushed` that it knows are
//!    acknowledged by a quorum, as those events themselves were before (`plan.rs`). A reader that sees the record, with a
//!    quorum, then sees them.
//! 2. It knows them all. When its epoch was given out, all below the `flushed` it took over was complete, by this same
//!    argument; what the log held from there on it has read afterwards, and what the lane brings from its position on it
//!    decides itself. What lies before that position was settled by a former owner, who wrote it to the log before it let
//!    the position move. The lane's offsets are the numbers: each owner gives a record the same one, and a duplicate is a
//!    duplicate to each, since all know the events before it.
//! 3. A former owner's late writes change nothing: its rows of the index have the keys that its successor's have, for the
//!    events are the same, and its record stands in its own epoch's row, which nobody reads once there is a newer one.
//!    A reader that saw the former record just before did so before the taker read the log, which therefore held what
//!    that record speaks of. The taker's own `flushed` may begin lower; then a cursor beyond it waits.
//!
//! Chunks of the index are looked at in order of their numbers, and a chunk is left only when all of it that is below
//! `flushed` was looked at.

use crate::store::codec::{event, slot};
use crate::store::scylla::api_query::ApiQuery;
use crate::store::scylla::part::Part;
use crate::store::scylla::plan::{index_chunk, log_chunk};
use crate::store::scylla::read::event::{LogRow, RawPart};
use crate::store::scylla::read::{ReadError, number_of, tenant_id};
use crate::store::scylla::session::Session;
use crate::store::scylla::statement::Value;
use crate::types::{Sequence, Slot, Time, limits};

/// The index is complete below this.
///
/// # Errors
/// [`ReadError`].
pub(in crate::store::scylla) async fn flushed(session: &Session, slot: Slot) -> Result<Sequence, ReadError> {
    type Row = (Option<Vec<u8>>, Option<Vec<u8>>);
    let rows: Vec<Row> = session.rows(ApiQuery::SlotRecord, &[Value::slot(slot)]).await?;
    let newest = rows.into_iter().next();
    let record = newest.and_then(|(base, record)| record.or(base)).filter(|bytes| !bytes.is_empty());
    Ok(record.map(|bytes| slot::decode(&bytes)).transpose()?.unwrap_or_default().flushed)
}

/// A number from `low` on before which nothing is left that was received at `from` or later; without a time, nothing at
/// all.
///
/// # Errors
/// [`ReadError`].
pub(super) async fn low_mark(
    session: &Session,
    slot: Slot,
    (low, high): (u64, u64),
    from: Option<Time>,
) -> Result<u64, ReadError> {
    if low >= high {
        return Ok(low);
    }
    let Some(from) = from else { return first_kept(session, slot, (low, high)).await };
    // What has a lower number than a chunk's first event was received at most the spread after it.
    let at = Time(from.0.saturating_sub(limits::CQL_ARRIVAL_SPREAD.0));
    let (before, _) = around(session, slot, (low, high), at).await?;
    match before {
        Some(chunk) => Ok(low.max(first_of(chunk))),
        None => first_kept(session, slot, (low, high)).await,
    }
}

/// A number up to `high` from which on nothing was received before `to`.
///
/// # Errors
/// [`ReadError`].
pub(super) async fn high_mark(
    session: &Session,
    slot: Slot,
    (low, high): (u64, u64),
    to: Option<Time>,
) -> Result<u64, ReadError> {
    let Some(to) = to.filter(|_| low < high) else { return Ok(high) };
    // What has a higher number than a chunk's first event was received at most the spread before it.
    let (_, after) = around(session, slot, (low, high), to + limits::CQL_ARRIVAL_SPREAD).await?;
    Ok(high.min(first_of(after)))
}

/// The first number whose chunk of the log has not expired, where looking for it saves looking into chunks of the index.
async fn first_kept(session: &Session, slot: Slot, (low, high): (u64, u64)) -> Result<u64, ReadError> {
    if index_chunk(Sequence(low)) == index_chunk(Sequence(high - 1)) {
        return Ok(low);
    }
    let first = first_listed(session, slot, log_chunk(Sequence(low))).await?;
    Ok(first.map_or(high, |chunk| low.max(first_of(chunk))))
}

/// Of the log's chunks with numbers in `low .. high`: the last whose first event was received before `at`, if any, and a
/// number that all later ones have at least. It halves the range: 20 steps for a thousand million events.
async fn around(
    session: &Session,
    slot: Slot,
    (low, high): (u64, u64),
    at: Time,
) -> Result<(Option<u64>, u64), ReadError> {
    let mut before = None;
    let (mut low, mut high) = (log_chunk(Sequence(low)), log_chunk(Sequence(high - 1)) + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match first_listed(session, slot, middle).await?.filter(|chunk| *chunk < high) {
            Some(chunk) if begun_at(session, slot, chunk).await? < at => {
                before = Some(chunk);
                low = chunk + 1;
            }
            Some(_) | None => high = middle,
        }
    }
    Ok((before, low))
}

/// The first chunk of the log from `chunk` on that has events.
pub(in crate::store::scylla) async fn first_listed(
    session: &Session,
    slot: Slot,
    chunk: u64,
) -> Result<Option<u64>, ReadError> {
    let rows: Vec<(i64,)> = session.rows(ApiQuery::FirstLogChunk, &[Value::slot(slot), Value::long(chunk)]).await?;
    Ok(rows.into_iter().next().map(|(chunk,)| number_of(chunk)).transpose()?)
}

/// When the first event of a chunk was received; long ago when it has expired.
async fn begun_at(session: &Session, slot: Slot, chunk: u64) -> Result<Time, ReadError> {
    let values = [Value::slot(slot), Value::long(chunk), Value::Int(limits::CQL_CHUNK_HEAD_ROWS)];
    let rows: Vec<RawPart> = session.rows(ApiQuery::ChunkHead, &values).await?;
    for raw in rows {
        let Some(row) = LogRow::of_part(raw)?.filter(|row| row.part == Part::EVENT) else { continue };
        let tenant = tenant_id(row.tenant())?;
        return Ok(event::decode(&tenant, row.sequence, &row.value)?.event.received_at);
    }
    Ok(Time::ZERO)
}

/// The first number of a chunk of the log.
const fn first_of(chunk: u64) -> u64 {
    chunk.saturating_mul(limits::CQL_LOG_CHUNK_EVENTS)
}
