//! `many`: ten thousand tenants with a hundred thousand subscriptions.

use std::time::Duration;

use super::goals::{self, Repeats};
use crate::drive::{Drive, Load};
use crate::failure::Failure;
use crate::pace::Pace;
use crate::plan::Plan;
use crate::report::{Goal, Phase, Rule};
use crate::session::Session;

pub const PASSES_WHEN: &str = "Deliveries per CPU-second with 10 000 tenants of one destination and ten subscriptions each \
    are at least 0.8 of those with 20 tenants of ten destinations and subscriptions each; nothing is lost, repeated or \
    out of order.";

const TENANTS: usize = 10_000;
const SUBSCRIPTIONS: usize = 10;
const SECONDS: u64 = 20;
const RATIO_MIN: f64 = 0.8;

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    let length = Duration::from_secs(session.arguments.seconds.unwrap_or(SECONDS));
    let tenants = session.arguments.tenants.unwrap_or(TENANTS);
    session.ceiling().await?;
    let few = measure(session, "few", Plan::fifo(20, 10), length).await?;
    let many = measure(session, "many", Plan::shared(tenants, SUBSCRIPTIONS), length).await?;
    let cost = |phase: &Phase| phase.figures.deliveries_per_processor_second;
    let ratio = cost(&many).zip(cost(&few)).map(|(many, few)| many / few);
    session.judge(Goal::of("deliveries per CPU-second, many over few", ratio, Rule::AtLeast(RATIO_MIN), ""));
    goals::judge_counts(session, Repeats::None);
    Ok(())
}

async fn measure(session: &mut Session, name: &str, plan: Plan, length: Duration) -> Result<Phase, Failure> {
    let mut stage = session.stage(plan).await?;
    let load = Load::new(name, Pace::Closed { outstanding: session.arguments.outstanding }, length);
    let phase = Drive::start(session, &stage, load).await?.play(session, &mut stage).await?;
    goals::judge_log(session, &stage, name);
    Ok(phase)
}
