//! Answers to the API from any node, whoever owns the slot: from the tables alone, up to what their owners have written.
//!
//! Lists of events and deliveries go along the tenants' index up to `flushed` ([`marks`] says why they skip nothing) and
//! read the events themselves from the log; single things are read from the log at once. Dead letters and what operators
//! look at stand in partitions of a day or an hour, walked from the latest back to what retention has left.
//!
//! Invariants: a page costs a bounded number of requests and looks at a bounded number of rows, then it comes back short
//! with a cursor; nothing scans a table.

mod dead_letters;
mod deliveries;
mod events;
mod index;
mod marks;
mod records;

pub(super) use marks::{first_listed, flushed};

use super::api_query::ApiQuery;
use super::handle::Scylla;
use super::read::ReadError;
use super::statement::Value;
use crate::engine::rows::DestinationRecord;
use crate::store::StoreError;
use crate::store::codec::destination;
use crate::types::{DestinationId, Slot, TenantId, Time, limits};

/// The API's view of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct Queries {
    store: Scylla,
}

impl Queries {
    pub(super) const fn new(store: Scylla) -> Self {
        Self { store }
    }

    /// What the owner of the tenant's slot last wrote of a destination, about once a second; `None` when there is
    /// nothing to remember: its circuit is closed and without failures. A probe on its way is not told: half-open is
    /// written as open.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait, [`StoreError::Cluster`] when the cluster fails.
    pub async fn circuit(
        &self,
        tenant: TenantId,
        destination: DestinationId,
    ) -> Result<Option<DestinationRecord>, StoreError> {
        let values = [Value::slot(self.slot_of(&tenant)), Value::tenant(&tenant), Value::Uuid(destination.0)];
        self.store
            .query(move |session| async move {
                let rows: Vec<(Vec<u8>,)> = session.rows(ApiQuery::Destination, &values).await?;
                Ok(rows.into_iter().next().map(|(value,)| destination::decode(&value)).transpose()?)
            })
            .await
    }

    fn slot_of(&self, tenant: &TenantId) -> Slot {
        self.store.slot_of(tenant)
    }

    /// Later than what any node calls now.
    fn soon(&self) -> Time {
        self.store.now() + limits::CQL_ARRIVAL_SPREAD
    }
}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Request(failure) => failure.into(),
            ReadError::Codec(fault) => fault.into(),
        }
    }
}
