//! Events: a tenant's list in either direction, and one event by its id or its number.

use std::sync::Arc;

use scylla::response::PagingState;
use uuid::Uuid;

use super::Queries;
use super::index::{Step, Walk};
use super::marks::{flushed, high_mark, low_mark};
use crate::store::codec::fold::FoldedEvent;
use crate::store::codec::{self, ids};
use crate::store::queries::events::{cursor_at, end_of_list};
use crate::store::queries::{EventsQuery, IdPlace, ListOrder, page_size};
use crate::store::scylla::api_query::ApiQuery;
use crate::store::scylla::part::Part;
use crate::store::scylla::plan::log_chunk;
use crate::store::scylla::query::Query;
use crate::store::scylla::read::event::{self, LogRow, RawPart};
use crate::store::scylla::read::{ReadError, sequence_of, together};
use crate::store::scylla::session::Session;
use crate::store::scylla::statement::Value;
use crate::store::{Page, StoreError};
use crate::types::{Sequence, Slot, TenantId, limits};

/// Which events a page shows, and where it ends.
struct Scan {
    /// In the list's order.
    wanted: Vec<Sequence>,
    /// The last number looked at.
    last: Option<u64>,
    /// Nothing is left beyond it.
    is_end: bool,
}

impl Queries {
    /// See [`crate::store::Queries::events`]: up to `flushed`.
    ///
    /// # Errors
    /// As there.
    pub async fn events(&self, query: EventsQuery) -> Result<Page<FoldedEvent>, StoreError> {
        let slot = self.slot_of(&query.tenant);
        self.store.query(move |session| async move { list(&session, slot, &query).await }).await
    }

    /// See [`crate::store::Queries::event`].
    ///
    /// # Errors
    /// As there.
    pub async fn event(&self, tenant: TenantId, sequence: Sequence) -> Result<Option<FoldedEvent>, StoreError> {
        let slot = self.slot_of(&tenant);
        self.store.query(move |session| async move { Ok(whole(&session, slot, &tenant, sequence).await?) }).await
    }

    /// See [`crate::store::Queries::event_by_id`].
    ///
    /// # Errors
    /// As there.
    pub async fn event_by_id(
        &self,
        tenant: TenantId,
        id: Uuid,
        place: IdPlace,
    ) -> Result<Option<FoldedEvent>, StoreError> {
        let slot = self.slot_of(&tenant);
        self.store.query(move |session| async move { Ok(find(&session, slot, &tenant, id, place).await?) }).await
    }
}

async fn list(session: &Arc<Session>, slot: Slot, query: &EventsQuery) -> Result<Page<FoldedEvent>, StoreError> {
    let scan = scan(session, slot, query, query.place()?).await?;
    let mut items = Vec::new();
    let mut bytes = 0;
    for group in scan.wanted.chunks(limits::CQL_READS_AT_ONCE) {
        let reads = group.iter().map(|sequence| shown(Arc::clone(session), slot, query.tenant.clone(), *sequence));
        for (sequence, found) in group.iter().zip(together(reads).await?) {
            // One that the log does not have any more has expired.
            let Some((event, size)) = found else { continue };
            items.push(event);
            bytes += size;
            if bytes >= limits::SCAN_MAX_BYTES {
                return Ok(Page { items, next: Some(cursor_at(sequence.0)) });
            }
        }
    }
    if scan.is_end {
        return Ok(end_of_list(items, query.order, scan.last));
    }
    Ok(Page { items, next: scan.last.map(cursor_at) })
}

/// Looks through the index for a page's events.
async fn scan(session: &Session, slot: Slot, query: &EventsQuery, place: Option<u64>) -> Result<Scan, ReadError> {
    let (low, high) = reach(session, slot, query, place).await?;
    let mut walk = Walk::new(session, (slot, &query.tenant), query.order, (low, high));
    let mut scan = Scan { wanted: Vec::new(), last: place, is_end: false };
    loop {
        match walk.next().await? {
            Step::Event(row) => {
                scan.last = Some(row.event.sequence.0);
                scan.wanted.extend(query.wants(&row.event).then_some(row.event.sequence));
                if scan.wanted.len() >= page_size(query.limit) || walk.looked_at >= limits::SCAN_MAX_EVENTS {
                    return Ok(scan);
                }
            }
            Step::Paused(border) => {
                scan.last = Some(border);
                return Ok(scan);
            }
            Step::End => {
                // Oldest first, all below `high` was looked at: the next page need not begin before it.
                scan.last = scan.last.max(high.checked_sub(1));
                scan.is_end = true;
                return Ok(scan);
            }
        }
    }
}

/// The numbers that a page may look at, the upper one exclusive. A cursor stands for the bound by time that it has passed.
async fn reach(
    session: &Session,
    slot: Slot,
    query: &EventsQuery,
    place: Option<u64>,
) -> Result<(u64, u64), ReadError> {
    let flushed = flushed(session, slot).await?.0;
    match query.order {
        ListOrder::OldestFirst => {
            let low = place.map_or(0, |place| place.saturating_add(1));
            let from = query.from.filter(|_| place.is_none());
            let low = low_mark(session, slot, (low, flushed), from).await?;
            Ok((low, high_mark(session, slot, (low, flushed), query.to).await?))
        }
        ListOrder::NewestFirst => {
            let high = flushed.min(place.unwrap_or(u64::MAX));
            let to = query.to.filter(|_| place.is_none());
            let high = high_mark(session, slot, (0, high), to).await?;
            Ok((low_mark(session, slot, (0, high), query.from).await?, high))
        }
    }
}

/// A tenant's event as lists show it, and the bytes read for it.
async fn shown(
    session: Arc<Session>,
    slot: Slot,
    tenant: TenantId,
    sequence: Sequence,
) -> Result<Option<(FoldedEvent, usize)>, ReadError> {
    let own = event::read_own(&session, slot, sequence).await?;
    match own.filter(|found| found.is_of(&tenant)) {
        Some(found) => Ok(Some(found.shown(&session).await?)),
        None => Ok(None),
    }
}

/// One event with its payload and its jobs as they stand.
async fn whole(
    session: &Session,
    slot: Slot,
    tenant: &TenantId,
    sequence: Sequence,
) -> Result<Option<FoldedEvent>, ReadError> {
    let own = event::read_own(session, slot, sequence).await?;
    let Some(own) = own.filter(|found| found.is_of(tenant)) else { return Ok(None) };
    let Some((mut event, _)) = event::read_parts(session, slot, sequence).await? else { return Ok(None) };
    let (shown, _) = own.shown(session).await?;
    event.logged.event.payload = shown.logged.event.payload;
    event.logged.payload_expired = shown.logged.payload_expired;
    Ok(Some(event))
}

async fn find(
    session: &Session,
    slot: Slot,
    tenant: &TenantId,
    id: Uuid,
    place: IdPlace,
) -> Result<Option<FoldedEvent>, ReadError> {
    for sequence in filed(session, slot, place).await? {
        let event = whole(session, slot, tenant, sequence).await?;
        if let Some(event) = event.filter(|event| event.logged.event.id == id) {
            return Ok(Some(event));
        }
    }
    match find_in_tail(session, slot, tenant, id).await? {
        Some(sequence) => whole(session, slot, tenant, sequence).await,
        None => Ok(None),
    }
}

/// The numbers filed under a dedup key, in all packs of its bucket: as many ids as carry that minute, and no more.
async fn filed(session: &Session, slot: Slot, place: IdPlace) -> Result<Vec<Sequence>, ReadError> {
    let values = [Value::slot(slot), Value::long(place.minute), Value::long(0)];
    let (mut found, mut entries, mut page) = (Vec::new(), Vec::new(), PagingState::start());
    loop {
        let (rows, more): (Vec<(i64, Vec<u8>)>, _) = session.page(Query::Ids, &values, page).await?;
        for (first, value) in rows {
            entries.clear();
            ids::decode(sequence_of(first)?, &value, &mut entries)?;
            found.extend(entries.iter().filter(|(key, _)| *key == place.key).map(|(_, sequence)| *sequence));
        }
        match more {
            Some(state) => page = state,
            None => return Ok(found),
        }
    }
}

/// The number of an event whose id is not written behind yet: it is looked for in the log from `flushed` on.
async fn find_in_tail(
    session: &Session,
    slot: Slot,
    tenant: &TenantId,
    id: Uuid,
) -> Result<Option<Sequence>, ReadError> {
    let flushed = flushed(session, slot).await?;
    let values = [Value::slot(slot), Value::long(log_chunk(flushed))];
    let (chunks, _): (Vec<(i64,)>, _) = session.page(Query::LogChunks, &values, PagingState::start()).await?;
    let (mut looked_at, mut bytes) = (0, 0);
    for (chunk,) in chunks {
        let values = [Value::slot(slot), Value::Long(chunk), Value::long(flushed.0)];
        let mut page = Some(PagingState::start());
        while let Some(state) = page {
            let (rows, more): (Vec<RawPart>, _) = session.page(ApiQuery::LogParts, &values, state).await?;
            for raw in rows {
                let Some(row) = LogRow::of_part(raw)? else { continue };
                bytes += row.size();
                if row.part != Part::EVENT {
                    continue;
                }
                looked_at += 1;
                if row.is_of(tenant) && codec::event::decode(tenant, row.sequence, &row.value)?.event.id == id {
                    return Ok(Some(row.sequence));
                }
            }
            if looked_at >= limits::TAIL_SEARCH_EVENTS || bytes >= limits::SCAN_MAX_BYTES {
                return Ok(None);
            }
            page = more;
        }
    }
    Ok(None)
}
