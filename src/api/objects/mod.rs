//! The bodies of configuration objects: what a tenant may write, checked, and what it reads back.
//!
//! One file per object. Each has a `…Change`, read from a body with all faults noted, and applied to a stored
//! object (PATCH) or to a new one (POST): both go through the same rules. Views never hold a secret.

pub mod auth;
pub mod destination;
pub mod destination_view;
pub mod retry;
pub mod source;
pub mod static_headers;
pub mod subscription;

pub use destination::DestinationChange;
pub use destination_view::DestinationView;
pub use source::{SourceChange, SourceView};
pub use subscription::{SubscriptionChange, SubscriptionView};

use url::Url;

use crate::types::{Time, limits};

use super::input::{Field, Fields};
use super::problem::Faults;

/// A judgement of a URL: the rule it breaks, if it does.
pub type UrlCheck = dyn Fn(&Url) -> Result<(), String>;

/// What a change is checked against beside the body itself: the operator's settings and the moment.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// How long payloads are kept, in seconds.
    pub payload_retention_s: u64,
    /// The operator allows `verification: none`.
    pub allow_unverified: bool,
    /// The outbound guard's judgement of a URL before its name is resolved.
    pub check_url: &'a UrlCheck,
    /// The moment of the change.
    pub now: Time,
}

/// Takes `name` and `description`.
fn labels(fields: &mut Fields, faults: &mut Faults) -> (Field<String>, Field<String>) {
    let name = fields.text("name", limits::NAME_MAX_BYTES, faults);
    let description = fields.text("description", limits::DESCRIPTION_MAX_BYTES, faults);
    (name, description)
}

/// Whether a text is a `<source>`: `^[a-z0-9][a-z0-9_-]*$`, at most 223 bytes.
#[must_use]
pub fn is_source_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    first && text.len() <= limits::SOURCE_NAME_MAX_BYTES && text.bytes().all(inner)
}

/// The rule that [`is_source_name`] checks, for a fault.
const SOURCE_NAME_RULE: &str =
    "must be lower-case letters, digits, `-` and `_`, beginning with a letter or digit, at most 223 bytes";

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules that the tests of this folder check against.
    pub const RULES: Rules<'static> = Rules {
        payload_retention_s: 604_800,
        allow_unverified: false,
        check_url: &|url| if url.host_str() == Some("blocked.test") { Err("is blocked".to_owned()) } else { Ok(()) },
        now: Time::from_millis(1_000),
    };

    #[test]
    fn a_source_name_is_lower_case_and_bounded() {
        for good in ["a", "0", "loans-2_x"] {
            assert!(is_source_name(good), "{good}");
        }
        for bad in ["", "-a", "_a", "A", "a.b", "ä", &"a".repeat(224)] {
            assert!(!is_source_name(bad), "{bad}");
        }
    }
}
