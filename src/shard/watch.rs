//! Watching over the threads: a shard that makes no progress, or ends unasked, ends the process, since a restart
//! is the tested way back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::channel::Sender;
use crate::types::{Duration, Time, limits};

/// A thread's pulse: the time of its last turn.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// The thread has made a turn.
    pub fn beat(&self, now: Time) {
        self.0.store(now.0, Ordering::Relaxed);
    }

    /// How long ago the last turn was.
    #[must_use]
    pub fn silent_for(&self, now: Time) -> Duration {
        now.since(Time(self.0.load(Ordering::Relaxed)))
    }
}

/// Tells the watching thread when the thread that holds it ends, in whatever way.
#[derive(Debug)]
pub struct LastWord {
    name: String,
    ended: Sender<String>,
}

impl LastWord {
    /// For the thread of this name.
    #[must_use]
    pub const fn new(name: String, ended: Sender<String>) -> Self {
        Self { name, ended }
    }
}

impl Drop for LastWord {
    fn drop(&mut self) {
        // The channel has room for every thread; without a listener the process has ended already.
        let _ = self.ended.try_send(std::mem::take(&mut self.name));
    }
}

/// Watches pulses; asked about once a second.
#[derive(Debug)]
pub struct Watch {
    pulses: Vec<(String, Pulse)>,
    /// Its own pulse: when it does not beat either, the machine has been suspended.
    own: Pulse,
}

impl Watch {
    /// Watches these from `now` on.
    #[must_use]
    pub fn new(pulses: Vec<(String, Pulse)>, now: Time) -> Self {
        let own = Pulse::default();
        own.beat(now);
        Self { pulses, own }
    }

    /// The names of those whose pulse has been silent too long. After a suspension all begin anew.
    #[must_use]
    pub fn stalled(&self, now: Time) -> Vec<String> {
        let suspended = self.own.silent_for(now).times(2) > limits::SHARD_STALL;
        self.own.beat(now);
        if suspended {
            self.pulses.iter().for_each(|(_, pulse)| pulse.beat(now));
        }
        let silent = |(_, pulse): &&(String, Pulse)| pulse.silent_for(now) > limits::SHARD_STALL;
        self.pulses.iter().filter(silent).map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_measured_from_the_last_beat() {
        let pulse = Pulse::default();
        pulse.beat(Time(5));
        assert_eq!(pulse.silent_for(Time(12)), Duration(7));
    }

    #[test]
    fn a_silent_thread_is_told_from_a_suspended_machine() {
        let start = Time::from_millis(1_000_000);
        let (first, second) = (Pulse::default(), Pulse::default());
        first.beat(start);
        second.beat(start);
        let watch = Watch::new(vec![("first".to_owned(), first.clone()), ("second".to_owned(), second)], start);
        let mut now = start;
        for _ in 0..31 {
            now = now + Duration::from_secs(1);
            first.beat(now);
            assert_eq!(watch.stalled(now).is_empty(), now.since(start) <= limits::SHARD_STALL);
        }
        assert_eq!(watch.stalled(now), ["second"]);
        let resumed = now + Duration::from_hours(8);
        assert!(watch.stalled(resumed).is_empty(), "nobody had a turn meanwhile");
    }

    #[test]
    fn a_thread_that_panics_has_its_last_word() {
        let (sender, receiver) = crate::runtime::channel::bounded(1);
        let word = LastWord::new("shard-0".to_owned(), sender);
        let thread = std::thread::spawn(move || {
            let _word = word;
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert_eq!(receiver.recv().unwrap(), "shard-0");
    }
}
