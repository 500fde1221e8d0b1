//! `smoke`: a minute of all that fit, judged by what holds on any machine: counts, and ratios with wide margins.

use std::time::Duration;

use super::goals::{self, Repeats};
use super::noisy::Trial;
use super::{hot_tenant, large, noisy, restart, retries, tls};
use crate::drive::{Drive, Load};
use crate::failure::Failure;
use crate::pace::Pace;
use crate::plan::Plan;
use crate::report::{Goal, Rule};
use crate::session::Session;

pub const PASSES_WHEN: &str = "Nothing is lost, repeated (but what a kill cut), out of order, misdirected or badly signed; \
    a delivery costs the hub at most twenty times what it costs the bare loop; noise and a hot tenant make the others' p99 \
    at most five times as long, or a second; what failed is delivered within 30 s of healing.";

const SECONDS: u64 = 3;
const RATE: f64 = 250.0;
/// Far below the goal of `closed`: reached on a machine that is busy with other things, too.
const OF_BARE_MIN: f64 = 0.05;
/// Far above the goals of `noisy` and `hot-tenant`: a few seconds tell no more.
const P99_RATIO_MAX: f64 = 5.0;
/// What a p99 counts as at least: only a stall of a second fails, as a silent destination that holds up others makes.
const P99_FLOOR_MS: f64 = 200.0;
const RESTART_EVENTS: u64 = 20_000;

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    session.ceiling().await?;
    let length = Duration::from_secs(session.arguments.seconds.unwrap_or(SECONDS));
    for (name, plan) in [("parallel", Plan::one_parallel()), ("fifo", Plan::fifo(20, 10))] {
        open_and_closed(session, name, plan, length).await?;
    }
    let per_second = session.arguments.rate.unwrap_or(RATE);
    let trial = Trial { per_second, length, repeats: 1, floor_ms: P99_FLOOR_MS };
    let ratio = noisy::compare(session, trial).await?;
    session.judge(Goal::of("healthy p99, noisy over quiet", ratio, Rule::AtMost(P99_RATIO_MAX), ""));
    let ratio = hot_tenant::compare(session, trial).await?;
    session.judge(Goal::of("the others' p99, hot over even", ratio, Rule::AtMost(P99_RATIO_MAX), ""));
    retries::fail_and_heal(session, per_second, length).await?;
    large::measure(session, "parallel", Plan::one_parallel(), length).await?;
    if session.arguments.address.is_none() {
        tls::measure(session, "fifo", Plan::fifo(20, 10), length).await?;
    }
    let repeats = if session.arguments.address.is_none() {
        let events = session.arguments.events.unwrap_or(RESTART_EVENTS);
        Repeats::AtMost(restart::kill_and_start(session, events).await?.1)
    } else {
        Repeats::None
    };
    goals::judge_counts(session, repeats);
    Ok(())
}

async fn open_and_closed(session: &mut Session, name: &str, plan: Plan, length: Duration) -> Result<(), Failure> {
    let mut stage = session.stage(plan).await?;
    let pace = Pace::Steady { per_second: session.arguments.rate.unwrap_or(RATE) };
    let load = Load::new(format!("{name}, open"), pace, length);
    Drive::start(session, &stage, load).await?.play(session, &mut stage).await?;
    let pace = Pace::Closed { outstanding: session.arguments.outstanding };
    let load = Load::new(format!("{name}, closed"), pace, length);
    let phase = Drive::start(session, &stage, load).await?.play(session, &mut stage).await?;
    let goal = format!("{name}: of the bare loop");
    session.judge(Goal::of(goal, phase.figures.of_bare, Rule::AtLeast(OF_BARE_MIN), ""));
    goals::judge_log(session, &stage, name);
    Ok(())
}
