//! `soak`: an hour of an even stream; memory must not grow.

use std::time::Duration;

use super::goals::{self, Repeats};
use crate::drive::{Drive, Load};
use crate::failure::Failure;
use crate::pace::Pace;
use crate::plan::Plan;
use crate::report::{Goal, Phase, Rule, median};
use crate::session::Session;

pub const PASSES_WHEN: &str = "In an hour at 1 000/s to 200 fifo destinations the median PSS of the last third is at most \
    1.1 times that of the second third, and nothing is lost, repeated or out of order.";

const SECONDS: u64 = 3_600;
const RATE: f64 = 1_000.0;
const GROWTH_MAX: f64 = 1.1;

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    let mut stage = session.stage(Plan::fifo(20, 10)).await?;
    let length = Duration::from_secs(session.arguments.seconds.unwrap_or(SECONDS));
    let pace = Pace::Steady { per_second: session.arguments.rate.unwrap_or(RATE) };
    let load = Load { warm_up: Duration::from_secs(5), ..Load::new("soak", pace, length) };
    let phase = Drive::start(session, &stage, load).await?.play(session, &mut stage).await?;
    session.judge(Goal::of("PSS, last third over second", growth(&phase), Rule::AtMost(GROWTH_MAX), ""));
    goals::judge_log(session, &stage, "soak");
    goals::judge_counts(session, Repeats::None);
    Ok(())
}

/// The first third fills caches and the memory of ids.
fn growth(phase: &Phase) -> Option<f64> {
    let memory: Vec<f64> = phase.series.iter().filter_map(|point| point.pss_mib).collect();
    let third = memory.len() / 3;
    let (second, last) = (&memory[third..2 * third], &memory[2 * third..]);
    let median_of = |part: &[f64]| median(part.iter().copied());
    median_of(last).zip(median_of(second)).map(|(last, second)| last / second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Point;

    #[test]
    fn growth_is_of_the_last_third_over_the_second() {
        let series = |of: fn(u32) -> f64| (0..90).map(|n| Point { pss_mib: Some(of(n)), ..Point::default() }).collect();
        let flat = Phase { series: series(|n| if n < 30 { f64::from(n) } else { 100.0 }), ..Phase::default() };
        assert_eq!(growth(&flat), Some(1.0));
        let growing = Phase { series: series(|n| 100.0 + f64::from(n)), ..Phase::default() };
        assert!(growth(&growing).unwrap() > 1.15);
        assert_eq!(growth(&Phase::default()), None);
    }
}
