//! `retries`: for a while every attempt fails, then all are well again.

use std::time::Duration;

use serde_json::json;

use super::goals::{self, Repeats};
use crate::drive::{Drive, Load};
use crate::failure::Failure;
use crate::pace::Pace;
use crate::plan::{Group, Order, Plan};
use crate::receive::Temper;
use crate::report::{Goal, Rule};
use crate::session::Session;

pub const PASSES_WHEN: &str = "Every event was tried more than once while all failed, all are delivered within 30 s of \
    healing, and nothing is lost or repeated.";

const SECONDS: u64 = 20;
const RATE: f64 = 500.0;
const RETRY_SECONDS: u64 = 2;
const HEALED_WITHIN_SECONDS: f64 = 30.0;

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    let rate = session.arguments.rate.unwrap_or(RATE);
    let length = Duration::from_secs(session.arguments.seconds.unwrap_or(SECONDS));
    fail_and_heal(session, rate, length).await?;
    goals::judge_counts(session, Repeats::None);
    Ok(())
}

/// Plays it and judges it but for the counts.
pub async fn fail_and_heal(session: &mut Session, per_second: f64, length: Duration) -> Result<(), Failure> {
    let mut stage = session.stage(plan()).await?;
    session.receivers.set_temper(Group::Healthy, Temper::Failing);
    let load = Load::new("retries", Pace::Steady { per_second }, length);
    let mut drive = Drive::start(session, &stage, load).await?;
    drive.measure(session, &mut stage).await?;
    session.heal(&stage).await?;
    let healed_at = session.clock.now();
    drive.drain(session, &mut stage).await?;
    let took = session.clock.now().since(healed_at).to_std().as_secs_f64();
    let phase = drive.finish(session, &stage).await?;
    let attempts = phase.figures.counts.attempts as f64 / phase.figures.issued.max(1) as f64;
    session.judge(Goal::of("retries: attempts per event", Some(attempts), Rule::AtLeast(2.0), ""));
    let name = "retries: from healing to the last delivery";
    session.judge(Goal::of(name, Some(took), Rule::AtMost(HEALED_WITHIN_SECONDS), " s"));
    goals::judge_log(session, &stage, "retries");
    Ok(())
}

/// Circuits are off: they would let hardly any attempt through.
fn plan() -> Plan {
    let retry = json!({"type": "fixed", "intervals_s": [RETRY_SECONDS], "max_retries": 100});
    let settings = json!({"ordering": "parallel", "retry": retry, "circuit": {"enabled": false}});
    Plan::each(20, 10, |_| Group::Healthy, &settings, Order::Free)
}
