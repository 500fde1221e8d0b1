//! Goals that several scenarios have.

use crate::hub::{Hub, Stage};
use crate::report::{Counts, Goal, Phase, Rule};
use crate::session::Session;

/// Whether an event may be delivered twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Never: nothing crashed.
    None,
    /// So many, those that a crash cut.
    AtMost(u64),
}

/// What must hold whatever is measured: nothing lost, nothing repeated, nothing in the wrong place, order, or hands.
pub fn judge_counts(session: &mut Session, repeats: Repeats) {
    let counts: Vec<Counts> = session.report.phases.iter().map(|phase| phase.figures.counts).collect();
    let none = |name: &str, of: fn(&Counts) -> u64| {
        Goal::of(name, Some(counts.iter().map(of).sum::<u64>() as f64), Rule::AtMost(0.0), "")
    };
    let mut goals = vec![none("lost", |counts| counts.lost)];
    let limit = match repeats {
        Repeats::None => 0,
        Repeats::AtMost(limit) => limit,
    };
    let repeated = counts.iter().map(|counts| counts.repeated).sum::<u64>();
    goals.push(Goal::of("repeated", Some(repeated as f64), Rule::AtMost(limit as f64), ""));
    if counts.iter().any(|counts| counts.out_of_order.is_some()) {
        goals.push(none("out of order", |counts| counts.out_of_order.unwrap_or(0)));
    }
    goals.push(none("at a wrong destination, or nobody's", |counts| counts.misdirected + counts.strays));
    goals.push(none("wrong signatures", |counts| counts.signatures_wrong));
    goals.push(none("never acknowledged", |counts| counts.unacknowledged));
    let checked = counts.iter().map(|counts| counts.signatures_checked).sum::<u64>();
    goals.push(Goal::of("signatures checked", Some(checked as f64), Rule::AtLeast(1.0), ""));
    session.report.goals.extend(goals);
}

/// Errors in the hub's log; call it before the stage goes.
pub fn judge_log(session: &mut Session, stage: &Stage, name: &str) {
    let errors: Vec<String> = stage.hubs.iter().flat_map(Hub::errors).collect();
    for error in errors.iter().take(5) {
        session.progress.say(&format!("the hub's log: {error}"));
    }
    session.judge(Goal::of(
        format!("{name}: errors in the hub's log"),
        Some(errors.len() as f64),
        Rule::AtMost(0.0),
        "",
    ));
}

/// A healthy p99, in milliseconds.
#[must_use]
pub fn p99_ms(phase: &Phase) -> Option<f64> {
    let healthy = phase.healthy();
    (healthy.count > 0).then(|| healthy.p99 as f64 / 1e3)
}
