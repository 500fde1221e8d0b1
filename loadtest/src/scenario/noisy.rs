//! `noisy`: a tenth of the tenants' destinations never answer and another tenth answer slowly; what does that cost
//! the others?

use std::time::Duration;

use serde_json::json;

use super::goals::{self, Repeats};
use crate::drive::{Drive, Load};
use crate::failure::Failure;
use crate::hub::Stage;
use crate::pace::Pace;
use crate::plan::{Group, Order, Plan};
use crate::receive::Temper;
use crate::report::{Goal, Phase, Rule, median};
use crate::session::Session;

pub const PASSES_WHEN: &str = "The healthy tenants' p99 is at most 1.2 times what it is with no noise at the same rate \
    (medians of quiet and noisy phases in turn); once all are well again nothing is lost or repeated.";

const TRIAL: Trial = Trial { per_second: 1_000.0, length: Duration::from_secs(15), repeats: 3, floor_ms: 0.0 };
const RATIO_MAX: f64 = 1.2;
const SLOW: Duration = Duration::from_secs(3);
const TENANTS: usize = 20;
const PER_TENANT: usize = 10;

/// How the comparison is made.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub per_second: f64,
    pub length: Duration,
    pub repeats: usize,
    /// A p99 below this counts as this: what a busy machine does to a few milliseconds decides nothing.
    pub floor_ms: f64,
}

impl Trial {
    /// What was asked for, or this.
    pub fn asked(self, session: &Session) -> Self {
        let arguments = &session.arguments;
        Self {
            per_second: arguments.rate.unwrap_or(self.per_second),
            length: arguments.seconds.map_or(self.length, Duration::from_secs),
            repeats: arguments.repeats.unwrap_or(self.repeats),
            floor_ms: self.floor_ms,
        }
    }

    /// The healthy p99 of `loaded` phases over that of `calm` ones, each the median of its phases.
    pub fn ratio(self, loaded: &[Phase], calm: &[Phase]) -> Option<f64> {
        let p99 = |phases: &[Phase]| median(phases.iter().filter_map(goals::p99_ms)).map(|ms| ms.max(self.floor_ms));
        p99(loaded).zip(p99(calm)).map(|(loaded, calm)| loaded / calm)
    }
}

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    let ratio = compare(session, TRIAL.asked(session)).await?;
    session.judge(Goal::of("healthy p99, noisy over quiet", ratio, Rule::AtMost(RATIO_MAX), ""));
    goals::judge_counts(session, Repeats::None);
    Ok(())
}

/// Quiet and noisy phases in turn; the healthy tenants' p99 of these over those.
pub async fn compare(session: &mut Session, trial: Trial) -> Result<Option<f64>, Failure> {
    let mut stage = session.stage(plan()).await?;
    let (mut quiet, mut noisy) = (Vec::new(), Vec::new());
    for repeat in 1..=trial.repeats {
        let load = |name: &str| {
            Load::new(format!("{name} #{repeat}"), Pace::Steady { per_second: trial.per_second }, trial.length)
        };
        quiet.push(Drive::start(session, &stage, load("quiet")).await?.play(session, &mut stage).await?);
        noisy.push(play_noisy(session, &mut stage, load("noisy")).await?);
    }
    goals::judge_log(session, &stage, "noisy");
    Ok(trial.ratio(&noisy, &quiet))
}

async fn play_noisy(session: &mut Session, stage: &mut Stage, load: Load) -> Result<Phase, Failure> {
    session.receivers.set_temper(Group::Slow, Temper::Slow(SLOW));
    session.receivers.set_temper(Group::Silent, Temper::Silent);
    let mut drive = Drive::start(session, stage, load).await?;
    drive.measure(session, stage).await?;
    session.heal(stage).await?;
    drive.drain(session, stage).await?;
    drive.finish(session, stage).await
}

/// Two tenants of twenty are silent and two are slow. Attempts are given up early and retried soon, so that all is
/// delivered soon after healing; circuits are as they are by default.
fn plan() -> Plan {
    let group = |number: usize| match number % TENANTS {
        0 | 1 => Group::Silent,
        2 | 3 => Group::Slow,
        _ => Group::Healthy,
    };
    let retry = json!({"type": "fixed", "intervals_s": [2], "max_retries": 100});
    let settings = json!({"ordering": "parallel", "timeout_ms": 5_000, "retry": retry});
    Plan::each(TENANTS, PER_TENANT, group, &settings, Order::Free)
}
