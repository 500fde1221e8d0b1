//! The data directory: one process at a time, one format, an identity of its own, and the local key file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::tables::Tables;
use crate::store::codec::batch::Table;
use crate::store::codec::hub::{self, HubRecord};
use crate::store::codec::key::{self, StateKind};
use crate::store::codec::{CodecError, batch};
use crate::store::seal::{Kek, SealError};
use crate::types::Slot;

const LOCK_FILE: &str = "lock";
/// Where the database is, within a data directory.
pub const DATABASE_FOLDER: &str = "db";
/// The key-encryption key of an installation that names none: kept beside what it protects.
pub const KEK_FILE: &str = "kek";

/// Why a data directory can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("the data directory {dir} is in use by process {pid}: one hub per directory")]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The other process's id, or `unknown`.
        pid: String,
    },
    /// A file could not be made, read or written.
    #[error("the data directory's {path} failed: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The database does not open.
    #[error("the database in {dir} does not open: {source}")]
    Database {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: fjall::Error,
    },
    /// Another version of the hub wrote it.
    #[error("the data directory {dir} has format {found}, this program reads format {format}", format = hub::FORMAT)]
    Format {
        /// The directory.
        dir: PathBuf,
        /// Its format.
        found: u8,
    },
    /// Its own record is damaged.
    #[error("the data directory {dir} has a damaged record of itself: {source}")]
    Damaged {
        /// The directory.
        dir: PathBuf,
        /// How.
        source: CodecError,
    },
    /// Its key file does not hold 32 bytes.
    #[error("the key file {0} does not hold 32 bytes")]
    KeyFile(PathBuf),
    /// There is no randomness for its identity or key.
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// The lock on a data directory, held until dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Makes `dir` where needed and locks it for this process.
///
/// # Errors
/// [`OpenError::Locked`] when another process has it, [`OpenError::Io`] otherwise.
pub fn lock(dir: &Path) -> Result<Lock, OpenError> {
    std::fs::create_dir_all(dir).map_err(|source| io(dir.to_owned(), source))?;
    let path = dir.join(LOCK_FILE);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|source| io(path.clone(), source))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenError::Locked { dir: dir.to_owned(), pid: holder(&mut file) }),
        Err(TryLockError::Error(source)) => return Err(io(path, source)),
    }
    write_holder(&mut file).map_err(|source| io(path, source))?;
    Ok(Lock { _file: file })
}

/// Opens the database of `dir` and reads its record, or writes one with `slots` into a new one.
///
/// # Errors
/// [`OpenError`] for a database that does not open, or has another format.
pub fn open_tables(dir: &Path, slots: u16) -> Result<(Tables, HubRecord), OpenError> {
    let database = |source| OpenError::Database { dir: dir.to_owned(), source };
    let tables = Tables::open(&dir.join(DATABASE_FOLDER)).map_err(database)?;
    let key = key::state(StateKind::Hub, Slot(0));
    let stored = tables.of(Table::State).get(&key).map_err(database)?;
    let record = match stored {
        Some(bytes) => read_record(dir, &bytes)?,
        None => {
            let record = new_record(slots)?;
            write_record(&tables, &key, &record).map_err(database)?;
            record
        }
    };
    Ok((tables, record))
}

/// Makes the directory itself durable, so that a power cut does not take it with everything in it.
///
/// # Errors
/// [`OpenError::Io`].
pub fn sync(dir: &Path) -> Result<(), OpenError> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for path in [dir, parent] {
        File::open(path).and_then(|file| file.sync_all()).map_err(|source| io(path.to_owned(), source))?;
    }
    Ok(())
}

/// The key in `dir`'s key file, made when there is none: readable by its owner only.
///
/// # Errors
/// [`OpenError::KeyFile`] for a file of another size, [`OpenError::Io`] otherwise.
pub fn local_kek(dir: &Path) -> Result<Kek, OpenError> {
    let path = dir.join(KEK_FILE);
    match std::fs::read(&path) {
        Ok(bytes) => bytes.try_into().map(Kek::new).map_err(|_| OpenError::KeyFile(path)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let kek = Kek::random()?;
            write_kek(&path, &kek).map_err(|source| io(path, source))?;
            Ok(kek)
        }
        Err(source) => Err(io(path, source)),
    }
}

fn write_kek(path: &Path, kek: &Kek) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(kek.expose())?;
    file.sync_all()
}

fn read_record(dir: &Path, bytes: &[u8]) -> Result<HubRecord, OpenError> {
    hub::decode(bytes).map_err(|error| match error {
        CodecError::Version { found, .. } => OpenError::Format { dir: dir.to_owned(), found },
        source @ (CodecError::Truncated(_) | CodecError::Trailing(_) | CodecError::Value { .. }) => {
            OpenError::Damaged { dir: dir.to_owned(), source }
        }
    })
}

fn new_record(slots: u16) -> Result<HubRecord, OpenError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|_| SealError::Randomness)?;
    let (id, salt) = random.split_at(16);
    let to_array = |part: &[u8]| <[u8; 16]>::try_from(part).expect("half of 32 bytes");
    Ok(HubRecord { directory_id: Uuid::from_bytes(to_array(id)), dedup_salt: to_array(salt), slots })
}

fn write_record(tables: &Tables, key: &[u8], record: &HubRecord) -> fjall::Result<()> {
    let mut encoded = batch::EncodedBatch::default();
    encoded.put_with(Table::State, |out| out.extend_from_slice(key), |out| hub::encode(record, out));
    super::committer::write(tables, [&encoded])
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(20).read_to_string(&mut text);
    let digits = text.trim();
    let known = read.is_ok() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if known { digits.to_owned() } else { "unknown".to_owned() }
}

fn write_holder(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    file.sync_all()
}

fn io(path: PathBuf, source: std::io::Error) -> OpenError {
    OpenError::Io { path, source }
}
