//! Sources: how events come in, and what the hub makes of them before the engine sees them.
//!
//! - [`mod@decode`]: a Kafka record → accept, drop or quarantine (pure);
//! - [`cloudevents`]: an HTTP request to a source of type `cloudevents` → events or named violations (pure);
//! - [`request`]: any request to a source of type `http` → an event (pure);
//! - [`dead_letter`]: a record of a producer's `.dlq` topic → a [`ProducerDeadLetter`](crate::types::ProducerDeadLetter) (pure);
//! - [`topic`]: which topics are followed (pure);
//! - `kafka`: the consumers, on threads of their own (feature `serve`).
//!
//! Nothing here stores, matches or answers. Whatever comes from outside is judged, never trusted: no input panics,
//! and no accepted attribute has a control character.

pub mod cloudevents;
pub mod dead_letter;
pub mod decode;
#[cfg(feature = "serve")]
pub mod kafka;
pub mod request;
pub mod topic;

mod attribute;
mod check;
mod collect;
mod header;
mod json_path;
mod reason;
mod rfc3339;
mod text;

pub use decode::{DecodeRules, Decoded, DropReason, RawRecord, decode};
pub use reason::Reason;
pub use topic::{TopicKind, Topics};

/// A source for tests: `shop` of tenant `tenant-1`.
#[cfg(test)]
fn test_source(kind: crate::types::source::SourceKind) -> crate::types::Source {
    crate::types::Source {
        id: crate::types::SourceId(uuid::Uuid::from_u128(1)),
        tenant: crate::types::TenantId::new("tenant-1").expect("a plain name"),
        name: None,
        slug: "shop".to_owned(),
        kind,
        enabled: true,
        max_body_bytes: 1024 * 1024,
        event_key_header: None,
        event_key_path: None,
        created_at: crate::types::Time::ZERO,
        updated_at: crate::types::Time::ZERO,
        version: 1,
    }
}
