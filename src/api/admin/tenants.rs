//! `/admin/tenants`: pausing and resuming a tenant's deliveries, and its erasure.

use std::rc::Rc;

use serde_json::json;

use crate::api::answer::Answer;
use crate::api::call::Call;
use crate::api::config_writer::Change;
use crate::api::erasure;
use crate::api::problem::Problem;
use crate::api::service::Service;
use crate::store::configuration::{ConfigKey, ConfigRecord, ConfigWrite};
use crate::types::TenantId;

/// Holds a tenant's deliveries; its events are still stored and matched.
///
/// # Errors
/// 503 when the store did not take it.
pub async fn pause(api: &Service, call: &Call, tenant: &TenantId) -> Result<Answer, Problem> {
    let record = ConfigRecord::PausedTenant { tenant: tenant.clone(), since: call.now };
    api.writer.change(|_| Ok(Change::new(()).store(ConfigWrite::Put(record.clone())))).await?;
    Ok(Answer::json(200, &json!({"tenant": tenant, "paused": true})))
}

/// Lets a tenant's deliveries go on.
///
/// # Errors
/// 503 when the store did not take it.
pub async fn resume(api: &Service, tenant: &TenantId) -> Result<Answer, Problem> {
    let remove = ConfigWrite::Remove(ConfigKey::PausedTenant(tenant.clone()));
    api.writer.change(|_| Ok(Change::new(()).store(remove.clone()))).await?;
    Ok(Answer::json(200, &json!({"tenant": tenant, "paused": false})))
}

/// Begins to erase a tenant: its configuration has gone with the answer, the rest goes behind.
///
/// # Errors
/// 503 when the store did not take it.
pub async fn erase(api: &Rc<Service>, tenant: &TenantId) -> Result<Answer, Problem> {
    erasure::begin(api, tenant).await?;
    let remains = match api.store.embedded() {
        Some(_) => "backups, and what stands in producers' topics",
        None => {
            "backups, what stands in producers' topics, records of the slot topic until they are deleted there, and the \
                 configuration's feed for a day"
        }
    };
    Ok(Answer::json(202, &json!({"tenant": tenant, "erasing": true, "remains": remains})))
}
