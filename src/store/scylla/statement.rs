//! What is written: the partitions, the values, and the statement for each kind of row.

use bytes::Bytes;
use uuid::Uuid;

use super::erase_statement::Erase;
use crate::types::{LaneName, Sequence, Slot, TenantId, limits};

/// A value bound to a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `tinyint`.
    Tiny(i8),
    /// `int`.
    Int(i32),
    /// `bigint`.
    Long(i64),
    /// `text`.
    Text(Box<str>),
    /// `blob`.
    Blob(Bytes),
    /// `uuid`.
    Uuid(Uuid),
}

impl Value {
    /// A number that the hub counts without a sign. What no row has, such as the end of a range, is the largest.
    #[must_use]
    pub fn long(number: u64) -> Self {
        Self::Long(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// A slot.
    #[must_use]
    pub fn slot(slot: Slot) -> Self {
        Self::Int(slot.0.into())
    }

    /// A tenant.
    #[must_use]
    pub fn tenant(tenant: &TenantId) -> Self {
        Self::Text(tenant.as_str().into())
    }

    /// What it weighs in a batch, in bytes, roughly.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::Tiny(_) => 1,
            Self::Int(_) => 4,
            Self::Long(_) => 8,
            Self::Text(text) => text.len(),
            Self::Blob(bytes) => bytes.len(),
            Self::Uuid(_) => 16,
        }
    }
}

/// Rows that a server writes as one: a table and a partition key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Partition {
    /// `payloads`.
    Payload(Slot, Sequence),
    /// `log_chunks`.
    LogChunks(Slot),
    /// `due_minutes`.
    DueMinutes(Slot),
    /// `dead_letters`: a tenant's of one day since the epoch.
    DeadLetters(TenantId, u64),
    /// `dead_letters_by_hour`: of one hour since the epoch.
    DeadLettersByHour(u64),
    /// `dead_letters_of_event`.
    DeadLettersOfEvent(Slot, Sequence),
    /// `quarantine`: of one hour since the epoch.
    Quarantine(u64),
    /// `producer_dlq`: of one hour since the epoch.
    ProducerDlq(u64),
    /// `due`: of one minute since the epoch.
    Due(Slot, u64),
    /// `log`: one chunk.
    Log(Slot, u64),
    /// `ids`: of one minute since the epoch.
    Ids(Slot, u64),
    /// `tenant_index`: one chunk.
    Index(Slot, u64),
    /// `destinations`.
    Destinations(Slot),
    /// `overflow`.
    Overflow(Slot),
    /// `claims`.
    Claims(Slot),
    /// `slots`.
    Slot(Slot),
    /// `lanes`: of one of [`limits::CQL_LANE_BUCKETS`] buckets.
    Lanes(u8),
    /// `command_results`.
    CommandResult(Uuid),
    /// `config`: one bucket of tenants.
    Config(u16),
    /// `config_feed`: one chunk of numbers.
    ConfigFeed(u64),
}

impl Partition {
    /// The table's name.
    #[must_use]
    pub const fn table(&self) -> &'static str {
        match self {
            Self::Payload(..) => "payloads",
            Self::LogChunks(_) => "log_chunks",
            Self::DueMinutes(_) => "due_minutes",
            Self::DeadLetters(..) => "dead_letters",
            Self::DeadLettersByHour(_) => "dead_letters_by_hour",
            Self::DeadLettersOfEvent(..) => "dead_letters_of_event",
            Self::Quarantine(_) => "quarantine",
            Self::ProducerDlq(_) => "producer_dlq",
            Self::Due(..) => "due",
            Self::Log(..) => "log",
            Self::Ids(..) => "ids",
            Self::Index(..) => "tenant_index",
            Self::Destinations(_) => "destinations",
            Self::Overflow(_) => "overflow",
            Self::Claims(_) => "claims",
            Self::Slot(_) => "slots",
            Self::Lanes(_) => "lanes",
            Self::CommandResult(_) => "command_results",
            Self::Config(_) => "config",
            Self::ConfigFeed(_) => "config_feed",
        }
    }

    /// The values of its key.
    #[must_use]
    pub fn key(&self) -> Vec<Value> {
        match self {
            Self::Payload(slot, sequence) | Self::DeadLettersOfEvent(slot, sequence) => {
                vec![Value::slot(*slot), Value::long(sequence.0)]
            }
            Self::Due(slot, number) | Self::Log(slot, number) | Self::Ids(slot, number) | Self::Index(slot, number) => {
                vec![Value::slot(*slot), Value::long(*number)]
            }
            Self::LogChunks(slot)
            | Self::DueMinutes(slot)
            | Self::Destinations(slot)
            | Self::Overflow(slot)
            | Self::Claims(slot)
            | Self::Slot(slot) => vec![Value::slot(*slot)],
            Self::DeadLetters(tenant, day) => vec![Value::tenant(tenant), Value::long(*day)],
            Self::DeadLettersByHour(hour) | Self::Quarantine(hour) | Self::ProducerDlq(hour) => {
                vec![Value::long(*hour)]
            }
            Self::Lanes(bucket) => vec![Value::Int((*bucket).into())],
            Self::CommandResult(id) => vec![Value::Uuid(*id)],
            Self::Config(bucket) => vec![Value::Int((*bucket).into())],
            Self::ConfigFeed(chunk) => vec![Value::long(*chunk)],
        }
    }

    /// The partition of a lane's position: a sum of its name's bytes says which, for good.
    #[must_use]
    pub fn of_lane(name: &LaneName) -> Self {
        let sum = name.0.bytes().fold(0, u8::wrapping_add);
        Self::Lanes(sum % limits::CQL_LANE_BUCKETS)
    }
}

/// Writes one row. The markers are the partition's key, what else [`Statement::text`] names, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Statement {
    /// A piece of a payload.
    PutPayload,
    /// A chunk of the log has events.
    PutLogChunk,
    /// A minute has due rows.
    PutDueMinute,
    /// A dead letter.
    PutDeadLetter,
    /// When whose dead letter was made.
    PutDeadLetterByHour,
    /// Where a dead letter of an event is.
    PutDeadLetterOfEvent,
    /// A malformed record.
    PutQuarantine,
    /// A producer's own dead letter.
    PutProducerDeadLetter,
    /// A job's time.
    PutDue,
    /// An event, or what became of one of its jobs.
    PutLog,
    /// An event's payload, which expires before its event.
    PutLogPayload,
    /// A pack of ids.
    PutIds,
    /// An event of a tenant.
    PutIndex,
    /// What is remembered of a destination.
    PutDestination,
    /// Nothing is remembered of a destination.
    RemoveDestination,
    /// An overflow cursor.
    PutOverflow,
    /// Nothing waits behind a cursor any more.
    RemoveOverflow,
    /// An attempt that was claimed by a row of its own.
    PutClaim,
    /// An owner's record of its slot.
    PutSlot,
    /// A lane's position.
    PutLane,
    /// How a command ended.
    PutCommandResult,
    /// A configuration record.
    PutConfig,
    /// A configuration record is gone.
    RemoveConfig,
    /// A change of the configuration.
    PutConfigEntry,
    /// Something of a tenant is erased.
    Erase(Erase),
}

impl Statement {
    /// All of them.
    pub const ALL: [Self; 33] = [
        Self::PutPayload,
        Self::PutLogChunk,
        Self::PutDueMinute,
        Self::PutDeadLetter,
        Self::PutDeadLetterByHour,
        Self::PutDeadLetterOfEvent,
        Self::PutQuarantine,
        Self::PutProducerDeadLetter,
        Self::PutDue,
        Self::PutLog,
        Self::PutLogPayload,
        Self::PutIds,
        Self::PutIndex,
        Self::PutDestination,
        Self::RemoveDestination,
        Self::PutOverflow,
        Self::RemoveOverflow,
        Self::PutClaim,
        Self::PutSlot,
        Self::PutLane,
        Self::PutCommandResult,
        Self::PutConfig,
        Self::RemoveConfig,
        Self::PutConfigEntry,
        Self::Erase(Erase::Event),
        Self::Erase(Erase::Payload),
        Self::Erase(Erase::Index),
        Self::Erase(Erase::Due),
        Self::Erase(Erase::DeadLetter),
        Self::Erase(Erase::DeadLetterByHour),
        Self::Erase(Erase::DeadLettersOfEvent),
        Self::Erase(Erase::Quarantine),
        Self::Erase(Erase::ProducerDeadLetter),
    ];

    /// The CQL.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::PutPayload => {
                "INSERT INTO payloads (slot, sequence, piece, bytes) VALUES (?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutLogChunk => "INSERT INTO log_chunks (slot, chunk) VALUES (?, ?) USING TTL ? AND TIMESTAMP ?",
            Self::PutDueMinute => "INSERT INTO due_minutes (slot, minute) VALUES (?, ?) USING TTL ? AND TIMESTAMP ?",
            Self::PutDeadLetter => {
                "INSERT INTO dead_letters (tenant, day, at, slot, sequence, ordinal, value, payload) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutDeadLetterByHour => {
                "INSERT INTO dead_letters_by_hour (hour, at, slot, sequence, ordinal, tenant) \
                 VALUES (?, ?, ?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutDeadLetterOfEvent => {
                "INSERT INTO dead_letters_of_event (slot, sequence, ordinal, at, tenant) \
                 VALUES (?, ?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutQuarantine => {
                "INSERT INTO quarantine (hour, id, value) VALUES (?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutProducerDeadLetter => {
                "INSERT INTO producer_dlq (hour, id, value) VALUES (?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutDue => {
                "INSERT INTO due (slot, minute, at, sequence, ordinal, tenant) \
                 VALUES (?, ?, ?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutLog => {
                "INSERT INTO log (slot, chunk, sequence, ordinal, kind, number, epoch, tenant, value) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutLogPayload => {
                "INSERT INTO log (slot, chunk, sequence, ordinal, kind, number, epoch, payload) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutIds => {
                "INSERT INTO ids (slot, minute, first, epoch, value) \
                 VALUES (?, ?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutIndex => {
                "INSERT INTO tenant_index (slot, chunk, tenant, sequence, value) \
                 VALUES (?, ?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutDestination => {
                "INSERT INTO destinations (slot, tenant, id, value) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
            }
            Self::RemoveDestination => {
                "DELETE FROM destinations USING TIMESTAMP ? WHERE slot = ? AND tenant = ? AND id = ?"
            }
            Self::PutOverflow => "INSERT INTO overflow (slot, tenant, id, value) VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
            Self::RemoveOverflow => "DELETE FROM overflow USING TIMESTAMP ? WHERE slot = ? AND tenant = ? AND id = ?",
            Self::PutClaim => {
                "INSERT INTO claims (slot, epoch, place, sequence, ordinal, tenant) \
                 VALUES (?, ?, ?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutSlot => "UPDATE slots USING TIMESTAMP ? SET record = ? WHERE slot = ? AND epoch = ?",
            Self::PutLane => "INSERT INTO lanes (bucket, name, value) VALUES (?, ?, ?) USING TIMESTAMP ?",
            Self::PutCommandResult => {
                "INSERT INTO command_results (id, value) VALUES (?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::PutConfig => "INSERT INTO config (bucket, key, value) VALUES (?, ?, ?) USING TTL ? AND TIMESTAMP ?",
            Self::RemoveConfig => "DELETE FROM config USING TIMESTAMP ? WHERE bucket = ? AND key = ?",
            Self::PutConfigEntry => {
                "INSERT INTO config_feed (chunk, number, writer, change) VALUES (?, ?, ?, ?) USING TTL ? AND TIMESTAMP ?"
            }
            Self::Erase(erase) => erase.text(),
        }
    }
}

/// A statement's text with its table named in full: servers warn of prepared statements that rely on `USE`.
#[must_use]
pub fn qualified(text: &str, keyspace: &str) -> String {
    ["INSERT INTO ", "UPDATE ", " FROM "]
        .into_iter()
        .fold(text.to_owned(), |text, before| text.replacen(before, &format!("{before}{keyspace}."), 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::scylla::api_query::ApiQuery;
    use crate::store::scylla::query::Query;

    #[test]
    fn a_lane_is_found_where_every_release_has_put_it() {
        let lane = |partition| Partition::of_lane(&LaneName::kafka("lerian.streaming.loans", partition));
        assert_eq!([lane(0), lane(1), lane(11)], [10, 11, 12].map(Partition::Lanes));
    }

    #[test]
    fn every_statement_names_its_table_in_full() {
        let writes = Statement::ALL.into_iter().map(Statement::text);
        let queries = Query::ALL.into_iter().chain(ApiQuery::ALL.map(Query::Api)).map(Query::text);
        for text in writes.chain(queries) {
            assert_eq!(qualified(text, "hub").matches("hub.").count(), 1, "{text}");
        }
        assert_eq!(qualified("DELETE FROM config WHERE key = ?", "hub"), "DELETE FROM hub.config WHERE key = ?");
    }

    #[test]
    fn every_statement_stands_once_and_carries_its_own_timestamp() {
        for (index, statement) in Statement::ALL.iter().enumerate() {
            assert!(!Statement::ALL[..index].contains(statement));
            assert!(statement.text().contains("TIMESTAMP ?"), "{statement:?}");
        }
    }
}
