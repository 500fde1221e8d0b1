//! Latencies: histograms in microseconds, and what reports say of them. Pure.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use streaming_hub::types::Duration;

/// Longer ones count as this: an hour.
const MICROS_MAX: u64 = 3_600_000_000;
/// Exact to a thousandth.
const DIGITS: u8 = 3;
/// The quantiles of a curve.
const CURVE: [f64; 16] =
    [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.9975, 0.999, 0.9995, 0.9999, 0.99995, 0.99999, 1.0];

/// What a report says of a histogram; latencies in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many.
    pub count: u64,
    /// The least.
    pub min: u64,
    /// Half are at most this.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// The most.
    pub max: u64,
    /// Quantiles and their latencies, for a plot.
    pub curve: Vec<(f64, u64)>,
}

/// An empty histogram.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MICROS_MAX, DIGITS).expect("these bounds are good")
}

/// Counts one latency.
pub fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record(latency.0.clamp(1, MICROS_MAX));
}

impl Summary {
    /// Sums a histogram up.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            count: histogram.len(),
            min: histogram.min(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
            curve: CURVE.iter().map(|quantile| (*quantile, at(*quantile))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_the_quantiles() {
        let mut latencies = histogram();
        (1..=1_000).for_each(|ms| record(&mut latencies, Duration::from_millis(ms)));
        let summary = Summary::of(&latencies);
        let near = |value: u64, ms: u64| value.abs_diff(ms * 1_000) <= ms * 2;
        assert_eq!(summary.count, 1_000);
        assert!(
            near(summary.p50, 500) && near(summary.p99, 990) && near(summary.p999, 999) && near(summary.max, 1_000)
        );
        assert_eq!(summary.curve.len(), CURVE.len());
        assert_eq!(Summary::of(&histogram()), Summary::default());
    }

    #[test]
    fn nothing_is_left_out_for_its_size() {
        let mut latencies = histogram();
        record(&mut latencies, Duration::ZERO);
        record(&mut latencies, Duration::from_hours(100));
        assert_eq!(latencies.len(), 2);
    }
}
