//! Configuration survives, secrets are sealed, and another key opens nothing.

use std::os::unix::fs::PermissionsExt as _;

use uuid::Uuid;

use super::{Opened, settings};
use crate::store::codec::samples;
use crate::store::embedded::{Embedded, OpenError};
use crate::store::seal::SealError;
use crate::store::tests::configuration::{ConfigSubject, keeps_configuration};
use crate::store::tests::tenant;
use crate::store::{ConfigKey, ConfigRecord, ConfigWrite, Kek, StoreError};
use crate::types::{SubscriptionId, Time};

fn records() -> Vec<ConfigRecord> {
    let (acme, id) = (tenant("acme"), Uuid::from_u128(9));
    vec![
        ConfigRecord::Source(Box::new(samples::source(&acme, id))),
        ConfigRecord::Destination(Box::new(samples::destination(&acme, id))),
        ConfigRecord::Subscription(Box::new(samples::subscription(&acme, id))),
        ConfigRecord::PausedTenant { tenant: acme, since: Time(7) },
    ]
}

fn put_all(opened: &Opened) {
    let writes: Vec<ConfigWrite> = records().into_iter().map(ConfigWrite::Put).collect();
    opened.wait(opened.store.configure(&writes)).expect("the store takes it");
}

#[test]
fn configuration_is_kept_as_by_every_store() {
    let owned = tempfile::tempdir().expect("a temporary directory");
    keeps_configuration(&mut Directory { path: owned.path() });
}

/// A directory that is opened anew for each step.
struct Directory<'a> {
    path: &'a std::path::Path,
}

impl ConfigSubject for Directory<'_> {
    fn configure(&mut self, writes: &[ConfigWrite]) {
        let opened = Opened::at(self.path);
        opened.wait(opened.store.configure(writes)).expect("the store takes it");
    }

    fn load(&mut self) -> Vec<ConfigRecord> {
        Opened::at(self.path).store.load_configuration().expect("readable")
    }
}

#[test]
fn records_come_back_after_a_restart_and_removed_ones_do_not() {
    let owned = tempfile::tempdir().expect("a temporary directory");
    {
        let opened = Opened::at(owned.path());
        put_all(&opened);
        let key = ConfigKey::Subscription(tenant("acme"), SubscriptionId(Uuid::from_u128(9)));
        opened.wait(opened.store.configure(&[ConfigWrite::Remove(key)])).expect("the store takes it");
    }
    let opened = Opened::at(owned.path());
    let mut expected = records();
    expected.remove(2);
    assert_eq!(opened.store.load_configuration().expect("readable"), expected);
}

#[test]
fn no_secret_reaches_the_disk_in_the_clear() {
    let opened = Opened::new();
    put_all(&opened);
    let journal = std::fs::read(opened.dir.join("db/0.jnl")).expect("the journal");
    let contains = |words: &[u8]| journal.windows(words.len()).any(|window| window == words);
    assert!(contains(b"\"slug\":\"shop\""), "plain records are in the clear");
    let token = b"token-in-the-clear";
    let as_numbers = token.map(|byte| byte.to_string()).join(",");
    assert!(!contains(token) && !contains(as_numbers.as_bytes()));
    let mode = std::fs::metadata(opened.dir.join("kek")).expect("the key file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn another_key_opens_nothing_and_says_so() {
    let owned = tempfile::tempdir().expect("a temporary directory");
    put_all(&Opened::at(owned.path()));
    let other = super::EmbeddedSettings { kek: Some(Kek::new([9; 32])), ..settings(owned.path()) };
    let store = Embedded::open(other).expect("the directory opens");
    let error = store.load_configuration().expect_err("the key is another one");
    assert!(matches!(error, StoreError::Seal(SealError::Broken)), "{error}");
}

#[test]
fn a_damaged_key_file_is_named() {
    let owned = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(owned.path().join("kek"), [1; 31]).expect("a short key file");
    let error = Embedded::open(settings(owned.path())).map(drop).expect_err("31 bytes are no key");
    assert!(matches!(error, OpenError::KeyFile(ref path) if path.ends_with("kek")), "{error}");
}
