//! Receivers of every temper.

use std::collections::BTreeMap;

use fastrand::Rng;
use streaming_hub::types::{AttemptOutcome, Duration, ErrorKind, Time};

use crate::scenario::{chance, pick};

/// How a receiver behaves until everything heals.
#[derive(Clone, Copy, Debug)]
enum Temper {
    Fast,
    Slow,
    /// Refuses connections.
    Dead,
    /// Never answers.
    Hanging,
    /// 500 until then.
    Erring(Time),
    /// 429 with `Retry-After` every other time.
    Throttling,
    /// 503 with `Retry-After` until then.
    Busy(Time),
    Gone,
    /// Good and bad in turns of so many seconds.
    Flapping(u64),
    /// A failure of some kind, one time in three.
    Moody,
}

/// What comes back, and when.
pub struct Reply {
    pub after: Duration,
    pub outcome: AttemptOutcome,
}

/// All receivers, by URL.
#[derive(Default)]
pub struct Receivers {
    tempers: BTreeMap<String, Temper>,
    healed: bool,
}

impl Receivers {
    /// Makes the receiver behind `url`; `end` is when healing comes.
    pub fn add(&mut self, url: &str, rng: &mut Rng, start: Time, end: Time) {
        let until = start + Duration(rng.u64(0..=end.since(start).0));
        let temper = *pick(
            rng,
            &[
                Temper::Fast,
                Temper::Fast,
                Temper::Fast,
                Temper::Slow,
                Temper::Dead,
                Temper::Hanging,
                Temper::Erring(until),
                Temper::Throttling,
                Temper::Busy(until),
                Temper::Gone,
                Temper::Flapping(3),
                Temper::Moody,
            ],
        );
        self.tempers.insert(url.to_owned(), temper);
    }

    /// The receiver behind `url` hangs, or else is fast.
    pub fn set_hanging(&mut self, url: &str, hangs: bool) {
        self.tempers.insert(url.to_owned(), if hangs { Temper::Hanging } else { Temper::Fast });
    }

    /// From now on every receiver answers 2xx at once.
    pub fn heal(&mut self) {
        self.healed = true;
    }

    /// What the receiver behind `url` answers to a request that reaches it at `now`.
    pub fn answer(&self, url: &str, now: Time, rng: &mut Rng) -> Reply {
        let temper = if self.healed { Temper::Fast } else { self.tempers.get(url).copied().unwrap_or(Temper::Fast) };
        match temper {
            Temper::Fast => success(rng.u64(100..=20_000)),
            Temper::Slow => success(rng.u64(300_000..=2_500_000)),
            Temper::Dead => failure(0, ErrorKind::Connect),
            Temper::Hanging => Reply { after: Duration::from_hours(1), ..success(0) },
            Temper::Erring(until) if now < until => status(rng.u64(100..=5_000), 500, None),
            Temper::Busy(until) if now < until => status(1_000, 503, Some(rng.u64(1..=20))),
            Temper::Erring(_) | Temper::Busy(_) => success(rng.u64(100..=20_000)),
            Temper::Throttling if rng.bool() => status(1_000, 429, Some(rng.u64(1..=30))),
            Temper::Throttling => success(2_000),
            Temper::Gone => status(1_000, 410, None),
            Temper::Flapping(seconds) if (now.as_secs() / seconds).is_multiple_of(2) => status(1_000, 502, None),
            Temper::Flapping(_) => success(1_000),
            Temper::Moody if chance(rng, 33) => mood(rng),
            Temper::Moody => success(rng.u64(100..=100_000)),
        }
    }
}

fn mood(rng: &mut Rng) -> Reply {
    match rng.u32(0..5) {
        0 => failure(1_000, ErrorKind::Reset),
        1 => failure(0, ErrorKind::Internal),
        2 => status(1_000, 302, None),
        3 => {
            let mut stale = failure(100, ErrorKind::Reset);
            stale.outcome.stale_connection = true;
            stale
        }
        _ => status(1_000, 429, None),
    }
}

fn success(after_us: u64) -> Reply {
    let outcome = AttemptOutcome { status: Some(200), ..AttemptOutcome::default() };
    Reply { after: Duration::from_micros(after_us), outcome }
}

fn failure(after_us: u64, kind: ErrorKind) -> Reply {
    let outcome = AttemptOutcome { error_kind: Some(kind), ..AttemptOutcome::default() };
    Reply { after: Duration::from_micros(after_us), outcome }
}

fn status(after_us: u64, status: u16, retry_after_s: Option<u64>) -> Reply {
    let outcome = AttemptOutcome {
        status: Some(status),
        error_kind: Some(ErrorKind::Status),
        retry_after: retry_after_s.map(Duration::from_secs),
        ..AttemptOutcome::default()
    };
    Reply { after: Duration::from_micros(after_us), outcome }
}
