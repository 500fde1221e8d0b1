//! How long a store keeps what.

use crate::types::Duration;

/// How long things are kept after the hub took them in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Payloads of events.
    pub payloads: Duration,
    /// Events, jobs, attempts and ids.
    pub events: Duration,
    /// Dead letters, with payloads of their own.
    pub dead_letters: Duration,
    /// Quarantine and producers' dead letters.
    pub quarantine: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            payloads: Duration::from_hours(168),
            events: Duration::from_hours(720),
            dead_letters: Duration::from_hours(720),
            quarantine: Duration::from_hours(168),
        }
    }
}
