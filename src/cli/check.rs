//! `check`: validates the configuration and prints it with its origins.

use clap::Args;

use super::settings::ConfigArguments;
use super::{CommandError, Surroundings};

/// The command's arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigArguments,
}

/// Prints every setting with its value and origin, secrets redacted.
///
/// # Errors
/// [`CommandError::Config`] with every fault.
pub fn run(arguments: Arguments, surroundings: &mut Surroundings<'_>) -> Result<(), CommandError> {
    let config = arguments.config.load(surroundings)?;
    write!(surroundings.output, "{}", config.listing())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::cli::tests::ran;
    use crate::cli::{DONE, MISUSED};

    #[test]
    fn a_good_configuration_is_listed_with_origins_and_without_secrets() {
        let environment = [("STREAMING_HUB_ADMIN_KEY", "hunter2"), ("STREAMING_HUB_PULL_RATE", "7")];
        let (code, output, errors) = ran(&["check", "--http.listen_addr", ":9090"], &environment, b"");
        assert_eq!((code, errors.as_str()), (DONE, ""));
        assert!(output.contains("http.listen_addr = \":9090\"  # --http.listen_addr\n"), "{output}");
        assert!(output.contains("limits.pull_rate = \"7\"  # STREAMING_HUB_PULL_RATE\n"), "{output}");
        assert!(output.contains("security.admin_key = (redacted)  # STREAMING_HUB_ADMIN_KEY\n"), "{output}");
        assert!(!output.contains("hunter2"));
    }

    #[test]
    fn every_fault_is_named_and_the_code_says_misuse() {
        let environment = [("STREAMING_HUB_PULL_RATE", "many"), ("STREAMING_HUB_SHARDS", "0")];
        let (code, output, errors) = ran(&["check"], &environment, b"");
        assert_eq!((code, output.as_str()), (MISUSED, ""));
        assert!(errors.starts_with("error: the configuration has 2 fault(s)\n"), "{errors}");
        assert!(errors.contains("limits.pull_rate = \"many\": must be a whole number"), "{errors}");
        assert!(errors.contains("(STREAMING_HUB_SHARDS)"), "{errors}");
    }

    #[test]
    fn secrets_are_no_flags() {
        let (code, _, errors) = ran(&["check", "--security.admin_key", "hunter2"], &[], b"");
        assert_eq!(code, MISUSED);
        assert!(errors.contains("--security.admin_key") && !errors.contains("hunter2"), "{errors}");
    }
}
