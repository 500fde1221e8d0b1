//! Whatever was acknowledged is there after the end of the process, wherever it came.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use super::{Opened, settings};
use crate::engine::{Batch, BatchNumber, Unit};
use crate::store::StoreEvent;
use crate::store::embedded::{Embedded, OpenError};
use crate::store::tests::{Subject as _, batch, event_row, whole_log};
use crate::types::Slot;

#[test]
fn a_reopened_directory_has_everything_and_its_identity() {
    let owned = tempfile::tempdir().expect("a temporary directory");
    let record = {
        let mut opened = Opened::at(owned.path());
        opened.apply(&batch(1, vec![event_row("acme", 1, 1)]));
        opened.store.record()
    };
    let mut again = Opened::at(owned.path());
    assert_eq!(again.store.record(), record);
    assert_eq!(whole_log(&mut again, 0).len(), 1);
}

#[test]
fn a_copy_made_while_it_runs_has_everything_acknowledged_before() {
    let mut opened = Opened::new();
    let mut sequence = 0;
    for number in 1..=20 {
        let rows = (1..=50).map(|step| event_row("acme", sequence + step, 1)).collect();
        sequence += 50;
        opened.apply(&batch(number, rows));
    }
    let copies = tempfile::tempdir().expect("a temporary directory");
    // The next batch is on its way while the files are copied: it may be there or not, whole.
    let last = batch(21, (1..=50).map(|step| event_row("acme", sequence + step, 1)).collect());
    opened.store.submit(super::SHARD, &[last]);
    copy_tree(&opened.dir, copies.path());
    let mut copy = Opened::at(copies.path());
    let found = whole_log(&mut copy, 0).len() as u64;
    assert!(found == sequence || found == sequence + 50, "{found} of {sequence}");
}

#[test]
fn a_journal_cut_anywhere_in_its_last_batch_loses_that_batch_only() {
    let mut opened = Opened::new();
    opened.apply(&batch(1, vec![event_row("acme", 1, 1)]));
    let length = journal_length(&opened.dir);
    opened.apply(&batch(2, vec![event_row("acme", 2, 1)]));
    let whole = journal_length(&opened.dir);
    assert!(whole > length);
    for cut in [length + 1, (length + whole) / 2, whole - 1] {
        let copies = tempfile::tempdir().expect("a temporary directory");
        copy_tree(&opened.dir, copies.path());
        cut_journal(copies.path(), cut);
        let mut copy = Opened::at(copies.path());
        assert_eq!(whole_log(&mut copy, 0).len(), 1, "cut at {cut}");
    }
}

/// Set in the process that [`a_killed_process_loses_nothing_it_acknowledged`] starts and kills.
const CHILD_DIRECTORY: &str = "STORE_TEST_CHILD_DIRECTORY";

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    if let Some(dir) = std::env::var_os(CHILD_DIRECTORY) {
        return write_until_killed(Path::new(&dir));
    }
    let owned = tempfile::tempdir().expect("a temporary directory");
    let own_name = "store::embedded::tests::crash::a_killed_process_loses_nothing_it_acknowledged";
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([own_name, "--exact", "--nocapture"])
        .env(CHILD_DIRECTORY, owned.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test starts again");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let told = lines.map(|line| line.expect("text")).filter(|line| line.starts_with("acknowledged ")).take(100);
    let acknowledged = told.count();
    child.kill().expect("it runs until killed");
    child.wait().expect("it has ended");
    let mut opened = Opened::at(owned.path());
    assert_eq!(acknowledged, 100);
    assert!(whole_log(&mut opened, 0).len() >= acknowledged);
}

fn write_until_killed(dir: &Path) {
    let mut opened = Opened::at(dir);
    for number in 1.. {
        opened.apply(&batch(number, vec![event_row("acme", number, 1)]));
        println!("\nacknowledged {number}");
    }
}

#[test]
fn batches_of_many_units_are_merged_and_each_is_told_in_order() {
    let opened = Opened::new();
    let unit = |slot: u16, number: u64| Batch {
        unit: Unit::Slot(Slot(slot)),
        number: BatchNumber(number),
        rows: Rc::new(vec![event_row("acme", number, 1)]),
    };
    for number in 1..=20 {
        for slots in [0..1, 1..5, 5..8] {
            opened.store.submit(super::SHARD, &slots.map(|slot| unit(slot, number)).collect::<Vec<_>>());
        }
    }
    let mut next = [1; 8];
    for _ in 0..60 {
        let StoreEvent::Committed(batches) = opened.next() else { panic!("batches are durable") };
        for (unit, number) in batches {
            let Unit::Slot(slot) = unit else { panic!("a slot's batch") };
            assert_eq!(number.0, next[usize::from(slot.0)], "slot {}", slot.0);
            next[usize::from(slot.0)] += 1;
        }
    }
    assert_eq!(next, [21; 8]);
}

#[test]
fn a_second_process_is_refused_with_the_first_one_s_id() {
    let opened = Opened::new();
    let error = Embedded::open(settings(&opened.dir)).map(drop).expect_err("the directory is in use");
    let OpenError::Locked { dir, pid } = error else { panic!("locked, not {error}") };
    assert_eq!((dir, pid), (opened.dir.clone(), std::process::id().to_string()));
}

/// The journal's written bytes: behind them it is preallocated with zeros.
fn journal_length(dir: &Path) -> u64 {
    let bytes = std::fs::read(dir.join("db/0.jnl")).expect("the journal");
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

fn cut_journal(dir: &Path, length: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(dir.join("db/0.jnl")).expect("the journal");
    file.set_len(length).expect("the journal can be cut");
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_tree(&entry.path(), &target);
        } else if entry.file_name() != "reserve" {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
