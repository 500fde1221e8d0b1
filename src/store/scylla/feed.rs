//! The configuration of a cluster: one change after another, each whole or not at all, decided by one row.
//!
//! `config_head` holds the last change: its number, its writes and its writer's token. A change is made by one conditional
//! write of that row: if the number still is n, it is n + 1, with this. So no two changes have one number, none is half
//! made, and each was decided on what all before it have led to. All else is derived from it, by whoever comes by
//! ([`complete`]): the change's rows in `config`, with the change's number as their timestamp, and its entry in
//! `config_feed`. Its writer does so at once, and every writer does so for the head that it found before it makes its own
//! change. Hence at any time:
//!
//! 1. Of every change below the head, rows and entry are acknowledged by a quorum. Only the head's may be missing.
//! 2. No row and no entry of a change is written before the change is decided, and known to a quorum.
//!
//! What follows from it, case by case:
//!
//! - *A writer dies between its change and the rows.* The change stands: whoever reads the head has it whole. The next
//!   writer completes it; loaders and followers take the last change from the head itself and wait for nobody.
//! - *An answer gets lost.* The token tells: the head, or the entry of that number, has the writer's own or another's.
//!   Until that is known the same write is sent again with the same token; a server that carries out an earlier one late
//!   can then only make the same change. After some tries the fate is unknown and said to be; the writer's next look at
//!   the feed shows it.
//! - *Two writers at once.* One of them meets a number that is not the one it decided on, and is told
//!   ([`ConfigureError::Outrun`]); nothing of its change is anywhere.
//! - *A late write.* A request of a former change that arrives after those of later ones carries a smaller timestamp: it
//!   hides none of them, nor what they removed. Within a change each key stands once, so equal timestamps are equal
//!   writes.
//! - *A loader* reads the head (a), then all rows, then the head again (b). By 1 the rows reflect all changes below a; by
//!   2 none beyond b. It then puts the changes a to b on top, in order: a key that one of them names ends as b has it,
//!   and any other has not been written since. That is exactly the state at b.
//! - *A follower* reads entries by number and stops at the first one that is not there. By 1 that can only be one that has
//!   expired, so it is told that it is too far behind, and loads.
//!
//! A look for news is a quorum read of the number alone, not a conditional one: at worst it shows a change at the next
//! look, and it never disturbs a writer.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::phase::{Gather, PlannedRow, Stage};
use super::query::Query;
use super::rows::{Lifetimes, at_clock, ttl};
use super::session::{Failure, Session};
use super::statement::{Partition, Statement, Value};
use crate::store::codec::change::{self, StoredWrite};
use crate::store::codec::configuration::encode_key;
use crate::store::{ConfigKey, FeedNumber, StoreError};
use crate::types::{Slot, TenantId, Time, limits};

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ConfigureError {
    /// The configuration is not as the change was decided on: others have changed it since.
    #[error("the configuration has been changed by another node meanwhile")]
    Outrun,
    /// The change is larger than one may be.
    #[error("the change has {0} bytes, and one may have {max}", max = limits::CQL_CHANGE_BYTES)]
    TooLarge(usize),
    /// The store failed. What became of the change is unknown unless it could not be sent at all.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why changes could not be followed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The changes are no longer in the feed: everything must be loaded.
    #[error("the feed of the configuration no longer has the changes from {} on", .0.0)]
    TooFarBehind(FeedNumber),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One change as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its number.
    pub(super) number: FeedNumber,
    token: Uuid,
    change: Bytes,
}

/// What rows of the configuration are written with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    /// How long the marks of deletions are kept.
    pub(super) kept: Lifetimes,
    /// The time, for entries that expire.
    pub(super) now: Time,
}

/// All rows by key, and the change that they are the state of.
pub(super) type Loaded = (BTreeMap<Vec<u8>, Vec<u8>>, FeedNumber);

impl Entry {
    /// Its writes, in order.
    pub(super) fn writes(&self) -> Result<Vec<StoredWrite>, StoreError> {
        // Nothing was ever changed: the head that `migrate` makes has no change.
        if self.change.is_empty() { Ok(Vec::new()) } else { Ok(change::decode(&self.change)?) }
    }
}

/// Makes a change, if `head` is the last one; `token` is new for each call.
///
/// # Errors
/// [`ConfigureError`].
pub(super) async fn configure(
    session: &Arc<Session>,
    change: Bytes,
    (head, token): (FeedNumber, Uuid),
    writing: Writing,
) -> Result<FeedNumber, ConfigureError> {
    if change.len() > limits::CQL_CHANGE_BYTES {
        return Err(ConfigureError::TooLarge(change.len()));
    }
    let found = read_head(session).await?;
    if found.number != head {
        return Err(ConfigureError::Outrun);
    }
    complete(session, &found, writing).await?;
    let made = Entry { number: head.next(), token, change };
    decide(session, &made, head).await?;
    if let Err(error) = complete(session, &made, writing).await {
        tracing::warn!(number = made.number.0, %error, "a change of the configuration is made; the next one writes its rows");
    }
    Ok(made.number)
}

/// The conditional write, until its fate is known.
async fn decide(session: &Session, made: &Entry, head: FeedNumber) -> Result<(), ConfigureError> {
    let values =
        [Value::long(made.number.0), Value::Uuid(made.token), Value::Blob(made.change.clone()), Value::long(head.0)];
    let mut unknown =
        StoreError::from(Failure::Unavailable("a conditional write was neither made nor refused".to_owned()));
    for _ in 0..limits::CQL_CHANGE_TRIES {
        match session.condition(Query::ChangeConfig, &values).await {
            Ok(true) => return Ok(()),
            // Somebody else was faster, or the answer got lost: the token says which.
            Ok(false) | Err(Failure::Unavailable(_)) => {}
            Err(rejected @ Failure::Rejected(_)) => return Err(StoreError::from(rejected).into()),
        }
        match token_of(session, made.number).await {
            Ok(Some(token)) if token == made.token => return Ok(()),
            Ok(Some(_)) => return Err(ConfigureError::Outrun),
            Ok(None) => {}
            Err(error) => unknown = error,
        }
        tokio::time::sleep(limits::CQL_CHANGE_PAUSE.to_std()).await;
    }
    Err(unknown.into())
}

/// Whose the change of this number is; none when it was not made.
async fn token_of(session: &Session, number: FeedNumber) -> Result<Option<Uuid>, StoreError> {
    let head = read_head(session).await?;
    if head.number < number {
        return Ok(None);
    }
    if head.number == number {
        return Ok(Some(head.token));
    }
    let entry = entries(session, number, 1).await?.into_iter().find(|entry| entry.number == number);
    let gone = || Failure::Unavailable(format!("change {} of the configuration has expired", number.0));
    Ok(Some(entry.ok_or_else(gone)?.token))
}

/// Writes what is derived from a change that is decided. May be done again, by anybody, at any time.
async fn complete(session: &Arc<Session>, entry: &Entry, writing: Writing) -> Result<(), StoreError> {
    let mut gather = Gather::default();
    let stamp = Value::long(entry.number.0);
    for write in entry.writes()? {
        let bucket = bucket_of(write.key().tenant());
        gather.put(Stage::Log, Partition::Config(bucket), planned(&write, bucket, &stamp, writing));
    }
    if entry.number > FeedNumber::default() {
        let chunk = entry.number.0 / limits::CQL_FEED_CHUNK;
        let values = vec![
            Value::long(chunk),
            Value::long(entry.number.0),
            Value::Uuid(entry.token),
            Value::Blob(entry.change.clone()),
            Value::Int(ttl(limits::CQL_FEED_KEPT)),
            Value::Long(at_clock(writing.now)),
        ];
        let row = PlannedRow { statement: Statement::PutConfigEntry, values };
        gather.put(Stage::Log, Partition::ConfigFeed(chunk), row);
    }
    Ok(session.carry_out(gather.finish()).await?)
}

fn planned(write: &StoredWrite, bucket: u16, stamp: &Value, writing: Writing) -> PlannedRow {
    let (bucket, key) = (Value::Int(bucket.into()), Value::Blob(encode_key(write.key()).into()));
    match write {
        StoredWrite::Put(record, value) => {
            let value = Value::Blob(value.clone().into());
            let ttl = Value::Int(lifetime(record, writing));
            PlannedRow { statement: Statement::PutConfig, values: vec![bucket, key, value, ttl, stamp.clone()] }
        }
        StoredWrite::Remove(_) => {
            PlannedRow { statement: Statement::RemoveConfig, values: vec![stamp.clone(), bucket, key] }
        }
    }
}

/// In seconds; 0 is for ever. Marks of deletions go when no event can have a job for what was deleted any more.
const fn lifetime(key: &ConfigKey, writing: Writing) -> i32 {
    match key {
        ConfigKey::Deleted(..) => writing.kept.events(),
        ConfigKey::Source(..)
        | ConfigKey::Destination(..)
        | ConfigKey::Subscription(..)
        | ConfigKey::ApiKey(..)
        | ConfigKey::PausedTenant(_)
        | ConfigKey::ErasingTenant(_) => 0,
    }
}

/// Tenants are spread over buckets as over slots.
pub(super) fn bucket_of(tenant: &TenantId) -> u16 {
    Slot::of(tenant, limits::CQL_CONFIG_BUCKETS).0
}

/// All configuration, as of one change.
///
/// # Errors
/// [`StoreError`].
pub(super) async fn load(session: &Arc<Session>) -> Result<Loaded, StoreError> {
    let first = read_head(session).await?;
    let mut rows = all_rows(session).await?;
    let head = read_head(session).await?;
    let mut number = first.number;
    apply(&mut rows, &first)?;
    while number < head.number {
        let next = after(session, number, &head).await;
        let next = next.map_err(|error| match error {
            FollowError::TooFarBehind(_) => Failure::Unavailable(error.to_string()).into(),
            FollowError::Store(error) => error,
        })?;
        for entry in &next {
            apply(&mut rows, entry)?;
            number = entry.number;
        }
    }
    Ok((rows, number))
}

fn apply(rows: &mut BTreeMap<Vec<u8>, Vec<u8>>, entry: &Entry) -> Result<(), StoreError> {
    for write in entry.writes()? {
        match write {
            StoredWrite::Put(key, value) => drop(rows.insert(encode_key(&key), value)),
            StoredWrite::Remove(key) => drop(rows.remove(&encode_key(&key))),
        }
    }
    Ok(())
}

/// The rows of all buckets: as many requests at once as the session allows.
async fn all_rows(session: &Arc<Session>) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
    let mut reading = JoinSet::new();
    for bucket in 0..limits::CQL_CONFIG_BUCKETS {
        let session = Arc::clone(session);
        reading.spawn(
            async move { session.rows::<(Vec<u8>, Vec<u8>)>(Query::Config, &[Value::Int(bucket.into())]).await },
        );
    }
    let mut rows = BTreeMap::new();
    while let Some(read) = reading.join_next().await {
        rows.extend(read.map_err(|panic| Failure::Unavailable(panic.to_string()))??);
    }
    Ok(rows)
}

/// Changes after `from`, at most a chunk of them; none when there are none.
///
/// # Errors
/// [`FollowError`].
pub(super) async fn follow(session: &Session, from: FeedNumber) -> Result<Vec<Entry>, FollowError> {
    let known: Vec<(i64,)> = session.rows(Query::ConfigNumber, &[]).await.map_err(StoreError::from)?;
    let known = known.first().map_or(0, |(number,)| u64::try_from(*number).unwrap_or_default());
    if known <= from.0 {
        return Ok(Vec::new());
    }
    let head = read_head(session).await?;
    after(session, from, &head).await
}

/// Changes after `from` and up to the head, at least one and at most a chunk of them.
async fn after(session: &Session, from: FeedNumber, head: &Entry) -> Result<Vec<Entry>, FollowError> {
    let mut next = from.next();
    let mut found = Vec::new();
    if next < head.number {
        let count = i32::try_from(limits::CQL_FEED_CHUNK).expect("a chunk is small");
        for entry in entries(session, next, count).await? {
            if entry.number != next || next == head.number {
                break;
            }
            found.push(entry);
            next = next.next();
        }
        if found.is_empty() {
            return Err(FollowError::TooFarBehind(next));
        }
    }
    if next == head.number {
        found.push(head.clone());
    }
    Ok(found)
}

/// Up to `count` entries from `first` on, of its chunk.
async fn entries(session: &Session, first: FeedNumber, count: i32) -> Result<Vec<Entry>, StoreError> {
    let chunk = first.0 / limits::CQL_FEED_CHUNK;
    let values = [Value::long(chunk), Value::long(first.0), Value::Int(count)];
    let rows: Vec<(i64, Uuid, Vec<u8>)> = session.rows(Query::ConfigEntries, &values).await?;
    Ok(rows.into_iter().map(|(number, token, change)| entry(number, token, change)).collect())
}

/// The last change; every conditional write that was decided before counts.
async fn read_head(session: &Session) -> Result<Entry, StoreError> {
    let rows: Vec<(i64, Option<Uuid>, Option<Vec<u8>>)> = session.rows(Query::ConfigHead, &[]).await?;
    let absent = || Failure::Unavailable("the configuration has no head: run `streaming-hub migrate`".to_owned());
    let (number, token, change) = rows.into_iter().next().ok_or_else(absent)?;
    Ok(entry(number, token.unwrap_or_default(), change.unwrap_or_default()))
}

fn entry(number: i64, token: Uuid, change: Vec<u8>) -> Entry {
    Entry { number: FeedNumber(u64::try_from(number).unwrap_or_default()), token, change: change.into() }
}
