//! A page of a slot's log, in order of sequence.

use scylla::response::PagingState;

use super::event::{Found, LogRow, RawRow};
use super::{ReadError, Room};
use crate::engine::ReadAnswer;
use crate::engine::rows::LoggedEvent;
use crate::store::scylla::plan::log_chunk;
use crate::store::scylla::query::Query;
use crate::store::scylla::session::Session;
use crate::store::scylla::statement::Value;
use crate::types::{Sequence, Slot, limits};

/// Answers [`crate::engine::Read::Log`] from `from` on. Events from `indexed_below` on come with their payloads even
/// when all their jobs have ended: the index is to say how large those are.
///
/// # Errors
/// [`ReadError`].
pub(super) async fn read(
    session: &Session,
    slot: Slot,
    from: Sequence,
    indexed_below: Sequence,
) -> Result<ReadAnswer, ReadError> {
    let mut page = LogPage { session, slot, indexed_below, events: Vec::new(), bytes: 0 };
    let mut chunks = PagingState::start();
    loop {
        let values = [Value::slot(slot), Value::long(log_chunk(from))];
        let (listed, more): (Vec<(i64,)>, _) = session.page(Query::LogChunks, &values, chunks).await?;
        for (chunk,) in listed {
            if page.read_chunk(chunk, from).await? == Room::Full {
                return Ok(page.finish(Room::Full));
            }
        }
        match more {
            Some(state) => chunks = state,
            None => return Ok(page.finish(Room::Left)),
        }
    }
}

struct LogPage<'a> {
    session: &'a Session,
    slot: Slot,
    indexed_below: Sequence,
    events: Vec<LoggedEvent>,
    bytes: usize,
}

impl LogPage<'_> {
    async fn read_chunk(&mut self, chunk: i64, from: Sequence) -> Result<Room, ReadError> {
        let values = [Value::slot(self.slot), Value::Long(chunk), Value::long(from.0)];
        let mut rows: Vec<LogRow> = Vec::new();
        let mut page = PagingState::start();
        loop {
            let (raw, more): (Vec<RawRow>, _) = self.session.page(Query::Log, &values, page).await?;
            for row in raw {
                let Some(row) = LogRow::new(row)? else { continue };
                let is_next = rows.last().is_some_and(|last| last.sequence != row.sequence);
                if is_next {
                    if self.add(&rows).await? == Room::Full {
                        return Ok(Room::Full);
                    }
                    rows.clear();
                }
                rows.push(row);
            }
            match more {
                Some(state) => page = state,
                None => return self.add(&rows).await,
            }
        }
    }

    /// Adds the event that these rows make, if they do.
    async fn add(&mut self, rows: &[LogRow]) -> Result<Room, ReadError> {
        if let Some(found) = Found::fold(self.slot, rows)? {
            let (logged, size) = if found.sequence() < self.indexed_below {
                found.with_payload_if_open(self.session).await?
            } else {
                found.with_payload(self.session).await?
            };
            self.events.push(logged);
            self.bytes += size;
        }
        let full = self.events.len() >= limits::LOG_PAGE_EVENTS || self.bytes >= limits::LOG_PAGE_BYTES;
        Ok(if full { Room::Full } else { Room::Left })
    }

    /// A full page ends with an event: the next one begins after it.
    fn finish(self, room: Room) -> ReadAnswer {
        let last = self.events.last().filter(|_| room == Room::Full);
        let next = last.map(|logged| (logged.event.tenant.clone(), logged.event.sequence));
        ReadAnswer::Log { events: self.events, next }
    }
}
