//! Endpoints → handlers, one line each.

use std::rc::Rc;

use super::admin::{backup, operations, tenants};
use super::answer::Answer;
use super::call::Call;
use super::health;
use super::problem::Problem;
use super::router::Endpoint as E;
use super::service::Service;
use super::v1::{dead_letters, deliveries, destinations, events, keys, sources, subscriptions};

/// Runs the handler of a call.
///
/// # Errors
/// What the handler says.
pub async fn dispatch(api: &Rc<Service>, call: Call) -> Result<Answer, Problem> {
    match call.endpoint.clone() {
        E::Health => Ok(health::health()),
        E::Ready => health::ready(api),
        E::Metrics => Ok(health::metrics(api).await),
        E::ListSources => sources::list(api, call),
        E::CreateSource => sources::create(api, &call).await,
        E::ReadSource(id) => sources::read(api, &call, id),
        E::ChangeSource(id) => sources::change(api, &call, id).await,
        E::DeleteSource(id) => sources::delete(api, &call, id).await,
        E::ListDestinations => destinations::list(api, call),
        E::CreateDestination => destinations::create(api, &call).await,
        E::ReadDestination(id) => destinations::read(api, &call, id),
        E::ChangeDestination(id) => destinations::change(api, &call, id).await,
        E::DeleteDestination(id) => destinations::delete(api, &call, id).await,
        E::RotateSecret(id) => destinations::rotate_secret(api, &call, id).await,
        E::ReadCircuit(id) => destinations::read_circuit(api, &call, id).await,
        E::ResetCircuit(id) => destinations::reset_circuit(api, &call, id).await,
        E::ListSubscriptions(name) => subscriptions::list(api, call, name),
        E::CreateSubscription(name) => subscriptions::create(api, &call, name).await,
        E::ReadSubscription(name, id) => subscriptions::read(api, &call, (name, id)),
        E::ChangeSubscription(name, id) => subscriptions::change(api, &call, (name, id)).await,
        E::DeleteSubscription(name, id) => subscriptions::delete(api, &call, (name, id)).await,
        E::VerifySubscription(name, id) => subscriptions::verify(api, &call, (name, id)).await,
        E::ListEvents => events::list(api, call).await,
        E::ReadEvent(id) => events::read(api, &call, id).await,
        E::RetryEvent(id) => events::retry(api, &call, id).await,
        E::ListDeliveries => deliveries::list(api, call).await,
        E::ReadDelivery(id) => deliveries::read(api, &call, id).await,
        E::RetryDelivery(id) => deliveries::retry(api, &call, id).await,
        E::ListDeadLetters => dead_letters::list(api, call).await,
        E::RetryDeadLetters => dead_letters::retry_many(api, &call).await,
        E::RetryDeadLetter(id) => deliveries::retry(api, &call, id.delivery()).await,
        E::ListKeys => keys::list(api, call),
        E::CreateKey => keys::create(api, &call).await,
        E::DeleteKey(id) => keys::delete(api, &call, id).await,
        E::CreateTenantKey(tenant) => keys::create_for(api, &call, &tenant).await,
        E::PauseTenant(tenant) => tenants::pause(api, &call, &tenant).await,
        E::ResumeTenant(tenant) => tenants::resume(api, &tenant).await,
        E::EraseTenant(tenant) => tenants::erase(api, &tenant).await,
        E::BeginBackup => backup::begin(api, &call),
        E::ReadBackup => backup::read(api),
        E::ListProducerDlq => operations::producer_dlq(api, call).await,
        E::ListQuarantine => operations::quarantine(api, call).await,
        E::ReadQuarantine(id) => operations::quarantined(api, id).await,
        E::ListAllDeadLetters => dead_letters::list_all(api, call).await,
        E::ListCircuits => operations::circuits(api).await,
        E::ListShards => operations::shards(api).await,
        E::ListLanes => operations::lanes(api).await,
    }
}
