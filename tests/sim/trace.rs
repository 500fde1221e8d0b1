//! What happened in a run, line by line: always hashed, printed only when asked for.

use std::fmt;
use std::io::Write as _;

use streaming_hub::types::Time;

/// The FNV-1a hash of all lines so far; two runs of one seed have the same.
pub struct Trace {
    hash: u64,
    lines: u64,
    printed: Printed,
    start: Time,
}

/// Whether lines also go to stdout.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Printed {
    Yes,
    No,
}

impl Trace {
    pub fn new(printed: Printed, start: Time) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, lines: 0, printed, start }
    }

    /// Takes one line, said at `now`.
    pub fn line(&mut self, now: Time, text: fmt::Arguments<'_>) {
        self.lines += 1;
        let since = now.since(self.start).0;
        let hashed = fmt::write(self, format_args!("{since} {text}"));
        assert!(hashed.is_ok(), "hashing a line cannot fail");
        if self.printed == Printed::Yes {
            // A closed pipe ends the reading, not the run.
            let _closed = writeln!(std::io::stdout(), "{:>6}.{:06} {text}", since / 1_000_000, since % 1_000_000);
        }
    }

    /// The hash and the number of lines.
    pub fn digest(&self) -> (u64, u64) {
        (self.hash, self.lines)
    }
}

impl fmt::Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
