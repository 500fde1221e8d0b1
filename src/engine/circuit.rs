//! One destination's circuit breaker, as three named states: contracts, section 7, "Circuit".
//!
//! It says who may go out and is told what became of it; it holds no jobs and no timer. Invariants: no more
//! than one probe is out; an attempt begun before the last transition moves nothing; switched off, it is
//! closed and stays so.

use super::cooldown;
use super::rows::CircuitRecord;
use crate::types::destination::CircuitSettings;
use crate::types::{Duration, Time, limits};

/// A probe that ended without a verdict is followed by another after this, so that it cannot spin.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
/// From this many in flight on, a circuit that has closed is free: no destination may have more.
const RAMP_END: u32 = limits::MAX_IN_FLIGHT_MAX;

/// A circuit breaker.
#[derive(Clone, Debug)]
pub struct Circuit {
    settings: CircuitSettings,
    state: State,
    /// Consecutive failed attempts, probes included.
    failures: u32,
    /// The last transition between open and closed; zero if there was none.
    since: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Attempts go out; after an opening at most `ramp` at once, doubling with each success.
    Closed { ramp: Option<u32> },
    /// Jobs wait for `probe_at`. `cooldown` is the one in force, before jitter.
    Open { probe_at: Time, cooldown: Duration },
    /// The probe is out, allowed since `probe_at`.
    HalfOpen { probe_at: Time, cooldown: Duration },
}

/// The state's name in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitState {
    /// Attempts go out.
    Closed,
    /// Jobs wait.
    Open,
    /// One probe is out.
    HalfOpen,
}

impl CircuitState {
    /// The name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// What may go out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Whatever other limits allow.
    Free,
    /// As long as fewer than this many are in flight: the ramp after closing.
    AtMost(u32),
    /// One job, as the probe; [`Circuit::begin_probe`] takes the permit.
    Probe,
    /// Nothing before this time.
    WaitUntil(Time),
    /// Nothing until the probe ends.
    ProbeOut,
}

/// A change of state worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Closed to open.
    Opened,
    /// The probe failed.
    Reopened,
    /// To closed.
    Closed,
}

impl Circuit {
    /// A closed circuit.
    #[must_use]
    pub const fn new(settings: CircuitSettings) -> Self {
        Self { settings, state: State::Closed { ramp: None }, failures: 0, since: Time::ZERO }
    }

    /// The circuit as it was recorded; one that is switched off by now is closed.
    #[must_use]
    pub fn restore(settings: CircuitSettings, record: &CircuitRecord) -> Self {
        let mut circuit = Self::new(settings);
        match *record {
            CircuitRecord::Closed { failures, since } => (circuit.failures, circuit.since) = (failures, since),
            CircuitRecord::Open { failures, since, probe_at, cooldown } => {
                (circuit.failures, circuit.since) = (failures, since);
                circuit.state = State::Open { probe_at, cooldown };
            }
        }
        circuit.change_settings(settings);
        circuit
    }

    /// What to record of it. A probe that is out is recorded as due, since it dies with the process.
    #[must_use]
    pub const fn record(&self) -> CircuitRecord {
        let (failures, since) = (self.failures, self.since);
        match self.state {
            State::Closed { .. } => CircuitRecord::Closed { failures, since },
            State::Open { probe_at, cooldown } | State::HalfOpen { probe_at, cooldown } => {
                CircuitRecord::Open { failures, since, probe_at, cooldown }
            }
        }
    }

    /// Takes new settings. A cooldown on its way is kept; switching off closes at once and forgets all failures.
    pub const fn change_settings(&mut self, settings: CircuitSettings) {
        self.settings = settings;
        if !settings.enabled {
            self.state = State::Closed { ramp: None };
            self.failures = 0;
        }
    }

    /// What may go out at `now`.
    #[must_use]
    pub fn permit(&self, now: Time) -> Permit {
        match self.state {
            State::Closed { ramp: None } => Permit::Free,
            State::Closed { ramp: Some(most) } => Permit::AtMost(most),
            State::Open { probe_at, .. } if now < probe_at => Permit::WaitUntil(probe_at),
            State::Open { .. } => Permit::Probe,
            State::HalfOpen { .. } => Permit::ProbeOut,
        }
    }

    /// Takes the probe's permit; nothing happens unless the circuit is open.
    pub const fn begin_probe(&mut self) {
        if let State::Open { probe_at, cooldown } = self.state {
            self.state = State::HalfOpen { probe_at, cooldown };
        }
    }

    /// An attempt begun at `started_at` succeeded. Beyond the probe, only attempts begun while closed count.
    pub fn succeeded(&mut self, started_at: Time, probe: bool, now: Time) -> Option<Transition> {
        if started_at < self.since {
            return None;
        }
        match self.state {
            State::Closed { ramp } => {
                self.failures = 0;
                self.state = State::Closed { ramp: ramp.and_then(next_ramp) };
                None
            }
            State::HalfOpen { .. } if probe => Some(self.close(now)),
            State::HalfOpen { .. } | State::Open { .. } => None,
        }
    }

    /// An attempt begun at `started_at` failed. Beyond the probe, only attempts begun while closed count.
    pub fn failed(&mut self, started_at: Time, probe: bool, now: Time, rng: &mut fastrand::Rng) -> Option<Transition> {
        if started_at < self.since || !self.settings.enabled {
            return None;
        }
        match self.state {
            State::Closed { .. } => {
                self.failures = self.failures.saturating_add(1);
                (self.failures >= self.settings.threshold).then(|| {
                    self.open(cooldown::first(&self.settings), now, rng);
                    Transition::Opened
                })
            }
            State::HalfOpen { cooldown, .. } if probe => {
                self.failures = self.failures.saturating_add(1);
                self.open(cooldown::longer(cooldown, &self.settings), now, rng);
                Some(Transition::Reopened)
            }
            State::HalfOpen { .. } | State::Open { .. } => None,
        }
    }

    /// The probe ended without a verdict (the hub's fault, interrupted, throttled): its permit comes back, and
    /// the next probe may go out after a short, jittered pause. Nothing happens when no probe is out.
    pub fn probe_returned(&mut self, now: Time, rng: &mut fastrand::Rng) {
        if let State::HalfOpen { cooldown, .. } = self.state {
            self.state = State::Open { probe_at: now + cooldown::jittered(PROBE_PAUSE, rng), cooldown };
        }
    }

    /// Closes it on command and forgets all failures. Waiting jobs go out by the ramp, as after a probe.
    pub fn reset(&mut self, now: Time) -> Option<Transition> {
        self.failures = 0;
        match self.state {
            State::Closed { .. } => None,
            State::Open { .. } | State::HalfOpen { .. } => Some(self.close(now)),
        }
    }

    /// The state by name.
    #[must_use]
    pub const fn state(&self) -> CircuitState {
        match self.state {
            State::Closed { .. } => CircuitState::Closed,
            State::Open { .. } => CircuitState::Open,
            State::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    /// Failed attempts since the last success, probes included.
    #[must_use]
    pub const fn consecutive_failures(&self) -> u32 {
        self.failures
    }

    /// When it last opened, re-opened or closed; zero if it never did.
    #[must_use]
    pub const fn last_transition_at(&self) -> Time {
        self.since
    }

    /// When the next probe may go out; absent unless it is open.
    #[must_use]
    pub const fn next_probe_at(&self) -> Option<Time> {
        match self.state {
            State::Open { probe_at, .. } => Some(probe_at),
            State::Closed { .. } | State::HalfOpen { .. } => None,
        }
    }

    fn close(&mut self, now: Time) -> Transition {
        self.state = State::Closed { ramp: Some(1) };
        self.failures = 0;
        self.since = now;
        Transition::Closed
    }

    fn open(&mut self, cooldown: Duration, now: Time, rng: &mut fastrand::Rng) {
        self.state = State::Open { probe_at: now + cooldown::jittered(cooldown, rng), cooldown };
        self.since = now;
    }
}

/// Twice as many in flight, or no ramp any more.
fn next_ramp(most: u32) -> Option<u32> {
    let doubled = most.saturating_mul(2);
    (doubled < RAMP_END).then_some(doubled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::properties::same_cases;
    use proptest::prelude::*;

    const START: Time = Time::from_millis(1_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn rng() -> fastrand::Rng {
        fastrand::Rng::with_seed(11)
    }

    fn after(seconds: u64) -> Time {
        START + Duration::from_secs(seconds)
    }

    fn fail(circuit: &mut Circuit, at: Time) -> Option<Transition> {
        circuit.failed(at, false, at, &mut rng())
    }

    /// Opened at `START`.
    fn opened() -> Circuit {
        let mut circuit = Circuit::new(CircuitSettings::default());
        let moves: Vec<_> = (0..5).map(|_| fail(&mut circuit, START)).collect();
        assert_eq!(moves, [None, None, None, None, Some(Transition::Opened)]);
        circuit
    }

    /// Half-open at the time returned.
    fn probing() -> (Circuit, Time) {
        let mut circuit = opened();
        let probe_at = circuit.next_probe_at().expect("open");
        circuit.begin_probe();
        (circuit, probe_at)
    }

    fn assert_about(at: Time, from: Time, cooldown_s: u64) {
        let waited = at.since(from).as_millis();
        assert!(waited >= cooldown_s * 900 && waited <= cooldown_s * 1_100, "{waited} ms for {cooldown_s} s");
    }

    #[test]
    fn only_consecutive_failures_open_it() {
        let mut circuit = Circuit::new(CircuitSettings::default());
        for _ in 0..20 {
            for _ in 0..4 {
                assert_eq!(fail(&mut circuit, START), None);
            }
            assert_eq!(circuit.succeeded(START, false, START), None);
        }
        assert_eq!((circuit.state(), circuit.consecutive_failures()), (CircuitState::Closed, 0));
        assert_eq!(circuit.permit(START), Permit::Free);
    }

    #[test]
    fn open_waits_for_the_cooldown_then_lets_one_probe_through() {
        let mut circuit = opened();
        let probe_at = circuit.next_probe_at().expect("open");
        assert_about(probe_at, START, 60);
        assert_eq!(circuit.permit(Time(probe_at.0 - 1)), Permit::WaitUntil(probe_at));
        assert_eq!(circuit.permit(probe_at), Permit::Probe);
        circuit.begin_probe();
        assert_eq!(circuit.state(), CircuitState::HalfOpen);
        assert_eq!(circuit.permit(probe_at + Duration::from_hours(1)), Permit::ProbeOut);
        assert_eq!(circuit.next_probe_at(), None);
    }

    #[test]
    fn a_failed_probe_doubles_the_cooldown_up_to_ten_minutes() {
        let (mut circuit, mut now) = probing();
        for cooldown_s in [120, 240, 480, 600, 600] {
            assert_eq!(circuit.failed(now, true, now, &mut rng()), Some(Transition::Reopened));
            let probe_at = circuit.next_probe_at().expect("open again");
            assert_about(probe_at, now, cooldown_s);
            assert_eq!(circuit.last_transition_at(), now);
            now = probe_at;
            circuit.begin_probe();
        }
        assert_eq!(circuit.consecutive_failures(), 10);
    }

    #[test]
    fn closing_ramps_up_and_forgets_the_long_cooldown() {
        let (mut circuit, now) = probing();
        circuit.failed(now, true, now, &mut rng());
        let now = circuit.next_probe_at().expect("open");
        circuit.begin_probe();
        assert_eq!(circuit.succeeded(now, true, now), Some(Transition::Closed));
        assert_eq!((circuit.consecutive_failures(), circuit.last_transition_at()), (0, now));
        for most in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
            assert_eq!(circuit.permit(now), Permit::AtMost(most));
            assert_eq!(circuit.succeeded(now, false, now), None);
        }
        assert_eq!(circuit.permit(now), Permit::Free);
        for _ in 0..5 {
            circuit.failed(now, false, now, &mut rng());
        }
        assert_about(circuit.next_probe_at().expect("open"), now, 60);
    }

    #[test]
    fn failures_count_during_the_ramp_too() {
        let (mut circuit, now) = probing();
        circuit.succeeded(now, true, now);
        for _ in 0..4 {
            assert_eq!(fail(&mut circuit, now), None);
            assert_eq!(circuit.permit(now), Permit::AtMost(1));
        }
        assert_eq!(fail(&mut circuit, now), Some(Transition::Opened));
    }

    #[test]
    fn attempts_begun_before_the_last_transition_move_nothing() {
        let (mut circuit, now) = probing();
        let early = Time(START.0 - 1);
        for probe in [false, true] {
            assert_eq!(circuit.succeeded(early, probe, now), None);
            assert_eq!(circuit.failed(early, probe, now, &mut rng()), None);
        }
        assert_eq!((circuit.state(), circuit.consecutive_failures()), (CircuitState::HalfOpen, 5));
        circuit.succeeded(now, true, now);
        for _ in 0..9 {
            assert_eq!(circuit.failed(Time(now.0 - 1), false, now + SECOND, &mut rng()), None);
        }
        assert_eq!(circuit.succeeded(Time(now.0 - 1), false, now + SECOND), None);
        assert_eq!((circuit.consecutive_failures(), circuit.permit(now)), (0, Permit::AtMost(1)));
    }

    #[test]
    fn only_the_probe_moves_a_circuit_that_is_not_closed() {
        let (mut circuit, now) = probing();
        assert_eq!(circuit.succeeded(now, false, now), None);
        assert_eq!(circuit.failed(now, false, now, &mut rng()), None);
        assert_eq!(circuit.permit(now), Permit::ProbeOut);
    }

    #[test]
    fn a_probe_without_verdict_gives_its_permit_back_after_a_pause() {
        let (mut circuit, now) = probing();
        circuit.probe_returned(now, &mut rng());
        let probe_at = circuit.next_probe_at().expect("open");
        assert_about(probe_at, now, 1);
        assert_eq!((circuit.last_transition_at(), circuit.consecutive_failures()), (START, 5));
        circuit.begin_probe();
        circuit.failed(probe_at, true, probe_at, &mut rng());
        assert_about(circuit.next_probe_at().expect("open"), probe_at, 120);
    }

    #[test]
    fn a_reset_closes_it_and_an_old_probe_no_longer_counts() {
        let (mut circuit, now) = probing();
        assert_eq!(circuit.reset(now + SECOND), Some(Transition::Closed));
        assert_eq!(circuit.permit(now + SECOND), Permit::AtMost(1));
        assert_eq!(circuit.failed(now, true, now + SECOND, &mut rng()), None);
        circuit.probe_returned(now + SECOND, &mut rng());
        assert_eq!((circuit.state(), circuit.consecutive_failures()), (CircuitState::Closed, 0));
        fail(&mut circuit, now + SECOND);
        assert_eq!(circuit.reset(now + SECOND), None);
        assert_eq!(circuit.consecutive_failures(), 0);
    }

    #[test]
    fn switched_off_it_is_free_and_never_opens() {
        let off = CircuitSettings { enabled: false, ..CircuitSettings::default() };
        let mut circuit = opened();
        circuit.change_settings(off);
        assert_eq!((circuit.permit(START), circuit.state()), (Permit::Free, CircuitState::Closed));
        for _ in 0..200 {
            assert_eq!(fail(&mut circuit, after(1)), None);
        }
        circuit.change_settings(CircuitSettings::default());
        assert_eq!(fail(&mut circuit, after(2)), None, "failures while off are forgotten");
        assert_eq!(Circuit::restore(off, &opened().record()).permit(START), Permit::Free);
    }

    #[test]
    fn a_lower_threshold_counts_from_the_next_failure() {
        let mut circuit = Circuit::new(CircuitSettings::default());
        for _ in 0..4 {
            fail(&mut circuit, START);
        }
        circuit.change_settings(CircuitSettings { threshold: 2, ..CircuitSettings::default() });
        assert_eq!(circuit.state(), CircuitState::Closed);
        assert_eq!(fail(&mut circuit, START), Some(Transition::Opened));
    }

    #[test]
    fn it_survives_a_restart() {
        let settings = CircuitSettings::default();
        let open = opened();
        let restored = Circuit::restore(settings, &open.record());
        assert_eq!((restored.next_probe_at(), restored.last_transition_at()), (open.next_probe_at(), START));
        let (half_open, probe_at) = probing();
        let restored = Circuit::restore(settings, &half_open.record());
        assert_eq!((restored.state(), restored.permit(probe_at)), (CircuitState::Open, Permit::Probe));
        let mut closed = Circuit::new(settings);
        fail(&mut closed, START);
        assert_eq!(Circuit::restore(settings, &closed.record()).consecutive_failures(), 1);
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn never_two_probes_and_always_a_way_on(seed: u64, steps in prop::collection::vec(0u8..6, 1..300)) {
            let mut rng = fastrand::Rng::with_seed(seed);
            let settings = CircuitSettings { threshold: 2, ..CircuitSettings::default() };
            let (mut circuit, mut now, mut probe) = (Circuit::new(settings), START, None);
            for step in steps {
                now = now + SECOND;
                match circuit.permit(now) {
                    Permit::WaitUntil(at) => now = at,
                    Permit::Probe => {
                        prop_assert_eq!(probe, None);
                        circuit.begin_probe();
                        probe = Some(now);
                    }
                    Permit::ProbeOut => prop_assert!(probe.is_some(), "a permit always comes back"),
                    Permit::Free | Permit::AtMost(_) => prop_assert_eq!(circuit.state(), CircuitState::Closed),
                }
                let started = probe.unwrap_or(now);
                match step {
                    0 | 1 => drop(circuit.failed(started, probe.take().is_some(), now, &mut rng)),
                    2 => drop(circuit.succeeded(started, probe.take().is_some(), now)),
                    3 if probe.take().is_some() => circuit.probe_returned(now, &mut rng),
                    4 if probe.take().is_some() => drop(circuit.reset(now)),
                    _ => {}
                }
            }
        }
    }
}
