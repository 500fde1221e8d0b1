//! Full memtables are written however fast they fill, and however long the database's worker merges.

use crate::store::codec::batch::Table;
use crate::store::embedded::rotation::{Fill, Rotation, close_full};
use crate::store::embedded::tables::Tables;
use crate::types::limits;

/// More than the database's worker can have waiting.
const COMMITS: u64 = 5_000;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
const PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

fn commit(tables: &Tables, row: u64, bytes: usize) {
    let mut batch = tables.database.batch().durability(None);
    for table in [Table::Log, Table::Ids] {
        batch.insert(tables.of(table), row.to_be_bytes(), vec![7; bytes]);
    }
    batch.commit().expect("room for rows");
}

/// Waits until no memtable waits to be written.
fn expect_written(tables: &Tables) {
    let clock = crate::runtime::Clock::start();
    let begun = clock.now();
    let waiting = || Tables::ALL.into_iter().map(|table| tables.of(table).sealed_memtable_count()).sum::<usize>();
    while waiting() > 0 {
        assert!(clock.now().since(begun).to_std() < PATIENCE, "{} memtables wait to be written", waiting());
        std::thread::sleep(PAUSE);
    }
}

#[test]
fn every_memtable_is_written_where_each_commit_fills_one() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tables = Tables::with_memtables(dir.path(), 8).expect("a database");
    for row in 0..COMMITS {
        commit(&tables, row, 16);
        close_full(&tables).expect("a memtable is closed");
    }
    expect_written(&tables);
    assert!(tables.of(Table::Log).table_count() > 0 && tables.of(Table::Ids).table_count() > 0);
    assert_eq!(tables.of(Table::Log).len().expect("rows"), usize::try_from(COMMITS).expect("a few thousand"));
}

#[test]
fn a_memtable_that_is_not_full_stays_open_and_one_is_closed_at_a_time() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tables = Tables::with_memtables(dir.path(), 64 * 1024).expect("a database");
    commit(&tables, 1, 16 * 1024);
    close_full(&tables).expect("nothing is wrong");
    expect_written(&tables);
    let tables_of = |table| tables.of(table).table_count();
    assert_eq!((tables_of(Table::Log), tables_of(Table::Ids)), (0, 1), "the others have an eighth of the log's");
    commit(&tables, 2, 64 * 1024);
    close_full(&tables).expect("nothing is wrong");
    expect_written(&tables);
    assert_eq!(tables_of(Table::Log), 1);
}

#[test]
fn the_rotation_is_told_after_so_many_bytes_and_once() {
    let (look, looks) = flume::bounded(1);
    let mut fill = Fill::new(look);
    fill.add(limits::STORE_ROTATION_LOOK_BYTES - 1);
    assert!(looks.is_empty());
    fill.add(1);
    fill.add(limits::STORE_ROTATION_LOOK_BYTES);
    assert_eq!(looks.drain().count(), 1);
    drop(fill);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tables = Tables::with_memtables(dir.path(), 8).expect("a database");
    let (faulty, faults) = flume::bounded(1);
    Rotation::new(tables, faulty).run(&looks);
    assert!(faults.is_empty(), "it ends with the committer, without a fault");
}
