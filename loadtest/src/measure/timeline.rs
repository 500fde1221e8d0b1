//! Deliveries over time, fine enough to tell when they began and when they had their pace.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use streaming_hub::runtime::{Clock, sleep, task};

const LOOK: Duration = Duration::from_millis(10);
/// What a rate is measured over.
const RATE_SPAN_SECONDS: f64 = 1.0;

/// How many had been delivered, when: seconds since the recording began, and deliveries since then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline(Vec<(f64, u64)>);

/// A timeline that goes on; dropping it ends it.
pub struct Recording {
    looks: Rc<RefCell<Vec<(f64, u64)>>>,
    over: Rc<Cell<bool>>,
}

impl Timeline {
    /// Begins to record a counter, on the current executor.
    #[must_use]
    pub fn record(clock: Clock, counter: Arc<AtomicU64>) -> Recording {
        let recording = Recording { looks: Rc::default(), over: Rc::default() };
        let (looks, over) = (Rc::clone(&recording.looks), Rc::clone(&recording.over));
        let (begun, base) = (clock.now(), counter.load(Ordering::Relaxed));
        task::spawn(async move {
            while !over.get() {
                let seconds = clock.now().since(begun).to_std().as_secs_f64();
                looks.borrow_mut().push((seconds, counter.load(Ordering::Relaxed).saturating_sub(base)));
                sleep(LOOK).await;
            }
        });
        recording
    }

    /// When the first came.
    #[must_use]
    pub fn first_seconds(&self) -> Option<f64> {
        self.0.iter().find(|(_, delivered)| *delivered > 0).map(|(seconds, _)| *seconds)
    }

    /// When the rate first reached that share of the one it kept while the middle of all came.
    #[must_use]
    pub fn seconds_to_share_of_plateau(&self, share: f64) -> Option<f64> {
        let wanted = self.plateau()? * share;
        let reached = |(seconds, delivered): &&(f64, u64)| {
            let before = self.at(seconds - RATE_SPAN_SECONDS)?;
            Some((*delivered - before) as f64 / RATE_SPAN_SECONDS >= wanted)
        };
        self.0.iter().find(|look| reached(look) == Some(true)).map(|(seconds, _)| *seconds)
    }

    /// Deliveries a second between the first and the last fifth.
    fn plateau(&self) -> Option<f64> {
        let all = self.0.last()?.1 as f64;
        let reached = |share: f64| self.0.iter().find(|(_, delivered)| *delivered as f64 >= all * share);
        let ((begin, first), (end, last)) = (reached(0.2)?, reached(0.8)?);
        (end > begin).then(|| (last - first) as f64 / (end - begin))
    }

    /// Deliveries up to that time, if it lies within.
    fn at(&self, seconds: f64) -> Option<u64> {
        if seconds < 0.0 {
            return Some(0);
        }
        let after = self.0.partition_point(|(at, _)| *at <= seconds);
        after.checked_sub(1).map(|index| self.0[index].1)
    }
}

impl Recording {
    /// Ends it.
    #[must_use]
    pub fn end(self) -> Timeline {
        Timeline(self.looks.take())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.over.set(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing for two seconds, then a rise over two more to 1 000/s, until second 20.
    fn timeline() -> Timeline {
        let delivered = |seconds: f64| match seconds {
            s if s < 2.0 => 0.0,
            s if s < 4.0 => (s - 2.0) * (s - 2.0) * 250.0,
            s => 1_000.0 + (s - 4.0) * 1_000.0,
        };
        Timeline((0..2_000).map(|tick| f64::from(tick) / 100.0).map(|s| (s, delivered(s) as u64)).collect())
    }

    #[test]
    fn the_first_delivery_and_the_pace_are_found() {
        let first = timeline().first_seconds().unwrap();
        assert!((2.0..2.1).contains(&first), "{first}");
        // The last second's mean reaches 900/s a little after the rise has ended.
        let steady = timeline().seconds_to_share_of_plateau(0.9).unwrap();
        assert!((4.0..4.7).contains(&steady), "{steady}");
    }

    #[test]
    fn nothing_delivered_has_no_times() {
        let still = Timeline((0..100).map(|tick| (f64::from(tick), 0)).collect());
        assert_eq!((still.first_seconds(), still.seconds_to_share_of_plateau(0.9)), (None, None));
        assert_eq!(Timeline::default().seconds_to_share_of_plateau(0.9), None);
    }
}
