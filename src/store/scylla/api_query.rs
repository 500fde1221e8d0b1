//! What is read for the API alone.

/// One statement that returns rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApiQuery {
    /// What the last owner of a slot says of it, as far as a quorum knows.
    SlotRecord,
    /// The first chunk of the log from one on.
    FirstLogChunk,
    /// The first rows of a chunk, without payloads.
    ChunkHead,
    /// Rows of a chunk from a sequence on, without payloads.
    LogParts,
    /// All rows of an event, without its payload.
    EventParts,
    /// What became of the attempts of one job.
    Attempts,
    /// Events of a tenant in one chunk of the index, the last first.
    IndexBack,
    /// One dead letter, without its payload.
    DeadLetterHead,
    /// Dead letters of a tenant's day between two places, without payloads.
    DeadLetters,
    /// Dead letters of an hour between two places.
    DeadLettersByHour,
    /// Quarantined records of an hour between two ids.
    Quarantine,
    /// One quarantined record.
    Quarantined,
    /// Producers' dead letters of an hour between two ids.
    ProducerDlq,
    /// All lanes of a bucket.
    Lanes,
    /// What is remembered of one destination.
    Destination,
}

impl ApiQuery {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::SlotRecord,
        Self::FirstLogChunk,
        Self::ChunkHead,
        Self::LogParts,
        Self::EventParts,
        Self::Attempts,
        Self::IndexBack,
        Self::DeadLetterHead,
        Self::DeadLetters,
        Self::DeadLettersByHour,
        Self::Quarantine,
        Self::Quarantined,
        Self::ProducerDlq,
        Self::Lanes,
        Self::Destination,
    ];

    /// The CQL.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::SlotRecord => "SELECT base, record FROM slots WHERE slot = ? LIMIT 1",
            Self::FirstLogChunk => "SELECT chunk FROM log_chunks WHERE slot = ? AND chunk >= ? LIMIT 1",
            Self::ChunkHead => {
                "SELECT sequence, ordinal, kind, number, tenant, value FROM log WHERE slot = ? AND chunk = ? LIMIT ?"
            }
            Self::LogParts => {
                "SELECT sequence, ordinal, kind, number, tenant, value FROM log \
                 WHERE slot = ? AND chunk = ? AND sequence >= ?"
            }
            Self::EventParts => {
                "SELECT sequence, ordinal, kind, number, tenant, value FROM log \
                 WHERE slot = ? AND chunk = ? AND sequence = ?"
            }
            Self::Attempts => {
                "SELECT sequence, ordinal, kind, number, tenant, value FROM log \
                 WHERE slot = ? AND chunk = ? AND sequence = ? AND ordinal = ? AND kind >= ? AND kind <= ?"
            }
            Self::IndexBack => {
                "SELECT sequence, value FROM tenant_index \
                 WHERE slot = ? AND chunk = ? AND tenant = ? AND sequence >= ? AND sequence <= ? \
                 ORDER BY tenant DESC, sequence DESC"
            }
            Self::DeadLetterHead => {
                "SELECT value FROM dead_letters \
                 WHERE tenant = ? AND day = ? AND at = ? AND slot = ? AND sequence = ? AND ordinal = ?"
            }
            Self::DeadLetters => {
                "SELECT at, slot, sequence, ordinal, value FROM dead_letters WHERE tenant = ? AND day = ? \
                 AND (at, slot, sequence, ordinal) >= (?, ?, ?, ?) AND (at, slot, sequence, ordinal) < (?, ?, ?, ?)"
            }
            Self::DeadLettersByHour => {
                "SELECT at, slot, sequence, ordinal, tenant FROM dead_letters_by_hour WHERE hour = ? \
                 AND (at, slot, sequence, ordinal) >= (?, ?, ?, ?) AND (at, slot, sequence, ordinal) < (?, ?, ?, ?)"
            }
            Self::Quarantine => "SELECT id, value FROM quarantine WHERE hour = ? AND id >= ? AND id < ?",
            Self::Quarantined => "SELECT value FROM quarantine WHERE hour = ? AND id = ?",
            Self::ProducerDlq => "SELECT id, value FROM producer_dlq WHERE hour = ? AND id >= ? AND id < ?",
            Self::Lanes => "SELECT name, value FROM lanes WHERE bucket = ?",
            Self::Destination => "SELECT value FROM destinations WHERE slot = ? AND tenant = ? AND id = ?",
        }
    }
}
