//! Which events a list shows, and where a page of them ends.

use crate::store::codec::fold::FoldedEvent;
use crate::store::{Cursor, CursorError, Page};
use crate::types::{Event, SourceId, TenantId, Time};

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

impl EventsQuery {
    /// The number of the event that the last page ended with.
    ///
    /// # Errors
    /// [`CursorError`] for a cursor of another list.
    pub(in crate::store) fn place(&self) -> Result<Option<u64>, CursorError> {
        Ok(self.cursor.as_ref().map(Cursor::exactly::<8>).transpose()?.map(u64::from_be_bytes))
    }

    /// Whether the list shows `event`; its tenant was looked at before.
    pub(in crate::store) fn wants(&self, event: &Event) -> bool {
        self.from.is_none_or(|from| event.received_at >= from)
            && self.to.is_none_or(|to| event.received_at < to)
            && self.event_type.as_deref().is_none_or(|key| *event.key == *key)
            && self.origin.as_deref().is_none_or(|origin| event.origin() == origin)
            && self.source_id.is_none_or(|source| event.source_id == Some(source))
    }
}

/// The last page: oldest first goes on for ever, from the event numbered `last`.
pub(in crate::store) fn end_of_list(items: Vec<FoldedEvent>, order: ListOrder, last: Option<u64>) -> Page<FoldedEvent> {
    let next = match order {
        ListOrder::OldestFirst => Some(cursor_at(last.unwrap_or(0))),
        ListOrder::NewestFirst => None,
    };
    Page { items, next }
}

/// The page ended with the event of this number.
pub(in crate::store) fn cursor_at(sequence: u64) -> Cursor {
    Cursor::new(sequence.to_be_bytes().to_vec())
}
