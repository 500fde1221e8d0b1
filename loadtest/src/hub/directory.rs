//! A temporary directory that goes with its value.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The directory.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Makes one whose name has `name` in it.
    ///
    /// # Errors
    /// What the system says.
    pub fn make(name: &str) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("streaming-hub-load-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(Failure::io(format!("making {}", path.display())))?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What cannot be removed now is the system's to clear, as anything in its temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
