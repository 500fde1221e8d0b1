//! One change of a cluster's configuration: the writes that are made together, as they are stored.
//!
//! A put's value is the one that stands in the table, sealed where it holds secrets: whoever completes a change that
//! another began needs no key.

use super::CodecError;
use super::configuration::{decode_key, encode_key};
use super::wire::{Reader, put_blob, put_varint};
use crate::store::ConfigKey;

const KIND: &str = "change";
const VERSION: u8 = 1;

const PUT: u8 = 1;
const REMOVE: u8 = 2;

/// One write of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredWrite {
    /// Store this value.
    Put(ConfigKey, Vec<u8>),
    /// Remove what stands there.
    Remove(ConfigKey),
}

impl StoredWrite {
    /// What it writes to.
    #[must_use]
    pub const fn key(&self) -> &ConfigKey {
        match self {
            Self::Put(key, _) | Self::Remove(key) => key,
        }
    }
}

/// The change's bytes.
#[must_use]
pub fn encode(writes: &[StoredWrite]) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_varint(&mut out, writes.len() as u64);
    for write in writes {
        match write {
            StoredWrite::Put(key, value) => {
                out.push(PUT);
                put_blob(&mut out, &encode_key(key));
                put_blob(&mut out, value);
            }
            StoredWrite::Remove(key) => {
                out.push(REMOVE);
                put_blob(&mut out, &encode_key(key));
            }
        }
    }
    out
}

/// Reads a change.
///
/// # Errors
/// [`CodecError`] when the bytes are none.
pub fn decode(bytes: &[u8]) -> Result<Vec<StoredWrite>, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    let writes = reader.list(|reader| {
        let kind = reader.byte()?;
        let key = decode_key(reader.blob()?)?;
        match kind {
            PUT => Ok(StoredWrite::Put(key, reader.blob()?.to_vec())),
            REMOVE => Ok(StoredWrite::Remove(key)),
            0 | 3.. => Err(reader.fault("kind")),
        }
    })?;
    reader.finish()?;
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::store::ObjectId;
    use crate::types::{SubscriptionId, TenantId};

    #[test]
    fn a_change_round_trips_in_order() {
        let (tenant, id) = (TenantId::new("acme").expect("a valid tenant"), SubscriptionId(Uuid::from_u128(9)));
        let writes = vec![
            StoredWrite::Remove(ConfigKey::Subscription(tenant.clone(), id)),
            StoredWrite::Put(ConfigKey::Deleted(tenant.clone(), ObjectId::Subscription(id)), vec![0, 1, 2]),
            StoredWrite::Put(ConfigKey::PausedTenant(tenant), Vec::new()),
        ];
        assert_eq!(decode(&encode(&writes)), Ok(writes));
        assert_eq!(decode(&encode(&[])), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_change_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 1..100)) {
            bytes[0] = VERSION;
            let _ = decode(&bytes);
        }
    }
}
