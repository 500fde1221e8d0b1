//! `/v1/destinations`, their secrets and circuits.

use std::rc::Rc;

use url::{Host, Url};

use crate::api::answer::Answer;
use crate::api::call::{Call, checked};
use crate::api::config_writer::Change;
use crate::api::directory::Directory;
use crate::api::objects::{DestinationChange, DestinationView};
use crate::api::precondition;
use crate::api::problem::{Faults, Problem};
use crate::api::service::Service;
use crate::api::verify;
use crate::api::views::CircuitView;
use crate::deliver::GuardError;
use crate::engine::circuit::CircuitState;
use crate::engine::rows::CircuitRecord;
use crate::engine::{CircuitReport, Command, CommandResult};
use crate::types::destination::SigningSecret;
use crate::types::{Destination, DestinationId, Duration, Secret, Subscription, TenantId, Time, limits};

use super::room;

/// All destinations of the tenant, newest first.
///
/// # Errors
/// 422 for a faulty query.
pub fn list(api: &Service, mut call: Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let mut faults = Faults::default();
    let query = call.list("destinations", &mut faults)?;
    call.check(faults)?;
    let directory = api.writer.directory();
    let all = directory.tenant(&tenant).into_iter().flat_map(|objects| objects.destinations.values().rev());
    query.answer_objects(all, (|stored| stored.id, |stored| stored.created_at), |stored| DestinationView::of(stored))
}

/// One destination.
///
/// # Errors
/// 404.
pub fn read(api: &Service, call: &Call, id: DestinationId) -> Result<Answer, Problem> {
    let directory = api.writer.directory();
    let destination = stored(&directory, &call.tenant()?, id)?;
    Ok(Answer::json(200, &DestinationView::of(destination)).tagged(destination.version))
}

/// Makes a destination and shows its secret, once.
///
/// # Errors
/// 422 for faults or `limit_reached`.
pub async fn create(api: &Service, call: &Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let mut faults = Faults::default();
    let rules = api.rules(call.now);
    let change = DestinationChange::read(call.fields()?, rules, &mut faults);
    let id = DestinationId(api.new_id(call.now));
    let made = change.create(id, &tenant, api.secret_bytes()?, rules, &mut faults);
    let destination = checked(made, faults)?;
    let warnings = judge(api, &destination.url, "/url").await?;
    api.writer
        .change(|directory| {
            check_room(api, directory, &tenant)?;
            Ok(Change::new(()).put_destination(&destination))
        })
        .await?;
    let view = DestinationView::of(&destination).with_secret(&destination).with_warnings(&warnings);
    Ok(Answer::json(201, &view).tagged(destination.version))
}

/// Changes a destination. Under another URL its subscriptions must consent again.
///
/// # Errors
/// 404, 412, or 422 for faults.
pub async fn change(api: &Rc<Service>, call: &Call, id: DestinationId) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let mut faults = Faults::default();
    let rules = api.rules(call.now);
    let change = DestinationChange::read(call.fields()?, rules, &mut faults);
    let warnings = match change.url() {
        Some(url) => judge(api, &url.clone(), "/url").await?,
        None => Vec::new(),
    };
    let (destination, pending) = api
        .writer
        .change(|directory| {
            let stored = stored(directory, &tenant, id)?;
            precondition::check(&call.headers, stored.version)?;
            let mut faults = faults.clone();
            let changed = change.clone().change(Destination::clone(stored), rules, &mut faults);
            let changed = checked(changed, faults)?;
            let asked = if changed.url == stored.url { Vec::new() } else { asked_again(directory, &changed) };
            let writes = Change::new((changed.clone(), asked.clone())).put_destination(&changed);
            Ok(asked.iter().fold(writes, Change::put_subscription))
        })
        .await?;
    for subscription in &pending {
        verify::begin(api, subscription);
    }
    let view = DestinationView::of(&destination).with_warnings(&warnings);
    Ok(Answer::json(200, &view).tagged(destination.version))
}

/// Deletes a destination and its subscriptions: their jobs end as cancelled.
///
/// # Errors
/// 404.
pub async fn delete(api: &Service, call: &Call, id: DestinationId) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    api.writer
        .change(|directory| {
            let destination = stored(directory, &tenant, id)?;
            let of_it = subscriptions_of(directory, destination);
            let change = of_it.fold(Change::new(()), |change, one| change.delete_subscription(one, call.now));
            Ok(change.delete_destination(destination, call.now))
        })
        .await?;
    Ok(Answer::empty())
}

/// Makes another secret the newest; the one before signs beside it for a while. The new one is shown, once.
///
/// # Errors
/// 404, 412, or 422 for faults.
pub async fn rotate_secret(api: &Service, call: &Call, id: DestinationId) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let (secret, overlap) = rotation(api, call)?;
    let destination = api
        .writer
        .change(|directory| {
            let stored = stored(directory, &tenant, id)?;
            precondition::check(&call.headers, stored.version)?;
            let changed = Destination {
                secrets: rotated(&stored.secrets, secret.clone(), call.now, overlap),
                updated_at: call.now,
                version: stored.version + 1,
                ..Destination::clone(stored)
            };
            Ok(Change::new(changed.clone()).put_destination(&changed))
        })
        .await?;
    let view = DestinationView::of(&destination).with_secret(&destination);
    Ok(Answer::json(200, &view).tagged(destination.version))
}

/// A destination's circuit.
///
/// # Errors
/// 404.
pub async fn read_circuit(api: &Service, call: &Call, id: DestinationId) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    stored(&api.writer.directory(), &tenant, id)?;
    Ok(Answer::json(200, &CircuitView::of(&circuit(api, &tenant, id).await?)))
}

/// Closes a destination's circuit and shows it.
///
/// # Errors
/// 404, or 503 when the shard is busy.
pub async fn reset_circuit(api: &Service, call: &Call, id: DestinationId) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    stored(&api.writer.directory(), &tenant, id)?;
    let result = api.shards.command(&tenant, Command::ResetCircuit(tenant.clone(), id)).await;
    if result == CommandResult::Busy {
        return Err(Problem::unavailable("the shard is busy"));
    }
    Ok(Answer::json(200, &CircuitView::of(&circuit(api, &tenant, id).await?)))
}

/// Resolves a URL as before a delivery: a forbidden address is a fault, a name that does not resolve a warning.
///
/// # Errors
/// 422 at `pointer`.
pub(super) async fn judge(api: &Service, url: &Url, pointer: &str) -> Result<Vec<String>, Problem> {
    let Some(Host::Domain(name)) = url.host() else { return Ok(Vec::new()) };
    let found = match api.resolver.resolve(name).await {
        Ok(found) => found,
        Err(error) => return Ok(vec![format!("the URL's name does not resolve now: {error}")]),
    };
    let judged = api.settings.guard.check_addresses(name, &found.addresses);
    let refused = |error: GuardError| Problem::unprocessable("invalid_request", pointer, error.to_string());
    judged.map(|()| Vec::new()).map_err(refused)
}

/// Refuses one more destination.
///
/// # Errors
/// 422 `limit_reached`.
pub(super) fn check_room(api: &Service, directory: &Directory, tenant: &TenantId) -> Result<(), Problem> {
    let count = directory.tenant(tenant).map_or(0, |objects| objects.destinations.len());
    room(count, api.settings.destinations_per_tenant, "destinations")
}

fn stored<'a>(directory: &'a Directory, tenant: &TenantId, id: DestinationId) -> Result<&'a Rc<Destination>, Problem> {
    directory.destination(tenant, id).ok_or_else(Problem::not_found)
}

fn subscriptions_of<'a>(
    directory: &'a Directory,
    destination: &'a Destination,
) -> impl Iterator<Item = &'a Rc<Subscription>> {
    let all = directory.tenant(&destination.tenant).into_iter().flat_map(|objects| objects.subscriptions.values());
    all.filter(|subscription| subscription.destination_id == destination.id)
}

/// The subscriptions of a destination whose URL has changed, as they begin again.
fn asked_again(directory: &Directory, changed: &Destination) -> Vec<Subscription> {
    let again = |stored: &Rc<Subscription>| Subscription {
        verification_state: verify::first_state(changed),
        updated_at: changed.updated_at,
        version: stored.version + 1,
        ..Subscription::clone(stored)
    };
    subscriptions_of(directory, changed).map(again).collect()
}

/// The body of a rotation: `secret` and `overlap_s`, both optional.
fn rotation(api: &Service, call: &Call) -> Result<(Secret, Duration), Problem> {
    let mut fields = call.fields()?;
    let mut faults = Faults::default();
    let text = fields.text("secret", limits::NAME_MAX_BYTES, &mut faults);
    let given = text.and_then(|text| match Secret::parse_whsec(&text) {
        Ok(secret) => Some(secret),
        Err(rule) => {
            faults.add("/secret", rule.to_string());
            None
        }
    });
    let overlap = fields.whole("overlap_s", 0..=limits::SECRET_OVERLAP_MAX_S, &mut faults).value();
    fields.finish(&mut faults);
    faults.check()?;
    let secret = match given.value() {
        Some(secret) => secret,
        None => Secret::new(api.secret_bytes()?.to_vec()),
    };
    Ok((secret, overlap.map_or(api.settings.secret_overlap, |seconds| Duration::from_secs(seconds.into()))))
}

/// The secrets after a rotation, newest first: those before sign until `overlap` is over, or their own end.
fn rotated(stored: &[SigningSecret], newest: Secret, now: Time, overlap: Duration) -> Vec<SigningSecret> {
    let until = now + overlap;
    let before = stored.iter().map(|old| SigningSecret {
        secret: old.secret.clone(),
        expires_at: Some(old.expires_at.map_or(until, |end| end.min(until))),
    });
    let valid = before.filter(|old| old.expires_at.is_some_and(|end| now < end));
    let first = SigningSecret { secret: newest, expires_at: None };
    std::iter::once(first).chain(valid).take(limits::SIGNING_SECRETS_MAX).collect()
}

/// What the shard says of a circuit, or on a cluster's other nodes what its owner last wrote; one that nothing is known
/// of is closed.
async fn circuit(api: &Service, tenant: &TenantId, id: DestinationId) -> Result<CircuitReport, Problem> {
    if let Some(report) = api.shards.circuit(tenant, id).await {
        return Ok(report);
    }
    let stored = match api.queries.cluster() {
        Some(cluster) => cluster.circuit(tenant.clone(), id).await?.map(|record| record.circuit),
        None => None,
    };
    Ok(at_rest((tenant, id), stored.unwrap_or_default()))
}

fn at_rest((tenant, destination): (&TenantId, DestinationId), record: CircuitRecord) -> CircuitReport {
    let (state, consecutive_failures, last_transition_at, next_probe_at) = match record {
        CircuitRecord::Closed { failures, since } => (CircuitState::Closed, failures, since, None),
        CircuitRecord::Open { failures, since, probe_at, .. } => (CircuitState::Open, failures, since, Some(probe_at)),
    };
    let tenant = tenant.clone();
    CircuitReport { tenant, destination, state, consecutive_failures, last_transition_at, next_probe_at, waiting: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> Secret {
        Secret::new(vec![byte; 32])
    }

    #[test]
    fn a_rotation_keeps_the_former_secret_for_the_overlap_only() {
        let (now, overlap) = (Time::from_millis(1_000), Duration::from_secs(10));
        let first = vec![SigningSecret { secret: secret(1), expires_at: None }];
        let second = rotated(&first, secret(2), now, overlap);
        let expected = [(secret(2), None), (secret(1), Some(now + overlap))];
        assert_eq!(second.iter().map(|s| (s.secret.clone(), s.expires_at)).collect::<Vec<_>>(), expected);
        let late = now + overlap;
        let third = rotated(&second, secret(3), late, overlap);
        let expected = [(secret(3), None), (secret(2), Some(late + overlap))];
        assert_eq!(third.iter().map(|s| (s.secret.clone(), s.expires_at)).collect::<Vec<_>>(), expected);
        assert_eq!(rotated(&first, secret(2), now, Duration::ZERO).len(), 1);
    }

    #[test]
    fn no_more_secrets_sign_than_the_bound() {
        let mut secrets = vec![SigningSecret { secret: secret(0), expires_at: None }];
        for byte in 1..10 {
            secrets = rotated(&secrets, secret(byte), Time::ZERO, Duration::from_hours(24));
        }
        assert_eq!(secrets.len(), limits::SIGNING_SECRETS_MAX);
        assert_eq!(secrets[0].secret, secret(9));
    }
}
