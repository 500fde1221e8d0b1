//! The load test of Streaming Hub: `cargo run --release -p loadtest -- <scenario>`.
//!
//! A generator publishes, receivers take what the hub delivers, and the hub runs between them as a process of its
//! own, so that what it costs is its alone. [`scenario`] says what is played and what passes; [`session`] has what
//! was started; [`drive`] takes one phase from its first event to its last delivery; [`report`] writes it down.
//!
//! Pure, and tried by unit tests: what an event says ([`message`]), who takes part ([`plan`]), when events are
//! meant to be sent ([`pace`], [`feed`]), what was lost, repeated or out of order (`receive::tally`), and what the
//! report makes of the figures.

mod arguments;
mod connection;
mod drive;
mod failure;
mod feed;
mod hub;
mod interruption;
mod measure;
mod message;
mod pace;
mod plan;
mod progress;
mod publish;
mod receive;
mod report;
mod sample;
mod scenario;
mod session;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use streaming_hub::runtime::Clock;
use streaming_hub::runtime::boot::run_here;

use arguments::Arguments;
use failure::Failure;
use interruption::Interruption;
use report::{Report, compare};
use session::Session;

/// The hub's own, so that the bare loop has what the hub has.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// It did not pass, or could not be played.
const FAILED: u8 = 1;
/// The arguments are wrong.
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(failure) => {
            let mut output = std::io::stderr();
            // A closed standard error leaves the exit code to say it.
            let _ = writeln!(output, "loadtest: {failure}");
            ExitCode::from(if matches!(failure, Failure::Argument { .. }) { MISUSED } else { FAILED })
        }
    }
}

/// Plays and reports; whether it passed.
fn run(arguments: Arguments) -> Result<bool, Failure> {
    let (clock, interruption) = (Clock::start(), Interruption::watch()?);
    let baseline = arguments.baseline.as_deref().map(Report::read).transpose()?;
    let (scenario, out) = (arguments.scenario, arguments.out.clone());
    let begun = clock.now();
    let played = run_here(async move {
        let mut session = Session::start(arguments, clock, interruption).await?;
        scenario.play(&mut session).await?;
        Ok::<Report, Failure>(session.report)
    });
    let mut report = played.map_err(|error| Failure::Thread { name: "executor", reason: error.to_string() })??;
    report.seconds = clock.now().since(begun).to_std().as_secs_f64();
    report.judge();
    let [json, html] = report.write(&out, baseline.as_ref())?;
    let mut output = std::io::stdout();
    let said = say(&mut output, &report, baseline.as_ref())
        .and_then(|()| writeln!(output, "{}\n{}", json.display(), html.display()));
    said.map_err(Failure::io("writing to standard output"))?;
    Ok(report.passed)
}

/// The goals, and what has changed since the baseline.
fn say(output: &mut impl std::io::Write, report: &Report, baseline: Option<&Report>) -> std::io::Result<()> {
    for goal in &report.goals {
        writeln!(output, "{:<7} {}: {} ({})", goal.verdict(), goal.name, goal.value_text(), goal.rule_text())?;
    }
    for change in baseline.iter().flat_map(|before| compare(report, before)) {
        writeln!(output, "{}, {}: {:.2} of the baseline", change.phase, change.figure, change.ratio)?;
    }
    writeln!(output, "{}: {}", report.scenario, if report.passed { "passed" } else { "FAILED" })
}
