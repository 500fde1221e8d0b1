//! What a run says at its end: figures, plots, goals and whether they were reached; as JSON and as a page.

mod baseline;
mod goal;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::measure::latency::Summary;
use crate::measure::machine::{Machine, Shares};

pub use baseline::{Change, compare};
pub use goal::{Goal, Rule};

/// Changes whenever an older reader would misread.
pub const FORMAT: u32 = 1;

/// All of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// Which scenario.
    pub scenario: String,
    /// What passes, in words.
    pub passes_when: String,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// How long it took.
    pub seconds: f64,
    /// The sources' commit, if known.
    pub commit: String,
    /// The machine.
    pub machine: Machine,
    /// What was set, by name.
    pub settings: BTreeMap<String, String>,
    /// The bare loop.
    pub ceiling: Ceiling,
    /// What was measured, in order.
    pub phases: Vec<Phase>,
    /// What else is worth knowing, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What had to be reached.
    pub goals: Vec<Goal>,
    /// Whether it was.
    pub passed: bool,
}

/// What the bare loop did, beside the hub in the same run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ceiling {
    /// Each time it ran.
    pub runs: Vec<CeilingRun>,
}

/// One run of the bare loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CeilingRun {
    /// Requests a second.
    pub per_second: f64,
    /// Requests per second of its own processor time.
    pub per_processor_second: f64,
}

impl Ceiling {
    /// Requests per processor second: the median of the runs.
    #[must_use]
    pub fn per_processor_second(&self) -> Option<f64> {
        median(self.runs.iter().map(|run| run.per_processor_second))
    }

    /// Requests a second: the most of the runs, since other work on the machine only takes away.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        self.runs.iter().map(|run| run.per_second).reduce(f64::max)
    }

    /// How far the runs' requests per processor second lie apart, over their median.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        spread(self.runs.iter().map(|run| run.per_processor_second))
    }
}

/// One measurement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Phase {
    /// Its name, the same in every run of the scenario.
    pub name: String,
    /// How it was loaded.
    pub load: String,
    /// The figures of its window.
    pub figures: Figures,
    /// Latencies in µs from the intended time to the receiver, by group.
    pub latencies: BTreeMap<String, Summary>,
    /// How much later than meant events were sent, in µs.
    pub lateness: Summary,
    /// From the intended time to the acknowledgement, in µs.
    pub acknowledgement: Summary,
    /// What it was like, second by second.
    pub series: Vec<Point>,
}

/// Figures of a phase. What could not be measured is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The window's length.
    pub seconds: f64,
    /// Events issued, in the whole phase.
    pub issued: u64,
    /// First deliveries in the window.
    pub delivered: u64,
    /// A second of the window.
    pub deliveries_per_second: f64,
    /// Of the hub's process, in the window.
    pub processor_seconds: Option<f64>,
    /// Per second of the hub's processor time.
    pub deliveries_per_processor_second: Option<f64>,
    /// The same over the bare loop's.
    pub of_bare: Option<f64>,
    /// Of each of the hub's threads, in µs per delivery, in the window.
    #[serde(default)]
    pub thread_micros: BTreeMap<String, f64>,
    /// Of the load test's own process, in the window.
    pub own_processor_seconds: f64,
    /// In the whole phase.
    pub counts: Counts,
    /// The most, in the whole phase.
    pub pss_mib: Option<f64>,
    /// The most, in the whole phase.
    pub rss_mib: Option<f64>,
    /// In the whole phase; of the last process where the hub was restarted.
    pub fsyncs: f64,
    /// What went to the CQL server, in the whole phase; absent with the embedded store.
    #[serde(default)]
    pub cql: Option<CqlFigures>,
    /// In the window.
    pub written_bytes: Option<u64>,
    /// In the window.
    pub machine: Shares,
}

/// What went to the CQL server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CqlFigures {
    /// Writes, reads and conditional writes, of an event.
    pub requests_per_event: f64,
    /// Rows in the writes, of an event.
    pub rows_per_event: f64,
    /// Batches of the engine, of an event.
    pub batches_per_event: f64,
    /// The bare loop that did the same.
    pub bare: Option<BareCqlFigures>,
}

/// What the bare loop on CQL did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BareCqlFigures {
    /// Events a second.
    pub per_second: f64,
    /// Events per second of its own processor time.
    pub per_processor_second: f64,
    /// Writes of an event.
    pub requests_per_event: f64,
    /// Rows in them, of an event.
    pub rows_per_event: f64,
}

/// Numbers of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Acknowledged and never delivered.
    pub lost: u64,
    /// Deliveries beyond an event's first.
    pub repeated: u64,
    /// First deliveries behind a later event of the same route; absent where no order is promised.
    pub out_of_order: Option<u64>,
    /// Deliveries at another destination than their route's.
    pub misdirected: u64,
    /// Deliveries of another run or phase.
    pub strays: u64,
    /// Requests at the receivers.
    pub attempts: u64,
    /// Signatures checked.
    pub signatures_checked: u64,
    /// Those that were wrong.
    pub signatures_wrong: u64,
    /// Requests that the hub asked to send again.
    pub refused: u64,
    /// Requests that failed otherwise, and were sent again.
    pub errors: u64,
    /// Events that were given up before they were acknowledged.
    pub unacknowledged: u64,
}

/// One second of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Seconds since the phase began.
    pub at: f64,
    /// First deliveries a second.
    pub deliveries_per_second: f64,
    /// Of healthy routes, in µs.
    pub p50: u64,
    /// Of healthy routes, in µs.
    pub p99: u64,
    /// Of healthy routes, in µs.
    pub p999: u64,
    /// Of the hub.
    pub pss_mib: Option<f64>,
    /// Of the hub.
    pub rss_mib: Option<f64>,
    /// Processors that the hub kept busy.
    pub hub_processors: Option<f64>,
    /// Share of the machine without work.
    pub idle: f64,
}

impl Figures {
    /// Deliveries a second over the bare driver loop's.
    #[must_use]
    pub fn of_bare_cql(&self) -> Option<f64> {
        self.cql.and_then(|cql| cql.bare).map(|bare| self.deliveries_per_second / bare.per_second)
    }
}

impl Phase {
    /// Of the group whose figures are judged.
    #[must_use]
    pub fn healthy(&self) -> Summary {
        self.latencies.get("healthy").cloned().unwrap_or_default()
    }
}

impl Report {
    /// Judges by the goals.
    pub fn judge(&mut self) {
        self.passed = self.goals.iter().all(|goal| goal.passed != Some(false));
    }

    /// Reads an earlier report.
    ///
    /// # Errors
    /// When it is none that this program can read.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read(path).map_err(Failure::io(format!("reading {}", path.display())))?;
        let rule = |rule: String| Failure::Argument { argument: "--baseline", rule };
        let report: Self =
            serde_json::from_slice(&text).map_err(|error| rule(format!("{} is no report: {error}", path.display())))?;
        if report.format == FORMAT {
            return Ok(report);
        }
        Err(rule(format!("{} has format {}, this program reads {FORMAT}", path.display(), report.format)))
    }

    /// Writes `<scenario>.json` and `<scenario>.html` into `directory`; gives their paths.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, directory: &Path, baseline: Option<&Self>) -> Result<[PathBuf; 2], Failure> {
        fs::create_dir_all(directory).map_err(Failure::io(format!("making {}", directory.display())))?;
        let path = |ending: &str| directory.join(format!("{}.{ending}", self.scenario));
        let json = serde_json::to_vec_pretty(self).expect("a report is JSON");
        let html = page::page(self, baseline).into_string();
        let written = [(path("json"), json), (path("html"), html.into_bytes())];
        for (path, bytes) in &written {
            fs::write(path, bytes).map_err(Failure::io(format!("writing {}", path.display())))?;
        }
        Ok(written.map(|(path, _)| path))
    }
}

/// The middle one, or the mean of the two in the middle.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// How far values lie apart, over their median.
#[must_use]
pub fn spread(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    let (low, high) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
    median(values).map(|median| (high - low) / median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
        assert_eq!(spread([90.0, 100.0, 120.0]), Some(0.3));
        assert_eq!(spread([]), None);
    }

    #[test]
    fn a_report_is_judged_by_its_goals_and_round_trips() {
        let mut report = Report { format: FORMAT, scenario: "smoke".to_owned(), ..Report::default() };
        report.goals.push(Goal::of("lost", Some(0.0), Rule::AtMost(0.0), ""));
        report.judge();
        assert!(report.passed);
        report.goals.push(Goal::of("of bare", Some(0.5), Rule::AtLeast(0.6), ""));
        report.phases.push(Phase { name: "closed".to_owned(), ..Phase::default() });
        report.judge();
        assert!(!report.passed);
        let directory = std::env::temp_dir().join(format!("loadtest-report-{}", std::process::id()));
        let [json, html] = report.write(&directory, None).unwrap();
        let read = Report::read(&json).unwrap();
        assert_eq!((read.goals.len(), read.phases.len(), read.passed), (2, 1, false));
        assert!(fs::read_to_string(html).unwrap().contains("</html>"));
        assert!(Report::read(&directory.join("none")).is_err());
        fs::remove_dir_all(directory).unwrap();
    }
}
