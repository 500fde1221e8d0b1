//! What operators look at: which records a list shows, and how the store stands.

use uuid::Uuid;

use crate::engine::QuarantineRecord;
use crate::store::Cursor;
use crate::types::ids::uuid_v7;
use crate::types::{ProducerDeadLetter, Time};

/// Which quarantined records.
#[derive(Clone, Debug, Default)]
pub struct QuarantineQuery {
    /// Where the last page ended.
    pub cursor: Option<Cursor>,
    /// At most so many, 1 to 100.
    pub limit: usize,
    /// Met at or after.
    pub from: Option<Time>,
    /// Met before.
    pub to: Option<Time>,
    /// Of which topic.
    pub topic: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Which of the producers' dead letters.
#[derive(Clone, Debug, Default)]
pub struct ProducerDlqQuery {
    /// Where the last page ended.
    pub cursor: Option<Cursor>,
    /// At most so many, 1 to 100.
    pub limit: usize,
    /// Read at or after.
    pub from: Option<Time>,
    /// Read before.
    pub to: Option<Time>,
    /// Of which dead-letter topic.
    pub topic: Option<String>,
    /// With which `x-lerian-dlq-error-class`.
    pub error_class: Option<String>,
    /// Of which `ce-tenantid`.
    pub tenant: Option<String>,
}

/// How the store stands. Of a cluster only its own servers know: there the numbers are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreReport {
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Rows of the log, roughly.
    pub log_rows: usize,
    /// Journals that are not written to tables yet.
    pub journals: usize,
    /// Whether there is enough disk to take in more.
    pub intake_allowed: bool,
}

/// A page's part of records whose keys are UUIDv7, latest first.
pub(in crate::store) struct TimeRange<'a> {
    /// At or after.
    pub(in crate::store) from: Option<Time>,
    /// Before.
    pub(in crate::store) to: Option<Time>,
    /// Where the last page ended.
    pub(in crate::store) cursor: Option<&'a Cursor>,
    /// At most so many.
    pub(in crate::store) limit: usize,
}

impl QuarantineQuery {
    pub(in crate::store) const fn range(&self) -> TimeRange<'_> {
        TimeRange { from: self.from, to: self.to, cursor: self.cursor.as_ref(), limit: self.limit }
    }

    /// Whether the list shows `record`; its time was looked at before.
    pub(in crate::store) fn wants(&self, record: &QuarantineRecord) -> bool {
        self.topic.as_deref().is_none_or(|topic| *record.topic == *topic)
            && self.reason.as_deref().is_none_or(|reason| record.reason == reason)
    }
}

impl ProducerDlqQuery {
    pub(in crate::store) const fn range(&self) -> TimeRange<'_> {
        TimeRange { from: self.from, to: self.to, cursor: self.cursor.as_ref(), limit: self.limit }
    }

    /// Whether the list shows `record`; its time was looked at before.
    pub(in crate::store) fn wants(&self, record: &ProducerDeadLetter) -> bool {
        let fits = |wanted: &Option<String>, own: Option<&str>| wanted.is_none() || wanted.as_deref() == own;
        fits(&self.topic, Some(&record.topic))
            && fits(&self.error_class, record.error_class.as_deref())
            && fits(&self.tenant, record.tenant.as_deref())
    }
}

/// The page ended with the record of this id.
pub(in crate::store) fn cursor_at(id: Uuid) -> Cursor {
    Cursor::new(id.into_bytes().to_vec())
}

/// The first id of a time.
pub(in crate::store) fn first_id(at: Time) -> Uuid {
    uuid_v7(at, 0)
}
