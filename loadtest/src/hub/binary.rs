//! The hub's release binary: built, if cargo runs this, and found beside this one.

use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;

const NAME: &str = "streaming-hub";

/// Where it is; `given` if it was.
///
/// # Errors
/// When there is none, or it does not build.
pub fn locate(given: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    let path = match given {
        Some(path) => path.clone(),
        None => {
            build()?;
            let own = std::env::current_exe().map_err(Failure::io("the load test's own path"))?;
            own.with_file_name(NAME)
        }
    };
    if path.is_file() {
        return Ok(path);
    }
    let rule = format!("there is no hub at {}: `cargo build --release` makes it", path.display());
    Err(Failure::Argument { argument: "--hub-binary", rule })
}

/// `cargo run` names itself in the environment; without it what is there is taken.
fn build() -> Result<(), Failure> {
    let Some(cargo) = std::env::var_os("CARGO") else { return Ok(()) };
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let arguments = ["build", "--quiet", "--release", "--locked", "--bin", NAME, "--manifest-path", manifest];
    let status = Command::new(cargo).args(arguments).status().map_err(Failure::io("running cargo"))?;
    if status.success() { Ok(()) } else { Err(Failure::Hub("does not build".to_owned())) }
}
