//! How a command ended. The command's id is the key.

use super::CodecError;
use super::job::{put_job_key, read_job_key};
use super::wire::{Reader, put_option};
use crate::engine::CommandResult;

const KIND: &str = "command result";
const VERSION: u8 = 1;

const DONE: u8 = 1;
const NOT_FOUND: u8 = 2;
const SUBSCRIPTION_DELETED: u8 = 3;
const TOO_MANY_RUNS: u8 = 4;
const EXPIRED: u8 = 5;
const BUSY: u8 = 6;

/// Appends a command's result.
pub fn encode(result: CommandResult, out: &mut Vec<u8>) {
    out.push(VERSION);
    match result {
        CommandResult::Done(key) => {
            out.push(DONE);
            put_option(out, key, put_job_key);
        }
        CommandResult::NotFound => out.push(NOT_FOUND),
        CommandResult::SubscriptionDeleted => out.push(SUBSCRIPTION_DELETED),
        CommandResult::TooManyRuns => out.push(TOO_MANY_RUNS),
        CommandResult::Expired => out.push(EXPIRED),
        CommandResult::Busy => out.push(BUSY),
    }
}

/// Reads a command's result.
///
/// # Errors
/// [`CodecError`] when the bytes are none.
pub fn decode(bytes: &[u8]) -> Result<CommandResult, CodecError> {
    let mut reader = Reader::versioned(KIND, VERSION, bytes)?;
    let result = match reader.byte()? {
        DONE => CommandResult::Done(reader.option(read_job_key)?),
        NOT_FOUND => CommandResult::NotFound,
        SUBSCRIPTION_DELETED => CommandResult::SubscriptionDeleted,
        TOO_MANY_RUNS => CommandResult::TooManyRuns,
        EXPIRED => CommandResult::Expired,
        BUSY => CommandResult::Busy,
        0 | 7.. => return Err(reader.fault("result")),
    };
    reader.finish()?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples;
    use super::*;

    proptest! {
        #[test]
        fn results_round_trip(result in samples::command_result()) {
            let mut out = Vec::new();
            encode(result, &mut out);
            prop_assert_eq!(decode(&out), Ok(result));
            out.pop();
            prop_assert!(decode(&out).is_err());
        }

        #[test]
        fn any_bytes_are_a_result_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 2..40)) {
            bytes[0] = VERSION;
            bytes[1] &= 7;
            let _ = decode(&bytes);
        }
    }
}
