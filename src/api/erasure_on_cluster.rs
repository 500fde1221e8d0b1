//! A tenant's rows on a cluster, erased by one node at a time.
//!
//! A mark goes through the slot's lane first: when its owner has come to it, all that came before is durable, and lies
//! below it. Then the tenant must still be marked as being erased, so that nothing of a later one of its name is below.
//! What was below is erased, field by field, and looked for again until nothing is found: an owner may have written of it
//! meanwhile. Any step may be cut short: the next driver begins with a mark of its own.

use std::rc::Rc;

use uuid::Uuid;

use crate::engine::{Command, CommandResult};
use crate::runtime::sleep;
use crate::store::Scylla;
use crate::store::scylla::{Doomed, Field};
use crate::types::{TenantId, limits};

use super::erasure::{Progress, has_attempts};
use super::problem::Problem;
use super::service::Service;

/// Erases what came until now, if no other node does.
///
/// # Errors
/// 503 when the store does not answer; it may be asked again.
pub(super) async fn erase(api: &Rc<Service>, store: &Scylla, tenant: &TenantId) -> Result<Progress, Problem> {
    let driver = api.driver;
    if !store.hold_erasure(tenant, driver).await? {
        return Ok(Progress::Elsewhere);
    }
    if has_attempts(api, tenant).await? {
        return Ok(Progress::Waiting);
    }
    let marked = api.shards.command(tenant, Command::Mark(tenant.clone())).await;
    let CommandResult::Done(Some(mark)) = marked else { return Ok(Progress::Waiting) };
    let until = api.now();
    api.writer.follow().await?;
    if !api.writer.directory().is_erasing(tenant) {
        return Ok(Progress::Waiting);
    }
    let doomed = Doomed { tenant: tenant.clone(), below: mark.sequence, until };
    loop {
        match erase_once(store, &doomed, driver).await? {
            Some(0) => return Ok(Progress::Done),
            Some(found) => tracing::info!(found, "a tenant is being erased"),
            None => return Ok(Progress::Elsewhere),
        }
        sleep(limits::ERASURE_LOOK.to_std()).await;
    }
}

/// Goes through all fields; how much was found, unless another node has taken the erasure over.
async fn erase_once(store: &Scylla, doomed: &Doomed, driver: Uuid) -> Result<Option<u64>, Problem> {
    let mut found = 0;
    for field in Field::ALL {
        let mut place = Some(0);
        while let Some(from) = place {
            if !store.hold_erasure(&doomed.tenant, driver).await? {
                return Ok(None);
            }
            let erased = store.erase(doomed.clone(), field, from).await?;
            found += erased.found;
            place = erased.next;
        }
    }
    Ok(Some(found))
}
