//! `/admin/dlq`, `/admin/quarantine`, `/admin/circuits`, `/admin/shards`, `/admin/lanes`.

use uuid::Uuid;

use crate::api::answer::Answer;
use crate::api::call::Call;
use crate::api::page::Page;
use crate::api::problem::{Faults, Problem};
use crate::api::service::Service;
use crate::api::views::{CircuitView, LaneView, QuarantineView, ShardView};
use crate::store::embedded::{ProducerDlqQuery, QuarantineQuery};

/// What producers dead-lettered themselves, newest first.
///
/// # Errors
/// 422 for a faulty query.
pub async fn producer_dlq(api: &Service, mut call: Call) -> Result<Answer, Problem> {
    let mut faults = Faults::default();
    let query = call.list("dlq", &mut faults)?;
    let (topic, tenant) = (call.query.text("topic"), call.query.text("tenant"));
    let error_class = call.query.text("error_class");
    call.check(faults)?;
    let (cursor, limit, from, to) = (query.store_cursor()?, query.limit, query.from, query.to);
    let wanted = ProducerDlqQuery { cursor, limit, from, to, topic, error_class, tenant };
    let page = api.queries.producer_dlq(wanted).await?;
    Ok(query.answer(page.items.iter().map(|(_, letter)| letter).collect(), page.next.as_ref()))
}

/// Malformed records, newest first.
///
/// # Errors
/// 422 for a faulty query.
pub async fn quarantine(api: &Service, mut call: Call) -> Result<Answer, Problem> {
    let mut faults = Faults::default();
    let query = call.list("quarantine", &mut faults)?;
    let (topic, reason) = (call.query.text("topic"), call.query.text("reason"));
    call.check(faults)?;
    let (cursor, limit, from, to) = (query.store_cursor()?, query.limit, query.from, query.to);
    let page = api.queries.quarantine(QuarantineQuery { cursor, limit, from, to, topic, reason }).await?;
    let views = page.items.iter().map(|(id, record)| QuarantineView::of(*id, record)).collect();
    Ok(query.answer(views, page.next.as_ref()))
}

/// One malformed record.
///
/// # Errors
/// 404.
pub async fn quarantined(api: &Service, id: Uuid) -> Result<Answer, Problem> {
    let record = api.queries.quarantined(id).await?.ok_or_else(Problem::not_found)?;
    Ok(Answer::json(200, &QuarantineView::of(id, &record)))
}

/// Every circuit that is not at rest.
///
/// # Errors
/// None.
pub async fn circuits(api: &Service) -> Result<Answer, Problem> {
    let reports = api.shards.report().await;
    let circuits = reports.iter().flat_map(|shard| &shard.circuits);
    Ok(whole(circuits.map(|circuit| CircuitView::of(circuit).with_tenant(circuit)).collect()))
}

/// Every shard of this process.
///
/// # Errors
/// None.
pub async fn shards(api: &Service) -> Result<Answer, Problem> {
    let reports = api.shards.report().await;
    Ok(whole(reports.iter().map(|shard| ShardView::of(shard, &api.settings.node)).collect()))
}

/// Every lane of this process.
///
/// # Errors
/// None.
pub async fn lanes(api: &Service) -> Result<Answer, Problem> {
    let lanes = api.shards.lanes().await;
    Ok(whole(lanes.iter().map(|lane| LaneView::of(lane, &api.settings.node)).collect()))
}

/// A list that is one page.
fn whole<V: serde::Serialize>(items: Vec<V>) -> Answer {
    Answer::json(200, &Page { items, next_cursor: None })
}
