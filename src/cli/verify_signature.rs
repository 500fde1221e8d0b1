//! `verify-signature`: checks a received delivery's signatures, to find out why a receiver refuses them.

use clap::{ArgGroup, Args};

use super::{CommandError, Surroundings, read_input};
use crate::config::fault::REDACTED;
use crate::deliver::verify::Received;
use crate::types::Secret;
use crate::types::limits::SIGNATURE_TOLERANCE;
use crate::types::secret::SecretError;

/// The command's arguments.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("signatures").args(["signature", "lerian"]).required(true).multiple(true))]
pub struct Arguments {
    /// The destination's secret, `whsec_…`
    #[arg(long, env = "WEBHOOK_SECRET", hide_env_values = true)]
    secret: String,
    /// The value of `webhook-id`
    #[arg(long)]
    id: Option<String>,
    /// The value of `webhook-timestamp` or `X-Lerian-Timestamp`
    #[arg(long, value_name = "SECONDS")]
    timestamp: String,
    /// The value of `webhook-signature`
    #[arg(long, requires = "id")]
    signature: Option<String>,
    /// The value of `X-Lerian-Signature`
    #[arg(long, value_name = "SIGNATURE")]
    lerian: Option<String>,
    /// The file with the body, byte for byte; `-` is standard input
    #[arg(long, value_name = "FILE")]
    body: String,
}

/// A malformed secret is not repeated: it is likely to be a good one with a typing error.
fn parse_secret(text: &str) -> Result<Secret, CommandError> {
    let fault = |rule: SecretError| CommandError::Argument {
        argument: "--secret",
        value: REDACTED.to_owned(),
        rule: rule.to_string(),
    };
    Secret::parse_whsec(text).map_err(fault)
}

/// Says which signatures match, and whether the timestamp is within tolerance. An old timestamp alone is no
/// failure: old deliveries may be checked.
///
/// # Errors
/// [`CommandError::Failed`] when a given signature does not match.
pub fn run(arguments: &Arguments, surroundings: &mut Surroundings<'_>) -> Result<(), CommandError> {
    let secret = parse_secret(&arguments.secret)?;
    let body = read_input("--body", &arguments.body, surroundings)?;
    let id = arguments.id.as_deref().unwrap_or_default();
    let received = Received { id, seconds: &arguments.timestamp, body: &body };
    let checks = checks(arguments, &secret, &received);
    for (name, matched) in &checks {
        let verdict = if *matched { "matches" } else { "does not match" };
        writeln!(surroundings.output, "{name}: {verdict}")?;
    }
    writeln!(surroundings.output, "timestamp: {}", freshness(&received, surroundings))?;
    if checks.iter().all(|(_, matched)| *matched) {
        return Ok(());
    }
    Err(CommandError::Failed(explanation(arguments, &secret, &received)))
}

fn checks(arguments: &Arguments, secret: &Secret, received: &Received<'_>) -> Vec<(&'static str, bool)> {
    let standard = arguments.signature.as_deref().map(|text| received.matches_standard(secret, text));
    let lerian = arguments.lerian.as_deref().map(|text| received.matches_lerian(secret, text));
    let named = [standard.map(|matched| ("webhook-signature", matched)), lerian.map(|m| ("X-Lerian-Signature", m))];
    named.into_iter().flatten().collect()
}

fn freshness(received: &Received<'_>, surroundings: &Surroundings<'_>) -> String {
    let (seconds, now) = (received.seconds, surroundings.clock.now());
    let tolerance = SIGNATURE_TOLERANCE.as_secs();
    match seconds.parse::<u64>() {
        Ok(_) if received.is_fresh(now) => format!("{seconds} is within {tolerance} s of now"),
        Ok(at) => {
            format!("{seconds} is {} s from now, out of the tolerance of {tolerance} s", now.as_secs().abs_diff(at))
        }
        Err(_) => format!("{seconds:?} is no number of seconds; receivers refuse it"),
    }
}

/// The likeliest reason for a mismatch: an editor or shell has added a newline to the body.
fn explanation(arguments: &Arguments, secret: &Secret, received: &Received<'_>) -> String {
    let trimmed = received.body.trim_ascii_end();
    let other = Received { body: trimmed, ..*received };
    if trimmed.len() < received.body.len() && checks(arguments, secret, &other).iter().all(|(_, matched)| *matched) {
        return "a signature matches only without the white space at the body's end".to_owned();
    }
    "a signature does not match: check the secret, and that the body is what was received, byte for byte".to_owned()
}

#[cfg(test)]
mod tests {
    use crate::cli::tests::ran;
    use crate::cli::{DONE, FAILED, MISUSED};

    const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;
    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const STANDARD: [&str; 8] = [
        "verify-signature",
        "--id=msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
        "--timestamp=1649367553",
        "--signature",
        "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        "--body=-",
        "--secret",
        SECRET,
    ];

    #[test]
    fn the_standard_vector_matches_and_its_age_is_told() {
        let (code, output, errors) = ran(&STANDARD, &[], BODY);
        assert_eq!((code, errors.as_str()), (DONE, ""));
        assert!(output.starts_with("webhook-signature: matches\ntimestamp: 1649367553 is "), "{output}");
        assert!(output.contains("out of the tolerance of 300 s"), "{output}");
    }

    #[test]
    fn a_newline_at_the_end_of_the_body_is_found_out() {
        let (code, output, errors) = ran(&STANDARD, &[], &[BODY, b"\n"].concat());
        assert_eq!(code, FAILED);
        assert!(output.contains("webhook-signature: does not match"), "{output}");
        assert!(errors.contains("only without the white space"), "{errors}");
    }

    #[test]
    fn a_lerian_signature_needs_no_id() {
        let lerian = ["verify-signature", "--timestamp=1", "--lerian=v1,sha256=00", "--body=-", "--secret", SECRET];
        let (code, output, _) = ran(&lerian, &[], BODY);
        assert_eq!(code, FAILED);
        assert!(output.contains("X-Lerian-Signature: does not match"), "{output}");
    }

    #[test]
    fn wrong_arguments_are_named_and_secrets_are_not_shown() {
        let (code, _, errors) = ran(&[&STANDARD[..6], &["--secret", "hunter2"]].concat(), &[], BODY);
        assert!(code == MISUSED && errors.contains("must begin with `whsec_`"), "{errors}");
        assert!(!errors.contains("hunter2"), "{errors}");
        assert_eq!(ran(&["verify-signature", "--timestamp=1", "--body=-", "--secret", SECRET], &[], BODY).0, MISUSED);
        let (code, _, errors) =
            ran(&[&STANDARD[..5], &["--body=/nonexistent", "--secret", SECRET]].concat(), &[], BODY);
        assert_eq!(code, MISUSED);
        assert!(errors.contains("--body") && errors.contains("/nonexistent"), "{errors}");
    }
}
