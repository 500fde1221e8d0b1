//! `/v1/api-keys`, and a tenant's first key, which the operator makes.

use serde::Serialize;

use crate::api::answer::Answer;
use crate::api::auth::{KeyHash, key_text};
use crate::api::call::Call;
use crate::api::config_writer::Change;
use crate::api::problem::{Faults, Problem};
use crate::api::service::Service;
use crate::store::configuration::{ApiKey, ConfigKey, ConfigRecord, ConfigWrite};
use crate::types::ids::KeyId;
use crate::types::{TenantId, limits};

use super::room;

#[derive(Debug, Serialize)]
struct KeyView<'a> {
    id: KeyId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    created_at: String,
}

impl<'a> KeyView<'a> {
    fn of(key: &'a ApiKey) -> Self {
        let created_at = key.created_at.to_rfc3339();
        Self { id: key.id, name: key.name.as_deref(), tenant: None, key: None, created_at }
    }
}

/// All keys of the tenant, without their texts, newest first.
///
/// # Errors
/// 422 for a faulty query.
pub fn list(api: &Service, mut call: Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let mut faults = Faults::default();
    let query = call.list("api-keys", &mut faults)?;
    call.check(faults)?;
    let directory = api.writer.directory();
    let keys = directory.tenant(&tenant).into_iter().flat_map(|objects| objects.keys.values().rev());
    query.answer_objects(keys, (|key| key.id, |key| key.created_at), |key| KeyView::of(key))
}

/// Makes another key and shows its text, once.
///
/// # Errors
/// 422 for faults or `limit_reached`.
pub async fn create(api: &Service, call: &Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    create_for(api, call, &tenant).await
}

/// Makes a key of `tenant` and shows its text, once.
///
/// # Errors
/// 422 for faults or `limit_reached`, 409 `tenant_erasing`.
pub async fn create_for(api: &Service, call: &Call, tenant: &TenantId) -> Result<Answer, Problem> {
    let mut fields = call.fields()?;
    let mut faults = Faults::default();
    let name = fields.text("name", limits::NAME_MAX_BYTES, &mut faults).value();
    fields.finish(&mut faults);
    faults.check()?;
    let text = key_text(api.secret_bytes()?);
    let id = KeyId(api.new_id(call.now));
    let key = ApiKey { id, tenant: tenant.clone(), name, sha256: KeyHash::of(&text).0, created_at: call.now };
    api.writer
        .change(|directory| {
            if directory.is_erasing(tenant) {
                return Err(Problem::new(409, "tenant_erasing", "everything of this tenant is being erased"));
            }
            let count = directory.tenant(tenant).map_or(0, |objects| objects.keys.len());
            room(count, limits::API_KEYS_PER_TENANT, "API keys")?;
            Ok(Change::new(()).store(ConfigWrite::Put(ConfigRecord::ApiKey(key.clone()))))
        })
        .await?;
    Ok(Answer::json(201, &KeyView { tenant: Some(tenant.as_str()), key: Some(&text), ..KeyView::of(&key) }))
}

/// Deletes a key: it opens nothing from the answer on.
///
/// # Errors
/// 404.
pub async fn delete(api: &Service, call: &Call, id: KeyId) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    api.writer
        .change(|directory| {
            let known = directory.tenant(&tenant).is_some_and(|objects| objects.keys.contains_key(&id));
            let remove = ConfigWrite::Remove(ConfigKey::ApiKey(tenant.clone(), id));
            if known { Ok(Change::new(()).store(remove)) } else { Err(Problem::not_found()) }
        })
        .await?;
    Ok(Answer::empty())
}
