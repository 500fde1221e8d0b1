//! Driving a stage through one phase: publish, watch each second, measure a window, wait for the last delivery.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use streaming_hub::types::Time;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::hub::Stage;
use crate::measure::latency::Summary;
use crate::pace::{End, Pace};
use crate::plan::{Group, Order as Promise, Spread};
use crate::publish::{EventMaker, Intake, Order, Outcome, Publisher};
use crate::receive::{Expected, PhaseOrder, Seen};
use crate::report::{self, Counts, CqlFigures, Figures};
use crate::sample::{Sample, Watch};
use crate::session::{PAYLOAD_BYTES, Session};

/// From the order to the first event, so that nobody is late for it.
const LEAD: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_secs(1);
/// Between two looks at the clock.
const LOOK: Duration = Duration::from_millis(20);
/// Without any delivery for so long, what is missing counts as lost.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);

/// How a phase is loaded.
#[derive(Clone, Debug)]
pub struct Load {
    /// The phase's name.
    pub name: String,
    /// How fast.
    pub pace: Pace,
    /// Before the window.
    pub warm_up: Duration,
    /// The window.
    pub length: Duration,
    /// No more events than this.
    pub events: u64,
    /// Whose turn it is.
    pub spread: Spread,
    /// A payload's size.
    pub payload_bytes: usize,
    /// Events of one tenant in one ingest request, at most.
    pub batch: usize,
}

impl Load {
    /// A window of so long, and a quarter of that before it.
    #[must_use]
    pub fn new(name: impl Into<String>, pace: Pace, length: Duration) -> Self {
        Self {
            name: name.into(),
            pace,
            warm_up: length / 4,
            length,
            events: u64::MAX,
            spread: Spread::Even,
            payload_bytes: PAYLOAD_BYTES,
            batch: 1,
        }
    }

    /// The same with other turns.
    #[must_use]
    pub const fn spread(mut self, spread: Spread) -> Self {
        self.spread = spread;
        self
    }

    /// The same with no more events than this.
    #[must_use]
    pub const fn of_events(mut self, events: u64) -> Self {
        self.events = events;
        self
    }
}

/// A phase under way.
pub struct Drive {
    load: Load,
    publisher: Publisher,
    watch: Watch,
    window_begin: Time,
    end: Time,
    next_tick: Time,
    window: Option<(Sample, Sample)>,
    /// What the hub's store had done before the phase.
    before: StoreWork,
}

impl Drive {
    /// Begins: the first event is sent in a moment.
    ///
    /// # Errors
    /// When a thread of the load test has failed.
    pub async fn start(session: &mut Session, stage: &Stage, load: Load) -> Result<Self, Failure> {
        let number = session.next_phase();
        let before = StoreWork::so_far(stage).await?;
        let begun = session.clock.now() + micros(LEAD);
        let window_begin = begun + micros(load.warm_up);
        let end = window_begin + micros(load.length);
        let (run, plan) = (session.run, Arc::clone(&stage.plan));
        session.receivers.begin(PhaseOrder { run, number, plan, window_begin }).await?;
        let routes = u32::try_from(stage.plan.routes.len()).expect("plans are small");
        let order = Order {
            maker: EventMaker::new(run, number, session.arguments.payload_bytes.unwrap_or(load.payload_bytes), routes),
            plan: Arc::clone(&stage.plan),
            spread: load.spread,
            pace: load.pace,
            begin: begun,
            end: End { at: end, events: load.events },
            intake: intake(&session.arguments, stage, load.batch),
        };
        let publisher = Publisher::start(order, session.clock, Arc::clone(&session.receivers.live.delivered))?;
        let watch = Watch::start(session, stage, begun);
        Ok(Self { load, publisher, watch, window_begin, end, next_tick: begun + micros(TICK), window: None, before })
    }

    /// The whole phase from here: warm-up, window, drain.
    ///
    /// # Errors
    /// What goes wrong on the way.
    pub async fn play(mut self, session: &mut Session, stage: &mut Stage) -> Result<report::Phase, Failure> {
        self.measure(session, stage).await?;
        self.drain(session, stage).await?;
        self.finish(session, stage).await
    }

    /// Warm-up and window.
    ///
    /// # Errors
    /// When somebody interrupts, or the hub has ended.
    pub async fn measure(&mut self, session: &mut Session, stage: &mut Stage) -> Result<(), Failure> {
        self.until(session, stage, self.window_begin).await?;
        self.open_window(session, stage);
        self.until(session, stage, self.end).await?;
        self.close_window(session, stage);
        Ok(())
    }

    /// Watches until that time, or until everything is published and delivered.
    ///
    /// # Errors
    /// When somebody interrupts, or the hub has ended.
    pub async fn until(&mut self, session: &mut Session, stage: &mut Stage, at: Time) -> Result<(), Failure> {
        while session.clock.now() < at && !self.is_delivered(session) {
            session.pause(LOOK.min(session.clock.until(at)), stage).await?;
            self.tick(session, stage).await?;
        }
        Ok(())
    }

    /// Begins the window of the figures.
    pub fn open_window(&mut self, session: &Session, stage: &Stage) {
        let sample = Sample::take(session, stage);
        self.window = Some((sample.clone(), sample));
    }

    /// Ends it.
    pub fn close_window(&mut self, session: &Session, stage: &Stage) {
        if let Some((_, last)) = &mut self.window {
            *last = Sample::take(session, stage);
        }
    }

    /// A new process counts from nothing.
    pub fn hub_was_restarted(&mut self) {
        self.before = StoreWork::default();
    }

    /// Waits until the generator has ended.
    ///
    /// # Errors
    /// When somebody interrupts, or the hub has ended.
    pub async fn until_published(&mut self, session: &mut Session, stage: &mut Stage) -> Result<(), Failure> {
        while !self.publisher.has_ended() {
            session.pause(LOOK, stage).await?;
            self.tick(session, stage).await?;
        }
        Ok(())
    }

    /// Waits until everything published has been delivered, or nothing more comes.
    ///
    /// # Errors
    /// When somebody interrupts, or the hub has ended.
    pub async fn drain(&mut self, session: &mut Session, stage: &mut Stage) -> Result<(), Failure> {
        let (mut delivered, mut moved_at) = (0, session.clock.now());
        while !self.is_delivered(session) {
            let now = session.clock.now();
            let count = session.delivered();
            if count != delivered {
                (delivered, moved_at) = (count, now);
            } else if now.since(moved_at).to_std() > DRAIN_PATIENCE {
                break;
            }
            session.pause(LOOK, stage).await?;
            self.tick(session, stage).await?;
        }
        self.publisher.published.stop();
        Ok(())
    }

    /// Events handed out so far.
    #[must_use]
    pub fn issued(&self) -> u64 {
        self.publisher.published.issued.load(Ordering::Relaxed)
    }

    /// Whether the generator has ended and all of its events have come.
    fn is_delivered(&self, session: &Session) -> bool {
        self.publisher.has_ended() && session.delivered() >= self.issued()
    }

    async fn tick(&mut self, session: &mut Session, stage: &Stage) -> Result<(), Failure> {
        if session.clock.now() < self.next_tick {
            return Ok(());
        }
        self.next_tick = self.next_tick + micros(TICK);
        let interval = session.receivers.interval().await?;
        let point = self.watch.look(session, stage, &interval);
        let left = session.clock.until(self.end).as_secs();
        let pending = self.issued().saturating_sub(session.delivered());
        session.progress.show(&format!(
            "{}: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms, {pending} pending, PSS {:.0} MiB, {left} s left",
            self.load.name,
            point.deliveries_per_second,
            point.p50 as f64 / 1e3,
            point.p99 as f64 / 1e3,
            point.pss_mib.unwrap_or(0.0),
        ));
        Ok(())
    }

    /// Takes everything down and says what it was.
    ///
    /// # Errors
    /// When a thread of the load test has failed.
    pub async fn finish(self, session: &mut Session, stage: &Stage) -> Result<report::Phase, Failure> {
        let outcome = self.publisher.finish().await?;
        let Outcome { issued, unacknowledged, .. } = &outcome;
        let expected = Expected { issued: issued.clone(), unacknowledged: unacknowledged.clone() };
        let seen = session.receivers.end(expected).await?;
        // The bare loop's requests have one size; other sizes have no ceiling here.
        let ceiling =
            session.report.ceiling.per_processor_second().filter(|_| self.load.payload_bytes == PAYLOAD_BYTES);
        let mut figures = self.window.as_ref().map(|(first, last)| last.since(first)).unwrap_or_default();
        figures.of_bare = figures.deliveries_per_processor_second.zip(ceiling).map(|(ours, bare)| ours / bare);
        let peak = self.watch.peak();
        let (now, events) = (StoreWork::so_far(stage).await?, issued.iter().sum());
        let figures = Figures {
            issued: events,
            fsyncs: now.fsyncs - self.before.fsyncs,
            cql: stage.cluster.as_ref().map(|_| now.since(&self.before, events)),
            counts: self.counts(&seen, &outcome, stage),
            pss_mib: peak.map(|memory| memory.pss_kib as f64 / 1024.0),
            rss_mib: peak.map(|memory| memory.rss_kib as f64 / 1024.0),
            ..figures
        };
        let latencies = Group::ALL.iter().zip(&seen.latencies).filter(|(_, histogram)| !histogram.is_empty());
        let phase = report::Phase {
            name: self.load.name,
            load: self.load.pace.describe(),
            figures,
            latencies: latencies.map(|(group, all)| (group.name().to_owned(), Summary::of(all))).collect(),
            lateness: Summary::of(&outcome.lateness),
            acknowledgement: Summary::of(&outcome.acknowledgement),
            series: self.watch.into_series(),
        };
        session.progress.say(&line(&phase));
        session.report.phases.push(phase.clone());
        Ok(phase)
    }

    fn counts(&self, seen: &Seen, outcome: &Outcome, stage: &Stage) -> Counts {
        let (came, published) = (seen.counts, &self.publisher.published);
        Counts {
            lost: came.lost,
            repeated: came.repeated,
            out_of_order: (stage.plan.order == Promise::Kept).then_some(came.out_of_order),
            misdirected: came.misdirected,
            strays: came.strays,
            attempts: came.attempts,
            signatures_checked: came.signatures_checked,
            signatures_wrong: came.signatures_wrong,
            refused: published.refused.load(Ordering::Relaxed),
            errors: published.errors.load(Ordering::Relaxed),
            unacknowledged: outcome.unacknowledged.len() as u64,
        }
    }
}

/// What the store of all nodes has done, as it counts.
#[derive(Clone, Copy, Debug, Default)]
struct StoreWork {
    fsyncs: f64,
    batches: f64,
    requests: f64,
    rows: f64,
}

impl StoreWork {
    async fn so_far(stage: &Stage) -> Result<Self, Failure> {
        let names = [
            "streaming_hub_store_fsyncs_total",
            "streaming_hub_store_commit_batches_total",
            "streaming_hub_cql_requests_total",
            "streaming_hub_cql_rows_total",
        ];
        let [fsyncs, batches, requests, rows] = stage.sums(names).await?;
        Ok(Self { fsyncs, batches, requests, rows })
    }

    fn since(&self, earlier: &Self, events: u64) -> CqlFigures {
        let each = |now: f64, before: f64| (now - before) / events.max(1) as f64;
        CqlFigures {
            requests_per_event: each(self.requests, earlier.requests),
            rows_per_event: each(self.rows, earlier.rows),
            batches_per_event: each(self.batches, earlier.batches),
            bare: None,
        }
    }
}

fn intake(arguments: &Arguments, stage: &Stage, batch: usize) -> Intake {
    stage.topic.as_ref().map_or_else(
        || Intake::Http {
            addresses: stage.hubs.iter().map(|hub| hub.address).collect(),
            paths: Arc::clone(&stage.made.paths),
            connections: arguments.connections,
            batch: arguments.batch.unwrap_or(batch),
        },
        |topic| Intake::Kafka {
            brokers: arguments.kafka.clone(),
            topic: topic.clone(),
            tenants: Arc::clone(&stage.tenants),
        },
    )
}

fn line(phase: &report::Phase) -> String {
    let (figures, latency) = (&phase.figures, phase.healthy());
    let ratio = figures.of_bare.map(|ratio| format!(" ({ratio:.2} of bare)")).unwrap_or_default();
    format!(
        "{}: {:.0}/s, {:.0} per CPU-second{ratio}, p50 {:.2} p99 {:.2} p99.9 {:.2} ms, PSS {:.0} MiB, lost {}",
        phase.name,
        figures.deliveries_per_second,
        figures.deliveries_per_processor_second.unwrap_or(0.0),
        latency.p50 as f64 / 1e3,
        latency.p99 as f64 / 1e3,
        latency.p999 as f64 / 1e3,
        figures.pss_mib.unwrap_or(0.0),
        figures.counts.lost,
    )
}

/// A span as the hub counts it.
pub fn micros(span: Duration) -> streaming_hub::types::Duration {
    streaming_hub::types::Duration(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}
