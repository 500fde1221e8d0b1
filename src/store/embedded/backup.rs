//! A consistent copy of the whole store: made while it runs, or of a directory that no hub runs on.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fjall::{PersistMode, Readable as _};

use super::directory::{self, DATABASE_FOLDER, KEK_FILE, OpenError};
use super::handle::Embedded;
use super::rotation;
use super::tables::Tables;
use crate::types::limits;

/// Bytes copied between two writes.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// Why a backup was not made. Nothing is left of it then.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A backup goes into a new directory.
    #[error("{0} exists: a backup goes into a new directory")]
    Exists(PathBuf),
    /// There is no data directory.
    #[error("{0} is no data directory: there is no database in it")]
    NoDirectory(PathBuf),
    /// It does not fit.
    #[error("{free} bytes are free where {to} is to be, the store has about {needed}")]
    NoSpace {
        /// Where the copy was to be.
        to: PathBuf,
        /// Bytes free there.
        free: u64,
        /// Bytes that the store takes now.
        needed: u64,
    },
    /// The data directory does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file could not be made or read.
    #[error("the backup {to} failed: {source}")]
    Io {
        /// Where the copy was to be.
        to: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database could not be read, or its copy not be written.
    #[error("the backup {to} failed: {source}")]
    Database {
        /// Where the copy was to be.
        to: PathBuf,
        /// Why.
        source: fjall::Error,
    },
}

/// How far a backup is; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct BackupProgress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    rows: AtomicU64,
    bytes: AtomicU64,
    expected: AtomicU64,
}

impl BackupProgress {
    /// Rows copied.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.rows.load(Ordering::Relaxed)
    }

    /// Bytes of keys and values copied.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Rows there are, about: rows written over count until they are merged.
    #[must_use]
    pub fn rows_expected(&self) -> u64 {
        self.0.expected.load(Ordering::Relaxed)
    }

    fn add(&self, rows: u64, bytes: usize) {
        self.0.rows.fetch_add(rows, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Embedded {
    /// Copies everything durable at this moment into the new directory `to`, which [`Embedded::open`] takes.
    /// The copy appears whole or not at all. It has the key file too where the directory has one: keep it safe.
    ///
    /// Blocks for as long as the copy takes; the store goes on meanwhile.
    ///
    /// # Errors
    /// [`BackupError`] names what stands in the way.
    pub fn backup(&self, to: &Path, progress: &BackupProgress) -> Result<(), BackupError> {
        copy(self.tables(), self.dir(), to, progress)
    }
}

/// The same for a directory that no hub runs on.
///
/// # Errors
/// [`BackupError::Open`] with [`OpenError::Locked`] when one does, and what [`Embedded::backup`] says.
pub fn backup_directory(dir: &Path, to: &Path, progress: &BackupProgress) -> Result<(), BackupError> {
    if !dir.join(DATABASE_FOLDER).is_dir() {
        return Err(BackupError::NoDirectory(dir.to_owned()));
    }
    let _lock = directory::lock(dir)?;
    let (tables, _) = directory::open_tables(dir, limits::SLOTS_SINGLE_NODE)?;
    copy(&tables, dir, to, progress)
}

fn copy(tables: &Tables, dir: &Path, to: &Path, progress: &BackupProgress) -> Result<(), BackupError> {
    let failed = |source| BackupError::Io { to: to.to_owned(), source };
    if to.try_exists().map_err(failed)? {
        return Err(BackupError::Exists(to.to_owned()));
    }
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(failed)?;
    expect_room(tables, parent, to)?;
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    remove(partial).map_err(failed)?;
    let copied = copy_into(tables, dir, (partial, to), progress);
    if copied.is_err() {
        // What failed is told; a leftover is removed by the next backup.
        let _ = remove(partial);
        return copied;
    }
    std::fs::rename(partial, to).and_then(|()| File::open(parent)?.sync_all()).map_err(failed)
}

/// The copy is no larger than the store, but for the journals of both.
fn expect_room(tables: &Tables, parent: &Path, to: &Path) -> Result<(), BackupError> {
    let needed = tables.database.disk_space().map_err(|source| BackupError::Database { to: to.to_owned(), source })?;
    let disk =
        rustix::fs::statvfs(parent).map_err(|errno| BackupError::Io { to: to.to_owned(), source: errno.into() })?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < needed { Err(BackupError::NoSpace { to: to.to_owned(), free, needed }) } else { Ok(()) }
}

fn copy_into(
    tables: &Tables,
    dir: &Path,
    (partial, to): (&Path, &Path),
    progress: &BackupProgress,
) -> Result<(), BackupError> {
    let failed = |source| BackupError::Io { to: to.to_owned(), source };
    std::fs::create_dir(partial).map_err(failed)?;
    let copied = Tables::open(&partial.join(DATABASE_FOLDER)).and_then(|copy| copy_tables(tables, &copy, progress));
    copied.map_err(|source| BackupError::Database { to: to.to_owned(), source })?;
    let key = dir.join(KEK_FILE);
    if key.try_exists().map_err(failed)? {
        let copied = std::fs::copy(&key, partial.join(KEK_FILE));
        copied.and_then(|_| File::open(partial.join(KEK_FILE))?.sync_all()).map_err(failed)?;
    }
    File::open(partial).and_then(|file| file.sync_all()).map_err(failed)
}

fn remove(partial: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(partial) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn copy_tables(from: &Tables, to: &Tables, progress: &BackupProgress) -> fjall::Result<()> {
    let snapshot = from.database.snapshot();
    let expected: usize = Tables::ALL.into_iter().map(|table| from.of(table).approximate_len()).sum();
    progress.0.expected.store(expected as u64, Ordering::Relaxed);
    for table in Tables::ALL {
        let mut batch = to.database.batch().durability(None);
        let (mut rows, mut bytes) = (0, 0);
        for guard in snapshot.iter(from.of(table)) {
            let (key, value) = guard.into_inner()?;
            bytes += key.len() + value.len();
            rows += 1;
            batch.insert(to.of(table), key, value);
            if bytes >= CHUNK_BYTES {
                std::mem::replace(&mut batch, to.database.batch().durability(None)).commit()?;
                progress.add(std::mem::take(&mut rows), std::mem::take(&mut bytes));
                rotation::close_full(to)?;
            }
        }
        batch.commit()?;
        progress.add(rows, bytes);
    }
    to.database.persist(PersistMode::SyncAll)
}
