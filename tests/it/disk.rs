//! A full disk: intake stops early, what is in flight still gets its outcome, and once there is space again nothing
//! acknowledged is missing.
//!
//! It needs a file system of its own, a small tmpfs, and so the right to mount one.

use std::fs::File;
use std::path::PathBuf;

use rustix::fs::FallocateFlags;
use rustix::mount::{MountFlags, UnmountFlags};
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{CloudEvent, Gate, Receiver, Reply, Setup, eventually};

const MIB: u64 = 1024 * 1024;

/// A small file system, mounted until dropped.
struct SmallDisk {
    directory: TempDir,
}

impl SmallDisk {
    /// `None`, with the reason printed, where mounting is not allowed.
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let size = c"size=192m";
        match rustix::mount::mount("tmpfs", directory.path(), "tmpfs", MountFlags::empty(), size) {
            Ok(()) => Some(Self { directory }),
            Err(error) => {
                eprintln!("skipped: the full disk can't be tried, mounting a tmpfs is refused: {error}");
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn free_bytes(&self) -> u64 {
        let found = rustix::fs::statvfs(self.directory.path()).expect("a mounted file system");
        found.f_bavail * found.f_frsize
    }

    /// Fills it with something else until so many bytes are left.
    fn fill_up_to(&self, left: u64) {
        let ballast = File::options().create(true).append(true).open(self.path("ballast")).expect("a new file");
        let length = ballast.metadata().expect("an open file").len();
        let more = self.free_bytes().saturating_sub(left);
        rustix::fs::fallocate(&ballast, FallocateFlags::empty(), length, more).expect("there is room");
    }

    fn make_room(&self) {
        std::fs::remove_file(self.path("ballast")).expect("the ballast is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _gone_already = rustix::mount::unmount(self.directory.path(), UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_stops_intake_early_and_loses_nothing() {
    const EVENTS: usize = 40;
    let Some(disk) = SmallDisk::mount() else { return };
    let (gate, anyone) = (Gate::default(), Setup::new().with("DATA_DIR", &disk.path("data").display().to_string()));
    let held = gate.clone();
    let receiver = Receiver::start(move |_| Reply::status(200).held(&held));
    let mut hub = anyone.start();
    let acme = hub.tenant("acme");
    let (source, _) = acme.pipeline(&receiver, json!({"ordering": "parallel"}));
    let mut acknowledged = source.publish_many(EVENTS);
    eventually("attempts in flight", || receiver.in_flight() > 0);

    // Under five percent, with an event in between each look at the disk.
    disk.fill_up_to(7 * MIB);
    let refused = crate::harness::eventually_some("intake to stop", || {
        let event = CloudEvent::new("order", "paid");
        let answer = source.publish(&event);
        if answer.status == 200 {
            acknowledged.push(event.id);
            return None;
        }
        Some(answer)
    });
    assert_eq!(refused.problem(503), "unavailable");
    assert!(refused.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()));
    assert_eq!(hub.anybody().get("/readyz").status, 503);
    assert_eq!(hub.anybody().get("/healthz").status, 200);

    // What came in before goes out, and its outcomes still fit.
    gate.open();
    acme.wait_for_all(acknowledged.len(), "delivered");
    hub.kill();
    disk.make_room();
    hub.restart_after_end();
    acme.wait_for_all(acknowledged.len(), "delivered");
    for id in &acknowledged {
        acme.api.get(&format!("/v1/events/{id}")).expect(200);
    }
    let sent = receiver.count();
    source.publish_many(1);
    acme.wait_for_all(acknowledged.len() + 1, "delivered");
    assert_eq!((sent, receiver.count()), (acknowledged.len(), acknowledged.len() + 1));
}
