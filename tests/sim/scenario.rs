//! What kind of run a seed is: how many of everything, and how bad things get.

use fastrand::Rng;
use streaming_hub::engine::Bounds;
use streaming_hub::store::memory::Pages;
use streaming_hub::types::{Duration, Time};

/// When every run begins.
pub const START: Time = Time::from_millis(1_700_000_000_000);

/// The numbers of one run, all drawn from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub shards: u16,
    pub slots: u16,
    pub partitions: u16,
    pub tenants: usize,
    /// Bursts of records produced to the log.
    pub bursts: u32,
    /// Records in one burst at most.
    pub burst_records: u32,
    pub requests: u32,
    pub reconfigurations: u32,
    pub commands: u32,
    pub kills: u32,
    pub drains: u32,
    pub rebalances: u32,
    /// Traffic and faults come within this; then everything heals.
    pub span: Duration,
    pub store: StoreTemper,
    pub pages: Pages,
    pub bounds: Bounds,
    /// One event whose dispatch kills the process.
    pub lethal: bool,
    /// Records that the store refuses by themselves.
    pub unstorable_percent: u32,
    /// Repeated ids among new records and requests.
    pub duplicate_percent: u32,
    /// One tenant floods the hub and its receivers hang; it must not delay the other.
    pub quarrel: bool,
    /// Healing enables what is disabled and resumes what is paused; else those jobs expire.
    pub healing_enables: bool,
}

/// How the store behaves before healing.
#[derive(Clone, Debug)]
pub struct StoreTemper {
    pub latency_max: Duration,
    pub refused_percent: u32,
    pub ambiguous_percent: u32,
    pub failed_read_percent: u32,
    /// Nothing is stored or answered within these.
    pub outages: Vec<(Time, Time)>,
}

impl Scenario {
    /// The run of `seed`.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x5eed_5eed);
        let shards = rng.u16(1..=4);
        let span = Duration::from_secs(*pick(&mut rng, &[5, 20, 60, 120, 600]));
        let calm = rng.u32(0..4) == 0;
        let some = |rng: &mut Rng, most: u32| if calm { 0 } else { rng.u32(0..=most) };
        Self {
            seed,
            shards,
            slots: shards * rng.u16(1..=3),
            partitions: rng.u16(1..=4),
            tenants: rng.usize(1..=4),
            bursts: rng.u32(3..=30),
            burst_records: *pick(&mut rng, &[1, 4, 15]),
            requests: rng.u32(0..=25),
            reconfigurations: some(&mut rng, 10),
            commands: some(&mut rng, 8),
            kills: some(&mut rng, 4),
            drains: some(&mut rng, 2),
            rebalances: some(&mut rng, 4),
            span,
            store: StoreTemper::draw(&mut rng, calm, span),
            pages: Pages {
                events: rng.usize(1..=20),
                bytes: rng.usize(600..=50_000),
                due_rows: rng.usize(1..=8),
                ids: usize::try_from(seed % 13).unwrap_or(0) + 1,
            },
            bounds: draw_bounds(&mut rng),
            lethal: !calm && rng.u32(0..16) == 0,
            unstorable_percent: if rng.u32(0..4) == 0 { 4 } else { 0 },
            duplicate_percent: rng.u32(0..=25),
            quarrel: false,
            healing_enables: rng.bool(),
        }
        .or_quarrel()
    }

    /// One seed of twelve is a quiet world with two tenants, of which the first is a bad neighbour.
    fn or_quarrel(self) -> Self {
        if self.seed % 12 != 11 {
            return self;
        }
        let store = StoreTemper { latency_max: Duration::from_micros(500), ..StoreTemper::healed() };
        Self {
            shards: 1,
            tenants: 2,
            bursts: 30,
            requests: 10,
            span: Duration::from_secs(60),
            store,
            reconfigurations: 0,
            commands: 0,
            kills: 0,
            drains: 0,
            rebalances: 0,
            lethal: false,
            unstorable_percent: 0,
            quarrel: true,
            ..self
        }
    }
}

/// Bounds so small that a run of a hundred events meets all of them.
pub fn draw_bounds(rng: &mut Rng) -> Bounds {
    let head = rng.usize(4..=16);
    let open = rng.usize(8..=60);
    Bounds {
        queue_head_jobs: head,
        queue_refill_below: rng.usize(1..=head / 2),
        shard_jobs: rng.usize(60..=200),
        tenant_jobs: rng.usize(30..=60),
        event_bytes: rng.usize(10_000..=60_000),
        admission_events: rng.usize(20..=100),
        admission_bytes: rng.usize(20_000..=100_000),
        lane_open_records: open,
        lane_resume_below: rng.usize(1..=open / 2),
        dedup_bytes: rng.usize(9_000..=60_000),
        batch_rows: rng.usize(4..=64),
        batch_bytes: rng.usize(4_000..=40_000),
        near_future: Duration::from_secs(*pick(rng, &[11, 20, 60])),
        tail_max: Duration::from_secs(*pick(rng, &[2, 10, 60])),
    }
}

impl StoreTemper {
    pub fn draw(rng: &mut Rng, calm: bool, span: Duration) -> Self {
        let some = |rng: &mut Rng, most: u32| if calm { 0 } else { rng.u32(0..=most) };
        let outages = (0..some(rng, 2)).map(|_| {
            let begin = START + Duration(rng.u64(0..span.0));
            (begin, begin + Duration::from_millis(rng.u64(50..=20_000)))
        });
        Self {
            outages: outages.collect(),
            latency_max: Duration::from_micros(*pick(rng, &[500, 5_000, 50_000, 800_000])),
            refused_percent: some(rng, 15),
            ambiguous_percent: some(rng, 10),
            failed_read_percent: some(rng, 20),
        }
    }

    /// Whether the store is down at `now`.
    pub fn is_down(&self, now: Time) -> bool {
        self.outages.iter().any(|(begin, end)| now >= *begin && now < *end)
    }

    /// A store without faults.
    pub fn healed() -> Self {
        Self {
            latency_max: Duration::from_millis(2),
            refused_percent: 0,
            ambiguous_percent: 0,
            failed_read_percent: 0,
            outages: Vec::new(),
        }
    }
}

/// One of `choices`.
pub fn pick<'a, T>(rng: &mut Rng, choices: &'a [T]) -> &'a T {
    &choices[rng.usize(0..choices.len())]
}

/// True `percent` times in a hundred.
pub fn chance(rng: &mut Rng, percent: u32) -> bool {
    rng.u32(0..100) < percent
}
