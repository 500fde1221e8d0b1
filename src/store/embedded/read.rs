//! Answers to the engine's reads.

use super::tables::Tables;
use super::walk::{Direction, Walk};
use super::{copies, due};
use crate::engine::rows::{LoggedEvent, Wanted};
use crate::engine::{Read, ReadAnswer};
use crate::store::StoreError;
use crate::store::codec::batch::Table;
use crate::store::codec::fold::FoldedEvent;
use crate::store::codec::key::{self, StateKind};
use crate::store::codec::{destination, ids, overflow, slot};
use crate::types::{DestinationId, JobRecord, Sequence, Slot, SubscriptionId, TenantId, Time, limits};

/// Answers `read`; whatever fails, the engine asks again.
pub fn answer(tables: &Tables, read: &Read) -> ReadAnswer {
    try_answer(tables, read).unwrap_or_else(|error| {
        tracing::error!(%error, ?read, "a read of the store failed");
        ReadAnswer::Failed
    })
}

fn try_answer(tables: &Tables, read: &Read) -> Result<ReadAnswer, StoreError> {
    match read {
        Read::Slot(slot) => read_slot(tables, *slot),
        Read::Log { slot, from, after } => read_log(tables, *slot, *from, after.as_ref()),
        Read::Queue { slot, tenant, from, to, wanted, bytes_max } => {
            read_queue(tables, *slot, tenant, (*from, *to), wanted, *bytes_max)
        }
        Read::Due { slot, from, after, to } => due::read(tables, *slot, *from, *after, *to),
        Read::Ids { slot, minute, from } => read_ids(tables, *slot, *minute, *from),
        Read::Event { slot, tenant, sequence } => Ok(ReadAnswer::Event(read_event(tables, *slot, tenant, *sequence)?)),
    }
}

fn read_slot(tables: &Tables, slot: Slot) -> Result<ReadAnswer, StoreError> {
    let state = tables.of(Table::State);
    let record = slot_record(tables, slot)?;
    let mut overflows = Vec::new();
    for guard in state.prefix(key::state(StateKind::Overflow, slot)) {
        let (key, value) = guard.into_inner()?;
        let (tenant, id) = key::decode_member(&key)?;
        overflows.push((tenant, SubscriptionId(id), overflow::decode(&value)?));
    }
    let mut destinations = Vec::new();
    for guard in state.prefix(key::state(StateKind::Destination, slot)) {
        let (key, value) = guard.into_inner()?;
        let (tenant, id) = key::decode_member(&key)?;
        destinations.push((tenant, DestinationId(id), destination::decode(&value)?));
    }
    let first_due = first_due(tables, slot, record.unwrap_or_default().due_bound)?;
    Ok(ReadAnswer::Slot { record, overflow: overflows, destinations, first_due, claimed: Vec::new() })
}

/// The slot's own record.
///
/// # Errors
/// [`StoreError`] when the database fails or the record is damaged.
pub fn slot_record(tables: &Tables, slot: Slot) -> Result<Option<crate::engine::rows::SlotRecord>, StoreError> {
    let value = tables.of(Table::State).get(key::state(StateKind::Slot, slot))?;
    Ok(value.map(|bytes| slot::decode(&bytes)).transpose()?)
}

fn first_due(tables: &Tables, slot: Slot, from: Time) -> Result<Option<Time>, StoreError> {
    let mut rows = tables.of(Table::Due).range(key::due_from(slot, from)..key::slot_end(slot));
    let Some(first) = rows.next() else { return Ok(None) };
    Ok(Some(key::decode_due(&first.key()?)?.0))
}

fn read_log(
    tables: &Tables,
    slot: Slot,
    from: Sequence,
    after: Option<&(TenantId, Sequence)>,
) -> Result<ReadAnswer, StoreError> {
    let mut walk = Walk::over_slot(tables, slot, from, after);
    let mut events = Vec::new();
    let mut next = None;
    while let Some(met) = walk.next_event()? {
        if let Some(event) = met.event {
            let (logged, size) = copies::with_payload_if_open(tables, slot, event)?;
            events.push(logged);
            walk.byte_count += size;
        }
        let full = events.len() >= limits::LOG_PAGE_EVENTS
            || walk.byte_count >= limits::LOG_PAGE_BYTES
            || walk.seeks >= limits::LOG_PAGE_SEEKS;
        if full {
            next = Some((met.tenant, met.sequence));
            break;
        }
    }
    Ok(ReadAnswer::Log { events, next })
}

fn read_queue(
    tables: &Tables,
    slot: Slot,
    tenant: &TenantId,
    (from, to): (Sequence, Sequence),
    wanted: &Wanted,
    bytes_max: usize,
) -> Result<ReadAnswer, StoreError> {
    let end = Sequence(to.0.saturating_add(1));
    let mut walk = Walk::over_tenant(tables, slot, tenant, (from, end), Direction::Forward);
    let mut events: Vec<LoggedEvent> = Vec::new();
    let (mut taken_bytes, mut looked_at) = (0, 0);
    while let Some(met) = walk.next_event()? {
        let is_met = |job: &JobRecord| wanted.is_met(met.sequence, job.subscription);
        if let Some(event) = met.event.filter(|event| event.logged.jobs.iter().any(is_met)) {
            let (logged, size) = copies::with_payload_if_open(tables, slot, event)?;
            taken_bytes += logged.event.weight();
            events.push(logged);
            walk.byte_count += size;
        }
        looked_at += 1;
        let full = events.len() >= limits::LOG_PAGE_EVENTS
            || taken_bytes >= bytes_max
            || walk.byte_count >= limits::SCAN_MAX_BYTES
            || looked_at >= limits::SCAN_MAX_EVENTS;
        if full {
            return Ok(ReadAnswer::Queue { events, scanned_to: met.sequence });
        }
    }
    Ok(ReadAnswer::Queue { events, scanned_to: to })
}

fn read_ids(tables: &Tables, slot: Slot, minute: u64, from: Sequence) -> Result<ReadAnswer, StoreError> {
    let end = key::ids(slot, minute, Sequence(u64::MAX));
    let mut entries = Vec::new();
    for guard in tables.of(Table::Ids).range(key::ids(slot, minute, from)..=end) {
        let (bytes, value) = guard.into_inner()?;
        let (_, _, first) = key::decode_ids(&bytes)?;
        ids::decode(first, &value, &mut entries)?;
        if entries.len() >= limits::IDS_PAGE {
            return Ok(ReadAnswer::Ids { entries, next: Some(first.next()) });
        }
    }
    Ok(ReadAnswer::Ids { entries, next: None })
}

/// Shows every pack of ids of one bucket, in order of their first sequence.
///
/// # Errors
/// [`StoreError`] when the database fails or a pack is damaged.
pub fn for_each_pack(
    tables: &Tables,
    slot: Slot,
    minute: u64,
    mut show: impl FnMut(&[(u128, Sequence)]),
) -> Result<(), StoreError> {
    let start = key::ids(slot, minute, Sequence(0));
    let mut entries = Vec::new();
    for guard in tables.of(Table::Ids).prefix(&start[..10]) {
        let (bytes, value) = guard.into_inner()?;
        let (_, _, first) = key::decode_ids(&bytes)?;
        entries.clear();
        ids::decode(first, &value, &mut entries)?;
        show(&entries);
    }
    Ok(())
}

fn read_event(
    tables: &Tables,
    slot: Slot,
    tenant: &TenantId,
    sequence: Sequence,
) -> Result<Option<LoggedEvent>, StoreError> {
    let Some(event) = folded_event(tables, slot, tenant, sequence)? else { return Ok(None) };
    Ok(Some(copies::with_payload(tables, slot, event)?.0))
}

/// One event as it stands; a payload that has expired is absent even where a copy of it is left.
///
/// # Errors
/// [`StoreError`] when the database fails or a row is damaged.
pub fn folded_event(
    tables: &Tables,
    slot: Slot,
    tenant: &TenantId,
    sequence: Sequence,
) -> Result<Option<FoldedEvent>, StoreError> {
    let bounds = (sequence, Sequence(sequence.0.saturating_add(1)));
    let met = Walk::over_tenant(tables, slot, tenant, bounds, Direction::Forward).next_event()?;
    Ok(met.and_then(|met| met.event))
}

/// The tenant that a value names.
///
/// # Errors
/// [`StoreError::Codec`] when it is none.
pub fn tenant_of(bytes: &[u8]) -> Result<TenantId, StoreError> {
    let damaged = crate::store::codec::CodecError::Value { kind: "row", field: "tenant" };
    let text = std::str::from_utf8(bytes).map_err(|_| damaged)?;
    Ok(TenantId::new(text).map_err(|_| damaged)?)
}
