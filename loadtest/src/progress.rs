//! The progress line on standard error: written over on a terminal, now and then elsewhere.

use std::io::{IsTerminal as _, Write as _};

use streaming_hub::runtime::Clock;
use streaming_hub::types::{Duration, Time};

/// Between two lines where they stay.
const PAUSE: Duration = Duration::from_secs(10);

/// Shows lines.
#[derive(Debug)]
pub struct Progress {
    clock: Clock,
    terminal: bool,
    shown_at: Time,
    /// Whether the cursor stands behind a line to be written over.
    open: bool,
}

impl Progress {
    /// On standard error.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, terminal: std::io::stderr().is_terminal(), shown_at: Time::ZERO, open: false }
    }

    /// Shows what goes on.
    pub fn show(&mut self, line: &str) {
        let now = self.clock.now();
        if self.terminal {
            write(&format!("\r\x1b[K{line}"));
            self.open = true;
        } else if now.since(self.shown_at) >= PAUSE {
            write(&format!("{line}\n"));
            self.shown_at = now;
        }
    }

    /// Shows a line that stays.
    pub fn say(&mut self, line: &str) {
        let over = if self.open { "\r\x1b[K" } else { "" };
        self.open = false;
        write(&format!("{over}{line}\n"));
        self.shown_at = self.clock.now();
    }
}

fn write(text: &str) {
    // A closed standard error must not stop a measurement.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
