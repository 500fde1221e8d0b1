//! `/v1/events`: the pull list, one event with its jobs, and retrying them.

use std::collections::BTreeMap;

use serde_json::json;
use uuid::Uuid;

use crate::api::answer::Answer;
use crate::api::call::Call;
use crate::api::problem::{Faults, Problem};
use crate::api::service::Service;
use crate::api::views::{DeliveryView, EventView};
use crate::engine::dedup_key::{bucket_minute, dedup_key, tenant_mask};
use crate::engine::rows::LoggedEvent;
use crate::store::codec::fold::FoldedEvent;
use crate::store::embedded::{EventsQuery, IdPlace, ListOrder};
use crate::types::{JobRecord, SubscriptionId, TenantId};

use super::deliveries::{Surroundings, retry_job};

/// Events in order of arrival after the cursor, or newest first.
///
/// # Errors
/// 422 for a faulty query, 429 when the tenant pulls too often.
pub async fn list(api: &Service, mut call: Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    api.pulls.borrow_mut().take(&tenant, call.now)?;
    let mut faults = Faults::default();
    let order = call.query.word("order", &["asc", "desc"], &mut faults).unwrap_or("asc");
    let newest_first = order == "desc";
    let query = call.list(if newest_first { "events-desc" } else { "events" }, &mut faults)?;
    let wanted = EventsQuery {
        order: if newest_first { ListOrder::NewestFirst } else { ListOrder::OldestFirst },
        cursor: query.store_cursor()?,
        limit: query.limit,
        from: query.from,
        to: query.to,
        event_type: call.query.text("event_type"),
        origin: call.query.text("origin"),
        source_id: call.query.parsed("source_id", "must be a source's id, `src_…`", &mut faults),
        tenant,
    };
    call.check(faults)?;
    let page = api.queries.events(wanted).await?;
    Ok(query.answer(page.items.iter().map(EventView::of).collect(), page.next.as_ref()))
}

/// One event with its payload and jobs.
///
/// # Errors
/// 404 when there is none (any more).
pub async fn read(api: &Service, call: &Call, id: Uuid) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let folded = stored(api, &tenant, id).await?;
    let (event, jobs) = (&folded.logged.event, &folded.logged.jobs);
    let around = Surroundings::of_jobs(api, &tenant, jobs.iter()).await;
    let jobs = jobs.iter().map(|job| DeliveryView::of(event, job, &around.of(job))).collect();
    Ok(Answer::json(200, &EventView::of(&folded).with_deliveries(jobs)))
}

/// Retries the latest job of each of an event's subscriptions; tells which will be attempted.
///
/// # Errors
/// 404 when there is no such event, 503 when the shard is busy.
pub async fn retry(api: &Service, call: &Call, id: Uuid) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let logged = stored(api, &tenant, id).await?.logged;
    let (mut deliveries, mut skipped) = (Vec::new(), 0);
    for job in latest_jobs(&logged).into_values() {
        match retry_job(api, &tenant, logged.event.received_at, job.key).await {
            Ok(run) => deliveries.push(run.to_string()),
            Err(problem) if problem.status == 503 => return Err(problem),
            Err(_) => skipped += 1,
        }
    }
    Ok(Answer::json(202, &json!({"deliveries": deliveries, "skipped": skipped})))
}

async fn stored(api: &Service, tenant: &TenantId, id: Uuid) -> Result<FoldedEvent, Problem> {
    find(api, tenant, id).await?.ok_or_else(Problem::not_found)
}

/// The event of an id: its owner knows it while the id is not written behind, and the store afterwards.
///
/// # Errors
/// 503 when the store is busy.
pub(super) async fn find(api: &Service, tenant: &TenantId, id: Uuid) -> Result<Option<FoldedEvent>, Problem> {
    if let Some(sequence) = api.shards.sequence_of(tenant, id).await
        && let Some(event) = api.queries.event(tenant.clone(), sequence).await?
        && event.logged.event.id == id
    {
        return Ok(Some(event));
    }
    let mask = tenant_mask(&api.store.deployment().dedup_salt, tenant);
    let place = IdPlace { minute: bucket_minute(id), key: dedup_key(mask, id) };
    Ok(api.queries.event_by_id(tenant.clone(), id, place).await?)
}

fn latest_jobs(logged: &LoggedEvent) -> BTreeMap<SubscriptionId, &JobRecord> {
    logged.jobs.iter().map(|job| (job.subscription, job)).collect()
}
