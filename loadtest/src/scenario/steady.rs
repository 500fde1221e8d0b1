//! `steady`: what events of an even stream wait, at 250/s, at 25 % and at 70 % of the most the hub does here.

use std::time::Duration;

use super::goals::{self, Repeats};
use crate::arguments::StoreKind;
use crate::drive::{Drive, Load, micros};
use crate::failure::Failure;
use crate::hub::Stage;
use crate::pace::Pace;
use crate::plan::Plan;
use crate::report::{Goal, Phase, Rule};
use crate::session::Session;

pub const PASSES_WHEN: &str = "p99 from the intended time to the receiver is at most 2 ms at 250/s, 5 ms at 25 % and \
    20 ms at 70 % of the maximum, with one parallel destination and with 200 fifo ones; PSS is at most 200 MiB; \
    on a cluster both are only told; nothing is lost, repeated or out of order.";

const SECONDS: u64 = 20;
const SECONDS_OF_MAXIMUM: Duration = Duration::from_secs(8);
const PSS_MAX_MIB: f64 = 200.0;
const LOW_RATE: f64 = 250.0;
/// At 70 % of the maximum, and at any rate that is asked for.
const P99_MAX_MS: f64 = 20.0;

/// A pace, and how long its p99 may be.
struct Step {
    name: String,
    pace: Pace,
    p99_max_ms: f64,
}

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    session.note_noise().await?;
    session.ceiling().await?;
    for (name, plan) in [("parallel", Plan::one_parallel()), ("fifo", Plan::fifo(20, 10))] {
        let mut stage = session.stage(plan).await?;
        let length = Duration::from_secs(session.arguments.seconds.unwrap_or(SECONDS));
        for step in steps(session, &mut stage, name, length).await? {
            let load = Load::new(&step.name, step.pace, length);
            let phase = Drive::start(session, &stage, load).await?.play(session, &mut stage).await?;
            if session.arguments.store == StoreKind::Embedded {
                judge(session, &step, &phase);
            }
        }
        goals::judge_log(session, &stage, name);
    }
    session.ceiling().await?;
    goals::judge_counts(session, Repeats::None);
    Ok(())
}

/// Of the embedded store: what a cluster's servers take is not the hub's.
fn judge(session: &mut Session, step: &Step, phase: &Phase) {
    let goal = format!("{}: p99", step.name);
    session.judge(Goal::of(goal, goals::p99_ms(phase), Rule::AtMost(step.p99_max_ms), " ms"));
    let memory = format!("{}: PSS", step.name);
    session.judge(Goal::of(memory, phase.figures.pss_mib, Rule::AtMost(PSS_MAX_MIB), " MiB"));
}

/// The one rate that was asked for, or three of which two are shares of a maximum measured before.
async fn steps(session: &mut Session, stage: &mut Stage, name: &str, length: Duration) -> Result<Vec<Step>, Failure> {
    let step = |label: &str, pace, p99_max_ms| Step { name: format!("{name}, {label}"), pace, p99_max_ms };
    let even = |per_second| Pace::Steady { per_second };
    match (session.arguments.rate, session.arguments.ramp_to) {
        (Some(rate), None) => return Ok(vec![step(&format!("{rate:.0}/s"), even(rate), P99_MAX_MS)]),
        (Some(from), Some(to)) => {
            let pace = Pace::Ramp { from, to, over: micros(length + length / 4) };
            return Ok(vec![step(&format!("{from:.0}/s to {to:.0}/s"), pace, P99_MAX_MS)]);
        }
        (None, _) => {}
    }
    let pace = Pace::Closed { outstanding: session.arguments.outstanding };
    let load = Load::new(format!("{name}, maximum"), pace, SECONDS_OF_MAXIMUM);
    let most = Drive::start(session, stage, load).await?.play(session, stage).await?.figures.deliveries_per_second;
    Ok(vec![
        step("250/s", even(LOW_RATE), 2.0),
        step("25 %", even(most * 0.25), 5.0),
        step("70 %", even(most * 0.7), P99_MAX_MS),
    ])
}
