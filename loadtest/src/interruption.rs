//! Ctrl-C and SIGTERM: asked for at each step, so that everything that was started is stopped on the way out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;

/// Whether somebody wants this program to end.
#[derive(Clone, Debug)]
pub struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the system does not let it.
    pub fn watch() -> Result<Self, Failure> {
        let flag = Arc::<AtomicBool>::default();
        for signal in [SIGINT, SIGTERM] {
            let registered = signal_hook::flag::register(signal, Arc::clone(&flag));
            registered.map_err(Failure::io("listening for signals"))?;
        }
        Ok(Self(flag))
    }

    /// Goes on if nobody has asked.
    ///
    /// # Errors
    /// [`Failure::Interrupted`] if somebody has.
    pub fn check(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
    }
}
