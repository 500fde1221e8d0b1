//! What is removed gives its room on the disk back: payloads lie apart from the tables that merging rewrites.

use crate::store::codec::batch::Table;
use crate::store::embedded::tables::Tables;

const ROWS: u64 = 12_000;
const ROW_BYTES: usize = 4 * 1024;
/// The worker merges and lets files go in its own time.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

#[test]
fn removed_payloads_leave_the_disk_once_their_tables_are_merged() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tables = Tables::open(dir.path()).expect("a database");
    let log = tables.of(Table::Log);
    let mut random = fastrand::Rng::with_seed(1);
    for row in 0..ROWS {
        let payload: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(ROW_BYTES).collect();
        log.insert(row.to_be_bytes(), payload).expect("room for a row");
    }
    log.rotate_memtable_and_wait().expect("a table is written");
    let full = log.disk_space();
    assert!(full > ROWS * ROW_BYTES as u64 / 10 * 9, "{full} bytes");
    let clock = crate::runtime::Clock::start();
    let begun = clock.now();
    let mut rounds = 0;
    while log.disk_space() > full / 10 {
        assert!(clock.now().since(begun).to_std() < PATIENCE, "{} of {full} bytes are left", log.disk_space());
        // As the sweep does, a part at a time, beside what comes in.
        for row in (rounds..ROWS).step_by(8) {
            log.remove(row.to_be_bytes()).expect("room for a removal");
            log.insert((ROWS + row).to_be_bytes(), rounds.to_be_bytes()).expect("room for a row");
        }
        log.rotate_memtable_and_wait().expect("a table is written");
        rounds = (rounds + 1) % 8;
    }
}
