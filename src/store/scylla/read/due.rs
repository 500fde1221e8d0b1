//! Due rows by time, minute by minute, each with its event and the one job that it is about.

use std::collections::BTreeMap;
use std::sync::Arc;

use scylla::response::PagingState;

use super::event::{FoundRow, LogRow};
use super::{ReadError, Room, event, number_of, sequence_of, tenant_id, together};
use crate::engine::ReadAnswer;
use crate::engine::rows::DueRow;
use crate::store::codec::CodecError;
use crate::store::scylla::query::Query;
use crate::store::scylla::session::Session;
use crate::store::scylla::statement::Value;
use crate::types::{JobKey, Sequence, Slot, TenantId, Time, limits};

/// Where reading begins: at this time and place.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: Time,
    sequence: u64,
    /// One beyond the last ordinal stands for the place after it.
    ordinal: i32,
}

impl Place {
    const fn of(at: Time) -> Self {
        Self { at, sequence: 0, ordinal: 0 }
    }

    fn after(from: Time, last: Option<(Time, JobKey)>) -> Self {
        match last {
            Some((at, key)) if at >= from => Self { at, sequence: key.sequence.0, ordinal: i32::from(key.ordinal) + 1 },
            Some(_) | None => Self::of(from),
        }
    }
}

/// Which event.
type Event = (TenantId, Sequence);

/// A row of `due`.
struct Row {
    at: Time,
    key: JobKey,
    tenant: TenantId,
}

impl Row {
    fn event(&self) -> Event {
        (self.tenant.clone(), self.key.sequence)
    }
}

/// Answers [`crate::engine::Read::Due`].
///
/// # Errors
/// [`ReadError`].
pub(super) async fn read(
    session: &Arc<Session>,
    slot: Slot,
    (from, after): (Time, Option<(Time, JobKey)>),
    to: Time,
) -> Result<ReadAnswer, ReadError> {
    let mut walk = Walk::new(session, slot, Place::after(from, after));
    let mut page = DuePage { session, rows: Vec::new(), events: BTreeMap::new(), bytes: 0 };
    loop {
        let mut group = Vec::new();
        let mut end = None;
        while end.is_none() && group.len() < limits::CQL_READS_AT_ONCE {
            match walk.next_row().await? {
                Some(row) if row.at < to => group.push(row),
                Some(row) => end = Some(Some(row.at)),
                None => end = Some(None),
            }
        }
        if page.add(group).await? == Room::Full {
            return Ok(ReadAnswer::Due { rows: page.rows, more: true, first_after: None });
        }
        if let Some(first_after) = end {
            return Ok(ReadAnswer::Due { rows: page.rows, more: false, first_after });
        }
    }
}

/// The time of the first row at or after `from`.
///
/// # Errors
/// [`ReadError`].
pub(super) async fn first(session: &Session, slot: Slot, from: Time) -> Result<Option<Time>, ReadError> {
    Ok(Walk::new(session, slot, Place::of(from)).next_row().await?.map(|row| row.at))
}

/// A walk along the due rows of a slot.
struct Walk<'a> {
    session: &'a Session,
    slot: Slot,
    from: Place,
    /// Minutes listed and not yet read, the next one last; and where their next page begins.
    minutes: Vec<i64>,
    listing: Option<PagingState>,
    /// Rows read and not yet given, the next one last; and where the minute's next page begins.
    rows: Vec<RawRow>,
    reading: Option<(i64, PagingState)>,
}

/// Time, sequence, ordinal, tenant.
type RawRow = (i64, i64, i32, String);

impl<'a> Walk<'a> {
    fn new(session: &'a Session, slot: Slot, from: Place) -> Self {
        let listing = Some(PagingState::start());
        Self { session, slot, from, minutes: Vec::new(), listing, rows: Vec::new(), reading: None }
    }

    async fn next_row(&mut self) -> Result<Option<Row>, ReadError> {
        loop {
            if let Some(row) = self.rows.pop() {
                return Ok(Some(self.row(row)?));
            }
            if let Some((minute, page)) = self.reading.take() {
                self.read_minute(minute, page).await?;
            } else if let Some(minute) = self.minutes.pop() {
                self.reading = Some((minute, PagingState::start()));
            } else if let Some(page) = self.listing.take() {
                self.list_minutes(page).await?;
            } else {
                return Ok(None);
            }
        }
    }

    async fn list_minutes(&mut self, page: PagingState) -> Result<(), ReadError> {
        let values = [Value::slot(self.slot), Value::long(self.from.at.as_minutes())];
        let (listed, more): (Vec<(i64,)>, _) = self.session.page(Query::DueMinutes, &values, page).await?;
        self.minutes = listed.into_iter().rev().map(|(minute,)| minute).collect();
        self.listing = more;
        Ok(())
    }

    async fn read_minute(&mut self, minute: i64, page: PagingState) -> Result<(), ReadError> {
        let values = [
            Value::slot(self.slot),
            Value::Long(minute),
            Value::long(self.from.at.0),
            Value::long(self.from.sequence),
            Value::Int(self.from.ordinal),
        ];
        let (mut rows, more): (Vec<RawRow>, _) = self.session.page(Query::Due, &values, page).await?;
        rows.reverse();
        self.rows = rows;
        self.reading = more.map(|state| (minute, state));
        Ok(())
    }

    fn row(&self, (at, sequence, ordinal, tenant): RawRow) -> Result<Row, CodecError> {
        let ordinal = u16::try_from(ordinal).map_err(|_| CodecError::Value { kind: "due row", field: "ordinal" })?;
        let key = JobKey { slot: self.slot, sequence: sequence_of(sequence)?, ordinal };
        Ok(Row { at: Time(number_of(at)?), key, tenant: tenant_id(&tenant)? })
    }
}

/// What has been read so far.
struct DuePage<'a> {
    session: &'a Arc<Session>,
    rows: Vec<DueRow>,
    /// The own rows of the events met so far: an event may have a thousand jobs due at one time.
    events: BTreeMap<Event, Option<FoundRow>>,
    bytes: usize,
}

impl DuePage<'_> {
    /// Adds rows until the page is full: the next page begins after the last row of this one.
    async fn add(&mut self, group: Vec<Row>) -> Result<Room, ReadError> {
        self.read_events(&group).await?;
        let keys = group.iter().map(|row| row.key);
        let reads = keys.map(|key| job_rows(Arc::clone(self.session), key));
        let jobs = together(reads).await?;
        for (row, rows) in group.into_iter().zip(jobs) {
            let found = self.events.get_mut(&row.event()).expect("every event of the group was just read");
            let event = match found {
                None => None,
                Some(found) => {
                    let (logged, size) = found.with_job(self.session, row.key, rows).await?;
                    self.bytes += size;
                    Some(logged)
                }
            };
            self.rows.push(DueRow { at: row.at, key: row.key, event });
            if self.rows.len() >= limits::DUE_PAGE_ROWS || self.bytes >= limits::LOG_PAGE_BYTES {
                return Ok(Room::Full);
            }
        }
        Ok(Room::Left)
    }

    /// Reads the events' own rows that the page has not met yet.
    async fn read_events(&mut self, group: &[Row]) -> Result<(), ReadError> {
        let mut unknown: Vec<(TenantId, Sequence)> = group.iter().map(Row::event).collect();
        unknown.retain(|event| !self.events.contains_key(event));
        unknown.sort_unstable();
        unknown.dedup();
        let slot = group.first().map_or(Slot(0), |row| row.key.slot);
        let reads = unknown.into_iter().map(|event| event_row(Arc::clone(self.session), slot, event));
        for (event, found) in together(reads).await? {
            self.bytes += found.as_ref().map_or(0, |found| found.size);
            self.events.insert(event, found);
        }
        Ok(())
    }
}

async fn job_rows(session: Arc<Session>, key: JobKey) -> Result<Vec<LogRow>, ReadError> {
    event::job_rows(&session, key).await
}

async fn event_row(session: Arc<Session>, slot: Slot, event: Event) -> Result<(Event, Option<FoundRow>), ReadError> {
    let found = FoundRow::read(&session, slot, &event).await?;
    Ok((event, found))
}
