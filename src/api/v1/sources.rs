//! `/v1/sources`.

use std::rc::Rc;

use crate::api::answer::Answer;
use crate::api::call::{Call, checked};
use crate::api::config_writer::Change;
use crate::api::directory::Directory;
use crate::api::objects::{SourceChange, SourceView};
use crate::api::precondition;
use crate::api::problem::{Faults, Problem};
use crate::api::service::Service;
use crate::types::{Source, SourceId, TenantId};

use super::room;

/// All sources of the tenant, newest first.
///
/// # Errors
/// 422 for a faulty query.
pub fn list(api: &Service, mut call: Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let mut faults = Faults::default();
    let query = call.list("sources", &mut faults)?;
    call.check(faults)?;
    let directory = api.writer.directory();
    let sources = directory.tenant(&tenant).into_iter().flat_map(|objects| objects.sources.values().rev());
    query.answer_objects(sources, (|source| source.id, |source| source.created_at), |source| SourceView::of(source, ""))
}

/// One source.
///
/// # Errors
/// 404.
pub fn read(api: &Service, call: &Call, id: SourceId) -> Result<Answer, Problem> {
    let directory = api.writer.directory();
    Ok(shown(200, stored(&directory, &call.tenant()?, id)?))
}

/// Makes a source.
///
/// # Errors
/// 422 for faults, `limit_reached`, or a slug in use.
pub async fn create(api: &Service, call: &Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let mut faults = Faults::default();
    let change = SourceChange::read(call.fields()?, &mut faults);
    let id = SourceId(api.new_id(call.now));
    let made = change.create(id, &tenant, api.rules(call.now), &mut faults);
    let source = checked(made, faults)?;
    api.writer
        .change(|directory| {
            let count = directory.tenant(&tenant).map_or(0, |objects| objects.sources.len());
            room(count, api.settings.sources_per_tenant, "sources")?;
            check_slug(directory, &source)?;
            Ok(Change::new(()).put_source(&source))
        })
        .await?;
    Ok(shown(201, &source))
}

/// Changes a source.
///
/// # Errors
/// 404, 412, or 422 for faults or a slug in use.
pub async fn change(api: &Service, call: &Call, id: SourceId) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let fields = call.fields()?;
    let source = api
        .writer
        .change(|directory| {
            let stored = stored(directory, &tenant, id)?;
            precondition::check(&call.headers, stored.version)?;
            let mut faults = Faults::default();
            let change = SourceChange::read(fields.clone(), &mut faults);
            let changed = change.apply(Source::clone(stored), api.rules(call.now), &mut faults);
            let changed = checked(changed, faults)?;
            check_slug(directory, &changed)?;
            Ok(Change::new(changed.clone()).put_source(&changed))
        })
        .await?;
    Ok(shown(200, &source))
}

/// Deletes a source; subscriptions pinned to it match nothing more.
///
/// # Errors
/// 404.
pub async fn delete(api: &Service, call: &Call, id: SourceId) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    api.writer.change(|directory| Ok(Change::new(()).delete_source(stored(directory, &tenant, id)?, call.now))).await?;
    Ok(Answer::empty())
}

fn stored<'a>(directory: &'a Directory, tenant: &TenantId, id: SourceId) -> Result<&'a Rc<Source>, Problem> {
    directory.tenant(tenant).and_then(|objects| objects.sources.get(&id)).ok_or_else(Problem::not_found)
}

fn check_slug(directory: &Directory, source: &Source) -> Result<(), Problem> {
    let mut others = directory.tenant(&source.tenant).into_iter().flat_map(|objects| objects.sources.values());
    if others.any(|other| other.id != source.id && other.slug == source.slug) {
        return Err(Problem::unprocessable("invalid_request", "/slug", "is used by another source"));
    }
    Ok(())
}

fn shown(status: u16, source: &Source) -> Answer {
    Answer::json(status, &SourceView::of(source, "")).tagged(source.version)
}
