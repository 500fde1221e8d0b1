//! Events: a tenant's list in either direction, and one event by its id or its number.

use super::super::marks;
use super::super::read::{folded_event, for_each_pack, slot_record};
use super::super::tables::Tables;
use super::super::walk::{Direction, Walk};
use super::{Queries, page_size};
use crate::store::codec::fold::FoldedEvent;
use crate::store::{Cursor, Page, StoreError};
use crate::types::{Event, Sequence, Slot, SourceId, TenantId, Time, limits};

/// Which events of a tenant.
#[derive(Clone, Debug)]
pub struct EventsQuery {
    /// Whose.
    pub tenant: TenantId,
    /// In which order.
    pub order: ListOrder,
    /// Where the last page ended.
    pub cursor: Option<Cursor>,
    /// At most so many, 1 to 100.
    pub limit: usize,
    /// Received at or after.
    pub from: Option<Time>,
    /// Received before.
    pub to: Option<Time>,
    /// The event key.
    pub event_type: Option<String>,
    /// The producing application.
    pub origin: Option<String>,
    /// The HTTP source.
    pub source_id: Option<SourceId>,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOrder {
    /// Oldest first: always with a cursor to go on from, as the pull API needs.
    OldestFirst,
    /// Newest first.
    NewestFirst,
}

/// Where the id of an event is filed: what the engine's dedup made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdPlace {
    /// The bucket: minutes since the epoch.
    pub minute: u64,
    /// The dedup key.
    pub key: u128,
}

impl Queries {
    /// A page of a tenant's events.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a cursor of another list; [`StoreError::Busy`] when too many wait.
    pub async fn events(&self, query: EventsQuery) -> Result<Page<FoldedEvent>, StoreError> {
        let slot = self.slot_of(&query.tenant);
        self.store.ask(move |tables| list(tables, slot, &query)).await
    }

    /// One event by its number.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait.
    pub async fn event(&self, tenant: TenantId, sequence: Sequence) -> Result<Option<FoldedEvent>, StoreError> {
        let slot = self.slot_of(&tenant);
        self.store.ask(move |tables| folded_event(tables, slot, &tenant, sequence)).await
    }

    /// One event by its id, also when the id is not written behind yet.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait.
    pub async fn event_by_id(
        &self,
        tenant: TenantId,
        id: uuid::Uuid,
        place: IdPlace,
    ) -> Result<Option<FoldedEvent>, StoreError> {
        let slot = self.slot_of(&tenant);
        self.store.ask(move |tables| find(tables, slot, &tenant, id, place)).await
    }
}

fn find(
    tables: &Tables,
    slot: Slot,
    tenant: &TenantId,
    id: uuid::Uuid,
    place: IdPlace,
) -> Result<Option<FoldedEvent>, StoreError> {
    let mut filed = Vec::new();
    for_each_pack(tables, slot, place.minute, |entries| {
        filed.extend(entries.iter().filter(|(key, _)| *key == place.key).map(|(_, sequence)| *sequence));
    })?;
    for sequence in filed {
        let event = folded_event(tables, slot, tenant, sequence)?;
        if let Some(event) = event.filter(|event| event.logged.event.id == id) {
            return Ok(Some(event));
        }
    }
    let flushed = slot_record(tables, slot)?.unwrap_or_default().flushed;
    let mut walk = Walk::over_tenant(tables, slot, tenant, (flushed, Sequence(u64::MAX)), Direction::Backward);
    for _ in 0..limits::TAIL_SEARCH_EVENTS {
        let Some(met) = walk.next_event()? else { break };
        if let Some(event) = met.event.filter(|event| event.logged.event.id == id) {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

fn list(tables: &Tables, slot: Slot, query: &EventsQuery) -> Result<Page<FoldedEvent>, StoreError> {
    let place = query.cursor.as_ref().map(Cursor::exactly::<8>).transpose()?.map(u64::from_be_bytes);
    let (mut low, mut high) = bounds(tables, slot, query.from, query.to)?;
    let direction = match query.order {
        ListOrder::OldestFirst => {
            low = low.max(place.map_or(0, |place| place.saturating_add(1)));
            Direction::Forward
        }
        ListOrder::NewestFirst => {
            high = high.min(place.unwrap_or(u64::MAX));
            Direction::Backward
        }
    };
    let mut walk = Walk::over_tenant(tables, slot, &query.tenant, (Sequence(low), Sequence(high)), direction);
    let mut items = Vec::new();
    let mut last = place;
    for _ in 0..limits::SCAN_MAX_EVENTS {
        let Some(met) = walk.next_event()? else { return Ok(end_of_list(items, query.order, last)) };
        last = Some(met.sequence.0);
        items.extend(met.event.filter(|event| query.wants(&event.logged.event)));
        if items.len() >= page_size(query.limit) || walk.byte_count >= limits::SCAN_MAX_BYTES {
            break;
        }
    }
    Ok(Page { items, next: last.map(cursor_at) })
}

/// Oldest first goes on for ever: its cursor stays where the list ended.
fn end_of_list(items: Vec<FoldedEvent>, order: ListOrder, last: Option<u64>) -> Page<FoldedEvent> {
    let next = match order {
        ListOrder::OldestFirst => Some(cursor_at(last.unwrap_or(0))),
        ListOrder::NewestFirst => None,
    };
    Page { items, next }
}

fn cursor_at(sequence: u64) -> Cursor {
    Cursor::new(sequence.to_be_bytes().to_vec())
}

/// Sequences outside of which nothing was received between `from` and `to`: a minute wider on both sides, so
/// that neighbours numbered in another order than received are seen.
pub(super) fn bounds(
    tables: &Tables,
    slot: Slot,
    from: Option<Time>,
    to: Option<Time>,
) -> Result<(u64, u64), StoreError> {
    let low = match from {
        None => 0,
        Some(from) => marks::first_up_to(tables, slot, from.as_minutes().saturating_sub(1))?.0,
    };
    let high = match to {
        None => u64::MAX,
        Some(to) => marks::first_from(tables, slot, to.as_minutes().saturating_add(2))?.0,
    };
    Ok((low, high))
}

impl EventsQuery {
    fn wants(&self, event: &Event) -> bool {
        self.from.is_none_or(|from| event.received_at >= from)
            && self.to.is_none_or(|to| event.received_at < to)
            && self.event_type.as_deref().is_none_or(|key| *event.key == *key)
            && self.origin.as_deref().is_none_or(|origin| event.origin() == origin)
            && self.source_id.is_none_or(|source| event.source_id == Some(source))
    }
}
