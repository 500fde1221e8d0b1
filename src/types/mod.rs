//! The words of the hub as plain values: ids, time, events, configuration objects, jobs and outcomes.
//!
//! No behaviour beyond parsing and small pure rules; everything else in the crate may depend on this
//! folder and it depends on nothing of the crate. Every bound of the hub stands in [`limits`].

pub mod config;
pub mod counters;
pub mod destination;
pub mod event;
pub mod ids;
pub mod job;
pub mod limits;
pub mod outcome;
pub mod producer_dead_letter;
pub mod retry;
pub mod secret;
pub mod source;
pub mod subscription;
pub mod time;

pub use config::ConfigChange;
pub use counters::{Counters, LaneLevel, Latencies, Levels, Tally};
pub use destination::Destination;
pub use event::{Attributes, Event, HttpRequest};
pub use ids::{
    AttemptId, DeadLetterId, DeliveryId, DestinationId, LaneName, RunId, Sequence, ShardId, Slot, SourceId,
    SubscriptionId, TenantId,
};
pub use job::{AttemptRecord, ClaimRecord, End, EndReason, JobKey, JobRecord, Trigger};
pub use outcome::{AttemptOutcome, ErrorKind, Verdict};
pub use producer_dead_letter::ProducerDeadLetter;
pub use retry::RetryPolicy;
pub use secret::Secret;
pub use source::Source;
pub use subscription::Subscription;
pub use time::{Duration, Time};
