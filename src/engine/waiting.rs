//! What an open job waits for, as its shard sees it: told to whoever looks at the job. Decides nothing.
//!
//! Of several obstacles the one that lies before the others is told: what holds the subscription, then what
//! holds the whole destination, then the job's own time, then its place in the order, then rate and capacity.

use super::arena::Handle;
use super::circuit::Permit;
use super::job::{Job, Phase};
use super::shard::Shard;
use super::slot::SlotPhase;
use super::subscriber::Subscriber;
use super::target::Target;
use crate::types::{JobKey, JobRecord, SubscriptionId, Time};

/// What a pending job waits for (contracts, section 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingFor {
    /// The tenant is paused.
    Paused,
    /// The subscription is disabled.
    Disabled,
    /// The subscription is not verified.
    Unverified,
    /// The destination's circuit is not closed, or lets out only a few yet.
    Circuit,
    /// A `Retry-After` holds the destination.
    RetryAfter,
    /// Its own time comes later.
    Retry,
    /// An earlier job of its queue is in flight or ahead.
    Order,
    /// The destination's rate limit.
    Rate,
    /// A place among the attempts in flight, or in memory.
    Capacity,
}

impl WaitingFor {
    /// As the API names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Disabled => "disabled",
            Self::Unverified => "unverified",
            Self::Circuit => "circuit",
            Self::RetryAfter => "retry_after",
            Self::Retry => "retry",
            Self::Order => "order",
            Self::Rate => "rate",
            Self::Capacity => "capacity",
        }
    }
}

/// How an open job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// An attempt is claimed or under way.
    InFlight,
    /// It waits.
    Waiting(WaitingFor),
    /// The shard can't tell: it is loading, or the job has just ended.
    Unknown,
}

/// A job of the log that somebody looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobQuestion {
    /// Which.
    pub key: JobKey,
    /// For which subscription.
    pub subscription: SubscriptionId,
    /// When it is due, as its rows say.
    pub next_at: Option<Time>,
}

impl From<&JobRecord> for JobQuestion {
    fn from(job: &JobRecord) -> Self {
        Self { key: job.key, subscription: job.subscription, next_at: job.next_at }
    }
}

impl Shard {
    /// How jobs that have not ended stand at `now`, in the order asked.
    #[must_use]
    pub fn standings(&self, jobs: &[JobQuestion], now: Time) -> Vec<Standing> {
        jobs.iter().map(|job| self.standing(job, now)).collect()
    }

    fn standing(&self, asked: &JobQuestion, now: Time) -> Standing {
        if let Some(handle) = self.job_of.get(&asked.key) {
            return self.standing_in_memory(*handle, now);
        }
        let Some(slot) = self.slots.get(&asked.key.slot) else { return Standing::Unknown };
        let known = self.subscriber_of.get(&asked.subscription);
        match known {
            Some(subscriber) if slot.phase == SlotPhase::Active && !slot.departed.is_leaving(&asked.key) => {
                Standing::Waiting(self.waits_in_the_log(*subscriber, asked, now))
            }
            Some(_) | None => Standing::Unknown,
        }
    }

    fn standing_in_memory(&self, handle: Handle<Job>, now: Time) -> Standing {
        let job = &self.jobs[handle];
        if job.in_flight() {
            return Standing::InFlight;
        }
        let subscriber = &self.subscribers[job.subscriber];
        let target = &self.targets[subscriber.target];
        let ahead = || job.phase == Phase::Queued && subscriber.queue.is_behind(job.group, job.class, handle);
        let waiting = self.held_for(subscriber).or_else(|| wait_for_time(target, job.next_at, now));
        Standing::Waiting(waiting.unwrap_or_else(
            || {
                if ahead() { WaitingFor::Order } else { wait_for_turn(target, now) }
            },
        ))
    }

    /// A job behind its subscription's cursor waits for what its queue waits for; any other for its due row.
    fn waits_in_the_log(&self, handle: Handle<Subscriber>, asked: &JobQuestion, now: Time) -> WaitingFor {
        let subscriber = &self.subscribers[handle];
        let target = &self.targets[subscriber.target];
        let waiting =
            self.held_for(subscriber).or_else(|| wait_for_time(target, asked.next_at.unwrap_or(Time::ZERO), now));
        let behind = subscriber.overflow.is_some_and(|overflow| asked.key.sequence >= overflow.next_read);
        let in_order = behind && subscriber.queue.is_one_at_a_time() && !subscriber.jobs.is_empty();
        waiting.unwrap_or_else(|| {
            if in_order {
                WaitingFor::Order
            } else if behind {
                wait_for_turn(target, now)
            } else {
                WaitingFor::Capacity
            }
        })
    }

    fn held_for(&self, subscriber: &Subscriber) -> Option<WaitingFor> {
        if self.tenants[subscriber.tenant].paused {
            Some(WaitingFor::Paused)
        } else if !subscriber.subscription.enabled {
            Some(WaitingFor::Disabled)
        } else if !subscriber.subscription.is_live() {
            Some(WaitingFor::Unverified)
        } else {
            None
        }
    }
}

/// What makes a job due at `next_at` wait for a time: of circuit and hold the one that lasts longer.
fn wait_for_time(target: &Target, next_at: Time, now: Time) -> Option<WaitingFor> {
    let hold = target.hold_until.filter(|until| *until > now);
    let circuit = match target.circuit.permit(now) {
        Permit::Free => None,
        Permit::AtMost(most) => (target.in_flight >= most).then_some(now),
        Permit::Probe | Permit::ProbeOut => Some(now),
        Permit::WaitUntil(at) => Some(at),
    };
    match (circuit, hold) {
        (Some(at), hold) if hold.is_none_or(|until| until <= at) => Some(WaitingFor::Circuit),
        (_, Some(until)) if until >= next_at => Some(WaitingFor::RetryAfter),
        (Some(_) | None, _) => (next_at > now).then_some(WaitingFor::Retry),
    }
}

/// What a job that could go as far as order and time are concerned waits for.
fn wait_for_turn(target: &Target, now: Time) -> WaitingFor {
    let dry = target.bucket.as_ref().is_some_and(|bucket| bucket.ready_at(now) > now);
    if dry { WaitingFor::Rate } else { WaitingFor::Capacity }
}
