//! Erasure of a tenant on a cluster, a bounded part at a time.
//!
//! One node at a time drives it, by a conditional row that expires ([`Scylla::hold_erasure`]); two that both believe so do
//! the same. What may go is bounded, so that a driver that is late takes nothing from a later tenant of the same name:
//! events, jobs and their copies by their sequence, which lies below the driver's mark on the slot's lane; what has no
//! sequence by its time. Rows are found as readers find them: in the tenants' index up to `flushed`, in the log from
//! there on, in the day or hour, or the minute that is listed. What leads to others goes last, so whoever goes on after a
//! crash finds what is left.
//!
//! What owners of the slot still write of these events (their index, outcomes of attempts, ends) stays hidden: what
//! deletes is stamped [`limits::CQL_ARRIVAL_SPREAD`] later than now. Cursors and destinations carry owners' stamps, and
//! are removed by ids that no later object has.
//!
//! Left to retention: packed ids, which are hashes; listed claims, for about a minute; entries of the configuration's
//! feed, for a day.

use std::sync::Arc;

use scylla::response::PagingState;
use uuid::Uuid;

use super::api_query::ApiQuery;
use super::erase_statement::Erase;
use super::handle::Scylla;
use super::phase::{Gather, PlannedRow, Stage};
use super::plan::{index_chunk, log_chunk};
use super::queries::{first_listed, flushed};
use super::query::Query;
use super::read::event::RawPart;
use super::read::{ReadError, number_of};
use super::rows::{DAY, at_clock, day_of, hour_of, ttl};
use super::session::Session;
use super::statement::{Partition, Statement, Value};
use crate::store::codec::{configuration, producer_dlq, quarantine};
use crate::store::{ConfigKey, StoreError};
use crate::types::ids::uuid_v7_time;
use crate::types::{Sequence, Slot, TenantId, Time, limits};

/// What of a tenant may be erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// Whose.
    pub tenant: TenantId,
    /// Events before this.
    pub below: Sequence,
    /// Of what has no sequence, all before this.
    pub until: Time,
}

/// Where rows of a tenant stand, in the order of erasing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Overflow cursors, and what is remembered of destinations.
    Members,
    /// Dead letters.
    DeadLetters,
    /// Jobs by their time.
    Due,
    /// Events that the index does not have yet. Before the index: it can only shrink.
    Tail,
    /// All others.
    Events,
    /// Malformed records, in which the tenant is no key: all of their time are looked at.
    Quarantine,
    /// Producers' own dead letters, likewise.
    ProducerDlq,
}

/// What one step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Rows found, each with what belongs to it.
    pub found: u64,
    /// Where the next step of this field begins; `None` when it is through.
    pub next: Option<u64>,
}

/// A table of hours: how it is read, a partition of it, and how a record goes.
type Table = (ApiQuery, fn(u64) -> Partition, Statement);

/// A step under way.
struct Step {
    session: Arc<Session>,
    doomed: Doomed,
    slot: Slot,
    stamp: i64,
    found: u64,
}

impl Field {
    /// All of them, in order.
    pub const ALL: [Self; 7] =
        [Self::Members, Self::DeadLetters, Self::Due, Self::Tail, Self::Events, Self::Quarantine, Self::ProducerDlq];
}

impl Scylla {
    /// Takes or keeps the erasure of `tenant` for this driver, for [`limits::ERASURE_LEASE`]; whether it has it.
    ///
    /// # Errors
    /// [`StoreError`]: then it may have it.
    pub async fn hold_erasure(&self, tenant: &TenantId, driver: Uuid) -> Result<bool, StoreError> {
        let (tenant, driver, ttl) =
            (Value::tenant(tenant), Value::Uuid(driver), Value::Int(ttl(limits::ERASURE_LEASE)));
        self.query(move |session| async move {
            let keep = [ttl.clone(), driver.clone(), tenant.clone(), driver.clone()];
            if session.condition(Query::KeepErasure, &keep).await? {
                return Ok(true);
            }
            Ok(session.condition(Query::TakeErasure, &[tenant, driver, ttl]).await?)
        })
        .await
    }

    /// Erases what is found of one field from `place` on, 0 at first: a page, or some partitions.
    ///
    /// # Errors
    /// [`StoreError`]; the step may be done again.
    pub async fn erase(&self, doomed: Doomed, field: Field, place: u64) -> Result<Erased, StoreError> {
        let (slot, now, kept) = (self.slot_of(&doomed.tenant), self.now(), self.retention());
        let stamp = at_clock(now + limits::CQL_ARRIVAL_SPREAD);
        let since = |kept: crate::types::Duration| Time(now.0.saturating_sub(kept.0));
        let (letters, records) = (since(kept.dead_letters), since(kept.quarantine));
        self.query(move |session| async move {
            let mut step = Step { session, doomed, slot, stamp, found: 0 };
            let next = match field {
                Field::Members => step.members().await?,
                Field::DeadLetters => step.dead_letters(place.max(day_of(letters)), now).await?,
                Field::Due => step.due(place).await?,
                Field::Tail => step.tail(place).await?,
                Field::Events => step.events(place).await?,
                Field::Quarantine => {
                    let malformed: Table =
                        (ApiQuery::Quarantine, Partition::Quarantine, Statement::Erase(Erase::Quarantine));
                    let tenant_of = |bytes: &[u8]| Ok(quarantine::decode(bytes)?.tenant().map(<[u8]>::to_vec));
                    step.records(malformed, place.max(hour_of(records)), tenant_of).await?
                }
                Field::ProducerDlq => {
                    let letters: Table =
                        (ApiQuery::ProducerDlq, Partition::ProducerDlq, Statement::Erase(Erase::ProducerDeadLetter));
                    let tenant_of =
                        |bytes: &[u8]| Ok(producer_dlq::decode(bytes)?.tenant.map(|name| name.as_bytes().to_vec()));
                    step.records(letters, place.max(hour_of(records)), tenant_of).await?
                }
            };
            Ok(Erased { found: step.found, next })
        })
        .await
    }

    /// The marks of a tenant's deletions that are stored.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn deletion_marks(&self, tenant: &TenantId) -> Result<Vec<ConfigKey>, StoreError> {
        let (tenant, bucket) = (tenant.clone(), super::feed::bucket_of(tenant));
        self.query(move |session| async move {
            let rows: Vec<(Vec<u8>, Vec<u8>)> = session.rows(Query::Config, &[Value::Int(bucket.into())]).await?;
            let mut marks = Vec::new();
            for (key, _) in rows {
                let key = configuration::decode_key(&key)?;
                marks.extend(Some(key).filter(|key| matches!(key, ConfigKey::Deleted(owner, _) if *owner == tenant)));
            }
            Ok(marks)
        })
        .await
    }
}

impl Step {
    /// Ids carry the time of their making: what a later tenant has made is left alone.
    async fn members(&mut self) -> Result<Option<u64>, ReadError> {
        let tables = [
            (Query::Overflow, Statement::RemoveOverflow, Partition::Overflow(self.slot)),
            (Query::Destinations, Statement::RemoveDestination, Partition::Destinations(self.slot)),
        ];
        let mut gather = Gather::default();
        for (query, statement, partition) in tables {
            let rows: Vec<(String, Uuid, Vec<u8>)> = self.session.rows(query, &partition.key()).await?;
            for (owner, id, _) in rows {
                if self.is_own(owner.as_bytes()) && uuid_v7_time(id) < self.doomed.until {
                    let columns = [Value::tenant(&self.doomed.tenant), Value::Uuid(id)];
                    self.remove(Stage::Log, partition.clone(), statement, columns, &mut gather);
                    self.found += 1;
                }
            }
        }
        self.session.carry_out(gather.finish()).await?;
        Ok(None)
    }

    /// Some days from `day` on. The tenant's own row goes last: by it the others are found.
    async fn dead_letters(&mut self, day: u64, now: Time) -> Result<Option<u64>, ReadError> {
        let last = day_of(now + limits::CQL_ARRIVAL_SPREAD);
        let end = last.min(day.saturating_add(limits::CQL_PARTITIONS_PER_PAGE as u64));
        for day in day..=end {
            self.dead_letters_of(day).await?;
        }
        Ok((end < last).then_some(end + 1))
    }

    async fn dead_letters_of(&mut self, day: u64) -> Result<(), ReadError> {
        type Letter = (i64, i32, i64, i32, Vec<u8>);
        let tenant = Value::tenant(&self.doomed.tenant);
        let mut values = vec![tenant, Value::long(day)];
        for at in [day, day + 1] {
            let nobody = [Value::slot(Slot(0)), Value::Long(0), Value::Int(0)];
            values.extend([Value::long(at.saturating_mul(DAY.0))].into_iter().chain(nobody));
        }
        let mut page = Some(PagingState::start());
        while let Some(state) = page {
            let (rows, more): (Vec<Letter>, _) = self.session.page(ApiQuery::DeadLetters, &values, state).await?;
            let mut gather = Gather::default();
            for (at, slot, sequence, ordinal, _) in rows {
                let number = Sequence(number_of(sequence)?);
                if number >= self.doomed.below {
                    continue;
                }
                let place = [Value::Long(at), Value::Int(slot), Value::Long(sequence), Value::Int(ordinal)];
                let hour = Partition::DeadLettersByHour(hour_of(Time(number_of(at)?)));
                self.remove(Stage::Log, hour, Statement::Erase(Erase::DeadLetterByHour), place.clone(), &mut gather);
                let event = Partition::DeadLettersOfEvent(self.slot, number);
                self.remove(Stage::Log, event, Statement::Erase(Erase::DeadLettersOfEvent), [], &mut gather);
                let own = Partition::DeadLetters(self.doomed.tenant.clone(), day);
                self.remove(Stage::Records, own, Statement::Erase(Erase::DeadLetter), place, &mut gather);
                self.found += 1;
            }
            self.session.carry_out(gather.finish()).await?;
            page = more;
        }
        Ok(())
    }

    /// Some of the listed minutes from one on.
    async fn due(&mut self, minute: u64) -> Result<Option<u64>, ReadError> {
        let values = [Value::slot(self.slot), Value::long(minute)];
        let (listed, more): (Vec<(i64,)>, _) =
            self.session.page(Query::DueMinutes, &values, PagingState::start()).await?;
        let mut last = minute;
        for (listed,) in listed {
            last = number_of(listed)?;
            self.due_of(last).await?;
        }
        Ok(more.map(|_| last + 1))
    }

    async fn due_of(&mut self, minute: u64) -> Result<(), ReadError> {
        let mut values = Partition::Due(self.slot, minute).key();
        values.extend([Value::Long(0), Value::Long(0), Value::Int(0)]);
        let mut page = Some(PagingState::start());
        while let Some(state) = page {
            let (rows, more): (Vec<(i64, i64, i32, String)>, _) = self.session.page(Query::Due, &values, state).await?;
            let mut gather = Gather::default();
            for (at, sequence, ordinal, owner) in rows {
                if self.is_own(owner.as_bytes()) && Sequence(number_of(sequence)?) < self.doomed.below {
                    let place = [Value::Long(at), Value::Long(sequence), Value::Int(ordinal)];
                    let partition = Partition::Due(self.slot, minute);
                    self.remove(Stage::Log, partition, Statement::Erase(Erase::Due), place, &mut gather);
                    self.found += 1;
                }
            }
            self.session.carry_out(gather.finish()).await?;
            page = more;
        }
        Ok(())
    }

    /// A page of the log from `flushed` on. All below the mark is durable, so this is short.
    async fn tail(&mut self, place: u64) -> Result<Option<u64>, ReadError> {
        let from = place.max(flushed(&self.session, self.slot).await?.0);
        let Some(chunk) = self.listed_from(from).await? else { return Ok(None) };
        let values = [Value::slot(self.slot), Value::long(chunk), Value::long(from)];
        let (rows, more): (Vec<RawPart>, _) =
            self.session.page(ApiQuery::LogParts, &values, PagingState::start()).await?;
        let (mut found, mut last) = (Vec::new(), from);
        for (sequence, _, _, _, owner, _) in rows {
            last = number_of(sequence)?;
            let is_own = owner.is_some_and(|owner| self.is_own(owner.as_bytes()));
            if is_own && last < self.doomed.below.0 && found.last() != Some(&last) {
                found.push(last);
            }
        }
        let mut gather = Gather::default();
        found.iter().for_each(|sequence| self.remove_event(Sequence(*sequence), &mut gather));
        self.session.carry_out(gather.finish()).await?;
        // An event's own row comes first: what is left of the last one goes with it.
        Ok(Some(if more.is_some() { last + 1 } else { (chunk + 1).saturating_mul(limits::CQL_LOG_CHUNK_EVENTS) }))
    }

    /// A page of the index from a sequence on. The index is removed as far as it was looked at, to the end of its chunk
    /// at last: an owner that has not written all of it will find it so.
    async fn events(&mut self, place: u64) -> Result<Option<u64>, ReadError> {
        let Some(listed) = self.listed_from(place).await? else { return Ok(None) };
        let from = place.max(listed.saturating_mul(limits::CQL_LOG_CHUNK_EVENTS));
        let chunk = index_chunk(Sequence(from));
        let end = (chunk + 1).saturating_mul(limits::CQL_INDEX_CHUNK_EVENTS).min(self.doomed.below.0) - 1;
        let tenant = Value::tenant(&self.doomed.tenant);
        let values = [Value::slot(self.slot), Value::long(chunk), tenant.clone(), Value::long(from), Value::long(end)];
        let (rows, more): (Vec<(i64, Vec<u8>)>, _) =
            self.session.page(Query::Index, &values, PagingState::start()).await?;
        let mut gather = Gather::default();
        let mut last = from;
        for (sequence, _) in rows {
            last = number_of(sequence)?;
            self.remove_event(Sequence(last), &mut gather);
        }
        let to = if more.is_some() { last } else { end };
        let columns = [tenant, Value::long(from), Value::long(to)];
        let index = Partition::Index(self.slot, chunk);
        self.remove(Stage::Records, index, Statement::Erase(Erase::Index), columns, &mut gather);
        self.session.carry_out(gather.finish()).await?;
        Ok(Some(to + 1))
    }

    /// Some hours from one on of a table in which each value says whose it is.
    async fn records(
        &mut self,
        (query, place, statement): Table,
        hour: u64,
        tenant_of: impl Fn(&[u8]) -> Result<Option<Vec<u8>>, ReadError>,
    ) -> Result<Option<u64>, ReadError> {
        let last = hour_of(self.doomed.until);
        let end = last.min(hour.saturating_add(limits::CQL_PARTITIONS_PER_PAGE as u64));
        for hour in hour..=end {
            let values = [Value::long(hour), Value::Uuid(Uuid::nil()), Value::Uuid(Uuid::max())];
            let mut page = Some(PagingState::start());
            while let Some(state) = page {
                let (rows, more): (Vec<(Uuid, Vec<u8>)>, _) = self.session.page(query, &values, state).await?;
                let mut gather = Gather::default();
                for (id, value) in rows {
                    let is_own = tenant_of(&value)?.is_some_and(|owner| self.is_own(&owner));
                    if is_own && uuid_v7_time(id) < self.doomed.until {
                        let partition = place(hour);
                        self.remove(Stage::Log, partition, statement, [Value::Uuid(id)], &mut gather);
                        self.found += 1;
                    }
                }
                self.session.carry_out(gather.finish()).await?;
                page = more;
            }
        }
        Ok((end < last).then_some(end + 1))
    }

    /// The first chunk of the log that has events from `from` on and before the mark.
    async fn listed_from(&self, from: u64) -> Result<Option<u64>, ReadError> {
        if from >= self.doomed.below.0 {
            return Ok(None);
        }
        let listed = first_listed(&self.session, self.slot, log_chunk(Sequence(from))).await?;
        Ok(listed.filter(|chunk| chunk.saturating_mul(limits::CQL_LOG_CHUNK_EVENTS) < self.doomed.below.0))
    }

    /// All of an event but what led to it.
    fn remove_event(&mut self, sequence: Sequence, gather: &mut Gather) {
        let log = Partition::Log(self.slot, log_chunk(sequence));
        self.remove(Stage::Log, log, Statement::Erase(Erase::Event), [Value::long(sequence.0)], gather);
        self.remove(Stage::Log, Partition::Payload(self.slot, sequence), Statement::Erase(Erase::Payload), [], gather);
        self.found += 1;
    }

    fn remove(
        &self,
        stage: Stage,
        partition: Partition,
        statement: Statement,
        columns: impl IntoIterator<Item = Value>,
        gather: &mut Gather,
    ) {
        let values = [Value::Long(self.stamp)].into_iter().chain(partition.key()).chain(columns).collect();
        gather.put(stage, partition, PlannedRow { statement, values });
    }

    fn is_own(&self, name: &[u8]) -> bool {
        name == self.doomed.tenant.as_str().as_bytes()
    }
}
