//! What is read of the hub and the machine at one moment, and what lies between two.

use std::collections::BTreeMap;

use streaming_hub::types::Time;

use crate::hub::Stage;
use crate::measure::machine::Ticks;
use crate::measure::process::{self, Memory};
use crate::receive::Interval;
use crate::report::{Figures, Point};
use crate::session::Session;

/// Totals at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    at: Time,
    delivered: u64,
    processor_seconds: Option<f64>,
    threads: BTreeMap<String, f64>,
    own_processor_seconds: f64,
    written_bytes: Option<u64>,
    ticks: Ticks,
}

impl Sample {
    /// Reads all of it, from the kernel alone: a hub under load may be slow to answer.
    #[must_use]
    pub fn take(session: &Session, stage: &Stage) -> Self {
        Self {
            at: session.clock.now(),
            delivered: session.delivered(),
            processor_seconds: stage.total(process::processor_seconds),
            threads: threads(stage),
            own_processor_seconds: process::processor_seconds(std::process::id()).unwrap_or(0.0),
            written_bytes: stage.total(process::written_bytes),
            ticks: Ticks::now(),
        }
    }

    /// Figures of what lies between.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Figures {
        let seconds = self.at.since(earlier.at).to_std().as_secs_f64();
        let delivered = self.delivered - earlier.delivered;
        let processor = self.processor_seconds.zip(earlier.processor_seconds).map(|(now, then)| now - then);
        Figures {
            seconds,
            delivered,
            deliveries_per_second: delivered as f64 / seconds.max(1e-6),
            processor_seconds: processor,
            deliveries_per_processor_second: processor.map(|spent| delivered as f64 / spent.max(0.01)),
            thread_micros: self.thread_micros(earlier, delivered),
            own_processor_seconds: self.own_processor_seconds - earlier.own_processor_seconds,
            written_bytes: self.written_bytes.zip(earlier.written_bytes).map(|(now, then)| now - then),
            machine: self.ticks.since(earlier.ticks),
            ..Figures::default()
        }
    }
}

impl Sample {
    /// Of each thread, per delivery; what is too little to see is left out.
    fn thread_micros(&self, earlier: &Self, delivered: u64) -> BTreeMap<String, f64> {
        let spent = |(name, seconds): (&String, &f64)| {
            let before = earlier.threads.get(name).copied().unwrap_or(0.0);
            (name.clone(), (seconds - before).max(0.0) * 1e6 / delivered.max(1) as f64)
        };
        self.threads.iter().map(spent).filter(|(_, micros)| *micros >= 0.1).collect()
    }
}

/// Of all processes, by name.
fn threads(stage: &Stage) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for (name, seconds) in stage.processes().flat_map(process::thread_seconds) {
        *all.entry(name).or_default() += seconds;
    }
    all
}

/// Looks at a phase each second.
pub struct Watch {
    begun: Time,
    last: Look,
    series: Vec<Point>,
    peak: Option<Memory>,
}

struct Look {
    at: Time,
    processor_seconds: Option<f64>,
    ticks: Ticks,
}

impl Watch {
    /// Begins to look.
    #[must_use]
    pub fn start(session: &Session, stage: &Stage, begun: Time) -> Self {
        Self { begun, last: Look::now(session, stage), series: Vec::new(), peak: None }
    }

    /// Looks again.
    pub fn look(&mut self, session: &Session, stage: &Stage, interval: &Interval) -> Point {
        let now = Look::now(session, stage);
        let seconds = now.at.since(self.last.at).to_std().as_secs_f64().max(1e-6);
        let memory = stage.total(process::memory);
        let mib = |kib: u64| kib as f64 / 1024.0;
        let spent = now.processor_seconds.zip(self.last.processor_seconds).map(|(now, then)| now - then);
        let point = Point {
            at: now.at.since(self.begun).to_std().as_secs_f64(),
            deliveries_per_second: interval.delivered as f64 / seconds,
            p50: interval.latency.p50,
            p99: interval.latency.p99,
            p999: interval.latency.p999,
            pss_mib: memory.map(|memory| mib(memory.pss_kib)),
            rss_mib: memory.map(|memory| mib(memory.rss_kib)),
            // A restarted hub begins at nothing.
            hub_processors: spent.map(|spent| spent.max(0.0) / seconds),
            idle: now.ticks.since(self.last.ticks).idle,
        };
        if memory.map(|memory| memory.pss_kib) > self.peak.map(|memory| memory.pss_kib) {
            self.peak = memory;
        }
        self.last = now;
        self.series.push(point);
        point
    }

    /// The most memory seen.
    #[must_use]
    pub const fn peak(&self) -> Option<Memory> {
        self.peak
    }

    /// All looks.
    #[must_use]
    pub fn into_series(self) -> Vec<Point> {
        self.series
    }
}

impl Look {
    fn now(session: &Session, stage: &Stage) -> Self {
        Self {
            at: session.clock.now(),
            processor_seconds: stage.total(process::processor_seconds),
            ticks: Ticks::now(),
        }
    }
}
