//! `demo`: the whole pipeline in one process, from nothing, with what happened shown.
//!
//! It starts a hub in a temporary directory, sets a stage of tenants and receivers over the hub's HTTP API,
//! publishes, and tells what it then counts at the receivers and reads from the API. It knows nothing of the hub's
//! inside. Each expectation that does not hold is named, and the command fails.
//!
//! The way of the story: [`plan`] and [`publication`] say who takes part and what is published, [`stage`] sets it
//! up, [`story`] plays it, [`facts`] and [`mod@checks`] judge it, [`report`] and [`keep`] write it down.

mod checks;
mod client;
mod facts;
mod hub;
mod interruption;
mod keep;
mod message;
mod plan;
mod progress;
mod proof;
mod publication;
mod publisher;
mod receiver;
mod report;
mod stage;
mod story;
mod table;
mod tally;

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use serde::Serialize;

use self::checks::{Check, checks};
use self::facts::Facts;
use self::hub::DemoHub;
use self::interruption::Interruption;
use self::keep::Commands;
use self::progress::{Manner, Progress};
use self::report::Paint;
use self::stage::Stage;
use self::story::{Teller, play};
use super::{CommandError, OutputKind, Surroundings};
use crate::telemetry::log::{self, LogFormat};

/// The command's arguments.
#[derive(Clone, Copy, Debug, Args)]
pub struct Arguments {
    /// Leave the hub running until Ctrl-C, and print commands to try
    #[arg(long)]
    keep: bool,
    /// Print the facts as one JSON object instead of texts
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    ok: bool,
    /// The API keys by their holder, when the hub goes on running.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    keys: BTreeMap<&'a str, &'a str>,
    checks: &'a [Check],
    #[serde(flatten)]
    facts: &'a Facts,
}

/// Plays the story.
///
/// # Errors
/// [`CommandError::Failed`] when the hub can't start, or an expectation does not hold.
pub fn run(arguments: Arguments, surroundings: &mut Surroundings<'_>) -> Result<(), CommandError> {
    let interruption = Interruption::watch()?;
    // A process that has a log already keeps it.
    let _ = log::start(LogFormat::Text, "error");
    let hub = DemoHub::start(surroundings.clock).map_err(CommandError::Failed)?;
    let shown = show(arguments, &hub, surroundings, &interruption);
    let stopped = hub.stop().map_err(CommandError::Failed);
    shown.and(stopped)
}

fn show(
    arguments: Arguments,
    hub: &DemoHub,
    surroundings: &mut Surroundings<'_>,
    interruption: &Interruption,
) -> Result<(), CommandError> {
    let clock = surroundings.clock;
    let started_at = clock.now();
    let paint = paint(surroundings.output_kind);
    if !arguments.json {
        let address = format!("http://{}", hub.address());
        report::write_cast(surroundings.output, paint, &address, &hub.directory().to_string_lossy())?;
    }
    let stage = Stage::set(hub.address(), hub.admin_key(), clock).map_err(CommandError::Failed)?;
    let progress = Progress::new(manner(arguments, surroundings.output_kind), clock.now());
    let mut teller = Teller { output: surroundings.output, progress, clock, interruption };
    let story = play(&stage, &mut teller).map_err(CommandError::Failed)?;
    let facts = Facts::gather(&stage, &story, started_at, clock.now()).map_err(CommandError::Failed)?;
    let checks = checks(&facts);
    if arguments.json {
        let keys = if arguments.keep { keys(&stage, hub) } else { BTreeMap::new() };
        write_json(surroundings.output, &Printed { ok: judge(&checks).is_ok(), keys, checks: &checks, facts: &facts })?;
    } else {
        report::write_facts(surroundings.output, paint, &facts, &checks)?;
    }
    if arguments.keep {
        if !arguments.json {
            Commands::gather(&stage, hub).map_err(CommandError::Failed)?.write(surroundings.output)?;
        }
        interruption.wait();
    }
    judge(&checks)
}

fn write_json(output: &mut dyn Write, printed: &Printed<'_>) -> io::Result<()> {
    writeln!(output, "{}", serde_json::to_string_pretty(printed).map_err(io::Error::from)?)?;
    output.flush()
}

fn keys<'a>(stage: &'a Stage, hub: &'a DemoHub) -> BTreeMap<&'a str, &'a str> {
    let tenants = stage.members.iter().map(|member| (member.tenant.name, member.key.as_str()));
    tenants.chain([("admin", hub.admin_key())]).collect()
}

fn judge(checks: &[Check]) -> Result<(), CommandError> {
    let broken: Vec<&str> = checks.iter().filter(|check| !check.holds).map(|check| check.claim.as_str()).collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(CommandError::Failed(format!("{} expectation(s) do not hold:\n  {}", broken.len(), broken.join("\n  "))))
}

const fn paint(output: OutputKind) -> Paint {
    match output {
        OutputKind::Terminal => Paint::Colours,
        OutputKind::Other => Paint::Plain,
    }
}

const fn manner(arguments: Arguments, output: OutputKind) -> Manner {
    match output {
        OutputKind::Terminal | OutputKind::Other if arguments.json => Manner::Silent,
        OutputKind::Terminal => Manner::Live,
        OutputKind::Other => Manner::Lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_expectation_is_named() {
        let check = |claim: &str, holds| Check { claim: claim.to_owned(), holds };
        assert!(judge(&[check("a", true)]).is_ok());
        let error = judge(&[check("a", true), check("b", false)]).expect_err("a broken expectation");
        assert_eq!(error.code(), crate::cli::FAILED);
        assert_eq!(error.to_string(), "error: 1 expectation(s) do not hold:\n  b");
    }

    #[test]
    fn only_a_terminal_gets_a_live_line_and_colours() {
        let arguments = |json| Arguments { keep: false, json };
        assert_eq!(manner(arguments(false), OutputKind::Terminal), Manner::Live);
        assert_eq!(manner(arguments(false), OutputKind::Other), Manner::Lines);
        assert_eq!(manner(arguments(true), OutputKind::Terminal), Manner::Silent);
        assert_eq!((paint(OutputKind::Terminal), paint(OutputKind::Other)), (Paint::Colours, Paint::Plain));
    }
}
