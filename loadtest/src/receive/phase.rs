//! One phase as the receivers see it. Pure.

use hdrhistogram::Histogram;
use streaming_hub::types::Time;

use super::request::Request;
use super::signature::Checker;
use super::tally::{Arrival, Tally};
use super::{Counts, Interval, PhaseOrder, Seen};
use crate::feed::Ticket;
use crate::measure::latency::{self, Summary};
use crate::message::Message;
use crate::plan::Group;

/// One delivery of so many has its signatures checked.
const CHECKED_ONE_IN: u64 = 64;

/// What was published, and with it what must have come.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Events of each route.
    pub issued: Vec<u64>,
    /// Those that were given up: they may have come or not.
    pub unacknowledged: Vec<Ticket>,
}

/// What a request is to the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A delivery of the phase, to this group.
    Ours(Group, Message),
    /// Of another phase or run, or of nobody's.
    Stray,
}

/// What has come.
pub struct Phase {
    order: PhaseOrder,
    checker: Checker,
    tallies: Vec<Tally>,
    counts: Counts,
    latencies: Vec<Histogram<u64>>,
    interval: Histogram<u64>,
    interval_delivered: u64,
}

impl Phase {
    /// A phase to which nothing has come.
    #[must_use]
    pub fn new(order: PhaseOrder) -> Self {
        Self {
            tallies: vec![Tally::default(); order.plan.routes.len()],
            order,
            checker: Checker::new(),
            counts: Counts::default(),
            latencies: Group::ALL.iter().map(|_| latency::histogram()).collect(),
            interval: latency::histogram(),
            interval_delivered: 0,
        }
    }

    /// Looks at a request that came to `destination`; whether it is delivered depends on its answer.
    pub fn attempted(&mut self, destination: u32, request: &Request<'_>) -> Kind {
        let ours = Message::read(request.body).filter(|message| {
            let known = (message.route as usize) < self.tallies.len();
            known && (message.run, message.phase) == (self.order.run, self.order.number)
        });
        let Some(message) = ours else {
            self.counts.strays += 1;
            return Kind::Stray;
        };
        if self.order.plan.routes[message.route as usize].destination != destination {
            self.counts.misdirected += 1;
        }
        if self.counts.attempts.is_multiple_of(CHECKED_ONE_IN) {
            self.counts.signatures_checked += 1;
            self.counts.signatures_wrong += u64::from(!self.checker.is_good(&request.signed, request.body));
        }
        self.counts.attempts += 1;
        Kind::Ours(self.order.plan.destination_of(message.route).group, message)
    }

    /// Takes in that a request of this phase is answered with 200.
    pub fn delivered(&mut self, group: Group, message: &Message, now: Time) -> Arrival {
        let arrival = self.tallies[message.route as usize].note(message.sequence);
        if arrival == Arrival::Repeated {
            return arrival;
        }
        self.interval_delivered += 1;
        let taken = now.since(message.intended);
        if group == Group::Healthy {
            latency::record(&mut self.interval, taken);
        }
        if message.intended >= self.order.window_begin {
            latency::record(&mut self.latencies[group.index()], taken);
        }
        arrival
    }

    /// What came since the last look.
    pub fn take_interval(&mut self) -> Interval {
        let interval = Interval { delivered: self.interval_delivered, latency: Summary::of(&self.interval) };
        self.interval.reset();
        self.interval_delivered = 0;
        interval
    }

    /// Judges all of it.
    #[must_use]
    pub fn seen(mut self, expected: &Expected) -> Seen {
        let mut given_up = vec![Vec::new(); self.tallies.len()];
        for ticket in &expected.unacknowledged {
            given_up[ticket.route as usize].push(ticket.sequence);
        }
        for ((tally, issued), given_up) in self.tallies.iter().zip(&expected.issued).zip(&given_up) {
            self.counts.delivered += tally.delivered;
            self.counts.repeated += tally.repeated;
            self.counts.out_of_order += tally.out_of_order;
            self.counts.lost += tally.lost(*issued, given_up);
        }
        Seen { counts: self.counts, latencies: self.latencies }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::request::{Place, Signed};
    use super::*;
    use crate::plan::Plan;

    const BEGIN: Time = Time(5_000_000);

    fn phase() -> Phase {
        let plan = Arc::new(Plan::fifo(1, 2));
        Phase::new(PhaseOrder { run: 1, number: 2, plan, window_begin: BEGIN })
    }

    fn message(route: u32, sequence: u64) -> Message {
        Message { run: 1, phase: 2, route, sequence, intended: BEGIN }
    }

    fn attempt(phase: &mut Phase, destination: u32, message: Message) -> Kind {
        let mut body = Vec::new();
        message.write(&mut body, 0);
        let place = Place::Destination(destination);
        phase.attempted(destination, &Request { place, body: &body, length: 0, signed: Signed::default() })
    }

    #[test]
    fn what_is_not_of_the_phase_is_a_stray() {
        let mut phase = phase();
        assert_eq!(attempt(&mut phase, 0, Message { run: 7, ..message(0, 0) }), Kind::Stray);
        assert_eq!(attempt(&mut phase, 0, Message { phase: 1, ..message(0, 0) }), Kind::Stray);
        assert_eq!(attempt(&mut phase, 0, message(9, 0)), Kind::Stray);
        assert_eq!(attempt(&mut phase, 0, message(0, 0)), Kind::Ours(Group::Healthy, message(0, 0)));
        let counts = phase.seen(&Expected::default()).counts;
        assert_eq!((counts.strays, counts.attempts), (3, 1));
    }

    #[test]
    fn wrong_places_and_signatures_are_counted() {
        let mut phase = phase();
        attempt(&mut phase, 1, message(0, 0));
        let counts = phase.seen(&Expected::default()).counts;
        assert_eq!((counts.misdirected, counts.signatures_checked, counts.signatures_wrong), (1, 1, 1));
    }

    #[test]
    fn routes_are_judged_each_for_itself() {
        let mut phase = phase();
        for (route, sequence) in [(0, 0), (1, 0), (0, 2), (0, 1), (0, 1)] {
            phase.delivered(Group::Healthy, &message(route, sequence), BEGIN + streaming_hub::types::Duration(70));
        }
        let ticket = Ticket { route: 1, sequence: 1, intended: BEGIN };
        let expected = Expected { issued: vec![4, 3], unacknowledged: vec![ticket] };
        let seen = phase.seen(&expected);
        let Counts { delivered, lost, repeated, out_of_order, .. } = seen.counts;
        assert_eq!((delivered, lost, repeated, out_of_order), (4, 2, 1, 1));
        assert_eq!(seen.latencies[Group::Healthy.index()].len(), 4);
    }

    #[test]
    fn the_warm_up_is_not_measured_but_counted() {
        let mut phase = phase();
        let early = Message { intended: Time(1), ..message(0, 0) };
        phase.delivered(Group::Healthy, &early, BEGIN);
        assert_eq!(phase.take_interval().delivered, 1);
        assert_eq!(phase.take_interval().delivered, 0);
        assert!(phase.seen(&Expected::default()).latencies[0].is_empty());
    }
}
