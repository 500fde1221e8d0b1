//! Rows of the log to events, each with its payload from wherever that is kept.

use bytes::Bytes;

use super::{ReadError, sequence_of, tenant_id};
use crate::engine::rows::LoggedEvent;
use crate::store::codec::CodecError;
use crate::store::codec::event::{self, EventRow};
use crate::store::codec::fold::{Fold, FoldedEvent};
use crate::store::scylla::part::Part;
use crate::store::scylla::plan::log_chunk;
use crate::store::scylla::query::Query;
use crate::store::scylla::rows::day_of;
use crate::store::scylla::session::Session;
use crate::store::scylla::statement::Value;
use crate::types::{JobKey, JobRecord, Sequence, Slot, TenantId, Time, limits};

/// A row of the log as the driver gives it: sequence, ordinal, kind, number, tenant, value, payload.
pub(super) type RawRow = (i64, i32, i8, i32, Option<String>, Option<Vec<u8>>, Option<Vec<u8>>);

/// A row of the log.
#[derive(Debug)]
pub(super) struct LogRow {
    pub(super) sequence: Sequence,
    part: Part,
    tenant: Option<String>,
    value: Vec<u8>,
    payload: Option<Vec<u8>>,
}

/// An event found in the log.
#[derive(Debug)]
pub(super) struct Found {
    slot: Slot,
    event: FoldedEvent,
    /// The payload that stands in the event's own row.
    inline: Option<Vec<u8>>,
    /// Of its rows, in bytes.
    pub(super) size: usize,
}

/// An event's own row, and the payload where it was read.
#[derive(Debug)]
pub(super) struct FoundRow {
    slot: Slot,
    pub(super) row: EventRow,
    inline: Option<Vec<u8>>,
    pub(super) size: usize,
}

impl LogRow {
    /// Reads what the driver gave; `None` for a row whose value has expired.
    ///
    /// # Errors
    /// [`CodecError`] for a sequence that is none.
    pub(super) fn new(raw: RawRow) -> Result<Option<Self>, CodecError> {
        let (sequence, ordinal, kind, number, tenant, value, payload) = raw;
        let Some(value) = value else { return Ok(None) };
        let part = Part { ordinal, kind, number };
        Ok(Some(Self { sequence: sequence_of(sequence)?, part, tenant, value, payload }))
    }

    fn size(&self) -> usize {
        self.value.len() + self.payload.as_ref().map_or(0, Vec::len)
    }
}

impl Found {
    /// Folds all rows of one event; `None` when its own row is not among them. Rows come in order of part and
    /// epoch, so the highest epoch's own row counts.
    ///
    /// # Errors
    /// [`ReadError::Codec`] for a damaged row.
    pub(super) fn fold(slot: Slot, rows: &[LogRow]) -> Result<Option<Self>, ReadError> {
        let Some(own) = rows.iter().rfind(|row| row.part == Part::EVENT) else { return Ok(None) };
        let (sequence, inline) = (own.sequence, own.payload.clone());
        let mut fold = Fold::new(slot, tenant_id(own.tenant.as_deref().unwrap_or(""))?, sequence);
        for row in rows {
            fold.add(row.part.log_part()?, &row.value)?;
        }
        let size = rows.iter().map(LogRow::size).sum();
        Ok(fold.finish().map(|event| Self { slot, event, inline, size }))
    }

    /// Its number.
    pub(super) const fn sequence(&self) -> Sequence {
        self.event.logged.event.sequence
    }

    /// Whether it is this tenant's.
    pub(super) fn is_of(&self, tenant: &TenantId) -> bool {
        self.event.logged.event.tenant == *tenant
    }

    /// The event with its payload, and the bytes read for it.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(super) async fn with_payload(mut self, session: &Session) -> Result<(LoggedEvent, usize), ReadError> {
        let place = (self.slot, &self.event.logged.event.tenant.clone(), self.event.logged.event.sequence);
        let payload = payload(session, place, self.event.payload_size, self.inline.take()).await?;
        let size = payload.as_ref().map_or(0, Bytes::len);
        let logged = &mut self.event.logged;
        logged.payload_expired = payload.is_none();
        logged.event.payload = payload.unwrap_or_default();
        Ok((self.event.logged, self.size + size))
    }

    /// As [`Found::with_payload`], but without reading more for an event whose jobs have all ended: nobody will send
    /// its payload.
    ///
    /// # Errors
    /// As [`Found::with_payload`].
    pub(super) async fn with_payload_if_open(self, session: &Session) -> Result<(LoggedEvent, usize), ReadError> {
        let at_hand = self.inline.is_some() || self.event.payload_size == 0;
        let open = self.event.logged.jobs.iter().any(|job| job.end.is_none());
        if at_hand || open { self.with_payload(session).await } else { Ok((self.event.logged, self.size)) }
    }
}

impl FoundRow {
    /// Reads the event's own row, the highest epoch's.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(super) async fn read(
        session: &Session,
        slot: Slot,
        (tenant, sequence): &(TenantId, Sequence),
    ) -> Result<Option<Self>, ReadError> {
        let rows = rows(session, Query::EventRow, slot, *sequence, None).await?;
        let Some(own) = rows.into_iter().next_back() else { return Ok(None) };
        if own.tenant.as_deref() != Some(tenant.as_str()) {
            return Ok(None);
        }
        let size = own.size();
        let row = event::decode(tenant, *sequence, &own.value)?;
        Ok(Some(Self { slot, row, inline: own.payload, size }))
    }

    /// The event with this one job, whose rows these are, and the bytes read or copied for it. The payload is read
    /// once, for the first job that is open.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(super) async fn with_job(
        &mut self,
        session: &Session,
        key: JobKey,
        rows: Vec<LogRow>,
    ) -> Result<(LoggedEvent, usize), ReadError> {
        let event = &self.row.event;
        let mut fold = Fold::new(self.slot, event.tenant.clone(), event.sequence);
        let mut size = event.weight() - event.payload.len();
        for row in rows {
            size += row.size();
            fold.add(row.part.log_part()?, &row.value)?;
        }
        let job: Option<JobRecord> = fold.finish_job(&self.row, key.ordinal);
        if self.row.payload_expired && job.as_ref().is_some_and(|job| job.end.is_none()) {
            let place = (self.slot, &self.row.event.tenant.clone(), self.row.event.sequence);
            if let Some(payload) = payload(session, place, self.row.payload_size, self.inline.take()).await? {
                size += payload.len();
                self.row.event.payload = payload;
                self.row.payload_expired = false;
            }
        }
        let (event, payload_expired) = (self.row.event.clone(), self.row.payload_expired);
        Ok((LoggedEvent { event, jobs: job.into_iter().collect(), payload_expired }, size))
    }
}

/// The rows of one job beside its event's own.
///
/// # Errors
/// [`ReadError`].
pub(super) async fn job_rows(session: &Session, key: JobKey) -> Result<Vec<LogRow>, ReadError> {
    rows(session, Query::JobRows, key.slot, key.sequence, Some(key.ordinal)).await
}

/// One event.
///
/// # Errors
/// [`ReadError`].
pub(super) async fn read(session: &Session, slot: Slot, sequence: Sequence) -> Result<Option<Found>, ReadError> {
    Found::fold(slot, &rows(session, Query::Event, slot, sequence, None).await?)
}

async fn rows(
    session: &Session,
    query: Query,
    slot: Slot,
    sequence: Sequence,
    ordinal: Option<u16>,
) -> Result<Vec<LogRow>, ReadError> {
    let mut values = vec![Value::slot(slot), Value::long(log_chunk(sequence)), Value::long(sequence.0)];
    values.extend(ordinal.map(|ordinal| Value::Int(ordinal.into())));
    let raw: Vec<RawRow> = session.rows(query, &values).await?;
    let rows: Result<Vec<_>, CodecError> = raw.into_iter().filter_map(|row| LogRow::new(row).transpose()).collect();
    Ok(rows?)
}

/// The payload of `size` bytes: from the event's row, from rows of its own, or from a dead letter that keeps a copy.
/// `None` when it has expired everywhere.
async fn payload(
    session: &Session,
    (slot, tenant, sequence): (Slot, &TenantId, Sequence),
    size: u64,
    inline: Option<Vec<u8>>,
) -> Result<Option<Bytes>, ReadError> {
    if size == 0 {
        return Ok(Some(Bytes::new()));
    }
    let whole = |bytes: Vec<u8>| (bytes.len() as u64 == size).then(|| Bytes::from(bytes));
    if let Some(payload) = inline.and_then(whole) {
        return Ok(Some(payload));
    }
    if size > limits::CQL_INLINE_PAYLOAD_BYTES as u64 {
        let values = [Value::slot(slot), Value::long(sequence.0)];
        let pieces: Vec<(Vec<u8>,)> = session.rows(Query::Payload, &values).await?;
        if let Some(payload) = whole(pieces.into_iter().flat_map(|(piece,)| piece).collect()) {
            return Ok(Some(payload));
        }
    }
    payload_copy(session, (slot, tenant, sequence), size).await
}

/// The payload as some dead letter of the event keeps it. A copy of another size was made when the payload had expired
/// already, and is none.
async fn payload_copy(
    session: &Session,
    (slot, tenant, sequence): (Slot, &TenantId, Sequence),
    size: u64,
) -> Result<Option<Bytes>, ReadError> {
    let of_event = [Value::slot(slot), Value::long(sequence.0)];
    let places: Vec<(i32, i64, String)> = session.rows(Query::DeadLettersOfEvent, &of_event).await?;
    for (ordinal, at, owner) in places.into_iter().filter(|(_, _, owner)| *owner == tenant.as_str()) {
        let day = day_of(Time(super::number_of(at)?));
        let values = [
            Value::Text(owner.into()),
            Value::long(day),
            Value::Long(at),
            Value::slot(slot),
            Value::long(sequence.0),
            Value::Int(ordinal),
        ];
        let letters: Vec<(Vec<u8>, Option<Vec<u8>>)> = session.rows(Query::DeadLetter, &values).await?;
        let payload = letters.into_iter().next().and_then(|(_, payload)| payload);
        if let Some(payload) = payload.filter(|payload| payload.len() as u64 == size) {
            return Ok(Some(payload.into()));
        }
    }
    Ok(None)
}
