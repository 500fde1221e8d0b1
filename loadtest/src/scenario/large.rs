//! `large`: payloads of 256 KiB.

use std::time::Duration;

use super::goals::{self, Repeats};
use crate::drive::{Drive, Load};
use crate::failure::Failure;
use crate::pace::Pace;
use crate::plan::Plan;
use crate::report::{Goal, Rule};
use crate::session::Session;

pub const PASSES_WHEN: &str = "PSS is at most 512 MiB with one parallel destination and with 200 fifo ones, and nothing \
    is lost, repeated or out of order.";

const SECONDS: u64 = 15;
const PAYLOAD_BYTES: usize = 256 * 1024;
/// Of the closed loop: 16 MiB under way.
const OUTSTANDING: u64 = 64;
const PSS_MAX_MIB: f64 = 512.0;

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    let length = Duration::from_secs(session.arguments.seconds.unwrap_or(SECONDS));
    for (name, plan) in [("parallel", Plan::one_parallel()), ("fifo", Plan::fifo(20, 10))] {
        measure(session, name, plan, length).await?;
    }
    goals::judge_counts(session, Repeats::None);
    Ok(())
}

/// A closed loop of large events, judged by its memory.
pub async fn measure(session: &mut Session, name: &str, plan: Plan, length: Duration) -> Result<(), Failure> {
    let mut stage = session.stage(plan).await?;
    let pace = Pace::Closed { outstanding: session.arguments.outstanding.min(OUTSTANDING) };
    let load = Load { payload_bytes: PAYLOAD_BYTES, ..Load::new(format!("large, {name}"), pace, length) };
    let phase = Drive::start(session, &stage, load).await?.play(session, &mut stage).await?;
    let goal = format!("large, {name}: PSS");
    session.judge(Goal::of(goal, phase.figures.pss_mib, Rule::AtMost(PSS_MAX_MIB), " MiB"));
    goals::judge_log(session, &stage, name);
    Ok(())
}
