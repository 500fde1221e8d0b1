//! `closed`: the most the hub does here, and what a delivery costs beside the bare loop.

use std::time::Duration;

use super::goals::{self, Repeats};
use crate::arguments::{IntakeKind, StoreKind};
use crate::drive::{Drive, Load};
use crate::failure::Failure;
use crate::pace::Pace;
use crate::plan::Plan;
use crate::report::{Goal, Phase, Rule, median, spread};
use crate::session::Session;

pub const PASSES_WHEN: &str = "Deliveries per CPU-second of the hub over the bare loop's are at least 0.6 from Kafka and \
    0.4 over HTTP, and deliveries at least 15 000/s with generator, ingest or broker, and receivers on the same \
    machine, both with one parallel destination and with 200 fifo ones (medians); on a cluster instead \
    one node's deliveries/s over those of a bare driver loop with the same statements are at least 0.7; nothing is lost, \
    repeated or out of order.";

const SECONDS: u64 = 10;
const REPEATS: usize = 3;
const PER_SECOND_MIN: f64 = 15_000.0;
/// Of one node on a cluster.
const OF_BARE_CQL_MIN: f64 = 0.7;

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    let of_bare_min = match session.arguments.intake {
        IntakeKind::Kafka => 0.6,
        IntakeKind::Http => 0.4,
    };
    let (length, repeats) =
        (session.arguments.seconds.unwrap_or(SECONDS), session.arguments.repeats.unwrap_or(REPEATS));
    for (name, plan) in [("parallel", Plan::one_parallel()), ("fifo", Plan::fifo(20, 10))] {
        let phases = measure(session, name, plan, Duration::from_secs(length), repeats).await?;
        let rates = || phases.iter().map(|phase| phase.figures.deliveries_per_second);
        match session.arguments.store {
            StoreKind::Embedded => {
                let of_bare = median(phases.iter().filter_map(|phase| phase.figures.of_bare));
                session.judge(Goal::of(format!("{name}: of the bare loop"), of_bare, Rule::AtLeast(of_bare_min), ""));
                let goal = format!("{name}: deliveries");
                session.judge(Goal::of(goal, median(rates()), Rule::AtLeast(PER_SECOND_MIN), "/s"));
            }
            StoreKind::Scylla => judge_on_cql(session, name, &phases),
        }
        let apart = spread(rates()).unwrap_or(0.0) * 100.0;
        session.note(format!("{name}: the deliveries/s of the repeats lie {apart:.0} % of their median apart"));
    }
    session.ceiling().await?;
    goals::judge_counts(session, Repeats::None);
    Ok(())
}

/// The goal is one node's; of several the ratio is told.
fn judge_on_cql(session: &mut Session, name: &str, phases: &[Phase]) {
    let ratio = median(phases.iter().filter_map(|phase| phase.figures.of_bare_cql()));
    let figure = format!("{name}: deliveries/s over the bare driver loop's");
    if session.arguments.nodes == 1 {
        session.judge(Goal::of(figure, ratio, Rule::AtLeast(OF_BARE_CQL_MIN), ""));
    } else {
        session.note(format!("{figure}: {:.2}", ratio.unwrap_or(0.0)));
    }
    let requests = median(phases.iter().filter_map(|phase| phase.figures.cql).map(|cql| cql.requests_per_event));
    session.note(format!("{name}: {:.3} CQL requests per delivered event", requests.unwrap_or(0.0)));
}

/// The bare loop and the hub, so many times in turn.
async fn measure(
    session: &mut Session,
    name: &str,
    plan: Plan,
    length: Duration,
    repeats: usize,
) -> Result<Vec<Phase>, Failure> {
    let mut stage = session.stage(plan).await?;
    let mut phases = Vec::new();
    for repeat in 1..=repeats {
        session.ceiling().await?;
        let pace = Pace::Closed { outstanding: session.arguments.outstanding };
        let load = Load::new(format!("{name} #{repeat}"), pace, length);
        let load = load.of_events(session.arguments.events.unwrap_or(u64::MAX));
        let mut phase = Drive::start(session, &stage, load).await?.play(session, &mut stage).await?;
        session.ceiling_on_cql(&stage, &mut phase).await?;
        phases.push(phase);
    }
    goals::judge_log(session, &stage, name);
    Ok(phases)
}
