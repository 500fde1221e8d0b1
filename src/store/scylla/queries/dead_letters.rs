//! Dead letters: a tenant's day by day or everybody's hour by hour, latest first, and one by its place.
//!
//! A copy is written before the row that ends its job. Where a crash came between, the job may end otherwise, or so but
//! later: so a copy counts only when the log says that its job was dead-lettered, or has nothing of the event any more.

use std::sync::Arc;

use scylla::response::PagingState;

use super::Queries;
use crate::store::codec::CodecError;
use crate::store::codec::dead_letter::{DeadLetter, decode};
use crate::store::queries::dead_letters::cursor_at;
use crate::store::queries::{DeadLettersQuery, page_size};
use crate::store::scylla::api_query::ApiQuery;
use crate::store::scylla::query::Query;
use crate::store::scylla::read::event::{self, FoundRow};
use crate::store::scylla::read::{ReadError, number_of, ordinal_of, sequence_of, tenant_id, together};
use crate::store::scylla::rows::{DAY, HOUR, day_of};
use crate::store::scylla::session::Session;
use crate::store::scylla::statement::Value;
use crate::store::{Page, StoreError};
use crate::types::{Duration, End, JobKey, Sequence, Slot, TenantId, Time, limits};

/// Before all dead letters of its time.
const FIRST_PLACE: JobKey = JobKey { slot: Slot(0), sequence: Sequence(0), ordinal: 0 };

/// Times and places that a list may look at: from the first on and before the second.
type Reach = ((Time, JobKey), (Time, JobKey));

/// A row that a list meets.
#[derive(Clone)]
struct Met {
    at: Time,
    key: JobKey,
    tenant: TenantId,
    /// The copy, where it stands in the row itself.
    value: Option<Vec<u8>>,
}

/// A page as it fills.
struct Filling {
    query: Arc<DeadLettersQuery>,
    items: Vec<DeadLetter>,
    looked_at: usize,
}

impl Queries {
    /// See [`crate::store::Queries::dead_letters`].
    ///
    /// # Errors
    /// As there.
    pub async fn dead_letters(&self, query: DeadLettersQuery) -> Result<Page<DeadLetter>, StoreError> {
        let (now, kept) = (self.store.now(), self.store.retention().dead_letters);
        let oldest = Time(now.0.saturating_sub(kept.0)).max(query.from.unwrap_or(Time::ZERO));
        let newest = self.soon().min(query.to.unwrap_or(Time::MAX));
        let mut high = (newest, FIRST_PLACE);
        if let Some(place) = query.place()? {
            high = high.min(place);
        }
        let reach = ((oldest, FIRST_PLACE), high);
        self.store.query(move |session| async move { Ok(list(&session, Arc::new(query), reach).await?) }).await
    }

    /// See [`crate::store::Queries::dead_letter`].
    ///
    /// # Errors
    /// As there.
    pub async fn dead_letter(
        &self,
        tenant: TenantId,
        (sequence, ordinal): (Sequence, u16),
    ) -> Result<Option<DeadLetter>, StoreError> {
        let key = JobKey { slot: self.slot_of(&tenant), sequence, ordinal };
        self.store.query(move |session| async move { Ok(find(&session, &tenant, key).await?) }).await
    }
}

async fn list(
    session: &Arc<Session>,
    query: Arc<DeadLettersQuery>,
    (low, high): Reach,
) -> Result<Page<DeadLetter>, ReadError> {
    let span = if query.tenant.is_some() { DAY } else { HOUR };
    let mut page = Filling { query, items: Vec::new(), looked_at: 0 };
    // What begins a partition lies after all of it.
    let last = if high.1 == FIRST_PLACE { Time(high.0.0.saturating_sub(1)) } else { high.0 };
    let numbers = low.0.0 / span.0..=last.0 / span.0;
    for (number, looked_into) in numbers.rev().zip(0..) {
        if looked_into >= limits::CQL_PARTITIONS_PER_PAGE {
            let border = Duration(span.0.saturating_mul(number + 1));
            return Ok(page.paused((Time(border.0), FIRST_PLACE)));
        }
        if let Some(place) = page.read_partition(session, number, (low, high)).await? {
            return Ok(page.paused(place));
        }
    }
    Ok(Page { items: page.items, next: None })
}

impl Filling {
    /// Looks through one day or hour; where the page ended, if it is full.
    async fn read_partition(
        &mut self,
        session: &Arc<Session>,
        number: u64,
        (low, high): Reach,
    ) -> Result<Option<(Time, JobKey)>, ReadError> {
        let (query, mut values) = match &self.query.tenant {
            Some(tenant) => (ApiQuery::DeadLetters, vec![Value::tenant(tenant), Value::long(number)]),
            None => (ApiQuery::DeadLettersByHour, vec![Value::long(number)]),
        };
        values.extend(place_values(low).into_iter().chain(place_values(high)));
        let mut page = Some(PagingState::start());
        while let Some(state) = page {
            let (rows, more) = self.read_page(session, query, &values, state).await?;
            for group in rows.chunks(limits::CQL_READS_AT_ONCE) {
                let reads = group.iter().map(|met| letter(Arc::clone(session), Arc::clone(&self.query), met.clone()));
                for (met, found) in group.iter().zip(together(reads).await?) {
                    self.items.extend(found);
                    self.looked_at += 1;
                    let full = self.items.len() >= page_size(self.query.limit);
                    if full || self.looked_at >= limits::SCAN_MAX_EVENTS {
                        return Ok(Some((met.at, met.key)));
                    }
                }
            }
            page = more;
        }
        Ok(None)
    }

    async fn read_page(
        &self,
        session: &Session,
        query: ApiQuery,
        values: &[Value],
        from: PagingState,
    ) -> Result<(Vec<Met>, Option<PagingState>), ReadError> {
        type Own = (i64, i32, i64, i32, Vec<u8>);
        type Anybody = (i64, i32, i64, i32, String);
        match &self.query.tenant {
            Some(tenant) => {
                let (rows, more): (Vec<Own>, _) = session.page(query, values, from).await?;
                let met = |(at, slot, sequence, ordinal, value)| {
                    Met::new((at, slot, sequence, ordinal), tenant.clone(), Some(value))
                };
                Ok((rows.into_iter().map(met).collect::<Result<_, _>>()?, more))
            }
            None => {
                let (rows, more): (Vec<Anybody>, _) = session.page(query, values, from).await?;
                let met = |(at, slot, sequence, ordinal, tenant): Anybody| {
                    Met::new((at, slot, sequence, ordinal), tenant_id(&tenant)?, None)
                };
                Ok((rows.into_iter().map(met).collect::<Result<_, _>>()?, more))
            }
        }
    }

    /// The page as it is, with another that begins before this place.
    fn paused(self, (at, place): (Time, JobKey)) -> Page<DeadLetter> {
        Page { items: self.items, next: Some(cursor_at(at, place)) }
    }
}

impl Met {
    fn new(
        (at, slot, sequence, ordinal): (i64, i32, i64, i32),
        tenant: TenantId,
        value: Option<Vec<u8>>,
    ) -> Result<Self, CodecError> {
        let slot = u16::try_from(slot).map_err(|_| CodecError::Value { kind: "dead letter", field: "slot" })?;
        let key = JobKey { slot: Slot(slot), sequence: sequence_of(sequence)?, ordinal: ordinal_of(ordinal)? };
        Ok(Self { at: Time(number_of(at)?), key, tenant, value })
    }
}

/// The dead letter that a row stands for, if the list shows it.
async fn letter(
    session: Arc<Session>,
    query: Arc<DeadLettersQuery>,
    met: Met,
) -> Result<Option<DeadLetter>, ReadError> {
    let value = match met.value {
        Some(value) => Some(value),
        None => {
            let values = letter_key(&met.tenant, met.at, met.key);
            let rows: Vec<(Vec<u8>,)> = session.rows(ApiQuery::DeadLetterHead, &values).await?;
            rows.into_iter().next().map(|(value,)| value)
        }
    };
    let Some(value) = value else { return Ok(None) };
    let letter = decode(&met.tenant, met.key, &value)?;
    let counts = query.wants(&letter) && stands(&session, &letter).await?;
    Ok(counts.then_some(letter))
}

async fn find(session: &Session, tenant: &TenantId, key: JobKey) -> Result<Option<DeadLetter>, ReadError> {
    let of_event = [Value::slot(key.slot), Value::long(key.sequence.0)];
    let places: Vec<(i32, i64, String)> = session.rows(Query::DeadLettersOfEvent, &of_event).await?;
    let is_own = |(ordinal, _, owner): &&(i32, i64, String)| {
        *ordinal == i32::from(key.ordinal) && owner.as_str() == tenant.as_str()
    };
    let Some((_, at, _)) = places.iter().rfind(is_own) else { return Ok(None) };
    let values = letter_key(tenant, Time(number_of(*at)?), key);
    let rows: Vec<(Vec<u8>, Option<Vec<u8>>)> = session.rows(Query::DeadLetter, &values).await?;
    let Some((value, payload)) = rows.into_iter().next() else { return Ok(None) };
    let mut letter = decode(tenant, key, &value)?;
    letter.event.payload = payload.unwrap_or_default().into();
    Ok(stands(session, &letter).await?.then_some(letter))
}

/// Whether the log, as far as it still has the event, says that the job was dead-lettered.
async fn stands(session: &Session, letter: &DeadLetter) -> Result<bool, ReadError> {
    let key = letter.job.key;
    let place = (letter.event.tenant.clone(), key.sequence);
    let Some(event) = FoundRow::read(session, key.slot, &place).await? else { return Ok(true) };
    let job = event.job(key, &event::job_rows(session, key).await?)?;
    Ok(job.is_none_or(|job| matches!(job.end, Some((End::DeadLettered(_), _)))))
}

fn place_values((at, key): (Time, JobKey)) -> [Value; 4] {
    [Value::long(at.0), Value::slot(key.slot), Value::long(key.sequence.0), Value::Int(key.ordinal.into())]
}

fn letter_key(tenant: &TenantId, at: Time, key: JobKey) -> Vec<Value> {
    let partition = [Value::tenant(tenant), Value::long(day_of(at))];
    partition.into_iter().chain(place_values((at, key))).collect()
}
