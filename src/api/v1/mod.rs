//! The tenants' handlers, one file per kind of object. Each is parse → call → view.

pub mod dead_letters;
pub mod deliveries;
pub mod destinations;
pub mod events;
pub mod keys;
pub mod sources;
pub mod subscriptions;

use super::problem::Problem;

/// Refuses one more object when a tenant has its number of them.
///
/// # Errors
/// 422 `limit_reached`.
fn room(count: usize, limit: usize, what: &str) -> Result<(), Problem> {
    if count < limit {
        return Ok(());
    }
    Err(Problem::new(422, "limit_reached", format!("a tenant has at most {limit} {what}")))
}
