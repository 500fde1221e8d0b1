//! The stored form of every record: one file per kind, hand-written, with explicit numbers.
//!
//! Each value begins with the version of its kind; integers are LEB128 varints, texts and blobs carry their
//! length. Keys sort as bytes the way their parts sort. Decoding is total: any bytes give a value or a
//! [`CodecError`], never a panic, and never an allocation larger than the input justifies.
//!
//! Pure: no I/O, no clock. What a batch becomes is [`batch::EncodedBatch`]; what the rows of one event become
//! again is [`fold`].

pub mod batch;
pub mod change;
pub mod command_result;
pub mod configuration;
pub mod dead_letter;
pub mod deployment;
pub mod destination;
pub mod event;
pub mod fold;
pub mod hub;
pub mod ids;
pub mod job;
pub mod key;
pub mod lane;
pub mod overflow;
pub mod producer_dlq;
pub mod quarantine;
pub mod slot;
pub mod slot_record;
pub mod wire;

#[cfg(test)]
mod fixtures;
#[cfg(any(test, feature = "real"))]
pub(crate) mod plain;
#[cfg(test)]
pub(crate) mod samples;

/// Why stored bytes are not the record they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The bytes end too early.
    #[error("{0}: the bytes end too early")]
    Truncated(&'static str),
    /// Bytes are left over.
    #[error("{0}: bytes are left over")]
    Trailing(&'static str),
    /// This program does not know the version.
    #[error("{kind}: version {found} is not known to this program")]
    Version {
        /// The kind of record.
        kind: &'static str,
        /// The version byte.
        found: u8,
    },
    /// A number or text stands for nothing.
    #[error("{kind}: the value of `{field}` stands for nothing")]
    Value {
        /// The kind of record.
        kind: &'static str,
        /// The field.
        field: &'static str,
    },
}
