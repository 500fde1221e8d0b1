//! What to send next: the pace, the routes' turns and the routes' own numbers together. Pure.

use streaming_hub::types::Time;

use crate::pace::{End, Pace};
use crate::plan::Spread;

/// One event to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its route.
    pub route: u32,
    /// Its place among the route's events.
    pub sequence: u64,
    /// When it is meant to be sent.
    pub intended: Time,
}

/// What a feed says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This one, now.
    Now(Ticket),
    /// Nothing before this time.
    At(Time),
    /// Nothing before something is delivered.
    Full,
    /// Nothing any more.
    Over,
}

/// Hands out events, one at a time.
#[derive(Clone, Debug)]
pub struct Feed {
    spread: Spread,
    pace: Pace,
    begin: Time,
    end: End,
    issued: u64,
    sequences: Vec<u64>,
}

impl Feed {
    /// A feed of so many routes that begins at `begin`.
    #[must_use]
    pub fn new(routes: usize, spread: Spread, pace: Pace, begin: Time, end: End) -> Self {
        Self { spread, pace, begin, end, issued: 0, sequences: vec![0; routes] }
    }

    /// What to do at `now`, when `delivered` events have been delivered.
    pub fn next(&mut self, now: Time, delivered: u64) -> Next {
        if self.issued >= self.end.events {
            return Next::Over;
        }
        let intended = match (self.pace.after(self.issued), self.pace) {
            (Some(after), _) => self.begin + after,
            (None, Pace::Closed { outstanding }) if self.issued >= delivered + outstanding && now < self.end.at => {
                return Next::Full;
            }
            (None, Pace::Closed { .. } | Pace::Steady { .. } | Pace::Ramp { .. }) => now.max(self.begin),
        };
        if intended >= self.end.at {
            return Next::Over;
        }
        if intended > now {
            return Next::At(intended);
        }
        Next::Now(self.issue(intended))
    }

    fn issue(&mut self, intended: Time) -> Ticket {
        let route = self.spread.route(self.issued, self.sequences.len() as u64);
        let route = u32::try_from(route).expect("plans are small");
        let sequence = &mut self.sequences[route as usize];
        let ticket = Ticket { route, sequence: *sequence, intended };
        *sequence += 1;
        self.issued += 1;
        ticket
    }

    /// How many events each route got.
    #[must_use]
    pub fn into_issued(self) -> Vec<u64> {
        self.sequences
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use streaming_hub::types::Duration;

    const BEGIN: Time = Time(1_000_000);

    fn feed(pace: Pace, seconds: u64, events: u64) -> Feed {
        let end = End { at: BEGIN + Duration::from_secs(seconds), events };
        Feed::new(2, Spread::Even, pace, BEGIN, end)
    }

    fn drain(feed: &mut Feed, now: Time, delivered: u64) -> (Vec<Ticket>, Next) {
        let mut tickets = Vec::new();
        loop {
            match feed.next(now, delivered) {
                Next::Now(ticket) => tickets.push(ticket),
                other @ (Next::At(_) | Next::Full | Next::Over) => return (tickets, other),
            }
        }
    }

    #[test]
    fn a_late_feed_catches_up_with_the_intended_times() {
        let mut feed = feed(Pace::Steady { per_second: 10.0 }, 1, u64::MAX);
        assert_eq!(feed.next(Time(0), 0), Next::At(BEGIN));
        let (tickets, next) = drain(&mut feed, BEGIN + Duration::from_millis(350), 0);
        let intended: Vec<u64> = tickets.iter().map(|ticket| ticket.intended.0 - BEGIN.0).collect();
        assert_eq!(intended, [0, 100_000, 200_000, 300_000]);
        assert_eq!(next, Next::At(BEGIN + Duration::from_millis(400)));
        let places: Vec<(u32, u64)> = tickets.iter().map(|ticket| (ticket.route, ticket.sequence)).collect();
        assert_eq!(places, [(0, 0), (1, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn a_feed_ends_by_time_or_by_number() {
        let late = BEGIN + Duration::from_secs(100);
        let mut by_time = feed(Pace::Steady { per_second: 10.0 }, 1, u64::MAX);
        assert_eq!(drain(&mut by_time, late, 0).0.len(), 10);
        assert_eq!(by_time.into_issued(), [5, 5]);
        let mut by_number = feed(Pace::Steady { per_second: 10.0 }, 60, 3);
        let (tickets, next) = drain(&mut by_number, late, 0);
        assert_eq!((tickets.len(), next), (3, Next::Over));
    }

    #[test]
    fn a_closed_loop_keeps_so_many_outstanding() {
        let mut feed = feed(Pace::Closed { outstanding: 3 }, 1, u64::MAX);
        let now = BEGIN + Duration::from_millis(10);
        let (tickets, next) = drain(&mut feed, now, 0);
        assert_eq!((tickets.len(), next), (3, Next::Full));
        assert!(tickets.iter().all(|ticket| ticket.intended == now));
        assert_eq!(drain(&mut feed, now, 2).0.len(), 2);
        assert_eq!(feed.next(BEGIN + Duration::from_secs(1), 2), Next::Over);
    }
}
