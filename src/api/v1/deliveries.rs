//! `/v1/deliveries`, also as `/v1/delivery-attempts`: jobs, their attempts, and retrying them.

use std::cell::Ref;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::api::answer::Answer;
use crate::api::call::Call;
use crate::api::directory::Directory;
use crate::api::problem::{Faults, Problem};
use crate::api::router::event_uuid;
use crate::api::service::Service;
use crate::api::views::{DeliveryView, Waiting};
use crate::engine::{Command, CommandResult, JobQuestion, Standing};
use crate::store::embedded::{DeliveriesQuery, Delivery, JobStatus};
use crate::types::{DeliveryId, JobKey, JobRecord, RunId, Sequence, SubscriptionId, TenantId, Time, Trigger};

use super::events::find;

const STATUSES: [&str; 5] = ["pending", "delivering", "delivered", "dead_lettered", "cancelled"];

/// What stands around a tenant's jobs when they are shown.
pub(super) struct Surroundings<'a> {
    directory: Ref<'a, Directory>,
    tenant: &'a TenantId,
    standings: BTreeMap<JobKey, Standing>,
    now: Time,
}

impl<'a> Surroundings<'a> {
    /// Asks the shard how the open ones of `jobs` stand; to be dropped before the next await.
    pub(super) async fn of_jobs(
        api: &'a Service,
        tenant: &'a TenantId,
        jobs: impl Iterator<Item = &JobRecord>,
    ) -> Self {
        let open: Vec<JobQuestion> = jobs.filter(|job| job.end.is_none()).map(JobQuestion::from).collect();
        let keys: Vec<JobKey> = open.iter().map(|job| job.key).collect();
        let standings = if open.is_empty() { Vec::new() } else { api.shards.standings(tenant, open).await };
        let standings = keys.into_iter().zip(standings).collect();
        Self { directory: api.writer.directory(), tenant, standings, now: api.now() }
    }

    /// Those of one job.
    pub(super) fn of(&self, job: &JobRecord) -> Waiting<'_> {
        let subscription = self.directory.subscription(self.tenant, job.subscription);
        Waiting {
            subscription: subscription.map(|subscription| &**subscription),
            deleted_at: self.directory.subscription_deleted_at(self.tenant, job.subscription),
            paused: self.directory.is_paused(self.tenant),
            standing: self.standings.get(&job.key).copied().unwrap_or(Standing::Unknown),
            now: self.now,
        }
    }
}

/// Jobs, newest event first.
///
/// # Errors
/// 422 for a faulty query.
pub async fn list(api: &Service, mut call: Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let mut faults = Faults::default();
    let query = call.list("deliveries", &mut faults)?;
    let event_id = call.query.text("event_id");
    let event = event_id.as_deref().and_then(event_uuid);
    if event_id.is_some() && event.is_none() {
        faults.add("/event_id", "must be an event's id");
    }
    let mut wanted = DeliveriesQuery {
        tenant: tenant.clone(),
        cursor: query.store_cursor()?,
        limit: query.limit,
        from: query.from,
        to: query.to,
        status: call.query.word("status", &STATUSES, &mut faults).and_then(status),
        subscription: call.query.parsed("subscription_id", "must be a subscription's id, `sub_…`", &mut faults),
        destination: call.query.parsed("destination_id", "must be a destination's id, `dst_…`", &mut faults),
        event: None,
        event_type: call.query.text("event_type"),
        deleted: deleted(api, &tenant),
    };
    call.check(faults)?;
    if let Some(id) = event {
        let Some(found) = find(api, &tenant, id).await? else { return Ok(query.answer(Vec::<()>::new(), None)) };
        wanted.event = Some(found.logged.event.sequence);
    }
    let page = api.queries.deliveries(wanted).await?;
    let around = Surroundings::of_jobs(api, &tenant, page.items.iter().map(|entry| &entry.job)).await;
    let views = page.items.iter().map(|entry| DeliveryView::of(entry, &entry.job, &around.of(&entry.job)));
    Ok(query.answer(views.collect(), page.next.as_ref()))
}

/// One job with its attempts.
///
/// # Errors
/// 404 when there is none (any more).
pub async fn read(api: &Service, call: &Call, id: DeliveryId) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let (delivery, place) = stored(api, &tenant, id).await?;
    let attempts = api.queries.attempts(tenant.clone(), place).await?;
    let around = Surroundings::of_jobs(api, &tenant, std::iter::once(&delivery.job)).await;
    let view = DeliveryView::of(&delivery, &delivery.job, &around.of(&delivery.job));
    Ok(Answer::json(200, &view.with_attempts(&attempts)))
}

/// Makes a pending job due now, or an ended one run again.
///
/// # Errors
/// 404, 409 `subscription_deleted` or `too_many_runs`, 410 `payload_expired`, 503 when the shard is busy.
pub async fn retry(api: &Service, call: &Call, id: DeliveryId) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let (delivery, _) = stored(api, &tenant, id).await?;
    let run = retry_job(api, &tenant, delivery.received_at, delivery.job.key).await?;
    let Ok((made, _)) = stored(api, &tenant, run).await else {
        return Ok(Answer::json(202, &json!({"id": run, "event_id": delivery.event_id})));
    };
    let around = Surroundings::of_jobs(api, &tenant, std::iter::once(&made.job)).await;
    Ok(Answer::json(202, &DeliveryView::of(&made, &made.job, &around.of(&made.job))))
}

/// Commands a retry; returns the id of the job that will be attempted.
pub(super) async fn retry_job(
    api: &Service,
    tenant: &TenantId,
    received_at: Time,
    key: JobKey,
) -> Result<DeliveryId, Problem> {
    let run = RunId(api.new_id(api.now()));
    let command = Command::Retry { tenant: tenant.clone(), key, run, trigger: Trigger::Manual };
    match api.shards.command(tenant, command).await {
        CommandResult::Done(made) => {
            let made = made.unwrap_or(key);
            Ok(DeliveryId::of(received_at, made.sequence, made.ordinal))
        }
        CommandResult::NotFound => Err(Problem::not_found()),
        CommandResult::SubscriptionDeleted => {
            Err(Problem::new(409, "subscription_deleted", "the delivery's subscription was deleted"))
        }
        CommandResult::TooManyRuns => {
            Err(Problem::new(409, "too_many_runs", "the event has had its 100 runs for this subscription"))
        }
        CommandResult::Expired => {
            Err(Problem::new(410, "payload_expired", "the event's payload has expired and cannot be sent again"))
        }
        CommandResult::Busy => Err(Problem::unavailable("the shard is busy")),
    }
}

/// The delivery that an id names, and its place. The id must be the very one of that job.
async fn stored(api: &Service, tenant: &TenantId, id: DeliveryId) -> Result<(Delivery, (Sequence, u16)), Problem> {
    let place = id.place().ok_or_else(Problem::not_found)?;
    let delivery = api.queries.delivery(tenant.clone(), place).await?.ok_or_else(Problem::not_found)?;
    let named = DeliveryId::of(delivery.received_at, place.0, place.1) == id;
    if named { Ok((delivery, place)) } else { Err(Problem::not_found()) }
}

/// The tenant's deleted subscriptions: their jobs count as cancelled before each of them has ended.
fn deleted(api: &Service, tenant: &TenantId) -> BTreeSet<SubscriptionId> {
    let directory = api.writer.directory();
    directory.tenant(tenant).map(|objects| objects.deleted_subscriptions.keys().copied().collect()).unwrap_or_default()
}

fn status(word: &str) -> Option<JobStatus> {
    match word {
        "pending" => Some(JobStatus::Pending),
        "delivering" => Some(JobStatus::Delivering),
        "delivered" => Some(JobStatus::Delivered),
        "dead_lettered" => Some(JobStatus::DeadLettered),
        "cancelled" => Some(JobStatus::Cancelled),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_word_is_one() {
        assert!(STATUSES.iter().all(|word| status(word).is_some()));
        assert_eq!(status("sending"), None);
    }
}
