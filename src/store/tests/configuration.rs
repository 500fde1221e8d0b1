//! What every store does with configuration.

use uuid::Uuid;

use super::tenant;
use crate::store::codec::plain as samples;
use crate::store::{ApiKey, ConfigKey, ConfigRecord, ConfigWrite, ObjectId};
use crate::types::ids::KeyId;
use crate::types::{SubscriptionId, TenantId, Time};

/// A store that keeps configuration.
pub trait ConfigSubject {
    /// Makes the change, and waits until it is durable.
    fn configure(&mut self, writes: &[ConfigWrite]);

    /// Everything, as a process that starts now reads it.
    fn load(&mut self) -> Vec<ConfigRecord>;
}

/// Tries what every store must do. Tenants of a name of this function's are its own.
///
/// # Panics
/// When the store does not conform.
pub fn keeps_configuration<S: ConfigSubject>(store: &mut S) {
    records_of_every_kind_come_back(store);
    a_record_put_again_takes_the_former_one_s_place(store);
    what_is_removed_does_not_come_back_and_may_be_put_again(store);
}

/// A record of every kind.
#[must_use]
pub fn records_of(tenant: &TenantId) -> Vec<ConfigRecord> {
    let (tenant, id) = (tenant.clone(), Uuid::from_u128(9));
    let key = ApiKey { id: KeyId(id), tenant: tenant.clone(), name: None, sha256: [3; 32], created_at: Time(4) };
    let object = ObjectId::Subscription(SubscriptionId(Uuid::from_u128(8)));
    vec![
        ConfigRecord::Source(Box::new(samples::source(&tenant, id))),
        ConfigRecord::Destination(Box::new(samples::destination(&tenant, id))),
        ConfigRecord::Subscription(Box::new(samples::subscription(&tenant, id))),
        ConfigRecord::ApiKey(key),
        ConfigRecord::PausedTenant { tenant: tenant.clone(), since: Time(7) },
        ConfigRecord::Deleted { tenant: tenant.clone(), object, at: Time(6) },
        ConfigRecord::ErasingTenant { tenant, since: Time(5) },
    ]
}

/// The change that puts these.
#[must_use]
pub fn put_all(records: &[ConfigRecord]) -> Vec<ConfigWrite> {
    records.iter().cloned().map(ConfigWrite::Put).collect()
}

fn records_of_every_kind_come_back<S: ConfigSubject>(store: &mut S) {
    let (own, other) = (tenant("every-kind"), tenant("every-kind-2"));
    store.configure(&put_all(&records_of(&own)));
    store.configure(&put_all(&records_of(&other)));
    assert_eq!(loaded(store, &own), records_of(&own), "in order of kind");
    assert_eq!(loaded(store, &other), records_of(&other));
}

fn a_record_put_again_takes_the_former_one_s_place<S: ConfigSubject>(store: &mut S) {
    let own = tenant("put-again");
    let paused = |since| ConfigRecord::PausedTenant { tenant: own.clone(), since: Time(since) };
    for since in [1, 3, 2] {
        store.configure(&put_all(&[paused(since)]));
    }
    assert_eq!(loaded(store, &own), [paused(2)]);
}

fn what_is_removed_does_not_come_back_and_may_be_put_again<S: ConfigSubject>(store: &mut S) {
    let own = tenant("removed");
    let all = records_of(&own);
    store.configure(&put_all(&all));
    let removed: Vec<ConfigWrite> = all.iter().skip(1).map(|record| ConfigWrite::Remove(record.key())).collect();
    store.configure(&removed);
    assert_eq!(loaded(store, &own), all[..1]);
    store.configure(&[ConfigWrite::Remove(ConfigKey::PausedTenant(own.clone())), ConfigWrite::Put(all[2].clone())]);
    assert_eq!(loaded(store, &own), [all[0].clone(), all[2].clone()]);
}

/// Those of one tenant.
fn loaded<S: ConfigSubject>(store: &mut S, tenant: &TenantId) -> Vec<ConfigRecord> {
    store.load().into_iter().filter(|record| record.key().tenant() == tenant).collect()
}
