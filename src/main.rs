//! The binary: hands the process's surroundings to the command line.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use streaming_hub::cli::{OutputKind, Surroundings, run};
use streaming_hub::runtime::clock::Clock;

fn main() -> ExitCode {
    let terminal = std::io::stdout().is_terminal();
    let mut surroundings = Surroundings {
        environment: std::env::vars_os().collect(),
        input: &mut std::io::stdin(),
        output: &mut std::io::stdout(),
        output_kind: if terminal { OutputKind::Terminal } else { OutputKind::Other },
        clock: Clock::start(),
    };
    ExitCode::from(run(std::env::args_os(), &mut surroundings, &mut std::io::stderr()))
}
