//! The live line: one that is written over on a terminal, a new one a second elsewhere, none for machines.

use std::io::{self, Write};

use crate::types::{Duration, Time};

/// Between two lines where they can't be written over.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Written over in place.
    Live,
    /// As lines.
    Lines,
    /// Not at all.
    Silent,
}

/// What there is to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events accepted.
    pub accepted: u64,
    /// Deliveries that ended well.
    pub delivered: u64,
    /// Deliveries that have not ended.
    pub waiting: u64,
    /// Deliveries that ended badly.
    pub dead_lettered: u64,
}

/// The line.
#[derive(Debug)]
pub struct Progress {
    manner: Manner,
    started_at: Time,
    shown_at: Option<Time>,
}

impl Progress {
    /// A line that counts time from `started_at`.
    #[must_use]
    pub const fn new(manner: Manner, started_at: Time) -> Self {
        Self { manner, started_at, shown_at: None }
    }

    /// Shows the counts, if it is time to.
    ///
    /// # Errors
    /// When the output can't be written.
    pub fn show(&mut self, output: &mut dyn Write, counts: Counts, now: Time) -> io::Result<()> {
        let early = self.shown_at.is_some_and(|shown_at| now.since(shown_at) < LINE_EVERY);
        match self.manner {
            Manner::Live => write!(output, "\r\x1b[2K{}", self.line(counts, now))?,
            Manner::Lines if early => return Ok(()),
            Manner::Lines => writeln!(output, "{}", self.line(counts, now))?,
            Manner::Silent => return Ok(()),
        }
        self.shown_at = Some(now);
        output.flush()
    }

    /// Shows the last counts and leaves the line.
    ///
    /// # Errors
    /// When the output can't be written.
    pub fn finish(&mut self, output: &mut dyn Write, counts: Counts, now: Time) -> io::Result<()> {
        self.shown_at = None;
        self.show(output, counts, now)?;
        if self.manner == Manner::Live { writeln!(output) } else { Ok(()) }
    }

    fn line(&self, counts: Counts, now: Time) -> String {
        let Counts { accepted, delivered, waiting, dead_lettered } = counts;
        let tenths = now.since(self.started_at).as_millis() / 100;
        format!(
            "  {:>2}.{} s   accepted {accepted:>4}   delivered {delivered:>4}   waiting {waiting:>4}   dead-lettered {dead_lettered:>3}",
            tenths / 10,
            tenths % 10,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Time = Time::from_millis(1_700_000_000_000);

    fn shown(manner: Manner, at_millis: &[u64]) -> String {
        let mut output = Vec::new();
        let mut progress = Progress::new(manner, AT);
        let counts = |accepted| Counts { accepted, ..Counts::default() };
        for at in at_millis {
            progress.show(&mut output, counts(*at), AT + Duration::from_millis(*at)).expect("written");
        }
        progress.finish(&mut output, counts(9_999), AT + Duration::from_millis(9_999)).expect("written");
        String::from_utf8(output).expect("UTF-8")
    }

    #[test]
    fn a_terminal_gets_one_line_written_over() {
        let text = shown(Manner::Live, &[100, 200]);
        assert_eq!((text.matches('\r').count(), text.matches('\n').count()), (3, 1));
        assert!(text.ends_with("accepted 9999   delivered    0   waiting    0   dead-lettered   0\n"), "{text}");
    }

    #[test]
    fn elsewhere_there_is_one_line_a_second_and_for_machines_none() {
        let text = shown(Manner::Lines, &[0, 250, 900, 1_000, 1_250]);
        let times: Vec<&str> = text.lines().map(|line| line[..8].trim()).collect();
        assert_eq!(times, ["0.0 s", "1.0 s", "9.9 s"]);
        assert_eq!(shown(Manner::Silent, &[0, 2_000]), "");
    }
}
