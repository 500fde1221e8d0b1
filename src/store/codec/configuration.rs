//! Configuration records: keys by hand, values as versioned JSON of the checked types, whose field names are
//! those of the API. Secrets are in the clear here; sealing is the store's, around these bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::CodecError;
use super::key::{put_tenant, tenant_id};
use super::wire::{Reader, put_time};
use crate::store::configuration::{ConfigKey, ConfigRecord, ObjectId};
use crate::types::ids::KeyId;
use crate::types::{DestinationId, SourceId, SubscriptionId, TenantId};

const KIND: &str = "configuration";
const VERSION: u8 = 1;

const SOURCE: u8 = 1;
const DESTINATION: u8 = 2;
const SUBSCRIPTION: u8 = 3;
const API_KEY: u8 = 4;
const PAUSED_TENANT: u8 = 5;
/// What the keys of deletion marks begin with.
pub const DELETED: u8 = 6;
const ERASING_TENANT: u8 = 7;

/// The key's bytes.
#[must_use]
pub fn encode_key(key: &ConfigKey) -> Vec<u8> {
    let member = |kind: u8, tenant, id: Uuid| {
        let mut out = vec![kind];
        put_tenant(&mut out, tenant);
        out.extend_from_slice(id.as_bytes());
        out
    };
    let mark = |kind: u8, tenant| {
        let mut out = vec![kind];
        put_tenant(&mut out, tenant);
        out
    };
    match key {
        ConfigKey::Source(tenant, id) => member(SOURCE, tenant, id.0),
        ConfigKey::Destination(tenant, id) => member(DESTINATION, tenant, id.0),
        ConfigKey::Subscription(tenant, id) => member(SUBSCRIPTION, tenant, id.0),
        ConfigKey::ApiKey(tenant, id) => member(API_KEY, tenant, id.0),
        ConfigKey::PausedTenant(tenant) => mark(PAUSED_TENANT, tenant),
        ConfigKey::ErasingTenant(tenant) => mark(ERASING_TENANT, tenant),
        ConfigKey::Deleted(tenant, object) => {
            let (kind, id) = object_parts(*object);
            let mut out = member(DELETED, tenant, id);
            out.push(kind);
            out
        }
    }
}

/// What the keys of all records of `tenant` begin with, one prefix per kind; not the mark of its erasure.
#[must_use]
pub fn prefixes_of(tenant: &TenantId) -> [Vec<u8>; 6] {
    [SOURCE, DESTINATION, SUBSCRIPTION, API_KEY, PAUSED_TENANT, DELETED].map(|kind| {
        let mut out = vec![kind];
        put_tenant(&mut out, tenant);
        out
    })
}

/// Reads a key.
///
/// # Errors
/// [`CodecError`] when the bytes are none.
pub fn decode_key(bytes: &[u8]) -> Result<ConfigKey, CodecError> {
    let mut reader = Reader::new(KIND, bytes);
    let kind = reader.byte()?;
    let tenant = tenant_id(&mut reader)?;
    let key = match kind {
        SOURCE => ConfigKey::Source(tenant, SourceId(reader.uuid()?)),
        DESTINATION => ConfigKey::Destination(tenant, DestinationId(reader.uuid()?)),
        SUBSCRIPTION => ConfigKey::Subscription(tenant, SubscriptionId(reader.uuid()?)),
        API_KEY => ConfigKey::ApiKey(tenant, KeyId(reader.uuid()?)),
        PAUSED_TENANT => ConfigKey::PausedTenant(tenant),
        DELETED => ConfigKey::Deleted(tenant, read_object(&mut reader)?),
        ERASING_TENANT => ConfigKey::ErasingTenant(tenant),
        0 | 8.. => return Err(reader.fault("kind")),
    };
    reader.finish()?;
    Ok(key)
}

/// The value's bytes.
#[must_use]
pub fn encode(record: &ConfigRecord) -> Vec<u8> {
    let mut out = vec![VERSION];
    match record {
        ConfigRecord::Source(source) => put_json(&mut out, source),
        ConfigRecord::Destination(destination) => put_json(&mut out, destination),
        ConfigRecord::Subscription(subscription) => put_json(&mut out, subscription),
        ConfigRecord::ApiKey(key) => put_json(&mut out, key),
        ConfigRecord::PausedTenant { since: at, .. }
        | ConfigRecord::ErasingTenant { since: at, .. }
        | ConfigRecord::Deleted { at, .. } => put_time(&mut out, *at),
    }
    out
}

/// Reads the value that stands under `key`.
///
/// # Errors
/// [`CodecError`] when the bytes are no such record.
pub fn decode(key: ConfigKey, bytes: &[u8]) -> Result<ConfigRecord, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    let record = match key {
        ConfigKey::Source(..) => ConfigRecord::Source(Box::new(read_json(&mut reader)?)),
        ConfigKey::Destination(..) => ConfigRecord::Destination(Box::new(read_json(&mut reader)?)),
        ConfigKey::Subscription(..) => ConfigRecord::Subscription(Box::new(read_json(&mut reader)?)),
        ConfigKey::ApiKey(..) => ConfigRecord::ApiKey(read_json(&mut reader)?),
        ConfigKey::PausedTenant(tenant) => ConfigRecord::PausedTenant { tenant, since: reader.time()? },
        ConfigKey::ErasingTenant(tenant) => ConfigRecord::ErasingTenant { tenant, since: reader.time()? },
        ConfigKey::Deleted(tenant, object) => ConfigRecord::Deleted { tenant, object, at: reader.time()? },
    };
    reader.finish()?;
    Ok(record)
}

fn object_parts(object: ObjectId) -> (u8, Uuid) {
    match object {
        ObjectId::Source(id) => (SOURCE, id.0),
        ObjectId::Destination(id) => (DESTINATION, id.0),
        ObjectId::Subscription(id) => (SUBSCRIPTION, id.0),
    }
}

fn read_object(reader: &mut Reader<'_>) -> Result<ObjectId, CodecError> {
    let id = reader.uuid()?;
    Ok(match reader.byte()? {
        SOURCE => ObjectId::Source(SourceId(id)),
        DESTINATION => ObjectId::Destination(DestinationId(id)),
        SUBSCRIPTION => ObjectId::Subscription(SubscriptionId(id)),
        0 | 4.. => return Err(reader.fault("object")),
    })
}

fn put_json<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("checked types have string keys only and a Vec takes all bytes");
}

fn read_json<T: DeserializeOwned>(reader: &mut Reader<'_>) -> Result<T, CodecError> {
    serde_json::from_slice(reader.remainder()).map_err(|_| reader.fault("json"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;
    use crate::store::configuration::ApiKey;
    use crate::types::Time;

    fn round_trip(record: &ConfigRecord) {
        let key = decode_key(&encode_key(&record.key())).expect("what was encoded");
        assert_eq!(key, record.key());
        assert_eq!(decode(key, &encode(record)).as_ref(), Ok(record));
    }

    #[test]
    fn every_kind_round_trips() {
        let tenant = TenantId::new("acme").expect("a valid tenant");
        let id = Uuid::from_u128(9);
        round_trip(&ConfigRecord::Destination(Box::new(samples::destination(&tenant, id))));
        round_trip(&ConfigRecord::Subscription(Box::new(samples::subscription(&tenant, id))));
        round_trip(&ConfigRecord::Source(Box::new(samples::source(&tenant, id))));
        round_trip(&ConfigRecord::ApiKey(ApiKey {
            id: KeyId(id),
            tenant: tenant.clone(),
            name: None,
            sha256: [3; 32],
            created_at: Time(4),
        }));
        round_trip(&ConfigRecord::PausedTenant { tenant: tenant.clone(), since: Time(5) });
        round_trip(&ConfigRecord::ErasingTenant { tenant: tenant.clone(), since: Time(5) });
        let object = ObjectId::Subscription(SubscriptionId(id));
        round_trip(&ConfigRecord::Deleted { tenant, object, at: Time(6) });
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 1..60)) {
            let _ = decode_key(&bytes);
            bytes[0] = VERSION;
            let tenant = TenantId::new("t").expect("a valid tenant");
            let _ = decode(ConfigKey::Destination(tenant.clone(), DestinationId(Uuid::nil())), &bytes);
            let _ = decode(ConfigKey::PausedTenant(tenant), &bytes);
        }
    }
}
