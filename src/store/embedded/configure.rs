//! Configuration on disk: durable writes, secrets sealed, everything read at boot.

use super::handle::Embedded;
use crate::store::codec::CodecError;
use crate::store::codec::batch::{EncodedBatch, Table};
use crate::store::codec::configuration::{decode, decode_key, encode, encode_key};
use crate::store::seal::Kek;
use crate::store::{ConfigRecord, ConfigWrite, StoreError};
use crate::types::Time;

/// The value is as encoded.
const PLAIN: u8 = 0;
/// The value is sealed.
const SEALED: u8 = 1;

impl Embedded {
    /// Makes configuration changes durable, all or none.
    ///
    /// # Errors
    /// [`StoreError::Seal`] without randomness, [`StoreError::Stopped`] when the store has failed.
    pub async fn configure(&self, writes: &[ConfigWrite]) -> Result<(), StoreError> {
        let mut batch = EncodedBatch::default();
        for write in writes {
            match write {
                ConfigWrite::Put(record) => {
                    let key = encode_key(&record.key());
                    let value = value_of(self.kek(), &key, record)?;
                    batch.put(Table::Configuration, &key, &value);
                }
                ConfigWrite::Remove(key) => batch.remove(Table::Configuration, &encode_key(key)),
            }
        }
        self.write(batch).await
    }

    /// All configuration, in order of kind, tenant and id. For the start: it reads on this thread.
    ///
    /// # Errors
    /// [`StoreError::Seal`] when the key-encryption key is another one, and what the database says.
    pub fn load_configuration(&self) -> Result<Vec<ConfigRecord>, StoreError> {
        let mut records = Vec::new();
        for guard in self.tables().of(Table::Configuration).iter() {
            let (key, value) = guard.into_inner()?;
            records.push(record_of(self.kek(), &key, &value)?);
        }
        Ok(records)
    }
}

fn value_of(kek: &Kek, key: &[u8], record: &ConfigRecord) -> Result<Vec<u8>, StoreError> {
    let plain = zeroize::Zeroizing::new(encode(record));
    let (mark, body) =
        if record.is_secret() { (SEALED, kek.seal(key, &plain)?) } else { (PLAIN, plain.as_slice().to_vec()) };
    let mut value = Vec::with_capacity(body.len() + 1);
    value.push(mark);
    value.extend_from_slice(&body);
    Ok(value)
}

/// When the deletion was that this row marks.
///
/// # Errors
/// [`StoreError::Codec`] when the row is another one.
pub(super) fn deleted_at(key: &[u8], value: &[u8]) -> Result<Time, StoreError> {
    let damaged = CodecError::Value { kind: "configuration", field: "deleted" };
    let body = value.strip_prefix(&[PLAIN]).ok_or(damaged)?;
    match decode(decode_key(key)?, body)? {
        ConfigRecord::Deleted { at, .. } => Ok(at),
        ConfigRecord::Source(_)
        | ConfigRecord::Destination(_)
        | ConfigRecord::Subscription(_)
        | ConfigRecord::ApiKey(_)
        | ConfigRecord::PausedTenant { .. }
        | ConfigRecord::ErasingTenant { .. } => Err(damaged.into()),
    }
}

fn record_of(kek: &Kek, key: &[u8], value: &[u8]) -> Result<ConfigRecord, StoreError> {
    let damaged = CodecError::Value { kind: "configuration", field: "seal" };
    let (mark, body) = value.split_first().ok_or(damaged)?;
    let opened = match *mark {
        PLAIN => zeroize::Zeroizing::new(body.to_vec()),
        SEALED => kek.open(key, body)?,
        2.. => return Err(damaged.into()),
    };
    Ok(decode(decode_key(key)?, &opened)?)
}
