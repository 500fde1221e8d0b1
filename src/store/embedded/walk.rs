//! Walks along the log: rows in, whole events out.

use fjall::{Iter, KvPair, UserKey};

use super::tables::Tables;
use crate::store::StoreError;
use crate::store::codec::batch::Table;
use crate::store::codec::fold::{Fold, FoldedEvent};
use crate::store::codec::key::{self, LogKey};
use crate::types::{Sequence, Slot, TenantId};

/// One event met on a walk.
#[derive(Debug)]
pub struct Met {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its number; when events were passed over, the last one that was.
    pub sequence: Sequence,
    /// The event; absent when events were passed over, or only rows without their event are left of it.
    pub event: Option<FoldedEvent>,
    /// The keys of its rows, on a walk that keeps them.
    pub keys: Vec<UserKey>,
}

impl Met {
    const fn passed(tenant: TenantId, last: Sequence) -> Self {
        Self { tenant, sequence: last, event: None, keys: Vec::new() }
    }
}

/// In which direction a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Oldest first.
    Forward,
    /// Newest first.
    Backward,
}

/// A walk over events.
pub struct Walk {
    tables: Tables,
    slot: Slot,
    /// Events outside of `from ≤ sequence < below` are passed over, with a seek per tenant.
    from: Sequence,
    below: Sequence,
    end: Vec<u8>,
    direction: Direction,
    keep_keys: bool,
    rows: Iter,
    ahead: Option<KvPair>,
    /// Seeks so far.
    pub seeks: usize,
    /// Rows so far.
    pub row_count: usize,
    /// Keys and values so far, in bytes.
    pub byte_count: usize,
}

impl Walk {
    /// All tenants of `slot`, each from `from` on, after the place `after`.
    #[must_use]
    pub fn over_slot(tables: &Tables, slot: Slot, from: Sequence, after: Option<&(TenantId, Sequence)>) -> Self {
        let start = match after {
            None => key::slot_start(slot),
            Some((tenant, sequence)) => match sequence.0.checked_add(1) {
                Some(next) => key::log_prefix(slot, tenant, Sequence(next)),
                None => key::log_after_tenant(slot, tenant),
            },
        };
        Self::new(tables, slot, from, (start, key::slot_end(slot)), Direction::Forward)
    }

    /// Events of `tenant` with `from ≤ sequence < to`.
    #[must_use]
    pub fn over_tenant(
        tables: &Tables,
        slot: Slot,
        tenant: &TenantId,
        (from, to): (Sequence, Sequence),
        direction: Direction,
    ) -> Self {
        let bounds = (key::log_prefix(slot, tenant, from), key::log_prefix(slot, tenant, to));
        Self::new(tables, slot, Sequence(0), bounds, direction)
    }

    fn new(
        tables: &Tables,
        slot: Slot,
        from: Sequence,
        (start, end): (Vec<u8>, Vec<u8>),
        direction: Direction,
    ) -> Self {
        let rows = range(tables, start, &end);
        let tables = tables.clone();
        Self {
            tables,
            slot,
            from,
            below: Sequence(u64::MAX),
            end,
            direction,
            keep_keys: false,
            rows,
            ahead: None,
            seeks: 1,
            row_count: 0,
            byte_count: 0,
        }
    }

    /// Passes over every tenant's events from `below` on.
    #[must_use]
    pub const fn below(mut self, below: Sequence) -> Self {
        self.below = below;
        self
    }

    /// Lets every event met come with the keys of its rows.
    #[must_use]
    pub const fn keeping_keys(mut self) -> Self {
        self.keep_keys = true;
        self
    }

    /// The next event, or events passed over with one seek; `None` at the end of the walk.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails or a row is damaged.
    pub fn next_event(&mut self) -> Result<Option<Met>, StoreError> {
        let Some((first, value)) = self.next_row()? else { return Ok(None) };
        let key = LogKey::decode(&first)?;
        let (tenant, sequence) = (tenant_of(&key)?, key.sequence);
        if sequence < self.from {
            self.seek(key::log_prefix(self.slot, &tenant, self.from));
            return Ok(Some(Met::passed(tenant, Sequence(self.from.0 - 1))));
        }
        if sequence >= self.below {
            self.seek(key::log_after_tenant(self.slot, &tenant));
            return Ok(Some(Met::passed(tenant, Sequence(u64::MAX))));
        }
        let mut fold = Fold::new(key.slot, tenant.clone(), sequence);
        fold.add(key.part, &value)?;
        let mut keys = Vec::new();
        self.keep(&mut keys, first);
        while let Some((bytes, value)) = self.next_row()? {
            let key = LogKey::decode(&bytes)?;
            if !fold.is_of(key.tenant, key.sequence) {
                self.ahead = Some((bytes, value));
                break;
            }
            fold.add(key.part, &value)?;
            self.keep(&mut keys, bytes);
        }
        Ok(Some(Met { tenant, sequence, event: fold.finish(), keys }))
    }

    fn keep(&self, keys: &mut Vec<UserKey>, key: UserKey) {
        if self.keep_keys {
            keys.push(key);
        }
    }

    fn next_row(&mut self) -> Result<Option<KvPair>, StoreError> {
        if let Some(row) = self.ahead.take() {
            return Ok(Some(row));
        }
        let next = match self.direction {
            Direction::Forward => self.rows.next(),
            Direction::Backward => self.rows.next_back(),
        };
        let Some(guard) = next else { return Ok(None) };
        let (key, value) = guard.into_inner()?;
        self.row_count += 1;
        self.byte_count += key.len() + value.len();
        Ok(Some((key, value)))
    }

    fn seek(&mut self, start: Vec<u8>) {
        self.seeks += 1;
        self.ahead = None;
        self.rows = range(&self.tables, start, &self.end);
    }
}

/// A range of the log; an empty one when `end` is not after `start`.
fn range(tables: &Tables, start: Vec<u8>, end: &[u8]) -> Iter {
    let end = end.to_vec().max(start.clone());
    tables.of(Table::Log).range(start..end)
}

fn tenant_of(key: &LogKey<'_>) -> Result<TenantId, StoreError> {
    let damaged = crate::store::codec::CodecError::Value { kind: "log key", field: "tenant" };
    Ok(TenantId::new(key.tenant).map_err(|_| damaged)?)
}
