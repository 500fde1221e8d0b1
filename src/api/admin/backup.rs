//! `/admin/backup`: a copy of the running store, and how far it is.

use crate::api::answer::Answer;
use crate::api::backup::Backup;
use crate::api::call::Call;
use crate::api::problem::{Faults, Problem};
use crate::api::service::Service;
use crate::types::limits;

/// Begins a backup into a new directory on the hub's machine.
///
/// # Errors
/// 422 for a faulty path, 409 `backup_running` or `backup_target_exists`, 501 on a cluster.
pub fn begin(api: &Service, call: &Call) -> Result<Answer, Problem> {
    let mut fields = call.fields()?;
    let mut faults = Faults::default();
    let path = fields.text("path", limits::PATH_MAX_BYTES, &mut faults).value();
    fields.finish(&mut faults);
    faults.check()?;
    let missing = || Problem::unprocessable("invalid_request", "/path", "must name a new directory".to_owned());
    let path = path.ok_or_else(missing)?;
    let mut last = api.backup.borrow_mut();
    if last.as_ref().is_some_and(Backup::is_running) {
        return Err(Problem::new(409, "backup_running", "one backup at a time"));
    }
    let means = "its servers' own tools make backups: take a snapshot of the keyspace on every server (`nodetool snapshot`), \
                 and keep the key-encryption key elsewhere";
    let store = api.store.embedded().ok_or_else(|| Problem::not_on_a_cluster(means))?;
    let begun = Backup::begin(store.clone(), &path, call.now)?;
    let answer = Answer::json(202, &begun.view());
    *last = Some(begun);
    Ok(answer)
}

/// The last backup that this process was asked for.
///
/// # Errors
/// 404 when there was none.
pub fn read(api: &Service) -> Result<Answer, Problem> {
    let last = api.backup.borrow();
    let backup = last.as_ref().ok_or_else(Problem::not_found)?;
    Ok(Answer::json(200, &backup.view()))
}
