//! Which part of an event a row of the log is, as clustering columns: ordinal, kind, number.
//!
//! A claim and the attempt that answers it are rows of their own, and so is a reclaim: the outcome that a former
//! owner writes late does not hide what its successor wrote, nor is it hidden. The kinds are numbered so that what
//! folds later counts more.

use super::statement::Value;
use crate::store::codec::CodecError;
use crate::store::codec::key::LogPart;

/// The ordinal of the event's own row.
const EVENT_ORDINAL: i32 = -1;

const EVENT: i8 = 0;
const RUN: i8 = 1;
const CLAIM: i8 = 2;
const RECLAIM: i8 = 3;
const ATTEMPT: i8 = 4;
const END: i8 = 5;

/// A part of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The job's ordinal; -1 for the event itself.
    pub ordinal: i32,
    /// Which kind of row.
    pub kind: i8,
    /// The attempt's number, or the end's strength; else 0.
    pub number: i32,
}

impl Part {
    /// The event itself.
    pub const EVENT: Self = Self { ordinal: EVENT_ORDINAL, kind: EVENT, number: 0 };

    /// The first and the last kind of rows that say what became of an attempt.
    pub const OUTCOMES: (i8, i8) = (RECLAIM, ATTEMPT);

    /// The row of a job that a command made.
    #[must_use]
    pub fn run(ordinal: u16) -> Self {
        Self { ordinal: ordinal.into(), kind: RUN, number: 0 }
    }

    /// An attempt's claim.
    #[must_use]
    pub fn claim(ordinal: u16, number: u32) -> Self {
        Self { ordinal: ordinal.into(), kind: CLAIM, number: number.cast_signed() }
    }

    /// What became of an attempt.
    #[must_use]
    pub fn attempt(ordinal: u16, number: u32, is_reclaim: bool) -> Self {
        let kind = if is_reclaim { RECLAIM } else { ATTEMPT };
        Self { ordinal: ordinal.into(), kind, number: number.cast_signed() }
    }

    /// An end without an attempt.
    #[must_use]
    pub fn end(ordinal: u16, strength: u8) -> Self {
        Self { ordinal: ordinal.into(), kind: END, number: strength.into() }
    }

    /// As the codec's folding knows it.
    ///
    /// # Errors
    /// [`CodecError::Value`] when the numbers stand for no part.
    pub fn log_part(self) -> Result<LogPart, CodecError> {
        let fault = CodecError::Value { kind: "log row", field: "part" };
        if self == Self::EVENT {
            return Ok(LogPart::Event);
        }
        let ordinal = u16::try_from(self.ordinal).map_err(|_| fault)?;
        match self.kind {
            RUN => Ok(LogPart::Run { ordinal }),
            CLAIM | RECLAIM | ATTEMPT => Ok(LogPart::Attempt { ordinal, number: self.number.cast_unsigned() }),
            END => Ok(LogPart::End { ordinal, strength: u8::try_from(self.number).map_err(|_| fault)? }),
            EVENT | ..=-1 | 6.. => Err(fault),
        }
    }

    /// Its columns.
    #[must_use]
    pub const fn values(self) -> [Value; 3] {
        [Value::Int(self.ordinal), Value::Tiny(self.kind), Value::Int(self.number)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_as_what_they_were() {
        assert_eq!(Part::EVENT.log_part(), Ok(LogPart::Event));
        assert_eq!(Part::run(7).log_part(), Ok(LogPart::Run { ordinal: 7 }));
        let attempt = Ok(LogPart::Attempt { ordinal: 7, number: u32::MAX });
        for part in [Part::claim(7, u32::MAX), Part::attempt(7, u32::MAX, true), Part::attempt(7, u32::MAX, false)] {
            assert_eq!(part.log_part(), attempt);
        }
        assert_eq!(Part::end(u16::MAX, 2).log_part(), Ok(LogPart::End { ordinal: u16::MAX, strength: 2 }));
        assert!(Part { kind: 9, ..Part::run(1) }.log_part().is_err());
        assert!(Part { kind: EVENT, ..Part::run(1) }.log_part().is_err());
    }

    #[test]
    fn an_outcome_folds_after_the_reclaim_and_the_claim_of_its_number() {
        assert!(Part::claim(1, 1) < Part::attempt(1, 1, true));
        assert!(Part::attempt(1, 1, true) < Part::attempt(1, 1, false));
        assert!(Part::EVENT < Part::run(0));
    }
}
