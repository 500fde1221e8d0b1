//! Answers to the API: lists a page at a time, and single things by id, on reader threads.
//!
//! Every query names its tenant, which is part of each key, so that nothing crosses tenants; those without one
//! are the operator's. A page looks at a bounded number of rows: it may come back short, with a cursor.

mod dead_letters;
mod deliveries;
mod events;
mod records;

use super::handle::Embedded;
use crate::types::{Slot, TenantId};

/// The API's view of this store. Cheap to clone.
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
