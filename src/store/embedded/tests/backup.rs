//! A backup opens as a store of its own and has what was durable when it began.

use super::Opened;
use crate::store::tests::{Subject as _, batch, event_row, whole_log};

#[test]
fn a_backup_opens_with_everything_durable() {
    let mut opened = Opened::new();
    opened.apply(&batch(1, (1..=300).map(|sequence| event_row("acme", sequence, 1)).collect()));
    let place = tempfile::tempdir().expect("a temporary directory");
    let to = place.path().join("copy");
    opened.store.backup(&to).expect("the backup is made");
    opened.apply(&batch(2, vec![event_row("acme", 301, 1)]));
    let mut copy = Opened::at(&to);
    assert_eq!(copy.store.record(), opened.store.record());
    assert_eq!(whole_log(&mut copy, 0).len(), 300);
    assert_eq!(whole_log(&mut opened, 0).len(), 301);
    assert!(opened.store.backup(&to).is_err(), "a backup overwrites nothing");
}
