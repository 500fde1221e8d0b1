//! `backup`: a consistent copy of a data directory, which `serve` starts on as it is.
//!
//! A running hub holds the lock of its directory, so it makes the copy itself, asked over its own address; of a hub that
//! is stopped this command makes it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use url::Url;

use super::settings::ConfigArguments;
use super::{CommandError, OutputKind, Surroundings, http_client};
use crate::config::Config;
use crate::store::OpenError;
use crate::store::embedded::{BackupError, BackupProgress, backup_directory};

/// How often the progress is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How many looks in a row may go unanswered before the command gives up; the hub goes on copying.
const SILENT_LOOKS_MAX: u32 = 40;

/// Copy a data directory
#[derive(Debug, Args)]
pub struct Arguments {
    /// The copy's directory, which must not exist yet; of a running hub on the hub's own machine
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The address of a running hub, `http://<host>:<port>`; the admin key is the setting `security.admin_key`
    #[arg(long, value_parser = http_client::parse_url, conflicts_with = "data_dir")]
    address: Option<Url>,
    /// The data directory of a hub that is stopped; the setting `store.data_dir` when absent
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArguments,
}

/// How far a copy is.
struct Copied {
    rows: u64,
    expected: u64,
    bytes: u64,
}

/// Makes the copy and says how far it is on the way.
///
/// # Errors
/// [`CommandError::Failed`] says what stands in the way; nothing is left of the copy then.
pub fn run(arguments: Arguments, surroundings: &mut Surroundings<'_>) -> Result<(), CommandError> {
    let rule = |error: std::io::Error| CommandError::Failed(format!("--to: {error}"));
    let to = std::path::absolute(&arguments.to).map_err(rule)?;
    let config = arguments.config.load(surroundings)?;
    let copied = match arguments.address {
        Some(address) => over_address(&address, &to, &config, surroundings)?,
        None => of_directory(arguments.data_dir.unwrap_or(config.store.data_dir), &to, surroundings)?,
    };
    writeln!(surroundings.output, "{}: {} rows, {} bytes", to.display(), copied.rows, copied.bytes)?;
    Ok(())
}

fn of_directory(
    dir: PathBuf,
    to: &std::path::Path,
    surroundings: &mut Surroundings<'_>,
) -> Result<Copied, CommandError> {
    let progress = BackupProgress::default();
    let copying = {
        let (to, progress) = (to.to_owned(), progress.clone());
        std::thread::spawn(move || backup_directory(&dir, &to, &progress))
    };
    let copied = || Copied { rows: progress.rows(), expected: progress.rows_expected(), bytes: progress.bytes() };
    while !copying.is_finished() {
        show(&copied(), surroundings)?;
        std::thread::sleep(LOOK);
    }
    let ended = copying.join().map_err(|_| CommandError::Failed("the copying thread panicked".to_owned()))?;
    ended.map(|()| copied()).map_err(|error| CommandError::Failed(explained(&error)))
}

fn explained(error: &BackupError) -> String {
    let is_running = matches!(error, BackupError::Open(OpenError::Locked { .. }));
    let hint = if is_running { "; a running hub makes its backup itself: name it with --address" } else { "" };
    format!("{error}{hint}")
}

fn over_address(
    address: &Url,
    to: &std::path::Path,
    config: &Config,
    surroundings: &mut Surroundings<'_>,
) -> Result<Copied, CommandError> {
    let url = address.join("/admin/backup").map_err(|error| CommandError::Failed(format!("--address: {error}")))?;
    let key = config.security.admin_key.as_ref().and_then(|key| std::str::from_utf8(key.expose()).ok());
    let Some(key) = key else {
        let rule = "a running hub wants its admin key: set `security.admin_key` (STREAMING_HUB_ADMIN_KEY)";
        return Err(CommandError::Failed(rule.to_owned()));
    };
    let key = [("authorization", format!("Bearer {key}"))];
    let headers = [key[0].clone(), ("content-type", "application/json".to_owned())];
    let body = json!({"path": to.to_string_lossy()}).to_string();
    let mut status = answered(http_client::post(&url, &headers, body.as_bytes()))?;
    let mut silent = 0;
    loop {
        match status["state"].as_str() {
            Some("done") => return Ok(copied(&status)),
            Some("running") => show(&copied(&status), surroundings)?,
            Some(_) | None => {
                return Err(CommandError::Failed(status["error"].as_str().unwrap_or("the backup failed").to_owned()));
            }
        }
        std::thread::sleep(LOOK);
        match answered(http_client::get(&url, &key)) {
            Ok(answer) => (status, silent) = (answer, 0),
            Err(error) if silent >= SILENT_LOOKS_MAX => return Err(error),
            Err(_) => silent += 1,
        }
    }
}

/// The JSON of an answer that is no problem.
fn answered(answer: Result<http_client::Answer, String>) -> Result<Value, CommandError> {
    let answer = answer.map_err(CommandError::Failed)?;
    let json: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    if (200..300).contains(&answer.status) {
        return Ok(json);
    }
    let detail = json["detail"].as_str().unwrap_or(&answer.body);
    Err(CommandError::Failed(format!("the hub answers {}: {detail}", answer.status)))
}

fn copied(status: &Value) -> Copied {
    let number = |member: &str| status[member].as_u64().unwrap_or_default();
    Copied { rows: number("rows"), expected: number("rows_expected"), bytes: number("bytes") }
}

/// One line that is written over on a terminal; nothing elsewhere.
fn show(copied: &Copied, surroundings: &mut Surroundings<'_>) -> Result<(), CommandError> {
    if surroundings.output_kind == OutputKind::Terminal {
        let Copied { rows, expected, bytes } = copied;
        write!(surroundings.output, "\r{rows} of about {expected} rows, {bytes} bytes\x1b[K\r")?;
        surroundings.output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::cli::tests::ran;
    use crate::cli::{FAILED, MISUSED};

    #[test]
    fn what_stands_in_the_way_is_named() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let here = place.path().display().to_string();
        let (code, _, errors) = ran(&["backup", "--to", &format!("{here}/copy"), "--data-dir", &here], &[], b"");
        assert_eq!(code, FAILED);
        assert!(errors.contains(&here) && errors.contains("no data directory"), "{errors}");
        let address = ["backup", "--to", "copy", "--address", "http://127.0.0.1:9"];
        let (code, _, errors) = ran(&address, &[], b"");
        assert_eq!(code, FAILED);
        assert!(errors.contains("security.admin_key"), "{errors}");
        assert_eq!(ran(&["backup"], &[], b"").0, MISUSED);
        assert_eq!(ran(&["backup", "--to", "c", "--address", "https://a", "--data-dir", "d"], &[], b"").0, MISUSED);
    }
}
