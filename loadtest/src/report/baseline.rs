//! A report beside an earlier one: ratios of the figures of equal phases. Pure.

use super::{Phase, Report};

/// One figure now and before.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The phase.
    pub phase: String,
    /// The figure.
    pub figure: &'static str,
    /// Before.
    pub before: f64,
    /// Now.
    pub now: f64,
    /// Now over before.
    pub ratio: f64,
    /// Whether more is better.
    pub better: Better,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More.
    More,
    /// Less.
    Less,
}

/// A change within this is noise.
const NOISE: f64 = 0.05;

impl Change {
    /// Whether it is beyond noise and for the worse.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        match self.better {
            Better::More => self.ratio < 1.0 - NOISE,
            Better::Less => self.ratio > 1.0 + NOISE,
        }
    }

    /// Whether it is beyond noise and for the better.
    #[must_use]
    pub fn is_better(&self) -> bool {
        match self.better {
            Better::More => self.ratio > 1.0 + NOISE,
            Better::Less => self.ratio < 1.0 - NOISE,
        }
    }
}

/// All figures that both have.
#[must_use]
pub fn compare(now: &Report, before: &Report) -> Vec<Change> {
    let earlier = |phase: &Phase| before.phases.iter().find(|other| other.name == phase.name);
    let pairs = now.phases.iter().filter_map(|phase| Some((phase, earlier(phase)?)));
    pairs.flat_map(|(phase, earlier)| changes(phase, earlier)).collect()
}

fn changes(now: &Phase, before: &Phase) -> Vec<Change> {
    let figures = figures(now).into_iter().zip(figures(before));
    let change = |((figure, better, now_value), (_, _, before_value)): (Figure, Figure)| {
        let (now_value, before_value) = (now_value?, before_value?);
        Some(Change {
            phase: now.name.clone(),
            figure,
            before: before_value,
            now: now_value,
            ratio: now_value / before_value,
            better,
        })
    };
    figures.filter_map(change).filter(|change| change.before > 0.0).collect()
}

type Figure = (&'static str, Better, Option<f64>);

fn figures(phase: &Phase) -> [Figure; 8] {
    let (figures, latency) = (&phase.figures, phase.healthy());
    let milliseconds = |micros: u64| Some(micros as f64 / 1e3);
    let per_delivery = |value: f64| (figures.delivered > 0).then(|| value / figures.delivered as f64);
    [
        ("deliveries/s", Better::More, Some(figures.deliveries_per_second)),
        ("deliveries per CPU-second", Better::More, figures.deliveries_per_processor_second),
        ("of the bare loop", Better::More, figures.of_bare),
        ("p50, ms", Better::Less, milliseconds(latency.p50)),
        ("p99, ms", Better::Less, milliseconds(latency.p99)),
        ("PSS, MiB", Better::Less, figures.pss_mib),
        (
            "fsyncs per 1 000 events",
            Better::Less,
            (figures.issued > 0).then(|| figures.fsyncs * 1e3 / figures.issued as f64),
        ),
        (
            "bytes written per delivery",
            Better::Less,
            figures.written_bytes.and_then(|bytes| per_delivery(bytes as f64)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::Summary;
    use crate::report::Figures;

    fn report(name: &str, per_second: f64, p99: u64) -> Report {
        let figures = Figures { deliveries_per_second: per_second, ..Figures::default() };
        let latencies = [("healthy".to_owned(), Summary { p99, ..Summary::default() })].into();
        Report {
            phases: vec![Phase { name: name.to_owned(), figures, latencies, ..Phase::default() }],
            ..Report::default()
        }
    }

    #[test]
    fn equal_phases_are_compared_and_absent_figures_left_out() {
        let changes = compare(&report("a", 1_100.0, 900), &report("a", 1_000.0, 1_000));
        let named: Vec<_> =
            changes.iter().map(|change| (change.figure, change.is_better(), change.is_worse())).collect();
        assert_eq!(named, [("deliveries/s", true, false), ("p99, ms", true, false)]);
        assert!((changes[0].ratio - 1.1).abs() < 1e-9);
        assert_eq!(compare(&report("a", 1.0, 1), &report("b", 1.0, 1)), []);
    }

    #[test]
    fn small_changes_are_neither_better_nor_worse() {
        let changes = compare(&report("a", 960.0, 1_200), &report("a", 1_000.0, 1_000));
        assert!(!changes[0].is_better() && !changes[0].is_worse());
        assert!(changes[1].is_worse());
    }
}
