//! The database's tables and how they are tuned.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fjall::compaction::Leveled;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions};

use crate::store::codec::batch::Table;
use crate::types::limits;

/// The open database. Cheap to clone.
#[derive(Clone)]
pub struct Tables {
    /// All of it.
    pub database: Database,
    log: Keyspace,
    due: Keyspace,
    ids: Keyspace,
    state: Keyspace,
    lanes: Keyspace,
    quarantine: Keyspace,
    dead_letters: Keyspace,
    producer_dlq: Keyspace,
    configuration: Keyspace,
    /// The log's memtable, in bytes; the other tables have an eighth.
    memtable_bytes: u64,
    /// Syncs to disk since it was opened, of all clones.
    fsyncs: Arc<AtomicU64>,
}

impl Tables {
    /// All tables, in the order a copy writes them.
    pub const ALL: [Table; 9] = [
        Table::Log,
        Table::Due,
        Table::Ids,
        Table::State,
        Table::Lanes,
        Table::Quarantine,
        Table::DeadLetters,
        Table::ProducerDlq,
        Table::Configuration,
    ];

    /// Opens or makes the database in `path`.
    ///
    /// # Errors
    /// Whatever fjall finds wrong with the files.
    pub fn open(path: &Path) -> fjall::Result<Self> {
        Self::with_memtables(path, limits::STORE_MEMTABLE_BYTES)
    }

    /// The same with another size of the log's memtable.
    ///
    /// # Errors
    /// As [`Tables::open`].
    pub fn with_memtables(path: &Path, memtable_bytes: u64) -> fjall::Result<Self> {
        let database = Database::builder(path)
            .cache_size(limits::STORE_CACHE_BYTES)
            .max_journaling_size(limits::STORE_JOURNAL_BYTES)
            .journal_compression(CompressionType::None)
            .worker_threads(limits::STORE_COMPACTORS)
            .open()?;
        // When a memtable is full is decided in `rotation`.
        let small = || KeyspaceCreateOptions::default().max_memtable_size(u64::MAX);
        // Payloads are written once, to files of their own, and merging moves only what points to them.
        let apart = KvSeparationOptions::default().separation_threshold(limits::STORE_SEPARATED_BYTES);
        let merging = Arc::new(Leveled::default().with_table_target_size(limits::STORE_TABLE_BYTES));
        let log = || small().with_kv_separation(Some(apart.clone())).compaction_strategy(merging.clone());
        Ok(Self {
            log: database.keyspace("log", log)?,
            due: database.keyspace("due", small)?,
            ids: database.keyspace("ids", small)?,
            state: database.keyspace("state", small)?,
            lanes: database.keyspace("lanes", small)?,
            quarantine: database.keyspace("quarantine", small)?,
            dead_letters: database.keyspace("dead_letters", small)?,
            producer_dlq: database.keyspace("producer_dlq", small)?,
            configuration: database.keyspace("configuration", small)?,
            memtable_bytes,
            fsyncs: Arc::default(),
            database,
        })
    }

    /// Counts a sync to disk.
    pub fn count_fsync(&self) {
        self.fsyncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Syncs to disk since it was opened.
    #[must_use]
    pub fn fsyncs(&self) -> u64 {
        self.fsyncs.load(Ordering::Relaxed)
    }

    /// From when on a table's memtable is full, in bytes.
    #[must_use]
    pub const fn memtable_bytes(&self, table: Table) -> u64 {
        match table {
            Table::Log => self.memtable_bytes,
            Table::Due
            | Table::Ids
            | Table::State
            | Table::Lanes
            | Table::Quarantine
            | Table::DeadLetters
            | Table::ProducerDlq
            | Table::Configuration => self.memtable_bytes / 8,
        }
    }

    /// One table.
    #[must_use]
    pub const fn of(&self, table: Table) -> &Keyspace {
        match table {
            Table::Log => &self.log,
            Table::Due => &self.due,
            Table::Ids => &self.ids,
            Table::State => &self.state,
            Table::Lanes => &self.lanes,
            Table::Quarantine => &self.quarantine,
            Table::DeadLetters => &self.dead_letters,
            Table::ProducerDlq => &self.producer_dlq,
            Table::Configuration => &self.configuration,
        }
    }
}
