//! `/v1/dead-letters` and `/admin/dead-letters`: jobs that ended without success, and running them again.

use serde_json::json;

use crate::api::answer::Answer;
use crate::api::call::Call;
use crate::api::input::Fields;
use crate::api::problem::{Faults, Problem};
use crate::api::service::Service;
use crate::api::views::DeadLetterView;
use crate::api::views::delivery::retried_as;
use crate::store::codec::dead_letter::DeadLetter;
use crate::store::embedded::DeadLettersQuery;
use crate::types::{DeliveryId, EndReason, TenantId, Time, limits};

use super::deliveries::retry_job;

const REASONS: [&str; 5] = ["exhausted", "poison", "circuit_open", "gone", "expired"];
/// The same, for a fault.
const REASON_RULE: &str = "must be one of exhausted, poison, circuit_open, gone, expired";

/// What a bulk retry has done.
#[derive(Debug, Default)]
struct Tally {
    matched: usize,
    retried: usize,
    skipped: usize,
}

/// The tenant's dead letters, newest first.
///
/// # Errors
/// 422 for a faulty query.
pub async fn list(api: &Service, call: Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    page(api, call, Some(&tenant)).await
}

/// All tenants' dead letters, newest first.
///
/// # Errors
/// 422 for a faulty query.
pub async fn list_all(api: &Service, call: Call) -> Result<Answer, Problem> {
    page(api, call, None).await
}

/// Runs every dead letter that a filter names again, oldest first, of the newest [`limits::BULK_RETRY_MAX`]; one
/// already retried is skipped unless `again`.
///
/// # Errors
/// 422 for a faulty body, 503 when the shard is busy; what was retried until then stays so.
pub async fn retry_many(api: &Service, call: &Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let (wanted, again) = selection(call.fields()?, &tenant)?;
    let mut tally = Tally::default();
    for letter in matched(api, wanted).await?.iter().rev() {
        retry_one(api, &tenant, letter, again, &mut tally).await?;
    }
    Ok(Answer::json(202, &json!({"matched": tally.matched, "retried": tally.retried, "skipped": tally.skipped})))
}

/// Everything a query names, newest first, within the bound.
async fn matched(api: &Service, mut wanted: DeadLettersQuery) -> Result<Vec<DeadLetter>, Problem> {
    let mut letters = Vec::new();
    while letters.len() < limits::BULK_RETRY_MAX {
        let page = api.queries.dead_letters(wanted.clone()).await?;
        letters.extend(page.items);
        let Some(next) = page.next else { break };
        wanted.cursor = Some(next);
    }
    Ok(letters)
}

async fn page(api: &Service, mut call: Call, tenant: Option<&TenantId>) -> Result<Answer, Problem> {
    let mut faults = Faults::default();
    let query = call.list(if tenant.is_some() { "dead-letters" } else { "all-dead-letters" }, &mut faults)?;
    let wanted = DeadLettersQuery {
        tenant: tenant.cloned(),
        cursor: query.store_cursor()?,
        limit: query.limit,
        from: query.from,
        to: query.to,
        reason: call.query.word("reason", &REASONS, &mut faults).and_then(reason),
        subscription: call.query.parsed("subscription_id", "must be a subscription's id, `sub_…`", &mut faults),
        destination: call.query.parsed("destination_id", "must be a destination's id, `dst_…`", &mut faults),
    };
    call.check(faults)?;
    let page = api.queries.dead_letters(wanted).await?;
    let mut views = Vec::with_capacity(page.items.len());
    for letter in &page.items {
        let run = latest_run(api, letter).await?;
        let view = DeadLetterView::of(&letter.event, &letter.job, run);
        views.extend(view.map(|view| if tenant.is_some() { view } else { view.with_tenant(&letter.event) }));
    }
    Ok(query.answer(views, page.next.as_ref()))
}

/// The run that followed a dead letter, as long as its event is in the log.
async fn latest_run(api: &Service, letter: &DeadLetter) -> Result<Option<DeliveryId>, Problem> {
    let folded = api.queries.event(letter.event.tenant.clone(), letter.job.key.sequence).await?;
    Ok(folded.and_then(|folded| retried_as(&folded.logged, &letter.job)))
}

async fn retry_one(
    api: &Service,
    tenant: &TenantId,
    letter: &DeadLetter,
    again: bool,
    tally: &mut Tally,
) -> Result<(), Problem> {
    tally.matched += 1;
    let done_before = !again && latest_run(api, letter).await?.is_some();
    let retried = !done_before && {
        match retry_job(api, tenant, letter.event.received_at, letter.job.key).await {
            Ok(_) => true,
            Err(problem) if problem.status == 503 => return Err(problem),
            Err(_) => false,
        }
    };
    *if retried { &mut tally.retried } else { &mut tally.skipped } += 1;
    Ok(())
}

/// The body of a bulk retry: `reason`, `subscription_id`, `destination_id`, `from`, `to`, `again`.
fn selection(mut fields: Fields, tenant: &TenantId) -> Result<(DeadLettersQuery, bool), Problem> {
    const TIME: &str = "must be a time as in RFC 3339";
    const SUBSCRIPTION: &str = "must be a subscription's id, `sub_…`";
    const DESTINATION: &str = "must be a destination's id, `dst_…`";
    let mut faults = Faults::default();
    let wanted = DeadLettersQuery {
        tenant: Some(tenant.clone()),
        cursor: None,
        limit: limits::PAGE_MAX,
        reason: parsed(&mut fields, "reason", REASON_RULE, reason, &mut faults),
        subscription: parsed(&mut fields, "subscription_id", SUBSCRIPTION, |text| text.parse().ok(), &mut faults),
        destination: parsed(&mut fields, "destination_id", DESTINATION, |text| text.parse().ok(), &mut faults),
        from: parsed(&mut fields, "from", TIME, Time::parse_rfc3339, &mut faults),
        to: parsed(&mut fields, "to", TIME, Time::parse_rfc3339, &mut faults),
    };
    let again = fields.flag("again", &mut faults).over(false, false);
    fields.finish(&mut faults);
    faults.check()?;
    Ok((wanted, again))
}

fn parsed<T>(
    fields: &mut Fields,
    name: &str,
    rule: &str,
    parse: impl FnOnce(&str) -> Option<T>,
    faults: &mut Faults,
) -> Option<T> {
    let at = fields.pointer(name);
    let text = fields.text(name, limits::NAME_MAX_BYTES, faults).value()?;
    let value = parse(&text);
    if value.is_none() {
        faults.add(at, rule);
    }
    value
}

fn reason(text: &str) -> Option<EndReason> {
    serde_json::from_value(text.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_name_that_parses() {
        for name in REASONS {
            assert_eq!(reason(name).map(EndReason::as_str), Some(name));
        }
        assert_eq!(reason("bored"), None);
    }

    #[test]
    fn a_selection_names_every_fault() {
        let fields = |text: &str| Fields::of_body(text.as_bytes()).expect("an object");
        let tenant = TenantId::new("acme").expect("a tenant");
        let (wanted, again) = selection(fields(r#"{"reason":"gone","again":true}"#), &tenant).expect("a selection");
        assert_eq!((wanted.reason, wanted.limit, again), (Some(EndReason::Gone), limits::PAGE_MAX, true));
        assert_eq!(wanted.tenant.as_ref(), Some(&tenant));
        let faulty = r#"{"reason":"x","subscription_id":"x","destination_id":7,"from":"x","to":1,"again":2,"y":3}"#;
        let problem = selection(fields(faulty), &tenant).expect_err("faults");
        let pointers: Vec<&str> = problem.errors.iter().map(|fault| fault.pointer.as_str()).collect();
        let expected = ["/reason", "/subscription_id", "/destination_id", "/from", "/to", "/again", "/y"];
        assert_eq!(pointers, expected);
    }
}
