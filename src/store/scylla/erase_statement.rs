//! What is sent to erase a tenant. The markers are the timestamp, the partition's key, what else the text names, in its
//! order.

/// Deletes rows of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Erase {
    /// An event and its jobs are erased.
    Event,
    /// A payload of an event is erased.
    Payload,
    /// Events of a tenant are erased from one chunk of the index.
    Index,
    /// A job's time is erased.
    Due,
    /// A dead letter is erased.
    DeadLetter,
    /// When whose dead letter was made is erased.
    DeadLetterByHour,
    /// Where the dead letters of an event are is erased.
    DeadLettersOfEvent,
    /// A malformed record is erased.
    Quarantine,
    /// A producer's own dead letter is erased.
    ProducerDeadLetter,
}

impl Erase {
    /// The CQL.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Event => "DELETE FROM log USING TIMESTAMP ? WHERE slot = ? AND chunk = ? AND sequence = ?",
            Self::Payload => "DELETE FROM payloads USING TIMESTAMP ? WHERE slot = ? AND sequence = ?",
            Self::Index => {
                "DELETE FROM tenant_index USING TIMESTAMP ? \
                 WHERE slot = ? AND chunk = ? AND tenant = ? AND sequence >= ? AND sequence <= ?"
            }
            Self::Due => {
                "DELETE FROM due USING TIMESTAMP ? \
                 WHERE slot = ? AND minute = ? AND at = ? AND sequence = ? AND ordinal = ?"
            }
            Self::DeadLetter => {
                "DELETE FROM dead_letters USING TIMESTAMP ? \
                 WHERE tenant = ? AND day = ? AND at = ? AND slot = ? AND sequence = ? AND ordinal = ?"
            }
            Self::DeadLetterByHour => {
                "DELETE FROM dead_letters_by_hour USING TIMESTAMP ? \
                 WHERE hour = ? AND at = ? AND slot = ? AND sequence = ? AND ordinal = ?"
            }
            Self::DeadLettersOfEvent => {
                "DELETE FROM dead_letters_of_event USING TIMESTAMP ? WHERE slot = ? AND sequence = ?"
            }
            Self::Quarantine => "DELETE FROM quarantine USING TIMESTAMP ? WHERE hour = ? AND id = ?",
            Self::ProducerDeadLetter => "DELETE FROM producer_dlq USING TIMESTAMP ? WHERE hour = ? AND id = ?",
        }
    }
}
