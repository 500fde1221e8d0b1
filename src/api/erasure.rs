//! Erasure of a tenant: everything of it goes, durably, and nothing of anybody else.
//!
//! First its configuration, which stops its intake and lets its jobs end `cancelled`, with a mark that lets a restart go
//! on; then, once no attempt of it is under way, its rows. A job that slept in the store until a far retry ends with its
//! rows. What a producer sends for the tenant later makes it anew.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::runtime::{sleep, task};
use crate::store::Embedded;
use crate::store::configuration::{ConfigKey, ConfigRecord, ConfigWrite};
use crate::store::embedded::{DeliveriesQuery, JobStatus};
use crate::types::{TenantId, limits};

use super::config_writer::Change;
use super::problem::Problem;
use super::service::Service;

/// What a look at a tenant's erasure brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// An attempt of it is under way, or an object has come since.
    Waiting,
    /// Nothing is left.
    Done,
}

/// Takes the tenant's configuration away and lets the rest go on behind. Asked again, it changes nothing.
///
/// # Errors
/// 503 when the store did not take it, 501 on a cluster.
pub async fn begin(api: &Rc<Service>, tenant: &TenantId) -> Result<(), Problem> {
    store(api)?;
    let since = api.now();
    let is_new = api
        .writer
        .change(|directory| {
            let mark = ConfigWrite::Put(ConfigRecord::ErasingTenant { tenant: tenant.clone(), since });
            let change = Change::new(!directory.is_erasing(tenant)).store(mark);
            Ok(match directory.tenant(tenant) {
                Some(objects) => change.delete_all(tenant, objects, since),
                None => change,
            })
        })
        .await?;
    api.forget(tenant);
    if is_new {
        task::spawn(finish(Rc::clone(api), tenant.clone()));
    }
    Ok(())
}

/// The store, which removes rows one by one; a cluster's rows go with their retention.
fn store(api: &Service) -> Result<&Embedded, Problem> {
    let means = "delete the tenant's objects; its events go with their retention";
    api.store.embedded().ok_or_else(|| Problem::not_on_a_cluster(means))
}

/// Takes up every erasure that a restart interrupted.
pub fn resume(api: &Rc<Service>) {
    let directory = api.writer.directory();
    for (tenant, _) in directory.tenants().filter(|(_, objects)| objects.erasing_since.is_some()) {
        task::spawn(finish(Rc::clone(api), tenant.clone()));
    }
}

async fn finish(api: Rc<Service>, tenant: TenantId) {
    loop {
        match step(&api, &tenant).await {
            Ok(Progress::Done) => break,
            Ok(Progress::Waiting) => {}
            Err(problem) => tracing::warn!(?problem, "an erasure waits for the store; it goes on"),
        }
        sleep(limits::ERASURE_LOOK.to_std()).await;
    }
    tracing::info!("a tenant is erased");
}

async fn step(api: &Rc<Service>, tenant: &TenantId) -> Result<Progress, Problem> {
    if has_attempts(api, tenant).await? {
        return Ok(Progress::Waiting);
    }
    store(api)?.erase(tenant).await?;
    // An event that was on its way when its subscriptions went is durable by now.
    sleep(limits::ERASURE_LOOK.to_std()).await;
    store(api)?.erase(tenant).await?;
    api.forget(tenant);
    // A request that was under way when the keys went may have made one more object.
    let since = api.now();
    api.writer
        .change(|directory| {
            let objects = directory.tenant(tenant).filter(|objects| !objects.is_empty());
            Ok(match objects {
                Some(objects) => Change::new(Progress::Waiting).delete_all(tenant, objects, since),
                None => {
                    Change::new(Progress::Done).store(ConfigWrite::Remove(ConfigKey::ErasingTenant(tenant.clone())))
                }
            })
        })
        .await
}

/// Whether an attempt of the tenant is under way, as the store knows.
async fn has_attempts(api: &Service, tenant: &TenantId) -> Result<bool, Problem> {
    let mut cursor = None;
    loop {
        let query = DeliveriesQuery {
            tenant: tenant.clone(),
            cursor,
            limit: 1,
            from: None,
            to: None,
            status: Some(JobStatus::Delivering),
            subscription: None,
            destination: None,
            event: None,
            event_type: None,
            deleted: BTreeSet::new(),
        };
        let page = api.queries.deliveries(query).await?;
        if !page.items.is_empty() {
            return Ok(true);
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(false);
        }
    }
}
