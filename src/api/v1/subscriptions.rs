//! `/v1/subscriptions`, also as `/v1/connections`: those pinned to a source.

use std::rc::Rc;

use crate::api::answer::Answer;
use crate::api::call::{Call, checked};
use crate::api::config_writer::Change;
use crate::api::directory::Directory;
use crate::api::objects::subscription::Name;
use crate::api::objects::{DestinationView, SubscriptionChange, SubscriptionView};
use crate::api::precondition;
use crate::api::problem::{Faults, Problem};
use crate::api::service::Service;
use crate::api::verify;
use crate::types::{Destination, DestinationId, Subscription, SubscriptionId, TenantId};

use super::destinations::{check_room, judge};
use super::room;

/// All subscriptions of the tenant, newest first.
///
/// # Errors
/// 422 for a faulty query.
pub fn list(api: &Service, mut call: Call, name: Name) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let mut faults = Faults::default();
    let query = call.list("subscriptions", &mut faults)?;
    call.check(faults)?;
    let directory = api.writer.directory();
    let all = directory.tenant(&tenant).into_iter().flat_map(|objects| objects.subscriptions.values().rev());
    let named = all.filter(|stored| goes_by(name, stored));
    query.answer_objects(named, (|stored| stored.id, |stored| stored.created_at), |stored| SubscriptionView::of(stored))
}

/// One subscription.
///
/// # Errors
/// 404.
pub fn read(api: &Service, call: &Call, id: (Name, SubscriptionId)) -> Result<Answer, Problem> {
    let directory = api.writer.directory();
    let subscription = stored(&directory, &call.tenant()?, id)?;
    Ok(Answer::json(200, &SubscriptionView::of(subscription)).tagged(subscription.version))
}

/// Makes a subscription, with its inline destination if it has one, and begins its verification.
///
/// # Errors
/// 422 for faults or `limit_reached`.
pub async fn create(api: &Rc<Service>, call: &Call, name: Name) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let (mut subscription, inline) = made(api, call, &tenant, name)?;
    let mut warnings = match &inline {
        Some(destination) => judge(api, &destination.url, "/destination/url").await?,
        None => Vec::new(),
    };
    let (subscription, twins) = api
        .writer
        .change(|directory| {
            check_limits(api, directory, &tenant, inline.as_ref())?;
            let destination = target(directory, &subscription, inline.as_ref())?;
            subscription.verification_state = verify::first_state(destination);
            let twins = twins_of(directory, &subscription, destination);
            let change = Change::new((subscription.clone(), twins));
            let change = inline.iter().fold(change, Change::put_destination);
            Ok(change.put_subscription(&subscription))
        })
        .await?;
    verify::begin(api, &subscription);
    warnings.extend(twin_warning(twins));
    let mut view = SubscriptionView::of(&subscription).with_warnings(&warnings);
    if let Some(destination) = &inline {
        view = view.with_destination(DestinationView::of(destination).with_secret(destination));
    }
    Ok(Answer::json(201, &view).tagged(subscription.version))
}

/// Changes a subscription. Another destination must consent first.
///
/// # Errors
/// 404, 412, or 422 for faults.
pub async fn change(api: &Rc<Service>, call: &Call, id: (Name, SubscriptionId)) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let fields = call.fields()?;
    let (subscription, moved, twins) = api
        .writer
        .change(|directory| {
            let stored = stored(directory, &tenant, id)?;
            precondition::check(&call.headers, stored.version)?;
            let mut faults = Faults::default();
            let rules = api.rules(call.now);
            let change = SubscriptionChange::read(fields.clone(), Some(stored), rules, &mut faults);
            let mut changed = checked(change.apply(Subscription::clone(stored), rules, &mut faults), faults)?;
            let destination = target(directory, &changed, None)?;
            let moved = changed.destination_id != stored.destination_id;
            if moved {
                changed.verification_state = verify::first_state(destination);
            }
            let twins = if moved { twins_of(directory, &changed, destination) } else { 0 };
            Ok(Change::new((changed.clone(), moved, twins)).put_subscription(&changed))
        })
        .await?;
    if moved {
        verify::begin(api, &subscription);
    }
    let warnings: Vec<String> = twin_warning(twins).into_iter().collect();
    let view = SubscriptionView::of(&subscription).with_warnings(&warnings);
    Ok(Answer::json(200, &view).tagged(subscription.version))
}

/// Deletes a subscription: its jobs end as cancelled.
///
/// # Errors
/// 404.
pub async fn delete(api: &Service, call: &Call, id: (Name, SubscriptionId)) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    api.writer
        .change(|directory| Ok(Change::new(()).delete_subscription(stored(directory, &tenant, id)?, call.now)))
        .await?;
    Ok(Answer::empty())
}

/// Asks the destination now.
///
/// # Errors
/// 404, or 409 `verification_failed` with what came back.
pub async fn verify(api: &Service, call: &Call, id: (Name, SubscriptionId)) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    stored(&api.writer.directory(), &tenant, id)?;
    let subscription = verify::verify_now(api, &tenant, id.1).await?;
    Ok(Answer::json(200, &SubscriptionView::of(&subscription)).tagged(subscription.version))
}

/// The subscription and inline destination that a body asks for.
fn made(
    api: &Service,
    call: &Call,
    tenant: &TenantId,
    name: Name,
) -> Result<(Subscription, Option<Destination>), Problem> {
    let mut faults = Faults::default();
    let rules = api.rules(call.now);
    let mut change = SubscriptionChange::read(call.fields()?, None, rules, &mut faults);
    let inline = match change.destination.take() {
        Some(inline) => {
            let id = DestinationId(api.new_id(call.now));
            inline.create(id, tenant, api.secret_bytes()?, rules, &mut faults)
        }
        None => None,
    };
    let id = SubscriptionId(api.new_id(call.now));
    let inline_id = inline.as_ref().map(|destination| destination.id);
    let made = change.create(id, tenant, (name, inline_id), rules, &mut faults);
    checked(made, faults).map(|subscription| (subscription, inline))
}

fn check_limits(
    api: &Service,
    directory: &Directory,
    tenant: &TenantId,
    inline: Option<&Destination>,
) -> Result<(), Problem> {
    let count = directory.tenant(tenant).map_or(0, |objects| objects.subscriptions.len());
    room(count, api.settings.subscriptions_per_tenant, "subscriptions")?;
    if inline.is_some() { check_room(api, directory, tenant) } else { Ok(()) }
}

/// The destination of a subscription, whose other reference, the source, must exist as well.
fn target<'a>(
    directory: &'a Directory,
    subscription: &Subscription,
    inline: Option<&'a Destination>,
) -> Result<&'a Destination, Problem> {
    let mut faults = Faults::default();
    let stored = directory.destination(&subscription.tenant, subscription.destination_id).map(|stored| &**stored);
    let destination = inline.or(stored);
    if destination.is_none() {
        faults.add("/destination_id", "there is no such destination");
    }
    let own_source = |id| directory.source(id).is_some_and(|source| source.tenant == subscription.tenant);
    if subscription.source_id.is_some_and(|id| !own_source(id)) {
        faults.add("/source_id", "there is no such source");
    }
    checked(destination, faults)
}

/// How many other subscriptions of the tenant go to the same URL.
fn twins_of(directory: &Directory, subscription: &Subscription, destination: &Destination) -> usize {
    let Some(objects) = directory.tenant(&subscription.tenant) else { return 0 };
    let same_url = |other: &&Rc<Subscription>| {
        let target = objects.destinations.get(&other.destination_id);
        other.id != subscription.id && target.is_some_and(|target| target.url == destination.url)
    };
    objects.subscriptions.values().filter(same_url).count()
}

fn twin_warning(twins: usize) -> Option<String> {
    let tell = "tell the deliveries apart by X-Lerian-Subscription-Id";
    (twins > 0).then(|| format!("{twins} other subscriptions go to this URL: {tell}"))
}

fn goes_by(name: Name, subscription: &Subscription) -> bool {
    match name {
        Name::Subscription => true,
        Name::Connection => subscription.source_id.is_some(),
    }
}

fn stored<'a>(
    directory: &'a Directory,
    tenant: &TenantId,
    (name, id): (Name, SubscriptionId),
) -> Result<&'a Rc<Subscription>, Problem> {
    directory.subscription(tenant, id).filter(|stored| goes_by(name, stored)).ok_or_else(Problem::not_found)
}
