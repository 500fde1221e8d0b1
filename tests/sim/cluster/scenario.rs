//! What kind of run a cluster's seed is.

use fastrand::Rng;
use streaming_hub::engine::Bounds;
use streaming_hub::store::memory::Pages;
use streaming_hub::types::Duration;

use crate::scenario::{StoreTemper, draw_bounds, pick};

/// A member that the group has not heard of for so long is gone.
pub const SESSION: Duration = Duration::from_secs(10);
/// A node stops this long before the group may give its slots away.
pub const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// How far the nodes' clocks may be from the true time.
pub const SKEW_MAX: Duration = Duration::from_secs(2);

/// The numbers of one run, all drawn from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub nodes: usize,
    pub slots: u16,
    pub tenants: usize,
    pub bursts: u32,
    pub burst_records: u32,
    pub duplicate_percent: u32,
    pub kills: u32,
    pub stalls: u32,
    pub leaves: u32,
    pub reconfigurations: u32,
    /// Traffic and faults come within this; then everything heals.
    pub span: Duration,
    pub store: StoreTemper,
    /// Each node's clock, ahead of the earliest.
    pub skews: Vec<Duration>,
    pub pages: Pages,
    pub bounds: Bounds,
    /// How often clients ask for something.
    pub commands: u32,
    /// One event whose dispatch kills its node.
    pub lethal: bool,
    /// Records that the store refuses by themselves.
    pub unstorable_percent: u32,
}

impl Scenario {
    /// The run of `seed`.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0xc105_7e12);
        let nodes = rng.usize(1..=4);
        let span = Duration::from_secs(*pick(&mut rng, &[20, 60, 120, 300]));
        let calm = rng.u32(0..4) == 0;
        let some = |rng: &mut Rng, most: u32| if calm { 0 } else { rng.u32(0..=most) };
        Self {
            seed,
            nodes,
            slots: rng.u16(1..=6),
            tenants: rng.usize(1..=5),
            bursts: rng.u32(3..=25),
            burst_records: *pick(&mut rng, &[1, 4, 12]),
            duplicate_percent: rng.u32(0..=25),
            kills: some(&mut rng, 4),
            stalls: some(&mut rng, 3),
            leaves: some(&mut rng, 3),
            reconfigurations: some(&mut rng, 5),
            store: StoreTemper::draw(&mut rng, calm, span),
            skews: (0..nodes).map(|_| Duration(rng.u64(0..=SKEW_MAX.0))).collect(),
            pages: Pages {
                events: rng.usize(1..=20),
                bytes: rng.usize(600..=50_000),
                due_rows: rng.usize(1..=8),
                ids: rng.usize(1..=13),
            },
            bounds: draw_bounds(&mut rng),
            commands: if rng.bool() { rng.u32(1..=12) } else { 0 },
            lethal: !calm && rng.u32(0..8) == 0,
            unstorable_percent: if rng.u32(0..4) == 0 { 4 } else { 0 },
            span,
        }
    }
}
