//! What the API asks: lists a page at a time, and single things by id. Answered on reader threads.
//!
//! Every query names its tenant, which is part of each key, so that nothing crosses tenants; those without one
//! are the operator's. A page looks at a bounded number of rows: it may come back short, with a cursor.

mod dead_letters;
mod deliveries;
mod events;
mod records;

pub use dead_letters::DeadLettersQuery;
pub use deliveries::{DeliveriesQuery, Delivery, JobStatus};
pub use events::{EventsQuery, IdPlace, ListOrder};
pub use records::{ProducerDlqQuery, QuarantineQuery, StoreReport};

use super::handle::Embedded;
use crate::types::{Slot, TenantId, limits};

/// The API's view of the store. Cheap to clone.
#[derive(Clone)]
pub struct Queries {
    store: Embedded,
}

impl Queries {
    pub(super) const fn new(store: Embedded) -> Self {
        Self { store }
    }

    fn slot_of(&self, tenant: &TenantId) -> Slot {
        Slot::of(tenant, self.store.record().slots)
    }
}

/// A page's size within what the API allows.
fn page_size(limit: usize) -> usize {
    limit.clamp(1, limits::PAGE_MAX)
}
