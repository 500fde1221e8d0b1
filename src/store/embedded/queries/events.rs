//! Events: a tenant's list in either direction, and one event by its id or its number.

use super::super::marks;
use super::super::read::{folded_event, for_each_pack, slot_record};
use super::super::tables::Tables;
use super::super::walk::{Direction, Walk};
use super::Queries;
use crate::store::codec::fold::FoldedEvent;
use crate::store::queries::events::{cursor_at, end_of_list};
use crate::store::queries::{EventsQuery, IdPlace, ListOrder, page_size};
use crate::store::{Page, StoreError};
use crate::types::{Sequence, Slot, TenantId, Time, limits};

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
    let place = query.place()?;
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
