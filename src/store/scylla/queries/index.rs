//! A walk along a tenant's events in the tenants' index, chunk by chunk, in either direction.

use scylla::response::PagingState;

use crate::store::codec::event::{self, EventRow};
use crate::store::queries::ListOrder;
use crate::store::scylla::api_query::ApiQuery;
use crate::store::scylla::plan::index_chunk;
use crate::store::scylla::query::Query;
use crate::store::scylla::read::{ReadError, sequence_of};
use crate::store::scylla::session::Session;
use crate::store::scylla::statement::Value;
use crate::types::{Sequence, Slot, TenantId, limits};

/// What a walk meets.
pub(super) enum Step {
    /// The next event, without its payload, its jobs as they were made.
    Event(Box<EventRow>),
    /// As many chunks as one page may look into were looked into, up to this number: the next to look at is beyond it
    /// upwards, or below it downwards.
    Paused(u64),
    /// Nothing is left.
    End,
}

/// A walk over the events of one tenant with `low ≤ sequence < high`.
pub(super) struct Walk<'a> {
    session: &'a Session,
    slot: Slot,
    tenant: &'a TenantId,
    order: ListOrder,
    /// What no chunk read so far covers.
    low: u64,
    high: u64,
    /// Rows read and not yet given, the next one last; and where the next page of their chunk begins.
    rows: Vec<(i64, Vec<u8>)>,
    reading: Option<(Span, PagingState)>,
    chunks: usize,
    /// Events given so far.
    pub(super) looked_at: usize,
}

/// The part of one chunk that a walk looks at: from and to, inclusive.
#[derive(Clone, Copy)]
struct Span {
    chunk: u64,
    from: u64,
    to: u64,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(
        session: &'a Session,
        (slot, tenant): (Slot, &'a TenantId),
        order: ListOrder,
        (low, high): (u64, u64),
    ) -> Self {
        Self { session, slot, tenant, order, low, high, rows: Vec::new(), reading: None, chunks: 0, looked_at: 0 }
    }

    /// The next step.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(super) async fn next(&mut self) -> Result<Step, ReadError> {
        loop {
            if let Some((sequence, head)) = self.rows.pop() {
                self.looked_at += 1;
                let row = event::decode(self.tenant, sequence_of(sequence)?, &head)?;
                return Ok(Step::Event(Box::new(row)));
            }
            if let Some((span, page)) = self.reading.take() {
                self.read(span, page).await?;
            } else if self.low >= self.high {
                return Ok(Step::End);
            } else if self.chunks >= limits::CQL_PARTITIONS_PER_PAGE {
                return Ok(Step::Paused(self.border()));
            } else {
                self.chunks += 1;
                let span = self.next_span();
                self.read(span, PagingState::start()).await?;
            }
        }
    }

    /// Between what was looked at and what was not.
    const fn border(&self) -> u64 {
        match self.order {
            ListOrder::OldestFirst => self.low.saturating_sub(1),
            ListOrder::NewestFirst => self.high,
        }
    }

    /// Cuts the next chunk's part off what is left.
    fn next_span(&mut self) -> Span {
        match self.order {
            ListOrder::OldestFirst => {
                let (chunk, from) = (index_chunk(Sequence(self.low)), self.low);
                self.low = self.high.min((chunk + 1) * limits::CQL_INDEX_CHUNK_EVENTS);
                Span { chunk, from, to: self.low - 1 }
            }
            ListOrder::NewestFirst => {
                let (chunk, to) = (index_chunk(Sequence(self.high - 1)), self.high - 1);
                self.high = self.low.max(chunk * limits::CQL_INDEX_CHUNK_EVENTS);
                Span { chunk, from: self.high, to }
            }
        }
    }

    async fn read(&mut self, span: Span, page: PagingState) -> Result<(), ReadError> {
        let query = match self.order {
            ListOrder::OldestFirst => Query::Index,
            ListOrder::NewestFirst => ApiQuery::IndexBack.into(),
        };
        let values = [
            Value::slot(self.slot),
            Value::long(span.chunk),
            Value::tenant(self.tenant),
            Value::long(span.from),
            Value::long(span.to),
        ];
        let (mut rows, more): (Vec<(i64, Vec<u8>)>, _) = self.session.page(query, &values, page).await?;
        rows.reverse();
        self.rows = rows;
        self.reading = more.map(|state| (span, state));
        Ok(())
    }
}
