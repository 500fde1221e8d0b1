//! What an operator sees: metrics and logs. Decides nothing and counts nothing itself.

pub mod log;
pub mod metrics;
