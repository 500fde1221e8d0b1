//! The operator's handlers, across tenants.

pub mod operations;
pub mod tenants;
