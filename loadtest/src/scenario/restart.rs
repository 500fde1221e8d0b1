//! `restart`: events pending, `kill -9`, and how soon it delivers again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use streaming_hub::runtime::sleep;

use super::goals::{self, Repeats};
use crate::drive::{Drive, Load};
use crate::failure::Failure;
use crate::measure::timeline::Timeline;
use crate::pace::Pace;
use crate::plan::{Group, Order, Plan};
use crate::receive::Temper;
use crate::report::{Goal, Rule};
use crate::session::Session;

pub const PASSES_WHEN: &str = "With 1 000 000 events pending, from the start of the process after kill -9 to the first \
    delivery it takes at most 5 s, and to 90 % of the rate that it then keeps at most 15 s; nothing is lost, and no \
    more is repeated than was under way.";

const EVENTS: u64 = 1_000_000;
const FIRST_MAX_SECONDS: f64 = 5.0;
const STEADY_MAX_SECONDS: f64 = 15.0;
/// While events pile up, each attempt is answered after this: no circuit opens.
const HELD: Duration = Duration::from_secs(10);
/// The phase ends by its events, not by time.
const FILL_MAX: Duration = Duration::from_secs(3_600);
const BATCH: usize = 100;

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    let events = session.arguments.events.unwrap_or(EVENTS);
    let (timeline, under_way) = kill_and_start(session, events).await?;
    let first = timeline.first_seconds();
    session.judge(Goal::of("from the start to the first delivery", first, Rule::AtMost(FIRST_MAX_SECONDS), " s"));
    let steady = timeline.seconds_to_share_of_plateau(0.9);
    session.judge(Goal::of("from the start to 90 % of the rate", steady, Rule::AtMost(STEADY_MAX_SECONDS), " s"));
    goals::judge_counts(session, Repeats::AtMost(under_way));
    Ok(())
}

/// Plays it; gives when deliveries came after the start, and how many attempts the kill cut.
pub async fn kill_and_start(session: &mut Session, events: u64) -> Result<(Timeline, u64), Failure> {
    let mut stage = session.stage(plan()).await?;
    session.receivers.set_temper(Group::Healthy, Temper::Slow(HELD));
    let pace = Pace::Closed { outstanding: events };
    let load = Load { warm_up: Duration::ZERO, batch: BATCH, ..Load::new("restart", pace, FILL_MAX) };
    let mut drive = Drive::start(session, &stage, load.of_events(events)).await?;
    drive.until_published(session, &mut stage).await?;
    let [in_flight] = stage.sums(["streaming_hub_attempts_in_flight"]).await?;
    let under_way = in_flight as u64;
    stage.hubs[0].kill()?;
    // The receivers notice that their connections are gone before they answer what was on them.
    sleep(Duration::from_millis(100)).await;
    session.receivers.set_temper(Group::Healthy, Temper::Prompt);
    let delivered: Arc<AtomicU64> = Arc::clone(&session.receivers.live.delivered);
    session.progress.say(&format!("killed with {} pending", drive.issued() - delivered.load(Ordering::Relaxed)));
    let recording = Timeline::record(session.clock, delivered);
    stage.hubs[0].start_again(session.clock).await?;
    drive.hub_was_restarted();
    drive.open_window(session, &stage);
    drive.drain(session, &mut stage).await?;
    drive.close_window(session, &stage);
    let timeline = recording.end();
    drive.finish(session, &stage).await?;
    goals::judge_log(session, &stage, "restart");
    Ok((timeline, under_way))
}

fn plan() -> Plan {
    let settings = json!({"ordering": "parallel", "timeout_ms": 60_000});
    Plan::each(20, 10, |_| Group::Healthy, &settings, Order::Free)
}
