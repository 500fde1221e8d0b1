//! Paths and methods → endpoints, as one closed list.
//!
//! Pure. An unknown path, or an id that is none, is 404; a known path with another method is 405 with `Allow`.

use std::str::FromStr;

use percent_encoding::percent_decode_str;
use uuid::Uuid;

use crate::types::ids::KeyId;
use crate::types::{DeadLetterId, DeliveryId, DestinationId, SourceId, SubscriptionId, TenantId};

use super::auth::Access;
use super::objects::subscription::Name;
use super::problem::Problem;

/// Every endpoint of the API, with the ids its path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `GET /healthz`.
    Health,
    /// `GET /readyz`.
    Ready,
    /// `GET /metrics`.
    Metrics,
    /// `GET /v1/sources`.
    ListSources,
    /// `POST /v1/sources`.
    CreateSource,
    /// `GET /v1/sources/:id`.
    ReadSource(SourceId),
    /// `PATCH /v1/sources/:id`.
    ChangeSource(SourceId),
    /// `DELETE /v1/sources/:id`.
    DeleteSource(SourceId),
    /// `GET /v1/destinations`.
    ListDestinations,
    /// `POST /v1/destinations`.
    CreateDestination,
    /// `GET /v1/destinations/:id`.
    ReadDestination(DestinationId),
    /// `PATCH /v1/destinations/:id`.
    ChangeDestination(DestinationId),
    /// `DELETE /v1/destinations/:id`.
    DeleteDestination(DestinationId),
    /// `POST /v1/destinations/:id/rotate-secret`.
    RotateSecret(DestinationId),
    /// `GET /v1/destinations/:id/circuit`.
    ReadCircuit(DestinationId),
    /// `POST /v1/destinations/:id/circuit/reset`.
    ResetCircuit(DestinationId),
    /// `GET /v1/subscriptions`, `GET /v1/connections`.
    ListSubscriptions(Name),
    /// `POST /v1/subscriptions`, `POST /v1/connections`.
    CreateSubscription(Name),
    /// `GET /v1/subscriptions/:id`.
    ReadSubscription(Name, SubscriptionId),
    /// `PATCH /v1/subscriptions/:id`.
    ChangeSubscription(Name, SubscriptionId),
    /// `DELETE /v1/subscriptions/:id`.
    DeleteSubscription(Name, SubscriptionId),
    /// `POST /v1/subscriptions/:id/verify`.
    VerifySubscription(Name, SubscriptionId),
    /// `GET /v1/events`.
    ListEvents,
    /// `GET /v1/events/:id`.
    ReadEvent(Uuid),
    /// `POST /v1/events/:id/retry`.
    RetryEvent(Uuid),
    /// `GET /v1/deliveries`.
    ListDeliveries,
    /// `GET /v1/deliveries/:id`.
    ReadDelivery(DeliveryId),
    /// `POST /v1/deliveries/:id/retry`.
    RetryDelivery(DeliveryId),
    /// `GET /v1/dead-letters`.
    ListDeadLetters,
    /// `POST /v1/dead-letters/retry`.
    RetryDeadLetters,
    /// `POST /v1/dead-letters/:id/retry`.
    RetryDeadLetter(DeadLetterId),
    /// `GET /v1/api-keys`.
    ListKeys,
    /// `POST /v1/api-keys`.
    CreateKey,
    /// `DELETE /v1/api-keys/:id`.
    DeleteKey(KeyId),
    /// `POST /admin/tenants/:tenant/keys`.
    CreateTenantKey(TenantId),
    /// `POST /admin/tenants/:tenant/pause`.
    PauseTenant(TenantId),
    /// `POST /admin/tenants/:tenant/resume`.
    ResumeTenant(TenantId),
    /// `DELETE /admin/tenants/:tenant`.
    EraseTenant(TenantId),
    /// `POST /admin/backup`.
    BeginBackup,
    /// `GET /admin/backup`.
    ReadBackup,
    /// `GET /admin/dlq`.
    ListProducerDlq,
    /// `GET /admin/quarantine`.
    ListQuarantine,
    /// `GET /admin/quarantine/:id`.
    ReadQuarantine(Uuid),
    /// `GET /admin/dead-letters`.
    ListAllDeadLetters,
    /// `GET /admin/circuits`.
    ListCircuits,
    /// `GET /admin/shards`.
    ListShards,
    /// `GET /admin/lanes`.
    ListLanes,
}

/// An ingest path's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestPath<'a> {
    /// The source.
    pub source: SourceId,
    /// What follows it, with its slash; empty if nothing does.
    pub rest: &'a str,
}

/// The parts of `/v1/ingest/<source_id>[/*]`; `None` for any other path.
///
/// # Errors
/// 404 when the path is below `/v1/ingest/` and names no source.
pub fn ingest_path(path: &str) -> Option<Result<IngestPath<'_>, Problem>> {
    let after = path.strip_prefix("/v1/ingest/")?;
    let (id, rest) = after.split_at(after.find('/').unwrap_or(after.len()));
    Some(id.parse().map(|source| IngestPath { source, rest }).map_err(|_| Problem::not_found()))
}

/// The endpoint of a request and the key it asks for.
///
/// # Errors
/// 404 for an unknown path or id, 405 with `Allow` for another method.
pub fn route(method: &str, path: &str) -> Result<(Endpoint, Access), Problem> {
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let (choices, access) = match segments.as_slice() {
        ["v1", rest @ ..] => (tenant_choices(rest)?, Access::Tenant),
        ["admin", rest @ ..] => (operator_choices(rest)?, Access::Operator),
        ["healthz"] => (vec![("GET", Endpoint::Health)], Access::Open),
        ["readyz"] => (vec![("GET", Endpoint::Ready)], Access::Open),
        ["metrics"] => (vec![("GET", Endpoint::Metrics)], Access::Open),
        _ => return Err(Problem::not_found()),
    };
    choose(method, choices).map(|endpoint| (endpoint, access))
}

type Choices = Vec<(&'static str, Endpoint)>;

fn choose(method: &str, choices: Choices) -> Result<Endpoint, Problem> {
    let asked = if method == "HEAD" { "GET" } else { method };
    let allow = choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = choices.into_iter().find(|(name, _)| *name == asked);
    found.map(|(_, endpoint)| endpoint).ok_or_else(|| {
        let detail = format!("the methods here are {allow}");
        Problem { allow: Some(allow), ..Problem::new(405, "method_not_allowed", detail) }
    })
}

fn tenant_choices(segments: &[&str]) -> Result<Choices, Problem> {
    use Endpoint as E;
    Ok(match segments {
        ["sources"] => vec![("GET", E::ListSources), ("POST", E::CreateSource)],
        ["sources", text] => {
            let id = id(text)?;
            vec![("GET", E::ReadSource(id)), ("PATCH", E::ChangeSource(id)), ("DELETE", E::DeleteSource(id))]
        }
        ["destinations", rest @ ..] => return destination_choices(rest),
        ["subscriptions", rest @ ..] => return subscription_choices(Name::Subscription, rest),
        ["connections", rest @ ..] => return subscription_choices(Name::Connection, rest),
        ["events"] => vec![("GET", E::ListEvents)],
        ["events", text] => vec![("GET", E::ReadEvent(event_id(text)?))],
        ["events", text, "retry"] => vec![("POST", E::RetryEvent(event_id(text)?))],
        ["deliveries" | "delivery-attempts"] => vec![("GET", E::ListDeliveries)],
        ["deliveries" | "delivery-attempts", text] => vec![("GET", E::ReadDelivery(id(text)?))],
        ["deliveries" | "delivery-attempts", text, "retry"] => vec![("POST", E::RetryDelivery(id(text)?))],
        ["dead-letters"] => vec![("GET", E::ListDeadLetters)],
        ["dead-letters", "retry"] => vec![("POST", E::RetryDeadLetters)],
        ["dead-letters", text, "retry"] => vec![("POST", E::RetryDeadLetter(id(text)?))],
        ["api-keys"] => vec![("GET", E::ListKeys), ("POST", E::CreateKey)],
        ["api-keys", text] => vec![("DELETE", E::DeleteKey(id(text)?))],
        _ => return Err(Problem::not_found()),
    })
}

fn destination_choices(segments: &[&str]) -> Result<Choices, Problem> {
    use Endpoint as E;
    Ok(match segments {
        [] => vec![("GET", E::ListDestinations), ("POST", E::CreateDestination)],
        [text] => {
            let id = id(text)?;
            let change = ("PATCH", E::ChangeDestination(id));
            vec![("GET", E::ReadDestination(id)), change, ("DELETE", E::DeleteDestination(id))]
        }
        [text, "rotate-secret"] => vec![("POST", E::RotateSecret(id(text)?))],
        [text, "circuit"] => vec![("GET", E::ReadCircuit(id(text)?))],
        [text, "circuit", "reset"] => vec![("POST", E::ResetCircuit(id(text)?))],
        _ => return Err(Problem::not_found()),
    })
}

fn subscription_choices(name: Name, segments: &[&str]) -> Result<Choices, Problem> {
    use Endpoint as E;
    Ok(match segments {
        [] => vec![("GET", E::ListSubscriptions(name)), ("POST", E::CreateSubscription(name))],
        [text] => {
            let id = id(text)?;
            let change = ("PATCH", E::ChangeSubscription(name, id));
            vec![("GET", E::ReadSubscription(name, id)), change, ("DELETE", E::DeleteSubscription(name, id))]
        }
        [text, "verify"] => vec![("POST", E::VerifySubscription(name, id(text)?))],
        _ => return Err(Problem::not_found()),
    })
}

fn operator_choices(segments: &[&str]) -> Result<Choices, Problem> {
    use Endpoint as E;
    Ok(match segments {
        ["tenants", tenant] => vec![("DELETE", E::EraseTenant(tenant_id(tenant)?))],
        ["tenants", tenant, "keys"] => vec![("POST", E::CreateTenantKey(tenant_id(tenant)?))],
        ["tenants", tenant, "pause"] => vec![("POST", E::PauseTenant(tenant_id(tenant)?))],
        ["tenants", tenant, "resume"] => vec![("POST", E::ResumeTenant(tenant_id(tenant)?))],
        ["backup"] => vec![("GET", E::ReadBackup), ("POST", E::BeginBackup)],
        ["dlq"] => vec![("GET", E::ListProducerDlq)],
        ["quarantine"] => vec![("GET", E::ListQuarantine)],
        ["quarantine", text] => vec![("GET", E::ReadQuarantine(id(text)?))],
        ["dead-letters"] => vec![("GET", E::ListAllDeadLetters)],
        ["circuits"] => vec![("GET", E::ListCircuits)],
        ["shards"] => vec![("GET", E::ListShards)],
        ["lanes"] => vec![("GET", E::ListLanes)],
        _ => return Err(Problem::not_found()),
    })
}

fn id<T: FromStr>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(|_| Problem::not_found())
}

/// An event's id in either form: `evt_…` or a UUID.
fn event_id(text: &str) -> Result<Uuid, Problem> {
    event_uuid(text).ok_or_else(Problem::not_found)
}

/// The UUID of an event's public id, `evt_` and 32 digits or canonical.
#[must_use]
pub fn event_uuid(text: &str) -> Option<Uuid> {
    let plain = text.strip_prefix("evt_").filter(|digits| digits.len() == 32);
    let canonical = Some(text).filter(|text| text.len() == 36);
    Uuid::try_parse(plain.or(canonical)?).ok()
}

fn tenant_id(segment: &str) -> Result<TenantId, Problem> {
    let text = percent_decode_str(segment).decode_utf8().map_err(|_| Problem::not_found())?;
    TenantId::new(&text).map_err(|rule| Problem::unprocessable("invalid_request", "/tenant", rule.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "00000000000000000000000000000000";

    fn ask(method: &str, path: &str) -> Result<(Endpoint, Access), (u16, Option<String>)> {
        route(method, path).map_err(|problem| (problem.status, problem.allow))
    }

    #[test]
    fn paths_name_endpoints_and_the_keys_they_need() {
        let source = SourceId(Uuid::nil());
        assert_eq!(ask("GET", "/healthz"), Ok((Endpoint::Health, Access::Open)));
        assert_eq!(ask("HEAD", "/readyz"), Ok((Endpoint::Ready, Access::Open)));
        assert_eq!(
            ask("PATCH", &format!("/v1/sources/src_{HEX}")),
            Ok((Endpoint::ChangeSource(source), Access::Tenant))
        );
        let create = Endpoint::CreateSubscription(Name::Connection);
        assert_eq!(ask("POST", "/v1/connections"), Ok((create, Access::Tenant)));
        assert_eq!(ask("POST", "/v1/dead-letters/retry"), Ok((Endpoint::RetryDeadLetters, Access::Tenant)));
        assert_eq!(ask("GET", "/v1/delivery-attempts"), Ok((Endpoint::ListDeliveries, Access::Tenant)));
        let tenant = TenantId::new("a b/c").expect("a tenant");
        let pause = ask("POST", "/admin/tenants/a%20b%2Fc/pause");
        assert_eq!(pause, Ok((Endpoint::PauseTenant(tenant), Access::Operator)));
        for path in [format!("/v1/events/evt_{HEX}"), format!("/v1/events/{}", Uuid::nil())] {
            assert_eq!(ask("GET", &path), Ok((Endpoint::ReadEvent(Uuid::nil()), Access::Tenant)));
        }
    }

    #[test]
    fn what_is_unknown_is_404_and_another_method_405() {
        for path in ["/", "/v2", "/v1", "/v1/", "/v1/sources/", "/v1/sources/x", "/admin", "/healthz/", "/v1/events/7"]
        {
            assert_eq!(ask("GET", path), Err((404, None)), "{path}");
        }
        assert_eq!(ask("GET", &format!("/v1/sources/dst_{HEX}")), Err((404, None)));
        assert_eq!(ask("PUT", "/v1/sources"), Err((405, Some("GET, POST".to_owned()))));
        assert_eq!(ask("POST", "/v1/events"), Err((405, Some("GET".to_owned()))));
        let long = format!("/admin/tenants/{}/pause", "a".repeat(257));
        assert_eq!(ask("POST", &long), Err((422, None)));
    }

    #[test]
    fn an_ingest_path_has_a_source_and_a_rest() {
        let path = format!("/v1/ingest/src_{HEX}/a/b");
        let parts = ingest_path(&path).expect("an ingest path").expect("a source");
        assert_eq!(parts, IngestPath { source: SourceId(Uuid::nil()), rest: "/a/b" });
        let bare = format!("/v1/ingest/src_{HEX}");
        assert_eq!(ingest_path(&bare).expect("an ingest path").map(|parts| parts.rest), Ok(""));
        assert!(ingest_path("/v1/ingest/x").expect("an ingest path").is_err());
        assert!(ingest_path("/v1/sources").is_none());
    }
}
