//! `check`: validates the configuration, prints it with its origins, and compares it with what the brokers say.

use clap::Args;

use super::kafka::settings_of;
use super::settings::ConfigArguments;
use super::{CommandError, Surroundings};
use crate::config::{Config, KafkaConfig};
use crate::source::kafka::{Membership, outlived, topic_retentions};
use crate::source::topic::{Followed, Topics};

/// The command's arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    config: ConfigArguments,
}

/// Prints every setting with its value and origin, secrets redacted, and whether ids outlive the followed topics. What
/// the brokers say, or do not, is no fault of the configuration and changes no exit code.
///
/// # Errors
/// [`CommandError::Config`] with every fault.
pub fn run(arguments: Arguments, surroundings: &mut Surroundings<'_>) -> Result<(), CommandError> {
    let config = arguments.config.load(surroundings)?;
    write!(surroundings.output, "{}", config.listing())?;
    if let Some(kafka) = &config.kafka {
        write!(surroundings.output, "{}", compared(kafka, &config))?;
    }
    Ok(())
}

/// One comment line for each topic that ids do not outlive, or one that says that all is well, or not known.
fn compared(kafka: &KafkaConfig, config: &Config) -> String {
    let followed = Followed::Events(Topics::new(&kafka.topic_prefix));
    let nobody = (String::new(), Membership::One);
    match topic_retentions(&settings_of(kafka, ("kafka.group", &kafka.group), followed, nobody)) {
        Err(error) => {
            format!("# not compared: retention.event with retention.ms of the followed topics: {error}\n")
        }
        Ok(topics) => {
            let outlived = outlived(&topics, config.retention.event);
            if outlived.is_empty() {
                return format!("# ids outlive the records of all {} followed topics\n", topics.len());
            }
            outlived.iter().map(|topic| format!("# warning: {topic}\n")).collect()
        }
    }
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
    fn brokers_that_do_not_answer_are_said_and_no_fault() {
        let (code, output, errors) = ran(&["check", "--kafka.brokers", "127.0.0.1:9"], &[], b"");
        assert_eq!((code, errors.as_str()), (DONE, ""));
        assert!(output.contains("\n# not compared: retention.event"), "{output}");
    }

    #[test]
    fn secrets_are_no_flags() {
        let (code, _, errors) = ran(&["check", "--security.admin_key", "hunter2"], &[], b"");
        assert_eq!(code, MISUSED);
        assert!(errors.contains("--security.admin_key") && !errors.contains("hunter2"), "{errors}");
    }
}
