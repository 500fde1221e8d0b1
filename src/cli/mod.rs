//! The command line: one file per command, all reached through [`run`].
//!
//! A command reads its surroundings and writes its output only through [`Surroundings`], so that tests see all
//! of it. Exit codes: 0 done, 1 it failed while running, 2 the arguments or the configuration are wrong; an
//! error names the argument or key, the value and the rule.

mod backup;
mod check;
mod demo;
mod http_client;
mod intake;
mod kafka;
mod migrate;
mod publish;
mod sample;
pub mod serve;
mod settings;
mod verify_signature;

use std::ffi::OsString;
use std::io::{self, Read, Write};

use clap::{Parser, Subcommand};

use crate::config::ConfigFault;
use crate::runtime::clock::Clock;

/// Done.
pub const DONE: u8 = 0;
/// It failed while running.
pub const FAILED: u8 = 1;
/// The arguments or the configuration are wrong.
pub const MISUSED: u8 = 2;

/// What a command works with beside its arguments.
pub struct Surroundings<'a> {
    /// The environment variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Standard input.
    pub input: &'a mut dyn Read,
    /// Standard output.
    pub output: &'a mut dyn Write,
    /// What standard output is.
    pub output_kind: OutputKind,
    /// The time.
    pub clock: Clock,
}

/// What a command's output goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// A person's terminal: lines may be written over, and coloured.
    Terminal,
    /// A file, a pipe, a test.
    Other,
}

/// A high-throughput, multi-tenant event hub: CloudEvents from Kafka and HTTP in, signed webhooks out.
#[derive(Debug, Parser)]
#[command(name = "streaming-hub", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the hub until SIGTERM
    Serve(serve::Arguments),
    /// Show the whole hub at work, in one process and from nothing
    Demo(demo::Arguments),
    /// Check the configuration: all faults at once, or every setting with its origin
    Check(check::Arguments),
    /// Copy a data directory, of a running hub or of one that is stopped
    Backup(Box<backup::Arguments>),
    /// Prepare a cluster: keyspace and schema in ScyllaDB or Apache Cassandra, and the slot topic in Kafka
    Migrate(Box<migrate::Arguments>),
    /// Send a sample CloudEvent to a hub, over HTTP or Kafka
    Publish(Box<publish::Arguments>),
    /// Check the signatures of a delivery that was received
    VerifySignature(verify_signature::Arguments),
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    /// An argument breaks a rule.
    #[error("error: invalid value {value:?} for '{argument}': {rule}")]
    Argument {
        /// With its dashes.
        argument: &'static str,
        /// As given.
        value: String,
        /// What it must be.
        rule: String,
    },
    /// The configuration is wrong.
    #[error("{}", lines(.0))]
    Config(Vec<ConfigFault>),
    /// It failed while running.
    #[error("error: {0}")]
    Failed(String),
    /// The output could not be written.
    #[error("error: can't write the output: {0}")]
    Output(#[from] io::Error),
}

impl CommandError {
    const fn code(&self) -> u8 {
        match self {
            Self::Argument { .. } | Self::Config(_) => MISUSED,
            Self::Failed(_) | Self::Output(_) => FAILED,
        }
    }
}

/// Runs the command that `arguments` (the program's name first) name; gives the exit code.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    surroundings: &mut Surroundings<'_>,
    errors: &mut impl Write,
) -> u8 {
    let outcome = match Cli::try_parse_from(arguments) {
        Ok(cli) => dispatch(cli.command, surroundings),
        Err(error) if error.use_stderr() => return report(errors, &error.render(), MISUSED),
        Err(help) => write!(surroundings.output, "{}", help.render()).map_err(CommandError::Output),
    };
    outcome.map_or_else(|error| report(errors, &format_args!("{error}\n"), error.code()), |()| DONE)
}

fn dispatch(command: Command, surroundings: &mut Surroundings<'_>) -> Result<(), CommandError> {
    match command {
        Command::Serve(arguments) => serve::run(arguments, surroundings),
        Command::Demo(arguments) => demo::run(arguments, surroundings),
        Command::Check(arguments) => check::run(arguments, surroundings),
        Command::Backup(arguments) => backup::run(*arguments, surroundings),
        Command::Migrate(arguments) => migrate::run(*arguments, surroundings),
        Command::Publish(arguments) => publish::run(&arguments, surroundings),
        Command::VerifySignature(arguments) => verify_signature::run(&arguments, surroundings),
    }
}

/// Where even the error can't be written, the code alone must do.
fn report(errors: &mut impl Write, error: &dyn std::fmt::Display, code: u8) -> u8 {
    let _unwritable = write!(errors, "{error}");
    code
}

fn lines(faults: &[ConfigFault]) -> String {
    let head = format!("error: the configuration has {} fault(s)", faults.len());
    faults.iter().fold(head, |text, fault| format!("{text}\n  {fault}"))
}

/// Reads the file `path`, or standard input when it is `-`.
fn read_input(
    argument: &'static str,
    path: &str,
    surroundings: &mut Surroundings<'_>,
) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    let read =
        if path == "-" { surroundings.input.read_to_end(&mut bytes).map(|_| bytes) } else { std::fs::read(path) };
    let rule = |error: io::Error| format!("must be a readable file or `-`: {error}");
    read.map_err(|error| CommandError::Argument { argument, value: path.to_owned(), rule: rule(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a run left behind: code, output, errors.
    pub(super) fn ran(arguments: &[&str], environment: &[(&str, &str)], mut input: &[u8]) -> (u8, String, String) {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let (input, output_kind, clock) = (&mut input, OutputKind::Other, Clock::start());
        let mut surroundings = Surroundings { environment, input, output: &mut output, output_kind, clock };
        let arguments = ["streaming-hub"].iter().chain(arguments).map(OsString::from);
        let code = run(arguments, &mut surroundings, &mut errors);
        (code, String::from_utf8(output).expect("UTF-8"), String::from_utf8(errors).expect("UTF-8"))
    }

    #[test]
    fn the_declaration_holds() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn help_goes_to_the_output_and_misuse_to_the_errors() {
        let (code, output, errors) = ran(&["--help"], &[], b"");
        assert_eq!((code, errors.as_str()), (DONE, ""));
        assert!(output.contains("verify-signature"));
        let (code, output, errors) = ran(&["publish", "--kafka"], &[], b"");
        assert_eq!((code, output.as_str()), (MISUSED, ""));
        assert!(errors.contains("--kafka"), "{errors}");
        assert_eq!(ran(&["fly"], &[], b"").0, MISUSED);
    }
}
