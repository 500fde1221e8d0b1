//! Rows of the log to events, each with its payload from wherever that is kept.

use bytes::Bytes;
use scylla::response::PagingState;

use super::{ReadError, number_of, sequence_of, tenant_id};
use crate::engine::rows::LoggedEvent;
use crate::store::codec::CodecError;
use crate::store::codec::event::{self, EventRow};
use crate::store::codec::fold::{Fold, FoldedEvent};
use crate::store::scylla::api_query::ApiQuery;
use crate::store::scylla::part::Part;
use crate::store::scylla::plan::log_chunk;
use crate::store::scylla::query::Query;
use crate::store::scylla::rows::day_of;
use crate::store::scylla::session::Session;
use crate::store::scylla::statement::Value;
use crate::types::{JobKey, JobRecord, Sequence, Slot, TenantId, Time, limits};

/// A row of the log as the driver gives it: sequence, ordinal, kind, number, tenant, value, payload.
pub(in crate::store::scylla) type RawRow = (i64, i32, i8, i32, Option<String>, Option<Vec<u8>>, Option<Vec<u8>>);

/// The same without the payload.
pub(in crate::store::scylla) type RawPart = (i64, i32, i8, i32, Option<String>, Option<Vec<u8>>);

/// A row of the log.
#[derive(Debug)]
pub(in crate::store::scylla) struct LogRow {
    pub(in crate::store::scylla) sequence: Sequence,
    pub(in crate::store::scylla) part: Part,
    tenant: Option<String>,
    pub(in crate::store::scylla) value: Vec<u8>,
    payload: Option<Vec<u8>>,
}

/// An event found in the log.
#[derive(Debug)]
pub(in crate::store::scylla) struct Found {
    slot: Slot,
    event: FoldedEvent,
    /// The payload that stands in the event's own row.
    inline: Option<Vec<u8>>,
    /// Of its rows, in bytes.
    pub(in crate::store::scylla) size: usize,
}

/// An event's own row, and the payload where it was read.
#[derive(Debug)]
pub(in crate::store::scylla) struct FoundRow {
    slot: Slot,
    pub(in crate::store::scylla) row: EventRow,
    inline: Option<Vec<u8>>,
    pub(in crate::store::scylla) size: usize,
}

impl LogRow {
    /// Reads what the driver gave; `None` for a row whose value has expired.
    ///
    /// # Errors
    /// [`CodecError`] for a sequence that is none.
    pub(in crate::store::scylla) fn new(raw: RawRow) -> Result<Option<Self>, CodecError> {
        let (sequence, ordinal, kind, number, tenant, value, payload) = raw;
        let Some(value) = value else { return Ok(None) };
        let part = Part { ordinal, kind, number };
        Ok(Some(Self { sequence: sequence_of(sequence)?, part, tenant, value, payload }))
    }

    /// As [`LogRow::new`], of a row whose payload was not asked for.
    ///
    /// # Errors
    /// As [`LogRow::new`].
    pub(in crate::store::scylla) fn of_part(raw: RawPart) -> Result<Option<Self>, CodecError> {
        let (sequence, ordinal, kind, number, tenant, value) = raw;
        Self::new((sequence, ordinal, kind, number, tenant, value, None))
    }

    /// Whose it is; empty when the row does not say.
    pub(in crate::store::scylla) fn tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or("")
    }

    /// Whether it is this tenant's.
    pub(in crate::store::scylla) fn is_of(&self, tenant: &TenantId) -> bool {
        self.tenant() == tenant.as_str()
    }

    /// What was read for it, in bytes.
    pub(in crate::store::scylla) fn size(&self) -> usize {
        self.value.len() + self.payload.as_ref().map_or(0, Vec::len)
    }
}

impl Found {
    /// Folds all rows of one event; `None` when its own row is not among them. Rows come in order of part and
    /// epoch, so the highest epoch's own row counts.
    ///
    /// # Errors
    /// [`ReadError::Codec`] for a damaged row.
    pub(in crate::store::scylla) fn fold(slot: Slot, rows: &[LogRow]) -> Result<Option<Self>, ReadError> {
        let Some(own) = rows.iter().rfind(|row| row.part == Part::EVENT) else { return Ok(None) };
        let (sequence, inline) = (own.sequence, own.payload.clone());
        let mut fold = Fold::new(slot, tenant_id(own.tenant())?, sequence);
        for row in rows {
            fold.add(row.part.log_part()?, &row.value)?;
        }
        let size = rows.iter().map(LogRow::size).sum();
        Ok(fold.finish().map(|event| Self { slot, event, inline, size }))
    }

    /// Its number.
    pub(in crate::store::scylla) const fn sequence(&self) -> Sequence {
        self.event.logged.event.sequence
    }

    /// Whether it is this tenant's.
    pub(in crate::store::scylla) fn is_of(&self, tenant: &TenantId) -> bool {
        self.event.logged.event.tenant == *tenant
    }

    /// The event with its payload, and the bytes read for it.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(in crate::store::scylla) async fn with_payload(
        mut self,
        session: &Session,
    ) -> Result<(LoggedEvent, usize), ReadError> {
        let place = (self.slot, &self.event.logged.event.tenant.clone(), self.event.logged.event.sequence);
        let payload = payload(session, place, self.event.payload_size, self.inline.take()).await?;
        let size = payload.as_ref().map_or(0, Bytes::len);
        let logged = &mut self.event.logged;
        logged.payload_expired = payload.is_none();
        logged.event.payload = payload.unwrap_or_default();
        Ok((self.event.logged, self.size + size))
    }

    /// The event as lists show it, and the bytes read for it: a payload that has expired is absent even where a dead
    /// letter keeps a copy.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(in crate::store::scylla) async fn shown(
        mut self,
        session: &Session,
    ) -> Result<(FoldedEvent, usize), ReadError> {
        let place = (self.slot, self.event.logged.event.sequence);
        let payload = own_payload(session, place, self.event.payload_size, self.inline.take()).await?;
        let size = payload.as_ref().map_or(0, Bytes::len);
        let logged = &mut self.event.logged;
        logged.payload_expired = payload.is_none();
        logged.event.payload = payload.unwrap_or_default();
        Ok((self.event, self.size + size))
    }

    /// As [`Found::with_payload`], but without reading more for an event whose jobs have all ended: nobody will send
    /// its payload.
    ///
    /// # Errors
    /// As [`Found::with_payload`].
    pub(in crate::store::scylla) async fn with_payload_if_open(
        self,
        session: &Session,
    ) -> Result<(LoggedEvent, usize), ReadError> {
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
    pub(in crate::store::scylla) async fn read(
        session: &Session,
        slot: Slot,
        (tenant, sequence): &(TenantId, Sequence),
    ) -> Result<Option<Self>, ReadError> {
        let rows = rows(session, Query::EventRow, slot, *sequence, None).await?;
        let Some(own) = rows.into_iter().next_back() else { return Ok(None) };
        if !own.is_of(tenant) {
            return Ok(None);
        }
        let size = own.size();
        let row = event::decode(tenant, *sequence, &own.value)?;
        Ok(Some(Self { slot, row, inline: own.payload, size }))
    }

    /// How this one job stands, whose rows these are; `None` when the event has no such job.
    ///
    /// # Errors
    /// [`ReadError::Codec`] for a damaged row.
    pub(in crate::store::scylla) fn job(&self, key: JobKey, rows: &[LogRow]) -> Result<Option<JobRecord>, ReadError> {
        let mut fold = Fold::new(self.slot, self.row.event.tenant.clone(), key.sequence);
        for row in rows {
            fold.add(row.part.log_part()?, &row.value)?;
        }
        Ok(fold.finish_job(&self.row, key.ordinal))
    }

    /// The event with this one job, whose rows these are, and the bytes read or copied for it. The payload is read
    /// once, for the first job that is open.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(in crate::store::scylla) async fn with_job(
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
pub(in crate::store::scylla) async fn job_rows(session: &Session, key: JobKey) -> Result<Vec<LogRow>, ReadError> {
    rows(session, Query::JobRows, key.slot, key.sequence, Some(key.ordinal)).await
}

/// One event.
///
/// # Errors
/// [`ReadError`].
pub(in crate::store::scylla) async fn read(
    session: &Session,
    slot: Slot,
    sequence: Sequence,
) -> Result<Option<Found>, ReadError> {
    Found::fold(slot, &rows(session, Query::Event, slot, sequence, None).await?)
}

/// One event by its own row alone: its jobs are as they were made.
///
/// # Errors
/// [`ReadError`].
pub(in crate::store::scylla) async fn read_own(
    session: &Session,
    slot: Slot,
    sequence: Sequence,
) -> Result<Option<Found>, ReadError> {
    Found::fold(slot, &rows(session, Query::EventRow, slot, sequence, None).await?)
}

/// One event without its payload, and the bytes read for it. Its rows are folded as they come: a thousand jobs may
/// each have kept many responses.
///
/// # Errors
/// [`ReadError`].
pub(in crate::store::scylla) async fn read_parts(
    session: &Session,
    slot: Slot,
    sequence: Sequence,
) -> Result<Option<(FoldedEvent, usize)>, ReadError> {
    let values = [Value::slot(slot), Value::long(log_chunk(sequence)), Value::long(sequence.0)];
    let (mut fold, mut size, mut page) = (None, 0, PagingState::start());
    loop {
        let (raw, more): (Vec<RawPart>, _) = session.page(ApiQuery::EventParts, &values, page).await?;
        for row in raw {
            let Some(row) = LogRow::of_part(row)? else { continue };
            size += row.size();
            if fold.is_none() && row.part != Part::EVENT {
                // The event's own row, which comes first, has expired.
                return Ok(None);
            }
            let fold = match &mut fold {
                Some(fold) => fold,
                none => none.insert(Fold::new(slot, tenant_id(row.tenant())?, sequence)),
            };
            fold.add(row.part.log_part()?, &row.value)?;
        }
        match more {
            Some(state) => page = state,
            None => return Ok(fold.and_then(Fold::finish).map(|event| (event, size))),
        }
    }
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
    if let Some(payload) = own_payload(session, (slot, sequence), size, inline).await? {
        return Ok(Some(payload));
    }
    payload_copy(session, (slot, tenant, sequence), size).await
}

/// The same without a look at dead letters.
async fn own_payload(
    session: &Session,
    (slot, sequence): (Slot, Sequence),
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
    Ok(None)
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
        let day = day_of(Time(number_of(at)?));
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
