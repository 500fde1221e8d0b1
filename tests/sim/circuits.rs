//! Circuits and `Retry-After` holds, watched independently and leniently where the promise leaves room.

use std::collections::BTreeMap;

use streaming_hub::engine::rows::{CircuitRecord, DestinationRecord};
use streaming_hub::types::destination::{Destination, On410};
use streaming_hub::types::{AttemptOutcome, ClaimRecord, DestinationId, Duration, ErrorKind, Time, limits};

/// What is known of one destination.
#[derive(Clone, Debug, Default)]
struct View {
    failures: u32,
    /// When it opened, and when a probe may go out at the earliest.
    open: Option<(Time, Time)>,
    /// Attempts claimed up to then do not move it.
    last_transition: Time,
    /// The engine's last word, and when: it may be open where this view leaves room.
    noticed: Option<(Time, bool)>,
    /// (said at, holds until).
    hold: Option<(Time, Time)>,
    /// Attempts claimed after it opened that are in flight.
    probes: Vec<ClaimRecord>,
}

/// All destinations.
#[derive(Default)]
pub struct Circuits {
    views: BTreeMap<DestinationId, View>,
}

/// Why an attempt should not have been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    SecondProbe,
    EarlyProbe,
    Held,
}

impl Circuits {
    /// A life begins with what the store remembers.
    pub fn begin_life<'a>(&mut self, stored: impl Iterator<Item = (DestinationId, &'a DestinationRecord)>, now: Time) {
        self.views.clear();
        for (id, record) in stored {
            let mut view = View { hold: record.hold_until.map(|until| (Time::ZERO, until)), ..View::default() };
            match record.circuit {
                CircuitRecord::Closed { failures, .. } => view.failures = failures,
                CircuitRecord::Open { failures, probe_at, .. } => {
                    view.noticed = Some((now, true));
                    view.failures = failures;
                    view.open = Some((Time::ZERO, probe_at));
                }
            }
            view.last_transition = now;
            self.views.insert(id, view);
        }
    }

    /// Whether the circuit is known not to be closed.
    pub fn is_open(&self, id: DestinationId) -> bool {
        self.views.get(&id).is_some_and(|view| view.open.is_some())
    }

    /// Whether the circuit is open, or has closed or opened at `since` or later.
    pub fn was_open_since(&self, id: DestinationId, since: Time) -> bool {
        self.views.get(&id).is_some_and(|view| {
            let said = view.noticed.is_some_and(|(at, open)| open || at >= since);
            said || view.open.is_some() || view.last_transition >= since
        })
    }

    /// The engine says that a circuit opened or closed.
    pub fn noticed(&mut self, id: DestinationId, now: Time, open: bool) {
        let view = self.views.entry(id).or_default();
        view.noticed = Some((now, open));
    }

    /// An attempt goes out.
    pub fn dispatched(&mut self, id: DestinationId, claim: ClaimRecord) -> Option<Fault> {
        let view = self.views.entry(id).or_default();
        if view.hold.is_some_and(|(said, until)| claim.claimed_at > said && claim.claimed_at < until) {
            return Some(Fault::Held);
        }
        let (opened, probe_at) = view.open?;
        if claim.claimed_at <= opened {
            return None;
        }
        view.probes.push(claim);
        if view.probes.len() > 1 {
            return Some(Fault::SecondProbe);
        }
        (claim.claimed_at < probe_at).then_some(Fault::EarlyProbe)
    }

    /// An attempt has ended.
    pub fn ended(&mut self, destination: &Destination, claim: ClaimRecord, outcome: &AttemptOutcome, now: Time) {
        let view = self.views.entry(destination.id).or_default();
        view.probes.retain(|probe| probe.attempt != claim.attempt);
        if let (Some(after), Some(429 | 503)) = (outcome.retry_after, outcome.status) {
            let until = now + after.min(limits::RETRY_AFTER_MAX);
            view.hold = Some((now, view.hold.map_or(until, |(_, earlier)| earlier.max(until))));
        }
        match class(destination, outcome) {
            Class::Success => view.close(now),
            Class::Failure if claim.claimed_at > view.last_transition => view.fail(destination, now),
            Class::Failure | Class::Neither => {}
            Class::Unclear => view.failures = 0,
        }
    }

    /// A command has closed the circuit and lifted the hold.
    pub fn reset(&mut self, id: DestinationId, now: Time) {
        if let Some(view) = self.views.get_mut(&id) {
            view.hold = None;
            view.close(now);
        }
    }
}

impl View {
    fn close(&mut self, now: Time) {
        self.failures = 0;
        if self.open.take().is_some() {
            self.last_transition = now;
        }
        self.probes.clear();
    }

    fn fail(&mut self, destination: &Destination, now: Time) {
        self.failures += 1;
        let settings = destination.circuit;
        if settings.enabled && (self.open.is_some() || self.failures >= settings.threshold) {
            let cooldown = Duration::from_millis(u64::from(settings.cooldown_ms));
            self.open = Some((now, now + Duration(cooldown.0 * (100 - limits::CIRCUIT_JITTER_PERCENT) / 100)));
            self.last_transition = now;
            self.probes.clear();
        }
    }
}

enum Class {
    Success,
    Failure,
    Neither,
    Unclear,
}

fn class(destination: &Destination, outcome: &AttemptOutcome) -> Class {
    match (outcome.status, outcome.error_kind) {
        (Some(200..300), _) => Class::Success,
        (Some(410), _) if destination.on_410 == On410::Disable => Class::Unclear,
        (Some(429), _) | (_, Some(ErrorKind::Internal | ErrorKind::Interrupted)) => Class::Neither,
        _ if outcome.stale_connection => Class::Unclear,
        _ => Class::Failure,
    }
}
