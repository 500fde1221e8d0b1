//! Ctrl-C and SIGTERM: the first ends the demo in order, a second one at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

use crate::cli::FAILED;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether the user wants an end.
#[derive(Clone, Debug)]
pub struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Listens to the signals from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn watch() -> io::Result<Self> {
        let come = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order the first signal only sets the flag.
            register_conditional_shutdown(signal, i32::from(FAILED), Arc::clone(&come))?;
            register(signal, Arc::clone(&come))?;
        }
        Ok(Self(come))
    }

    /// Whether a signal has come.
    #[must_use]
    pub fn has_come(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns once a signal has come.
    pub fn wait(&self) {
        while !self.has_come() {
            std::thread::sleep(PAUSE);
        }
    }
}
