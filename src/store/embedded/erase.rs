//! Erasure of a tenant: everything that names it, a bounded write at a time.

use super::handle::Embedded;
use super::tables::Tables;
use crate::store::StoreError;
use crate::store::codec::batch::{EncodedBatch, Table};
use crate::store::codec::key::{self, StateKind};
use crate::store::codec::{configuration, producer_dlq, quarantine};
use crate::types::{Sequence, Slot, TenantId};

/// Rows of one write.
const CHUNK_ROWS: usize = 4_096;

impl Embedded {
    /// Removes a tenant's configuration, events, jobs, attempts, dead letters, malformed records and producers' dead
    /// letters, durably. Its written ids are hashes; they and due rows, which then lead nowhere, go with retention.
    /// The mark of the erasure itself stays.
    ///
    /// The caller has ended the tenant's intake and its jobs before: what a shard still writes afterwards
    /// stays until retention removes it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails; calling again goes on where it stopped.
    pub async fn erase(&self, tenant: &TenantId) -> Result<(), StoreError> {
        let slot = Slot::of(tenant, self.record().slots);
        loop {
            let owned = tenant.clone();
            let batch = self.ask(move |tables| next_rows(tables, slot, &owned)).await?;
            if batch.is_empty() {
                return Ok(());
            }
            self.write(batch).await?;
        }
    }
}

/// Removals of up to about a chunk of the tenant's rows; none when nothing is left.
fn next_rows(tables: &Tables, slot: Slot, tenant: &TenantId) -> Result<EncodedBatch, StoreError> {
    let mut batch = EncodedBatch::default();
    for prefix in configuration::prefixes_of(tenant) {
        remove_prefix(tables, Table::Configuration, &prefix, &mut batch)?;
    }
    for kind in [StateKind::Overflow, StateKind::Destination] {
        remove_prefix(tables, Table::State, &key::state_of_tenant(kind, slot, tenant), &mut batch)?;
    }
    remove_dead_letters(tables, tenant, &mut batch)?;
    let is_quarantined = |value: &[u8]| Ok(quarantine::decode(value)?.tenant() == Some(tenant.as_str().as_bytes()));
    remove_where(tables, Table::Quarantine, is_quarantined, &mut batch)?;
    let is_letter = |value: &[u8]| Ok(producer_dlq::decode(value)?.tenant.as_deref() == Some(tenant.as_str()));
    remove_where(tables, Table::ProducerDlq, is_letter, &mut batch)?;
    let log = key::log_prefix(slot, tenant, Sequence(0))..key::log_after_tenant(slot, tenant);
    for guard in tables.of(Table::Log).range(log).take(CHUNK_ROWS) {
        batch.remove(Table::Log, &guard.key()?);
    }
    Ok(batch)
}

fn remove_prefix(tables: &Tables, table: Table, prefix: &[u8], batch: &mut EncodedBatch) -> Result<(), StoreError> {
    for guard in tables.of(table).prefix(prefix).take(CHUNK_ROWS) {
        batch.remove(table, &guard.key()?);
    }
    Ok(())
}

/// Looks at every row of a table that no tenant is in the key of.
fn remove_where(
    tables: &Tables,
    table: Table,
    is_wanted: impl Fn(&[u8]) -> Result<bool, StoreError>,
    batch: &mut EncodedBatch,
) -> Result<(), StoreError> {
    let mut removed = 0;
    for guard in tables.of(table).iter() {
        let (key, value) = guard.into_inner()?;
        if is_wanted(&value)? {
            batch.remove(table, &key);
            removed += 1;
        }
        if removed >= CHUNK_ROWS {
            break;
        }
    }
    Ok(())
}

fn remove_dead_letters(tables: &Tables, tenant: &TenantId, batch: &mut EncodedBatch) -> Result<(), StoreError> {
    for guard in tables.of(Table::DeadLetters).prefix(key::dead_letters_of(tenant)).take(CHUNK_ROWS) {
        let own = guard.key()?;
        let (at, place) = key::decode_time_and_place(&own)?;
        batch.remove(Table::DeadLetters, &own);
        batch.remove(Table::DeadLetters, &key::dead_letter_by_time(at, place));
        batch.remove(Table::DeadLetters, &key::dead_letter_by_id(place));
    }
    Ok(())
}
