//! Configuration on disk: durable writes, secrets sealed, everything read at boot.

use super::handle::Embedded;
use crate::store::codec::batch::{EncodedBatch, Table};
use crate::store::codec::configuration::encode_key;
use crate::store::{ConfigRecord, ConfigWrite, StoreError, sealed};

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
                    let value = sealed::encode(self.kek(), &key, record)?;
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
            records.push(sealed::decode(self.kek(), &key, &value)?);
        }
        Ok(records)
    }
}
