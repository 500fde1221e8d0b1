//! Taking a slot: the next epoch is inserted by a conditional write, made from the last owner's record.

use uuid::Uuid;

use super::epoch::Epoch;
use super::query::Query;
use super::session::{Failure, Session};
use super::statement::Value;
use crate::engine::rows::SlotRecord;
use crate::store::codec::{CodecError, slot};
use crate::types::{Slot, limits};

/// A slot that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The taker's.
    pub epoch: Epoch,
    /// As the last owner left it; absent when the slot was never written.
    pub record: Option<SlotRecord>,
}

/// Why a slot could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// A request failed, and so did finding out what became of it.
    #[error("the slot can't be taken now: {0}")]
    Request(#[from] Failure),
    /// Others took it again and again.
    #[error("the slot was taken by others {tries} times in a row", tries = limits::CQL_TAKE_TRIES)]
    Contended,
    /// It was taken as often as timestamps can count.
    #[error("the slot has had as many owners as can be counted")]
    NoEpochLeft,
    /// The last owner's record is damaged.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The cluster's thread has stopped; the process is about to end.
    #[error("the store has stopped")]
    Stopped,
}

/// What the last owner left.
pub(super) struct Last {
    epoch: Epoch,
    token: Option<Uuid>,
    record: Option<Vec<u8>>,
}

/// The last owner of `slot`, if it ever had one; every conditional write that was decided before counts.
///
/// # Errors
/// [`Failure`].
pub(super) async fn last_owner(session: &Session, slot: Slot) -> Result<Option<Last>, Failure> {
    type Row = (i64, Option<Uuid>, Option<Vec<u8>>, Option<Vec<u8>>);
    let rows: Vec<Row> = session.rows(Query::LastOwner, &[Value::slot(slot)]).await?;
    Ok(rows.into_iter().next().map(|(epoch, token, base, record)| Last {
        epoch: Epoch(u32::try_from(epoch).unwrap_or(u32::MAX)),
        token,
        record: record.or(base).filter(|bytes| !bytes.is_empty()),
    }))
}

impl Last {
    /// Its record.
    ///
    /// # Errors
    /// [`CodecError`] when it is damaged.
    pub(super) fn slot_record(&self) -> Result<Option<SlotRecord>, CodecError> {
        self.record.as_deref().map(slot::decode).transpose()
    }
}

/// Takes `slot` for `owner`. `token` is new for each call: by it the taker knows its own write again when the answer
/// got lost.
///
/// # Errors
/// [`TakeError`].
pub(super) async fn take(session: &Session, slot: Slot, owner: &str, token: Uuid) -> Result<Taken, TakeError> {
    for _ in 0..limits::CQL_TAKE_TRIES {
        let last = last_owner(session, slot).await?;
        if let Some(own) = last.as_ref().filter(|last| last.token == Some(token)) {
            return Ok(Taken { epoch: own.epoch, record: own.slot_record()? });
        }
        let epoch = last.as_ref().map_or(Some(Epoch::FIRST), |last| last.epoch.next()).ok_or(TakeError::NoEpochLeft)?;
        let record = last.as_ref().map(Last::slot_record).transpose()?.flatten();
        let base = last.and_then(|last| last.record).unwrap_or_default();
        let values = [
            Value::slot(slot),
            Value::long(epoch.0.into()),
            Value::Text(owner.into()),
            Value::Uuid(token),
            Value::Blob(base.into()),
        ];
        match session.condition(Query::Take, &values).await {
            Ok(true) => return Ok(Taken { epoch, record }),
            // Somebody else was faster, or the answer got lost: the next look says which.
            Ok(false) | Err(Failure::Unavailable(_)) => {}
            Err(rejected @ Failure::Rejected(_)) => return Err(rejected.into()),
        }
    }
    Err(TakeError::Contended)
}

/// Random, as an identifier.
///
/// # Panics
/// When the system has no random bytes.
#[must_use]
pub fn token() -> Uuid {
    let half = || u128::from(getrandom::u64().expect("the system has random bytes"));
    Uuid::from_u128((half() << 64) | half())
}
