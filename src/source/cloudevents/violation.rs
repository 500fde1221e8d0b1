//! What is wrong with a CloudEvents request, as values the API turns into its answer.

use crate::source::attribute::Attribute;
use crate::source::reason::{Fault, Reason};
use crate::types::limits;

/// Why a request was not taken; nothing of it is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A single event, or a body that is not JSON: 400.
    #[error("{0}")]
    Single(Violation),
    /// A batch: 422, the first violation of each event in order.
    #[error("{} events of the batch are malformed", .0.len())]
    Batch(Vec<Violation>),
}

impl Refusal {
    /// The HTTP status of the answer.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Single(_) => 400,
            Self::Batch(_) => 422,
        }
    }

    /// All violations, in order; never empty.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        match self {
            Self::Single(violation) => std::slice::from_ref(violation),
            Self::Batch(violations) => violations,
        }
    }
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Violation {
    /// The rule.
    pub code: Code,
    /// Where, as a JSON pointer (RFC 6901) into the body: `/3/id`. For a header of binary mode `/<attribute>`, empty
    /// when the whole is meant.
    pub pointer: String,
    /// A sentence that names the attribute and the rule, and no value.
    pub detail: String,
}

/// The rules of a CloudEvents request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A rule it shares with Kafka records.
    Reason(Reason),
    /// `ce-tenantid` is present and not the source's tenant.
    TenantMismatch,
    /// `ce-source` is not the source's slug.
    SourceMismatch,
    /// `ce-systemevent` is `true`.
    SystemEvent,
    /// The body is no JSON, or not the JSON of an event.
    MalformedJson,
    /// A batch has more than 1 000 events.
    BatchTooLarge,
}

impl Code {
    /// The `code` of the API's answer.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reason(reason) => reason.as_str(),
            Self::TenantMismatch => "tenant_mismatch",
            Self::SourceMismatch => "source_mismatch",
            Self::SystemEvent => "system_event",
            Self::MalformedJson => "malformed_json",
            Self::BatchTooLarge => "batch_too_large",
        }
    }

    const fn rule(self) -> &'static str {
        match self {
            Self::Reason(reason) => reason.rule(),
            Self::TenantMismatch => "must be absent or the source's tenant",
            Self::SourceMismatch => "must be the source's slug",
            Self::SystemEvent => "must not mark a system event",
            Self::MalformedJson => "must be an event in the CloudEvents JSON format",
            Self::BatchTooLarge => "has too many events",
        }
    }
}

impl Violation {
    pub(super) fn attribute(code: Code, attribute: Attribute) -> Self {
        Self::header(code, attribute.header())
    }

    /// In the place of the topic stands the source's slug.
    pub(super) fn of_fault(fault: Fault) -> Self {
        let is_slug = fault.reason == Reason::TopicMismatch;
        let code = if is_slug { Code::SourceMismatch } else { Code::Reason(fault.reason) };
        fault.header.map_or_else(
            || Self { code, pointer: String::new(), detail: format!("the event {}", code.rule()) },
            |header| Self::header(code, &header),
        )
    }

    pub(super) fn other_format() -> Self {
        let detail =
            "the only structured formats are application/cloudevents+json and application/cloudevents-batch+json";
        Self { code: Code::Reason(Reason::StructuredMode), pointer: String::new(), detail: detail.to_owned() }
    }

    pub(super) fn too_many_events() -> Self {
        let detail = format!("a batch has at most {} events", limits::BATCH_MAX_EVENTS);
        Self { code: Code::BatchTooLarge, pointer: String::new(), detail }
    }

    /// The body, or what `pointer` shows of it, `must …`.
    pub(super) fn malformed(pointer: String, must: &str) -> Self {
        Self { code: Code::MalformedJson, pointer, detail: must.to_owned() }
    }

    /// The same within event `index` of a batch.
    pub(super) fn within(mut self, index: usize) -> Self {
        self.pointer = format!("/{index}{}", self.pointer);
        self
    }

    fn header(code: Code, header: &str) -> Self {
        let name = header.strip_prefix("ce-").unwrap_or(header);
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        Self { code, pointer, detail: format!("`{header}` {}", code.rule()) }
    }
}
