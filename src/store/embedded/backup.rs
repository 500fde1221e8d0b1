//! A consistent copy of the whole store, made while it runs.

use std::fs::File;
use std::path::Path;

use fjall::{PersistMode, Readable as _};

use super::directory::KEK_FILE;
use super::handle::Embedded;
use super::tables::Tables;
use crate::store::StoreError;

/// Bytes copied between two writes.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;

impl Embedded {
    /// Copies everything durable at this moment into the new directory `to`, which [`Embedded::open`] takes.
    /// The copy appears whole or not at all. It has the key file too where the directory has one: keep it safe.
    ///
    /// Blocks for as long as the copy takes; the store goes on meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Io`] when `to` exists or can't be written, [`StoreError::Database`] when the copy fails.
    pub fn backup(&self, to: &Path) -> Result<(), StoreError> {
        if to.try_exists()? {
            let refusal = format!("{} exists: a backup goes into a new directory", to.display());
            return Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, refusal).into());
        }
        let mut partial = to.as_os_str().to_owned();
        partial.push(".partial");
        let partial = Path::new(&partial);
        remove_leftover(partial)?;
        std::fs::create_dir_all(partial)?;
        copy_tables(self.tables(), &Tables::open(&partial.join(super::directory::DATABASE_FOLDER))?)?;
        let key = self.dir().join(KEK_FILE);
        if key.try_exists()? {
            std::fs::copy(&key, partial.join(KEK_FILE))?;
            File::open(partial.join(KEK_FILE))?.sync_all()?;
        }
        File::open(partial)?.sync_all()?;
        std::fs::rename(partial, to)?;
        File::open(to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?
            .sync_all()?;
        Ok(())
    }
}

fn remove_leftover(partial: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(partial) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn copy_tables(from: &Tables, to: &Tables) -> fjall::Result<()> {
    let snapshot = from.database.snapshot();
    for table in Tables::ALL {
        let mut batch = to.database.batch().durability(None);
        let mut bytes = 0;
        for guard in snapshot.iter(from.of(table)) {
            let (key, value) = guard.into_inner()?;
            bytes += key.len() + value.len();
            batch.insert(to.of(table), key, value);
            if bytes >= CHUNK_BYTES {
                std::mem::replace(&mut batch, to.database.batch().durability(None)).commit()?;
                bytes = 0;
            }
        }
        batch.commit()?;
    }
    to.database.persist(PersistMode::SyncAll)
}
