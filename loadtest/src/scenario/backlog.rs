//! `backlog`: millions of events wait for receivers that fail, then all are well again.

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

pub const PASSES_WHEN: &str = "With 10 000 000 events pending behind failing destinations PSS is at most 1 GiB, then and \
    while they drain; nothing is lost or repeated.";

const EVENTS: u64 = 10_000_000;
const PSS_MAX_MIB: f64 = 1_024.0;
/// The phase ends by its events, not by time.
const FILL_MAX: Duration = Duration::from_secs(6 * 3_600);
const BATCH: usize = 100;
/// A backlog is of small events: ten million of 1 KiB and what is written with them would fill small disks.
const PAYLOAD_BYTES: usize = 256;

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    let events = session.arguments.events.unwrap_or(EVENTS);
    let mut stage = session.stage(plan()).await?;
    session.receivers.set_temper(Group::Healthy, Temper::Failing);
    let load = Load {
        warm_up: Duration::ZERO,
        batch: BATCH,
        payload_bytes: PAYLOAD_BYTES,
        ..Load::new("backlog", Pace::Closed { outstanding: events }, FILL_MAX)
    };
    let mut drive = Drive::start(session, &stage, load.of_events(events)).await?;
    drive.until_published(session, &mut stage).await?;
    session.progress.say(&format!("{} pending", drive.issued() - session.delivered()));
    drive.open_window(session, &stage);
    session.heal(&stage).await?;
    drive.drain(session, &mut stage).await?;
    drive.close_window(session, &stage);
    let phase = drive.finish(session, &stage).await?;
    session.judge(Goal::of("PSS", phase.figures.pss_mib, Rule::AtMost(PSS_MAX_MIB), " MiB"));
    goals::judge_log(session, &stage, "backlog");
    goals::judge_counts(session, Repeats::None);
    Ok(())
}

/// Retried soon and often, so that no event ends before its receiver is well; circuits are as they are by default.
fn plan() -> Plan {
    let retry = json!({"type": "fixed", "intervals_s": [5], "max_retries": 100});
    Plan::each(20, 10, |_| Group::Healthy, &json!({"ordering": "parallel", "retry": retry}), Order::Free)
}
