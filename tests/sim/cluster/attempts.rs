//! Attempts: from an engine to a receiver and back.

use streaming_hub::engine::{Dispatch, Input};
use streaming_hub::types::{AttemptOutcome, Duration, ErrorKind, JobKey, Slot};

use super::node::Place;
use super::receivers::Sent;
use super::world::{Happening, World};
use crate::events::is_lethal;

impl World {
    /// An engine starts an attempt: its request goes out.
    pub fn dispatch(&mut self, place: Place, dispatch: &Dispatch) {
        let until = dispatch.deadline - self.scenario.skews[place.life.node];
        let job = self.checks.claims.get(&dispatch.attempt).map(|(job, _)| job.clone());
        let (tenant, key) = job.unwrap_or_else(|| {
            let slot = Slot::of(&dispatch.event.tenant, self.scenario.slots);
            (dispatch.event.tenant.clone(), JobKey { slot, sequence: dispatch.event.sequence, ordinal: 0 })
        });
        let logged = self.store.job(&tenant, key);
        self.checks.dispatched(dispatch, until, logged.as_ref());
        let number = self.sent.len();
        self.sent.push(Sent {
            place,
            token: dispatch.token,
            url: dispatch.destination.url.to_string(),
            deadline: until,
            claim: dispatch.attempt,
            cut: false,
            answered: false,
            outcome: AttemptOutcome::default(),
        });
        self.nodes[place.life.node].attempts.insert((place.engine, dispatch.token), number);
        let way = Duration::from_micros(self.rng.u64(50..5_000));
        self.after(way, Happening::Reaches(number));
        if is_lethal(&dispatch.event) {
            let soon = Duration::from_micros(self.rng.u64(0..5_000));
            self.after(soon, Happening::Kill(place.life.node));
        }
    }

    /// A request reaches its receiver.
    pub fn reaches(&mut self, number: usize) {
        let sent = &self.sent[number];
        if sent.cut {
            let claim = sent.claim;
            return self.checks.answered(claim);
        }
        let (url, deadline) = (sent.url.clone(), sent.deadline);
        let reply = self.receivers.answer(&url, self.now, &mut self.rng);
        let answered_at = self.now + reply.after;
        let in_time = answered_at < deadline;
        let timeout = || AttemptOutcome { error_kind: Some(ErrorKind::Timeout), ..AttemptOutcome::default() };
        self.sent[number].outcome = if in_time { reply.outcome } else { timeout() };
        self.at(if in_time { answered_at } else { deadline }, Happening::Ends(number));
    }

    /// The receiver has answered; the process hears of it, if it still lives.
    pub fn ends(&mut self, number: usize) {
        let sent = &mut self.sent[number];
        let (place, token, claim) = (sent.place, sent.token, sent.claim);
        if !std::mem::replace(&mut sent.answered, true) {
            self.checks.answered(claim);
        }
        if !self.lives(place.life) {
            return;
        }
        let stalled = self.nodes[place.life.node].stalled_until;
        if stalled > self.now {
            return self.at(stalled, Happening::Ends(number));
        }
        let known = self.nodes[place.life.node].attempts.remove(&(place.engine, token)) == Some(number);
        if known {
            let mut outcome = self.sent[number].outcome.clone();
            outcome.ended_at = self.clock(place.life.node);
            self.input(place, Input::AttemptEnded { token, outcome });
        }
    }
}
