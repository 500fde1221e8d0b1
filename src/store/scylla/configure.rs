//! Configuration on a cluster, as its nodes ask for it: secrets are sealed and opened here, on the asking side.

use std::collections::BTreeSet;

use super::feed::{self, ConfigureError, Entry, FollowError, Writing};
use super::handle::Scylla;
use crate::store::codec::change::{self, StoredWrite};
use crate::store::codec::configuration::encode_key;
use crate::store::seal::Kek;
use crate::store::{ConfigRecord, ConfigWrite, FeedNumber, StoreError, sealed};

impl Scylla {
    /// Makes one change, whole or not at all, if `head` is the last one; gives its number. Of two writes to one key the
    /// later counts.
    ///
    /// # Errors
    /// [`ConfigureError::Outrun`] when others were faster: nothing has changed. [`ConfigureError::Store`] when the store
    /// does not answer: the change may have been made.
    pub async fn configure(&self, writes: &[ConfigWrite], head: FeedNumber) -> Result<FeedNumber, ConfigureError> {
        let change = change::encode(&stored(self.kek(), writes)?);
        let (token, writing) = (super::take::token(), self.writing());
        self.ask(move |session| async move { feed::configure(&session, change.into(), (head, token), writing).await })
            .await?
    }

    /// All configuration as of one change, in order of kind, tenant and id.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn load_configuration(&self) -> Result<(Vec<ConfigRecord>, FeedNumber), StoreError> {
        let (rows, number) = self.ask(|session| async move { feed::load(&session).await }).await??;
        let records: Result<_, _> = rows.iter().map(|(key, value)| sealed::decode(self.kek(), key, value)).collect();
        Ok((records?, number))
    }

    /// The changes after `from`, in order and none left out; at most some dozens at once, none when there are none.
    ///
    /// # Errors
    /// [`FollowError::TooFarBehind`] when they have expired.
    pub async fn follow(&self, from: FeedNumber) -> Result<Vec<(FeedNumber, Vec<ConfigWrite>)>, FollowError> {
        let entries = self.ask(move |session| async move { feed::follow(&session, from).await }).await??;
        let opened: Result<_, StoreError> = entries.iter().map(|entry| opened(self.kek(), entry)).collect();
        Ok(opened?)
    }

    fn writing(&self) -> Writing {
        Writing { kept: self.kept(), now: self.now() }
    }
}

/// The writes as they are stored, each key once.
fn stored(kek: &Kek, writes: &[ConfigWrite]) -> Result<Vec<StoredWrite>, StoreError> {
    let (mut met, mut stored) = (BTreeSet::new(), Vec::with_capacity(writes.len()));
    for write in writes.iter().rev().filter(|write| met.insert(write.key())) {
        stored.push(match write {
            ConfigWrite::Put(record) => {
                let key = record.key();
                let value = sealed::encode(kek, &encode_key(&key), record)?;
                StoredWrite::Put(key, value)
            }
            ConfigWrite::Remove(key) => StoredWrite::Remove(key.clone()),
        });
    }
    stored.reverse();
    Ok(stored)
}

fn opened(kek: &Kek, entry: &Entry) -> Result<(FeedNumber, Vec<ConfigWrite>), StoreError> {
    let open = |write| match write {
        StoredWrite::Put(key, value) => Ok(ConfigWrite::Put(sealed::decode(kek, &encode_key(&key), &value)?)),
        StoredWrite::Remove(key) => Ok(ConfigWrite::Remove(key)),
    };
    let writes: Result<_, StoreError> = entry.writes()?.into_iter().map(open).collect();
    Ok((entry.number, writes?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ConfigKey;
    use crate::types::{TenantId, Time};

    #[test]
    fn of_two_writes_to_one_key_the_later_is_stored() {
        let tenant = TenantId::new("acme").expect("a valid tenant");
        let paused =
            |since| ConfigWrite::Put(ConfigRecord::PausedTenant { tenant: tenant.clone(), since: Time(since) });
        let erasing = ConfigWrite::Put(ConfigRecord::ErasingTenant { tenant: tenant.clone(), since: Time(3) });
        let resumed = ConfigWrite::Remove(ConfigKey::PausedTenant(tenant.clone()));
        let stored = stored(&Kek::new([1; 32]), &[paused(1), resumed, erasing, paused(2)]).expect("nothing is sealed");
        let keys: Vec<&ConfigKey> = stored.iter().map(StoredWrite::key).collect();
        assert_eq!(keys, [&ConfigKey::ErasingTenant(tenant.clone()), &ConfigKey::PausedTenant(tenant)]);
        assert!(matches!(&stored[1], StoredWrite::Put(..)));
    }
}
