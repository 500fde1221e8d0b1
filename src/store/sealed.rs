//! Configuration records as every store keeps them: encoded, and sealed where they hold secrets.
//!
//! A value begins with whether it is sealed. A sealed one is bound to its key: under another it does not open.

use zeroize::Zeroizing;

use super::codec::CodecError;
use super::codec::configuration::{self, decode_key};
use super::seal::{Kek, SealError};
use super::{ConfigRecord, StoreError};
use crate::types::Time;

/// The value is as encoded.
const PLAIN: u8 = 0;
/// The value is sealed.
const SEALED: u8 = 1;

/// The value that stands under `key`.
///
/// # Errors
/// [`SealError::Randomness`].
pub fn encode(kek: &Kek, key: &[u8], record: &ConfigRecord) -> Result<Vec<u8>, SealError> {
    let plain = Zeroizing::new(configuration::encode(record));
    let (mark, body) =
        if record.is_secret() { (SEALED, kek.seal(key, &plain)?) } else { (PLAIN, plain.as_slice().to_vec()) };
    let mut value = Vec::with_capacity(body.len() + 1);
    value.push(mark);
    value.extend_from_slice(&body);
    Ok(value)
}

/// Reads the value that stands under `key`.
///
/// # Errors
/// [`StoreError::Seal`] when the key-encryption key is another one, [`StoreError::Codec`] when the bytes are no record.
pub fn decode(kek: &Kek, key: &[u8], value: &[u8]) -> Result<ConfigRecord, StoreError> {
    let damaged = CodecError::Value { kind: "configuration", field: "seal" };
    let (mark, body) = value.split_first().ok_or(damaged)?;
    let opened = match *mark {
        PLAIN => Zeroizing::new(body.to_vec()),
        SEALED => kek.open(key, body)?,
        2.. => return Err(damaged.into()),
    };
    Ok(configuration::decode(decode_key(key)?, &opened)?)
}

/// When the deletion was that this row marks.
///
/// # Errors
/// [`StoreError::Codec`] when the row is another one.
pub fn deleted_at(key: &[u8], value: &[u8]) -> Result<Time, StoreError> {
    let damaged = CodecError::Value { kind: "configuration", field: "deleted" };
    let body = value.strip_prefix(&[PLAIN]).ok_or(damaged)?;
    match configuration::decode(decode_key(key)?, body)? {
        ConfigRecord::Deleted { at, .. } => Ok(at),
        ConfigRecord::Source(_)
        | ConfigRecord::Destination(_)
        | ConfigRecord::Subscription(_)
        | ConfigRecord::ApiKey(_)
        | ConfigRecord::PausedTenant { .. }
        | ConfigRecord::ErasingTenant { .. } => Err(damaged.into()),
    }
}
