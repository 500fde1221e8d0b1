//! A page of due rows, each with its event and the one job that it is about.
//!
//! An event may have a thousand jobs, due at one time, each with a trail of attempts. So of a due row only its own
//! job's rows are read, the event's row is read once per page, and the page ends by the bytes read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::copies;
use super::read::tenant_of;
use super::tables::Tables;
use crate::engine::ReadAnswer;
use crate::engine::rows::{DueRow, LoggedEvent};
use crate::store::StoreError;
use crate::store::codec::batch::Table;
use crate::store::codec::event::{self, EventRow};
use crate::store::codec::fold::Fold;
use crate::store::codec::key::{self, LogKey, LogPart};
use crate::types::{JobKey, Sequence, Slot, TenantId, Time, limits};

/// Answers [`crate::engine::Read::Due`].
///
/// # Errors
/// [`StoreError`] when the database fails or a row is damaged.
pub fn read(
    tables: &Tables,
    slot: Slot,
    from: Time,
    after: Option<(Time, JobKey)>,
    to: Time,
) -> Result<ReadAnswer, StoreError> {
    let start = start_of(slot, from, after);
    let end = key::slot_end(slot).max(start.clone());
    let mut page = DuePage::new(tables);
    for guard in tables.of(Table::Due).range(start..end) {
        let (bytes, tenant) = guard.into_inner()?;
        let (at, key) = key::decode_due(&bytes)?;
        if at >= to {
            return Ok(ReadAnswer::Due { rows: page.rows, more: false, first_after: Some(at) });
        }
        page.add(at, key, &tenant_of(&tenant)?)?;
        if page.is_full() {
            return Ok(ReadAnswer::Due { rows: page.rows, more: true, first_after: None });
        }
    }
    Ok(ReadAnswer::Due { rows: page.rows, more: false, first_after: None })
}

fn start_of(slot: Slot, from: Time, after: Option<(Time, JobKey)>) -> Vec<u8> {
    let start = key::due_from(slot, from);
    let Some((at, key)) = after else { return start };
    let mut behind = key::due(at, key);
    behind.push(0);
    start.max(behind)
}

/// What has been read so far.
struct DuePage<'a> {
    tables: &'a Tables,
    rows: Vec<DueRow>,
    /// The rows of the events met so far; the page's own bounds are theirs.
    events: BTreeMap<(TenantId, Sequence), Option<EventRow>>,
    bytes: usize,
}

impl<'a> DuePage<'a> {
    const fn new(tables: &'a Tables) -> Self {
        Self { tables, rows: Vec::new(), events: BTreeMap::new(), bytes: 0 }
    }

    const fn is_full(&self) -> bool {
        self.rows.len() >= limits::DUE_PAGE_ROWS || self.bytes >= limits::LOG_PAGE_BYTES
    }

    fn add(&mut self, at: Time, key: JobKey, tenant: &TenantId) -> Result<(), StoreError> {
        let row = match self.events.entry((tenant.clone(), key.sequence)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let (row, size) = event_row(self.tables, tenant, key)?;
                self.bytes += size;
                unknown.insert(row)
            }
        };
        let event = match row {
            None => None,
            Some(row) => {
                let (logged, size) = with_job(self.tables, row, tenant, key)?;
                self.bytes += size;
                Some(logged)
            }
        };
        self.rows.push(DueRow { at, key, event });
        Ok(())
    }
}

/// The event's own row and its size in the log.
fn event_row(tables: &Tables, tenant: &TenantId, job: JobKey) -> Result<(Option<EventRow>, usize), StoreError> {
    let mut key = Vec::new();
    key::put_log(&mut key, job.slot, tenant, job.sequence, LogPart::Event);
    let Some(value) = tables.of(Table::Log).get(&key)? else { return Ok((None, key.len())) };
    Ok((Some(event::decode(tenant, job.sequence, &value)?), key.len() + value.len()))
}

/// The event with this one job, and the bytes that were read or copied for it.
fn with_job(
    tables: &Tables,
    row: &mut EventRow,
    tenant: &TenantId,
    key: JobKey,
) -> Result<(LoggedEvent, usize), StoreError> {
    let mut fold = Fold::new(key.slot, tenant.clone(), key.sequence);
    let mut size = row.event.weight() - row.event.payload.len();
    for guard in tables.of(Table::Log).prefix(key::log_job_prefix(tenant, key)) {
        let (bytes, value) = guard.into_inner()?;
        size += bytes.len() + value.len();
        fold.add(LogKey::decode(&bytes)?.part, &value)?;
    }
    let job = fold.finish_job(row, key.ordinal);
    let open = job.as_ref().is_some_and(|job| job.end.is_none());
    if open
        && row.payload_expired
        && let Some(payload) = copies::payload_copy(tables, key.slot, tenant, key.sequence, row.payload_size)?
    {
        size += payload.len();
        row.event.payload = payload;
        row.payload_expired = false;
    }
    let logged =
        LoggedEvent { event: row.event.clone(), jobs: job.into_iter().collect(), payload_expired: row.payload_expired };
    Ok((logged, size))
}
