//! Erasure of a tenant: everything of it goes, durably, and nothing of anybody else.
//!
//! First its configuration, which stops its intake and lets its jobs end `cancelled`, with a mark that lets a restart go
//! on; then, once no attempt of it is under way, its rows. A job that slept in the store until a far retry ends with its
//! rows. What a producer sends for the tenant later makes it anew.
//!
//! On a cluster the mark is known to every node, and one at a time goes on with it (`erasure_on_cluster.rs`): when that
//! one dies, another does.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::runtime::{sleep, task};
use crate::store::configuration::{ConfigKey, ConfigRecord, ConfigWrite};
use crate::store::embedded::{DeliveriesQuery, JobStatus};
use crate::store::{Embedded, Store};
use crate::types::{TenantId, limits};

use super::config_writer::Change;
use super::erasure_on_cluster as on_cluster;
use super::problem::Problem;
use super::service::Service;

/// What a look at a tenant's erasure brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// An attempt of it is under way, or an object has come since.
    Waiting,
    /// Another node goes on with it.
    Elsewhere,
    /// Nothing is left.
    Done,
}

/// Takes the tenant's configuration away and lets the rest go on behind. Asked again, it changes nothing.
///
/// # Errors
/// 503 when the store did not take it.
pub async fn begin(api: &Rc<Service>, tenant: &TenantId) -> Result<(), Problem> {
    let since = api.now();
    api.writer
        .change(|directory| {
            let mark = ConfigWrite::Put(ConfigRecord::ErasingTenant { tenant: tenant.clone(), since });
            let change = if directory.is_erasing(tenant) { Change::new(()) } else { Change::new(()).store(mark) };
            Ok(match directory.tenant(tenant) {
                Some(objects) if !objects.is_empty() => change.delete_all(tenant, objects, since),
                Some(_) | None => change,
            })
        })
        .await?;
    resume(api);
    Ok(())
}

/// Takes up every erasure that is marked and not gone on with here: one that a restart interrupted, or, on a cluster, one
/// that another node has begun.
pub fn resume(api: &Rc<Service>) {
    let directory = api.writer.directory();
    for tenant in directory.erasing() {
        if api.erasing.borrow_mut().insert(tenant.clone()) {
            task::spawn(finish(Rc::clone(api), tenant.clone()));
        }
    }
}

async fn finish(api: Rc<Service>, tenant: TenantId) {
    api.forget(&tenant);
    loop {
        let pause = match step(&api, &tenant).await {
            Ok(Progress::Done) => break,
            Ok(Progress::Waiting) => limits::ERASURE_LOOK,
            Ok(Progress::Elsewhere) => limits::ERASURE_LEASE,
            Err(problem) => {
                tracing::warn!(?problem, "an erasure waits for the store; it goes on");
                limits::ERASURE_LOOK
            }
        };
        sleep(pause.to_std()).await;
    }
    api.erasing.borrow_mut().remove(&tenant);
    tracing::info!("a tenant is erased");
}

async fn step(api: &Rc<Service>, tenant: &TenantId) -> Result<Progress, Problem> {
    if !api.writer.directory().is_erasing(tenant) {
        return Ok(Progress::Done);
    }
    let erased = match &api.store {
        Store::Embedded(store) => erase(api, store, tenant).await?,
        Store::Scylla(store) => on_cluster::erase(api, store, tenant).await?,
    };
    if erased != Progress::Done {
        return Ok(erased);
    }
    api.forget(tenant);
    let marks = match &api.store {
        Store::Embedded(_) => Vec::new(),
        Store::Scylla(store) => store.deletion_marks(tenant).await?,
    };
    close(api, tenant, &marks).await
}

/// Removes its rows from this machine's own store.
async fn erase(api: &Rc<Service>, store: &Embedded, tenant: &TenantId) -> Result<Progress, Problem> {
    if has_attempts(api, tenant).await? {
        return Ok(Progress::Waiting);
    }
    store.erase(tenant).await?;
    // An event that was on its way when its subscriptions went is durable by now.
    sleep(limits::ERASURE_LOOK.to_std()).await;
    store.erase(tenant).await?;
    Ok(Progress::Done)
}

/// The last change: the erasure's own mark goes, after those of deletions, unless there is an object again. A request that
/// was under way when the keys went may have made one.
async fn close(api: &Rc<Service>, tenant: &TenantId, marks: &[ConfigKey]) -> Result<Progress, Problem> {
    let since = api.now();
    api.writer
        .change(|directory| {
            let objects = directory.tenant(tenant).filter(|objects| !objects.is_empty());
            if let Some(objects) = objects {
                return Ok(Change::new(Progress::Waiting).delete_all(tenant, objects, since));
            }
            let some = marks.iter().take(limits::CQL_WRITE_ROWS).cloned().map(ConfigWrite::Remove);
            if marks.len() > limits::CQL_WRITE_ROWS {
                return Ok(some.fold(Change::new(Progress::Waiting), Change::store));
            }
            let change = some.fold(Change::new(Progress::Done), Change::store);
            Ok(change.store(ConfigWrite::Remove(ConfigKey::ErasingTenant(tenant.clone()))))
        })
        .await
}

/// Whether an attempt of the tenant is under way, as the store knows.
pub(super) async fn has_attempts(api: &Service, tenant: &TenantId) -> Result<bool, Problem> {
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
