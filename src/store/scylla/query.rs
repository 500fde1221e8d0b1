//! What is read, and the conditional writes: one takes a slot, one changes the configuration, two hold an erasure.

use super::api_query::ApiQuery;
use crate::types::limits;

/// One statement that returns rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// The last owner of a slot and its record.
    LastOwner,
    /// Takes a slot, if nobody has this epoch.
    Take,
    /// All cursors of a slot.
    Overflow,
    /// All destinations of a slot with something to remember.
    Destinations,
    /// Attempts of a slot that were claimed by rows of their own.
    Claims,
    /// Chunks of the log from one on.
    LogChunks,
    /// Rows of a chunk from a sequence on.
    Log,
    /// All rows of an event.
    Event,
    /// The own rows of an event.
    EventRow,
    /// The rows of one job of an event.
    JobRows,
    /// All pieces of a payload.
    Payload,
    /// Events of a tenant in one chunk of the index.
    Index,
    /// Packs of a bucket from a first sequence on.
    Ids,
    /// Minutes with due rows from one on.
    DueMinutes,
    /// Due rows of a minute from a place on.
    Due,
    /// Where dead letters of an event are.
    DeadLettersOfEvent,
    /// One dead letter.
    DeadLetter,
    /// How a command ended.
    CommandResult,
    /// The number of the last change of the configuration that a quorum knows.
    ConfigNumber,
    /// The last change of the configuration.
    ConfigHead,
    /// Makes the next change of the configuration, if nobody has made it.
    ChangeConfig,
    /// Changes of the configuration in one chunk, from a number on.
    ConfigEntries,
    /// Records of the configuration in one bucket.
    Config,
    /// Takes an erasure, if nobody has it.
    TakeErasure,
    /// Keeps an erasure for longer, if it is one's own.
    KeepErasure,
    /// What only the API asks.
    Api(ApiQuery),
}

impl Query {
    /// All but the API's.
    pub const ALL: [Self; 25] = [
        Self::LastOwner,
        Self::Take,
        Self::Overflow,
        Self::Destinations,
        Self::Claims,
        Self::LogChunks,
        Self::Log,
        Self::Event,
        Self::EventRow,
        Self::JobRows,
        Self::Payload,
        Self::Index,
        Self::Ids,
        Self::DueMinutes,
        Self::Due,
        Self::DeadLettersOfEvent,
        Self::DeadLetter,
        Self::CommandResult,
        Self::ConfigNumber,
        Self::ConfigHead,
        Self::ChangeConfig,
        Self::ConfigEntries,
        Self::Config,
        Self::TakeErasure,
        Self::KeepErasure,
    ];

    /// The CQL.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::LastOwner => "SELECT epoch, taker, base, record FROM slots WHERE slot = ? LIMIT 1",
            Self::Take => "INSERT INTO slots (slot, epoch, owner, taker, base) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS",
            Self::Overflow => "SELECT tenant, id, value FROM overflow WHERE slot = ?",
            Self::Destinations => "SELECT tenant, id, value FROM destinations WHERE slot = ?",
            Self::Claims => "SELECT sequence, ordinal, tenant FROM claims WHERE slot = ?",
            Self::LogChunks => "SELECT chunk FROM log_chunks WHERE slot = ? AND chunk >= ?",
            Self::Log => {
                "SELECT sequence, ordinal, kind, number, tenant, value, payload FROM log \
                 WHERE slot = ? AND chunk = ? AND sequence >= ?"
            }
            Self::Event => {
                "SELECT sequence, ordinal, kind, number, tenant, value, payload FROM log \
                 WHERE slot = ? AND chunk = ? AND sequence = ?"
            }
            Self::EventRow => {
                "SELECT sequence, ordinal, kind, number, tenant, value, payload FROM log \
                 WHERE slot = ? AND chunk = ? AND sequence = ? AND ordinal = -1"
            }
            Self::JobRows => {
                "SELECT sequence, ordinal, kind, number, tenant, value, payload FROM log \
                 WHERE slot = ? AND chunk = ? AND sequence = ? AND ordinal = ?"
            }
            Self::Payload => "SELECT bytes FROM payloads WHERE slot = ? AND sequence = ?",
            Self::Index => {
                "SELECT sequence, value FROM tenant_index \
                 WHERE slot = ? AND chunk = ? AND tenant = ? AND sequence >= ? AND sequence <= ?"
            }
            Self::Ids => "SELECT first, value FROM ids WHERE slot = ? AND minute = ? AND first >= ?",
            Self::DueMinutes => "SELECT minute FROM due_minutes WHERE slot = ? AND minute >= ?",
            Self::Due => {
                "SELECT at, sequence, ordinal, tenant FROM due \
                 WHERE slot = ? AND minute = ? AND (at, sequence, ordinal) >= (?, ?, ?)"
            }
            Self::DeadLettersOfEvent => {
                "SELECT ordinal, at, tenant FROM dead_letters_of_event WHERE slot = ? AND sequence = ?"
            }
            Self::Api(query) => query.text(),
            Self::DeadLetter => {
                "SELECT value, payload FROM dead_letters \
                 WHERE tenant = ? AND day = ? AND at = ? AND slot = ? AND sequence = ? AND ordinal = ?"
            }
            Self::CommandResult => "SELECT value FROM command_results WHERE id = ?",
            Self::ConfigNumber => "SELECT number FROM config_head WHERE part = 'hub'",
            Self::ConfigHead => "SELECT number, writer, change FROM config_head WHERE part = 'hub'",
            Self::ChangeConfig => {
                "UPDATE config_head SET number = ?, writer = ?, change = ? WHERE part = 'hub' IF number = ?"
            }
            Self::ConfigEntries => {
                "SELECT number, writer, change FROM config_feed WHERE chunk = ? AND number >= ? LIMIT ?"
            }
            Self::Config => "SELECT key, value FROM config WHERE bucket = ?",
            Self::TakeErasure => "INSERT INTO erasures (tenant, driver) VALUES (?, ?) IF NOT EXISTS USING TTL ?",
            Self::KeepErasure => "UPDATE erasures USING TTL ? SET driver = ? WHERE tenant = ? IF driver = ?",
        }
    }

    /// Whether it must see every conditional write that was decided before.
    #[must_use]
    pub fn is_serial(self) -> bool {
        matches!(self, Self::LastOwner | Self::ConfigHead)
    }

    /// Whether it is a conditional write: sent twice it may find its own first one.
    #[must_use]
    pub fn is_conditional(self) -> bool {
        matches!(self, Self::Take | Self::ChangeConfig | Self::TakeErasure | Self::KeepErasure)
    }

    /// Rows that the server sends in one page.
    #[must_use]
    pub fn page_rows(self) -> i32 {
        if self == Self::Api(ApiQuery::Quarantine) { limits::CQL_PAGE_RECORDS } else { limits::CQL_PAGE_ROWS }
    }
}

impl From<ApiQuery> for Query {
    fn from(query: ApiQuery) -> Self {
        Self::Api(query)
    }
}
