//! The operator's handlers, across tenants.

pub mod backup;
pub mod operations;
pub mod tenants;
