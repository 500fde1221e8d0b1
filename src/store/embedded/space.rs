//! Free disk: intake stops before the disk is full, and a reserve is given up so that outcomes still fit.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::types::limits;

const RESERVE_FILE: &str = "reserve";
const CHUNK_BYTES: usize = 1024 * 1024;

/// The free disk of the data directory, as last seen.
#[derive(Debug)]
pub struct Space {
    dir: PathBuf,
    intake: AtomicBool,
}

/// What is known of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Disk {
    free: u64,
    total: u64,
}

impl Space {
    /// The disk that holds `dir`; nothing is allowed before the first [`Space::check`].
    #[must_use]
    pub const fn new(dir: PathBuf) -> Self {
        Self { dir, intake: AtomicBool::new(false) }
    }

    /// Whether intake is allowed.
    #[must_use]
    pub fn intake_allowed(&self) -> bool {
        self.intake.load(Ordering::Relaxed)
    }

    /// Looks at the disk: once a second.
    pub fn check(&self) {
        match self.disk() {
            Ok(disk) => {
                self.decide(disk);
                self.keep_reserve(disk);
            }
            Err(error) => tracing::warn!(%error, dir = %self.dir.display(), "free disk is not known"),
        }
    }

    fn decide(&self, disk: Disk) {
        let allowed = disk.allows_intake();
        if self.intake.swap(allowed, Ordering::Relaxed) != allowed {
            let (free_bytes, total_bytes) = (disk.free, disk.total);
            if allowed {
                tracing::info!(free_bytes, total_bytes, "enough free disk: intake goes on");
            } else {
                tracing::warn!(free_bytes, total_bytes, "too little free disk: intake stops");
            }
        }
    }

    fn keep_reserve(&self, disk: Disk) {
        let path = self.dir.join(RESERVE_FILE);
        let result = if disk.free < limits::RESERVE_RELEASE_BYTES {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                other => other,
            }
        } else if disk.allows_intake() && disk.free > 4 * limits::RESERVE_RELEASE_BYTES && !path.exists() {
            fill(&path)
        } else {
            Ok(())
        };
        if let Err(error) = result {
            tracing::warn!(%error, path = %path.display(), "the disk reserve");
        }
    }

    fn disk(&self) -> std::io::Result<Disk> {
        let found = rustix::fs::statvfs(&self.dir)?;
        Ok(Disk {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }
}

impl Disk {
    const fn allows_intake(self) -> bool {
        self.free / limits::FREE_DISK_PERCENT >= self.total / 100
    }
}

/// Writes real bytes: a sparse file reserves nothing.
fn fill(path: &std::path::Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let chunk = vec![0x5a; CHUNK_BYTES];
    for _ in 0..limits::RESERVE_BYTES / CHUNK_BYTES as u64 {
        file.write_all(&chunk)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intake_stops_under_five_percent() {
        assert!(Disk { free: 50, total: 1_000 }.allows_intake());
        assert!(!Disk { free: 49, total: 1_000 }.allows_intake());
        assert!(Disk { free: 1_000, total: 1_000 }.allows_intake());
    }

    #[test]
    fn the_reserve_is_taken_and_given_up() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let space = Space::new(dir.path().to_owned());
        let reserve = dir.path().join(RESERVE_FILE);
        let plenty = Disk { free: 1 << 40, total: 1 << 41 };
        space.keep_reserve(plenty);
        assert_eq!(std::fs::metadata(&reserve).expect("the reserve").len(), limits::RESERVE_BYTES);
        space.keep_reserve(Disk { free: 1 << 20, total: 1 << 41 });
        assert!(!reserve.exists());
    }
}
