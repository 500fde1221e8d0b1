//! `tls`: receivers that speak TLS 1.3.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::goals::{self, Repeats};
use crate::drive::{Drive, Load};
use crate::failure::Failure;
use crate::hub::{Directory, HubSettings};
use crate::pace::Pace;
use crate::plan::Plan;
use crate::receive::Transport;
use crate::report::{Goal, Rule};
use crate::session::Session;

pub const PASSES_WHEN: &str = "Connections are kept: at most 512 handshakes and one in a hundred deliveries, with one parallel \
    destination and with 200 fifo ones; nothing is lost, repeated or out of order. What it costs beside plain deliveries \
    is told, not judged.";

const SECONDS: u64 = 15;
/// Two shards may have so many connections between them.
const HANDSHAKES_OF_CONNECTIONS: f64 = 512.0;
const HANDSHAKES_EACH: f64 = 0.01;

pub async fn play(session: &mut Session) -> Result<(), Failure> {
    session.ceiling().await?;
    let length = Duration::from_secs(session.arguments.seconds.unwrap_or(SECONDS));
    for (name, plan) in [("parallel", Plan::one_parallel()), ("fifo", Plan::fifo(20, 10))] {
        measure(session, name, plan, length).await?;
    }
    goals::judge_counts(session, Repeats::None);
    Ok(())
}

/// A closed loop over TLS, judged by its handshakes.
pub async fn measure(session: &mut Session, name: &str, plan: Plan, length: Duration) -> Result<(), Failure> {
    let directory = Directory::make("authority")?;
    let file = directory.path().join("authority.pem");
    std::fs::write(&file, &session.receivers.listening.authority).map_err(Failure::io("writing a certificate"))?;
    let settings = HubSettings::default().with("CA_FILE", file.display().to_string());
    let mut stage = session.stage_over(Transport::Tls, plan, settings).await?;
    let before = session.receivers.live.handshakes.load(Ordering::Relaxed);
    let pace = Pace::Closed { outstanding: session.arguments.outstanding };
    let load = Load::new(format!("tls, {name}"), pace, length);
    let phase = Drive::start(session, &stage, load).await?.play(session, &mut stage).await?;
    let handshakes = session.receivers.live.handshakes.load(Ordering::Relaxed) - before;
    let limit = HANDSHAKES_OF_CONNECTIONS + phase.figures.issued as f64 * HANDSHAKES_EACH;
    session.judge(Goal::of(format!("tls, {name}: handshakes"), Some(handshakes as f64), Rule::AtMost(limit), ""));
    goals::judge_log(session, &stage, name);
    Ok(())
}
