//! A backup opens as a store of its own and has what was durable when it began.

use super::Opened;
use crate::store::embedded::{BackupError, BackupProgress, OpenError, backup_directory};
use crate::store::tests::{Subject as _, batch, event_row, whole_log};

#[test]
fn a_backup_opens_with_everything_durable() {
    let mut opened = Opened::new();
    opened.apply(&batch(1, (1..=300).map(|sequence| event_row("acme", sequence, 1)).collect()));
    let place = tempfile::tempdir().expect("a temporary directory");
    let to = place.path().join("copy");
    let progress = BackupProgress::default();
    opened.store.backup(&to, &progress).expect("the backup is made");
    assert!(progress.rows() > 300 && progress.bytes() > 0, "{progress:?}");
    opened.apply(&batch(2, vec![event_row("acme", 301, 1)]));
    let mut copy = Opened::at(&to);
    assert_eq!(copy.store.record(), opened.store.record());
    assert_eq!(whole_log(&mut copy, 0).len(), 300);
    assert_eq!(whole_log(&mut opened, 0).len(), 301);
    let again = opened.store.backup(&to, &BackupProgress::default());
    assert!(matches!(again, Err(BackupError::Exists(_))), "a backup overwrites nothing");
}

#[test]
fn a_directory_is_backed_up_only_while_no_hub_runs_on_it() {
    let mut opened = Opened::new();
    opened.apply(&batch(1, (1..=10).map(|sequence| event_row("acme", sequence, 1)).collect()));
    let dir = opened.store.dir().to_owned();
    let place = tempfile::tempdir().expect("a temporary directory");
    let (to, progress) = (place.path().join("copy"), BackupProgress::default());
    let refused = backup_directory(&dir, &to, &progress);
    assert!(matches!(refused, Err(BackupError::Open(OpenError::Locked { .. }))), "{refused:?}");
    assert_eq!(std::fs::read_dir(place.path()).expect("it is there").count(), 0, "nothing is left of it");
    let nothing = backup_directory(place.path(), &to, &progress);
    assert!(matches!(nothing, Err(BackupError::NoDirectory(_))), "{nothing:?}");
    let Opened { store, .. } = opened;
    drop(store);
    backup_directory(&dir, &to, &progress).expect("the backup is made");
    assert_eq!(whole_log(&mut Opened::at(&to), 0).len(), 10);
}
