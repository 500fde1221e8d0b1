//! A source: an HTTP ingest endpoint of a tenant.

use serde::{Deserialize, Serialize};

use super::ids::{SourceId, TenantId};
use super::time::Time;

/// A checked source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// `src_…`.
    pub id: SourceId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Free text, at most 256 bytes.
    pub name: Option<String>,
    /// The `ce-source` of its events; one per tenant, `^[a-z0-9][a-z0-9_-]*$`.
    pub slug: String,
    /// What its requests are.
    #[serde(rename = "type")]
    pub kind: SourceKind,
    /// A disabled source answers 403.
    pub enabled: bool,
    /// The body limit, at most 10 MiB.
    pub max_body_bytes: u32,
    /// The request header that names the event key.
    pub event_key_header: Option<String>,
    /// The dot path into a JSON body that names the event key.
    pub event_key_path: Option<String>,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// Counts changes, from 1: the `ETag`.
    pub version: u64,
}

/// What the requests of a source are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Any HTTP request is an event.
    #[default]
    Http,
    /// CloudEvents over HTTP: binary, structured or batch.
    CloudEvents,
}
