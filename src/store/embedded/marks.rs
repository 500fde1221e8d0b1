//! Minute marks: per slot, the number of the first event of each minute that had any. They turn times into
//! sequences, for retention and for lists, to the minute.

use super::tables::Tables;
use crate::store::StoreError;
use crate::store::codec::batch::Table;
use crate::store::codec::key;
use crate::store::codec::slot::decode_sequence;
use crate::types::{Sequence, Slot};

/// The first event of the latest minute with events up to `minute`, or zero: all before it came earlier.
///
/// # Errors
/// [`StoreError`] when the database fails or a mark is damaged.
pub fn first_up_to(tables: &Tables, slot: Slot, minute: u64) -> Result<Sequence, StoreError> {
    let bounds = key::arrivals(slot, 0)..=key::arrivals(slot, minute);
    match tables.of(Table::State).range(bounds).next_back() {
        None => Ok(Sequence(0)),
        Some(guard) => Ok(decode_sequence(&guard.value()?)?),
    }
}

/// The first event received in `minute` or later; beyond all when there is none.
///
/// # Errors
/// [`StoreError`] when the database fails or a mark is damaged.
pub fn first_from(tables: &Tables, slot: Slot, minute: u64) -> Result<Sequence, StoreError> {
    let bounds = key::arrivals(slot, minute)..=key::arrivals(slot, u64::MAX);
    match tables.of(Table::State).range(bounds).next() {
        None => Ok(Sequence(u64::MAX)),
        Some(guard) => Ok(decode_sequence(&guard.value()?)?),
    }
}
