//! The one backup that runs at a time, on a thread of its own: what it copies to, how far it is, how it ended.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::store::Embedded;
use crate::store::embedded::BackupProgress;
use crate::types::Time;

use super::problem::Problem;

/// The last backup that was asked for; clones are the same one.
#[derive(Clone, Debug)]
pub struct Backup {
    path: PathBuf,
    started_at: Time,
    progress: BackupProgress,
    end: Arc<Mutex<Option<Result<(), String>>>>,
}

/// A backup as an operator sees it.
#[derive(Debug, Serialize)]
pub struct BackupView {
    path: String,
    state: &'static str,
    rows: u64,
    /// About: rows written over count until they are merged.
    rows_expected: u64,
    bytes: u64,
    started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Backup {
    /// Begins to copy `store` to the new directory `path`.
    ///
    /// # Errors
    /// 409 `backup_target_exists`, 422 for a relative path, 503 without a thread.
    pub fn begin(store: Embedded, path: &str, now: Time) -> Result<Self, Problem> {
        let path = Path::new(path);
        if !path.is_absolute() || path.as_os_str().as_encoded_bytes().contains(&0) {
            let rule = "must be an absolute path on the hub's machine";
            return Err(Problem::unprocessable("invalid_request", "/path", rule.to_owned()));
        }
        if path.try_exists().unwrap_or(false) {
            let detail = format!("{} exists: a backup goes into a new directory", path.display());
            return Err(Problem::new(409, "backup_target_exists", detail));
        }
        let backup =
            Self { path: path.to_owned(), started_at: now, progress: BackupProgress::default(), end: Arc::default() };
        let copying = backup.clone();
        let begun = std::thread::Builder::new().name("backup".to_owned()).spawn(move || copying.run(&store));
        begun.map(|_| backup).map_err(|_| Problem::unavailable("there is no thread for a backup"))
    }

    fn run(&self, store: &Embedded) {
        tracing::info!(path = %self.path.display(), "backup begins");
        let copied = store.backup(&self.path, &self.progress).map_err(|error| error.to_string());
        match &copied {
            Ok(()) => tracing::info!(rows = self.progress.rows(), bytes = self.progress.bytes(), "backup done"),
            Err(error) => tracing::warn!(error, "backup failed"),
        }
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(copied);
    }

    fn end(&self) -> Option<Result<(), String>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.end().is_none()
    }

    /// As an operator sees it.
    #[must_use]
    pub fn view(&self) -> BackupView {
        let (state, error) = match self.end() {
            None => ("running", None),
            Some(Ok(())) => ("done", None),
            Some(Err(error)) => ("failed", Some(error)),
        };
        BackupView {
            path: self.path.display().to_string(),
            state,
            rows: self.progress.rows(),
            rows_expected: self.progress.rows_expected(),
            bytes: self.progress.bytes(),
            started_at: self.started_at.to_rfc3339(),
            error,
        }
    }
}
