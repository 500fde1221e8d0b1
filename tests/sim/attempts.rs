//! Attempts: from the engine's dispatch to the receiver and back.

use streaming_hub::engine::{Dispatch, Input, JobToken};
use streaming_hub::types::{AttemptOutcome, Duration, ErrorKind, ShardId};

use crate::events::is_lethal;
use crate::faults::Fault;
use crate::happening::{Happening, Life, Place};
use crate::node::ATTEMPTS_MAX;
use crate::world::{Sent, World};

impl World {
    /// The engine starts an attempt: its request goes out.
    pub fn dispatch(&mut self, place: Place, dispatch: &Dispatch) {
        self.checks.dispatched(place.shard, dispatch, ATTEMPTS_MAX);
        let number = self.send(place, dispatch);
        self.nodes[place.life.node].attempts.insert((place.shard, dispatch.token), number);
        if self.fault == Some(Fault::DoubleDispatch) && place.life.generation > 1 {
            self.send(place, dispatch);
        }
        if self.fault == Some(Fault::TwoProbes) && self.checks.circuits.is_open(dispatch.destination.id) {
            self.checks.dispatched_beside(dispatch);
        }
        if is_lethal(&dispatch.event) {
            let soon = Duration::from_micros(self.rng.u64(0..5_000));
            self.after(soon, Happening::Kill(place.life.node));
        }
    }

    fn send(&mut self, place: Place, dispatch: &Dispatch) -> usize {
        let number = self.sent.len();
        self.sent.push(Sent {
            place,
            token: dispatch.token,
            attempt: dispatch.attempt,
            url: dispatch.destination.url.to_string(),
            deadline: dispatch.deadline,
            cut: false,
            outcome: AttemptOutcome::default(),
        });
        let way = Duration::from_micros(self.rng.u64(50..5_000));
        self.after(way, Happening::Reaches(number));
        number
    }

    /// A request reaches its receiver.
    pub fn reaches(&mut self, number: usize) {
        let sent = &self.sent[number];
        if sent.cut {
            return;
        }
        let (place, token, attempt, deadline) = (sent.place, sent.token, sent.attempt, sent.deadline);
        let url = sent.url.clone();
        let reply = self.receivers.answer(&url, self.now, &mut self.rng);
        let answered_at = self.now + reply.after;
        let in_time = answered_at < deadline;
        let mut outcome = if in_time { reply.outcome } else { timeout() };
        outcome.ended_at = if in_time { answered_at } else { deadline };
        let ended_at = outcome.ended_at;
        self.say(format_args!("{attempt} reaches {url}: {:?} {:?}", outcome.status, outcome.error_kind));
        if outcome.status == Some(200) {
            self.checks.succeeded(attempt, place.life.generation);
        }
        self.sent[number].outcome = outcome;
        self.at(ended_at, Happening::Ends(place, token, number));
    }

    /// An attempt's outcome is known to the process, if it still lives.
    pub fn ends(&mut self, place: Place, token: JobToken, number: usize) {
        let awaited =
            self.lives(place.life) && self.nodes[place.life.node].attempts.get(&(place.shard, token)) == Some(&number);
        if awaited {
            self.nodes[place.life.node].attempts.remove(&(place.shard, token));
            let outcome = self.sent[number].outcome.clone();
            self.input(place, Input::AttemptEnded { token, outcome });
        }
    }

    /// The shutdown's grace is over: what is in flight is cut.
    pub fn cut_attempts(&mut self, life: Life) {
        let in_flight: Vec<(ShardId, JobToken)> = self.nodes[life.node].attempts.keys().copied().collect();
        for (shard, token) in in_flight {
            self.nodes[life.node].attempts.remove(&(shard, token));
            let error_kind = Some(ErrorKind::Interrupted);
            let outcome = AttemptOutcome { ended_at: self.now, error_kind, ..AttemptOutcome::default() };
            self.input(Place { life, shard }, Input::AttemptEnded { token, outcome });
        }
    }
}

fn timeout() -> AttemptOutcome {
    AttemptOutcome { error_kind: Some(ErrorKind::Timeout), ..AttemptOutcome::default() }
}
