//! What an attempt's outcome means for its job and its destination: contracts, "A delivery".
//!
//! It only judges; steps, circuits and failure spans are moved by whoever asked.

use crate::types::destination::On410;
use crate::types::{AttemptOutcome, ErrorKind, Time, Verdict, limits};

/// The meaning of an outcome. `stale_used`: this step's one free attempt after a stale connection is spent.
#[must_use]
pub fn verdict(outcome: &AttemptOutcome, on_410: On410, stale_used: bool) -> Verdict {
    match (outcome.status, outcome.error_kind) {
        (Some(200..=299), _) => Verdict::Delivered,
        (Some(410), _) => gone(on_410),
        (Some(429), _) => Verdict::Throttled,
        (Some(_), _) => Verdict::Failed,
        (None, Some(ErrorKind::Internal)) => Verdict::HubFault,
        (None, Some(ErrorKind::Interrupted)) => Verdict::Interrupted,
        (None, _) if outcome.stale_connection && !stale_used => Verdict::Stale,
        (None, _) => Verdict::Failed,
    }
}

/// Until when a `Retry-After` of a 429 or 503 holds the whole destination; believed up to
/// [`limits::RETRY_AFTER_MAX`].
#[must_use]
pub fn hold_until(outcome: &AttemptOutcome, now: Time) -> Option<Time> {
    match outcome.status {
        Some(429 | 503) => outcome.retry_after.map(|hint| now + hint.min(limits::RETRY_AFTER_MAX)),
        Some(_) | None => None,
    }
}

const fn gone(on_410: On410) -> Verdict {
    match on_410 {
        On410::Disable => Verdict::Gone,
        On410::Retry => Verdict::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Duration;

    fn status(status: u16) -> AttemptOutcome {
        let error_kind = (!(200..300).contains(&status)).then_some(ErrorKind::Status);
        AttemptOutcome { status: Some(status), error_kind, ..AttemptOutcome::default() }
    }

    fn error(kind: ErrorKind) -> AttemptOutcome {
        AttemptOutcome { error_kind: Some(kind), ..AttemptOutcome::default() }
    }

    fn judge(outcome: &AttemptOutcome) -> Verdict {
        verdict(outcome, On410::Disable, false)
    }

    #[test]
    fn each_status_has_its_verdict() {
        for code in [200, 201, 204, 299] {
            assert_eq!(judge(&status(code)), Verdict::Delivered, "{code}");
        }
        for code in [100, 199, 300, 301, 308, 400, 401, 404, 409, 411, 422, 428, 430, 500, 503, 599] {
            assert_eq!(judge(&status(code)), Verdict::Failed, "{code}");
        }
        assert_eq!(judge(&status(429)), Verdict::Throttled);
    }

    #[test]
    fn a_410_is_gone_unless_it_is_to_be_retried() {
        assert_eq!(verdict(&status(410), On410::Disable, false), Verdict::Gone);
        assert_eq!(verdict(&status(410), On410::Retry, false), Verdict::Failed);
    }

    #[test]
    fn a_complete_success_head_decides_whatever_becomes_of_the_body() {
        let outcome = AttemptOutcome { truncated: true, error_kind: Some(ErrorKind::Timeout), ..status(200) };
        assert_eq!(judge(&outcome), Verdict::Delivered);
    }

    #[test]
    fn the_hubs_own_faults_and_cuts_are_not_the_destinations() {
        assert_eq!(judge(&error(ErrorKind::Internal)), Verdict::HubFault);
        assert_eq!(judge(&error(ErrorKind::Interrupted)), Verdict::Interrupted);
    }

    #[test]
    fn every_other_error_is_a_failure() {
        let kinds = [
            ErrorKind::Dns,
            ErrorKind::Blocked,
            ErrorKind::Connect,
            ErrorKind::Tls,
            ErrorKind::TlsExpired,
            ErrorKind::TlsUntrusted,
            ErrorKind::TlsWrongHost,
            ErrorKind::TlsHandshake,
            ErrorKind::TlsClientCertificate,
            ErrorKind::Timeout,
            ErrorKind::Reset,
            ErrorKind::Protocol,
        ];
        for kind in kinds {
            assert_eq!(judge(&error(kind)), Verdict::Failed, "{kind:?}");
        }
        assert_eq!(judge(&AttemptOutcome::default()), Verdict::Failed, "no facts at all are no success");
    }

    #[test]
    fn a_stale_connection_is_free_once_per_step() {
        let stale = AttemptOutcome { stale_connection: true, ..error(ErrorKind::Reset) };
        assert_eq!(verdict(&stale, On410::Disable, false), Verdict::Stale);
        assert_eq!(verdict(&stale, On410::Disable, true), Verdict::Failed);
    }

    #[test]
    fn retry_after_holds_on_429_and_503_up_to_its_cap() {
        let now = Time::from_millis(5_000);
        let hint = |code, seconds| AttemptOutcome { retry_after: Some(Duration::from_secs(seconds)), ..status(code) };
        assert_eq!(hold_until(&hint(429, 7), now), Some(Time::from_millis(12_000)));
        assert_eq!(hold_until(&hint(503, 7), now), Some(Time::from_millis(12_000)));
        assert_eq!(hold_until(&hint(429, 1_000_000_000), now), Some(now + Duration::from_hours(10)));
        assert_eq!(hold_until(&hint(500, 7), now), None);
        assert_eq!(hold_until(&status(429), now), None);
        assert_eq!(hold_until(&error(ErrorKind::Timeout), now), None);
    }
}
