//! `hot-tenant`: one tenant sends half of all; what does that cost the others?

use std::time::Duration;

use serde_json::json;

use super::goals::{self, Repeats};
use super::noisy::Trial;
use crate::drive::{Drive, Load};
use crate::failure::Failure;
use crate::pace::Pace;
use crate::plan::{Group, Order, Plan, Spread};
use crate::report::{Goal, Rule};
use crate::session::Session;

pub const PASSES_WHEN: &str = "The other tenants' p99 is at most 1.2 times what it is when the same events are spread \
    evenly (medians of both in turn); nothing is lost or repeated.";

const TRIAL: Trial = Trial { per_second: 1_500.0, length: Duration::from_secs(15), repeats: 3, floor_ms: 0.0 };
const RATIO_MAX: f64 = 1.2;

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    let ratio = compare(session, TRIAL.asked(session)).await?;
    session.judge(Goal::of("the others' p99, hot over even", ratio, Rule::AtMost(RATIO_MAX), ""));
    goals::judge_counts(session, Repeats::None);
    Ok(())
}

/// Even and hot phases in turn; the other tenants' p99 of these over those.
pub async fn compare(session: &mut Session, trial: Trial) -> Result<Option<f64>, Failure> {
    let mut stage = session.stage(plan()).await?;
    let (mut even, mut hot) = (Vec::new(), Vec::new());
    for repeat in 1..=trial.repeats {
        for (name, spread, phases) in [("even", Spread::Even, &mut even), ("hot", Spread::HalfToTheFirst, &mut hot)] {
            let pace = Pace::Steady { per_second: trial.per_second };
            let load = Load::new(format!("{name} #{repeat}"), pace, trial.length).spread(spread);
            phases.push(Drive::start(session, &stage, load).await?.play(session, &mut stage).await?);
        }
    }
    goals::judge_log(session, &stage, "hot-tenant");
    Ok(trial.ratio(&hot, &even))
}

/// Route 0 is the hot tenant's only one; the others have two hundred.
fn plan() -> Plan {
    let group = |number: usize| if number == 0 { Group::Hot } else { Group::Healthy };
    let settings = json!({"ordering": "parallel", "max_in_flight": 256});
    Plan::each(201, 1, group, &settings, Order::Free)
}
