//! The binary: hands the process's surroundings to the command line.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use streaming_hub::cli::{OutputKind, Surroundings, run};
use streaming_hub::runtime::clock::Clock;

/// An attempt allocates dozens of small values that another turn frees: the system's allocator spends a tenth of a
/// shard's time on them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
