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
        let database = Database::builder(path)
            .cache_size(limits::STORE_CACHE_BYTES)
            .max_journaling_size(limits::STORE_JOURNAL_BYTES)
            .journal_compression(CompressionType::None)
            .worker_threads(limits::STORE_COMPACTORS)
            .open()?;
        let small = || KeyspaceCreateOptions::default().max_memtable_size(limits::STORE_MEMTABLE_BYTES / 8);
        // Payloads are written once, to files of their own, and merging moves only what points to them.
        let apart = KvSeparationOptions::default().separation_threshold(limits::STORE_SEPARATED_BYTES);
        let merging = Arc::new(Leveled::default().with_table_target_size(limits::STORE_TABLE_BYTES));
        let log = || {
            let options = KeyspaceCreateOptions::default().max_memtable_size(limits::STORE_MEMTABLE_BYTES);
            options.with_kv_separation(Some(apart.clone())).compaction_strategy(merging.clone())
        };
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
