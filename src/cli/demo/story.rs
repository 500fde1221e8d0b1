//! What happens on the stage: three producers publish side by side, then come the odd ones, then the hub gets time
//! to finish.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};

use serde_json::Value;

use super::client::{Answer, Client, Request};
use super::interruption::Interruption;
use super::plan::TENANTS;
use super::progress::{Counts, Progress};
use super::publication::{FILTERED, Publication, UNWANTED, script};
use super::publisher::{Accepted, Publisher};
use super::receiver::Temper;
use super::stage::{Actor, Stage};
use super::tally::Tally;
use crate::runtime::Clock;
use crate::types::Duration;

/// How long deliveries may take after the last event was published.
const PATIENCE: Duration = Duration::from_secs(12);
/// Between two looks at the API.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(150);

/// What went in, and what came of it.
#[derive(Clone, Debug)]
pub struct Story {
    /// The accepted events by tenant, in the order of [`TENANTS`].
    pub accepted: Vec<Vec<Accepted>>,
    /// The odd ones.
    pub oddities: Oddities,
    /// Each receiver's deliveries at the end, in the order of the stage.
    pub tallies: Vec<Tally>,
}

/// What is not the normal case.
#[derive(Clone, Debug)]
pub struct Oddities {
    /// The event that was published twice.
    pub repeated: Accepted,
    /// The answer to its second copy.
    pub repeat: Answer,
    /// The answer to a CloudEvent of an unknown version.
    pub malformed: Answer,
    /// An event that a filter keeps from its only subscription.
    pub filtered: Accepted,
    /// An event that nobody asks for.
    pub unwanted: Accepted,
}

/// What the story is told with.
pub struct Teller<'a> {
    /// Where progress goes.
    pub output: &'a mut dyn Write,
    /// How.
    pub progress: Progress,
    /// The time.
    pub clock: Clock,
    /// Whether the user wants an end.
    pub interruption: &'a Interruption,
}

/// Plays the story to its end.
///
/// # Errors
/// One line when the hub does not answer as it should, or the user has interrupted.
pub fn play(stage: &Stage, teller: &mut Teller<'_>) -> Result<Story, String> {
    let count = AtomicU64::new(0);
    let mut accepted = publish(stage, teller, &count)?;
    let oddities = publish_oddities(stage, teller.clock, &accepted)?;
    accepted[0].push(oddities.filtered.clone());
    accepted[2].push(oddities.unwanted.clone());
    count.fetch_add(2, Ordering::Relaxed);
    let tallies = settle(stage, teller, &accepted, &count)?;
    Ok(Story { accepted, oddities, tallies })
}

/// All scripts, each on a thread of its own, while this one shows how it goes.
fn publish(stage: &Stage, teller: &mut Teller<'_>, count: &AtomicU64) -> Result<Vec<Vec<Accepted>>, String> {
    let (clock, interruption) = (teller.clock, teller.interruption.clone());
    thread::scope(|scope| {
        let publish = |member| {
            let mut publisher = publisher(stage, member, clock);
            let interruption = interruption.clone();
            scope.spawn(move || publisher.publish_all(&script(&TENANTS[member]), count, || !interruption.has_come()))
        };
        let producers: Vec<_> = (0..TENANTS.len()).map(publish).collect();
        while !producers.iter().all(ScopedJoinHandle::is_finished) {
            look(stage, teller, count)?;
            thread::sleep(PAUSE);
        }
        producers
            .into_iter()
            .map(|producer| producer.join().unwrap_or_else(|_| Err("a producer panicked".into())))
            .collect()
    })
}

fn publisher(stage: &Stage, member: usize, clock: Clock) -> Publisher {
    Publisher::new(Client::new(stage.address, None), stage.members[member].clone(), clock)
}

fn publish_oddities(stage: &Stage, clock: Clock, accepted: &[Vec<Accepted>]) -> Result<Oddities, String> {
    let mut acme = publisher(stage, 0, clock);
    let mut initech = publisher(stage, 2, clock);
    let odd = |tenant: usize, (event, amount): (&'static str, u64)| Publication {
        n: accepted[tenant].len() as u64 + 1,
        event,
        amount,
    };
    let repeated = accepted[0].first().cloned().ok_or("nothing was published")?;
    let repeat = acme.repeat(&repeated)?;
    let malformed = acme.publish_malformed(odd(0, FILTERED))?;
    let filtered = acme.publish(odd(0, FILTERED))?;
    let unwanted = initech.publish(odd(2, UNWANTED))?;
    Ok(Oddities { repeated, repeat, malformed, filtered, unwanted })
}

/// Looks until all is as it will stay, or patience ends: then the facts tell what is missing. The last look comes
/// after that, so that its parts agree with each other.
fn settle(
    stage: &Stage,
    teller: &mut Teller<'_>,
    accepted: &[Vec<Accepted>],
    count: &AtomicU64,
) -> Result<Vec<Tally>, String> {
    let deadline = teller.clock.now() + PATIENCE;
    loop {
        let tallies = look(stage, teller, count)?;
        let settled = stage.actors.iter().zip(&tallies).all(|(actor, tally)| is_settled(actor, tally, accepted));
        if settled || teller.clock.now() >= deadline {
            let tallies = look(stage, teller, count)?;
            let counts = counts(count, &tallies);
            let now = teller.clock.now();
            teller.progress.finish(teller.output, counts, now).map_err(|error| unwritable(&error))?;
            return Ok(tallies);
        }
        thread::sleep(PAUSE);
    }
}

/// Reads all tallies and shows their sum.
fn look(stage: &Stage, teller: &mut Teller<'_>, count: &AtomicU64) -> Result<Vec<Tally>, String> {
    if teller.interruption.has_come() {
        return Err("interrupted".to_owned());
    }
    let tally = |actor: &Actor| Tally::read(&mut stage.client(actor.role.tenant), actor);
    let tallies: Vec<Tally> = stage.actors.iter().map(tally).collect::<Result<_, _>>()?;
    let now = teller.clock.now();
    teller.progress.show(teller.output, counts(count, &tallies), now).map_err(|error| unwritable(&error))?;
    Ok(tallies)
}

fn counts(accepted: &AtomicU64, tallies: &[Tally]) -> Counts {
    Counts {
        accepted: accepted.load(Ordering::Relaxed),
        delivered: tallies.iter().map(|tally| tally.delivered).sum(),
        waiting: tallies.iter().map(|tally| tally.waiting).sum(),
        dead_lettered: tallies.iter().map(|tally| tally.dead_lettered).sum(),
    }
}

fn is_settled(actor: &Actor, tally: &Tally, accepted: &[Vec<Accepted>]) -> bool {
    let all_matched = tally.matched >= wanted(actor, accepted).count() as u64;
    let ended = match actor.role.temper {
        Temper::Hanging => tally.circuit == "open" && tally.attempts >= u64::from(actor.role.threshold),
        Temper::Recovering { .. } => tally.circuit == "closed" && tally.waiting == 0,
        Temper::Healthy | Temper::Failing | Temper::Challenged => tally.waiting == 0,
    };
    all_matched && ended
}

/// The accepted events that a receiver is due, in order.
pub fn wanted<'a>(actor: &'a Actor, accepted: &'a [Vec<Accepted>]) -> impl Iterator<Item = &'a Accepted> {
    let of_tenant = TENANTS.iter().zip(accepted).filter(|(tenant, _)| tenant.name == actor.role.tenant);
    of_tenant.flat_map(|(_, accepted)| accepted).filter(|accepted| actor.role.wants(&accepted.publication))
}

/// The status of the answer to a tenant that asks for an event.
///
/// # Errors
/// One line when there is no answer.
pub fn status_for(stage: &Stage, tenant: &str, accepted: &Accepted) -> Result<u16, String> {
    let path = format!("/v1/events/{}", accepted.event_id);
    let ask = Request { method: "GET", path: &path, headers: Vec::new(), body: Vec::new() };
    Ok(stage.client(tenant).send(&ask)?.status)
}

/// How many deliveries the API names for an event; none when it does not say.
///
/// # Errors
/// One line when the API does not answer as it should.
pub fn deliveries_of(stage: &Stage, tenant: &str, accepted: &Accepted) -> Result<Option<u64>, String> {
    let event = stage.client(tenant).read(&format!("/v1/events/{}", accepted.event_id))?;
    Ok(event["deliveries"].as_array().map(|list: &Vec<Value>| list.len() as u64))
}

fn unwritable(error: &std::io::Error) -> String {
    format!("can't write the output: {error}")
}
