//! What the API asks of a store, whichever it is: lists a page at a time, and single things by id.
//!
//! Every query names its tenant, which is part of each key, so that nothing crosses tenants; those without one
//! are the operator's. A page looks at a bounded number of rows: it may come back short, with a cursor. Which rows a
//! list shows and how a page fills is decided here; how rows are found is each store's own.

pub mod dead_letters;
pub mod deliveries;
pub mod events;
pub mod records;

pub use dead_letters::DeadLettersQuery;
pub use deliveries::{DeliveriesQuery, Delivery, JobStatus};
pub use events::{EventsQuery, IdPlace, ListOrder};
pub use records::{ProducerDlqQuery, QuarantineQuery, StoreReport};

use uuid::Uuid;

use super::codec::dead_letter::DeadLetter;
use super::codec::fold::FoldedEvent;
use super::{Page, StoreError, embedded, scylla};
use crate::engine::QuarantineRecord;
use crate::types::{AttemptRecord, LaneName, ProducerDeadLetter, Sequence, TenantId, limits};

/// The API's view of the store. Cheap to clone.
#[derive(Clone)]
pub enum Queries {
    /// Of the store of one machine.
    Embedded(embedded::Queries),
    /// Of the store of a cluster.
    Scylla(scylla::Queries),
}

impl Queries {
    /// What only a cluster's store can be asked.
    #[must_use]
    pub const fn cluster(&self) -> Option<&scylla::Queries> {
        match self {
            Self::Embedded(_) => None,
            Self::Scylla(store) => Some(store),
        }
    }

    /// A page of a tenant's events. Their jobs are those that matching made; what became of them [`Queries::event`] says.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a cursor of another list; else as [`Queries::event`].
    pub async fn events(&self, query: EventsQuery) -> Result<Page<FoldedEvent>, StoreError> {
        match self {
            Self::Embedded(store) => store.events(query).await,
            Self::Scylla(store) => store.events(query).await,
        }
    }

    /// One event by its number.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait, [`StoreError::Cluster`] when the cluster fails.
    pub async fn event(&self, tenant: TenantId, sequence: Sequence) -> Result<Option<FoldedEvent>, StoreError> {
        match self {
            Self::Embedded(store) => store.event(tenant, sequence).await,
            Self::Scylla(store) => store.event(tenant, sequence).await,
        }
    }

    /// One event by its id, also when the id is not written behind yet.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait, [`StoreError::Cluster`] when the cluster fails.
    pub async fn event_by_id(
        &self,
        tenant: TenantId,
        id: Uuid,
        place: IdPlace,
    ) -> Result<Option<FoldedEvent>, StoreError> {
        match self {
            Self::Embedded(store) => store.event_by_id(tenant, id, place).await,
            Self::Scylla(store) => store.event_by_id(tenant, id, place).await,
        }
    }

    /// A page of a tenant's deliveries: newest event first, and of one event the latest run first.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a cursor of another list; else as [`Queries::event`].
    pub async fn deliveries(&self, query: DeliveriesQuery) -> Result<Page<Delivery>, StoreError> {
        match self {
            Self::Embedded(store) => store.deliveries(query).await,
            Self::Scylla(store) => store.deliveries(query).await,
        }
    }

    /// One delivery by its place.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait, [`StoreError::Cluster`] when the cluster fails.
    pub async fn delivery(&self, tenant: TenantId, place: (Sequence, u16)) -> Result<Option<Delivery>, StoreError> {
        match self {
            Self::Embedded(store) => store.delivery(tenant, place).await,
            Self::Scylla(store) => store.delivery(tenant, place).await,
        }
    }

    /// The attempts of one job that ended, in order, the latest [`limits::ATTEMPTS_SHOWN`].
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait, [`StoreError::Cluster`] when the cluster fails.
    pub async fn attempts(&self, tenant: TenantId, place: (Sequence, u16)) -> Result<Vec<AttemptRecord>, StoreError> {
        match self {
            Self::Embedded(store) => store.attempts(tenant, place).await,
            Self::Scylla(store) => store.attempts(tenant, place).await,
        }
    }

    /// A page of dead letters, latest first, their payloads left out.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a cursor of another list; else as [`Queries::event`].
    pub async fn dead_letters(&self, query: DeadLettersQuery) -> Result<Page<DeadLetter>, StoreError> {
        match self {
            Self::Embedded(store) => store.dead_letters(query).await,
            Self::Scylla(store) => store.dead_letters(query).await,
        }
    }

    /// One dead letter by its delivery's place, with its payload.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait, [`StoreError::Cluster`] when the cluster fails.
    pub async fn dead_letter(
        &self,
        tenant: TenantId,
        place: (Sequence, u16),
    ) -> Result<Option<DeadLetter>, StoreError> {
        match self {
            Self::Embedded(store) => store.dead_letter(tenant, place).await,
            Self::Scylla(store) => store.dead_letter(tenant, place).await,
        }
    }

    /// A page of quarantined records, latest first, with their ids.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a cursor of another list; else as [`Queries::event`].
    pub async fn quarantine(&self, query: QuarantineQuery) -> Result<Page<(Uuid, QuarantineRecord)>, StoreError> {
        match self {
            Self::Embedded(store) => store.quarantine(query).await,
            Self::Scylla(store) => store.quarantine(query).await,
        }
    }

    /// One quarantined record.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait, [`StoreError::Cluster`] when the cluster fails.
    pub async fn quarantined(&self, id: Uuid) -> Result<Option<QuarantineRecord>, StoreError> {
        match self {
            Self::Embedded(store) => store.quarantined(id).await,
            Self::Scylla(store) => store.quarantined(id).await,
        }
    }

    /// A page of the producers' dead letters, latest first, with their ids.
    ///
    /// # Errors
    /// [`StoreError::Cursor`] for a cursor of another list; else as [`Queries::event`].
    pub async fn producer_dlq(&self, query: ProducerDlqQuery) -> Result<Page<(Uuid, ProducerDeadLetter)>, StoreError> {
        match self {
            Self::Embedded(store) => store.producer_dlq(query).await,
            Self::Scylla(store) => store.producer_dlq(query).await,
        }
    }

    /// Makes records of producers' dead-letter topics durable, with the position of their lane.
    ///
    /// # Errors
    /// [`StoreError::Stopped`] when the store has failed, [`StoreError::Cluster`] when the cluster does not take them:
    /// some may be stored, and all may be put again.
    pub async fn put_producer_dead_letters(
        &self,
        records: &[ProducerDeadLetter],
        position: Option<(&LaneName, u64)>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Embedded(store) => store.put_producer_dead_letters(records, position).await,
            Self::Scylla(store) => store.put_producer_dead_letters(records, position).await,
        }
    }

    /// Every lane's stored position: the next offset to read.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait, [`StoreError::Cluster`] when the cluster fails.
    pub async fn lanes(&self) -> Result<Vec<(LaneName, u64)>, StoreError> {
        match self {
            Self::Embedded(store) => store.lanes().await,
            Self::Scylla(store) => store.lanes().await,
        }
    }

    /// How the store stands.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when too many wait, [`StoreError::Cluster`] when the cluster fails.
    pub async fn report(&self) -> Result<StoreReport, StoreError> {
        match self {
            Self::Embedded(store) => store.report().await,
            Self::Scylla(store) => Ok(store.report()),
        }
    }
}

/// A page's size within what the API allows.
pub(in crate::store) fn page_size(limit: usize) -> usize {
    limit.clamp(1, limits::PAGE_MAX)
}
