//! The machine's own delays, of which no hub can be free: how long the disk takes to keep a few bytes, and how late
//! a thread wakes up.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use streaming_hub::runtime::{Clock, channel};

use super::latency::{Summary, histogram, record};
use crate::drive::micros;
use crate::failure::Failure;

/// What one event and its outcome add to a journal, about.
const WRITTEN_BYTES: usize = 2 * 1024;
const SAMPLES: usize = 1_000;
/// Between two samples, and how long the sleeps are whose lateness counts.
const PAUSE: Duration = Duration::from_millis(1);

/// What was found.
#[derive(Clone, Debug)]
pub struct Noise {
    /// Writing a little and making it durable.
    pub syncs: Summary,
    /// Waking up after the time asked for.
    pub wakes: Summary,
}

/// Measures in `directory` for a second or two, on a thread of its own.
///
/// # Errors
/// When the file cannot be written.
pub async fn measure(directory: &Path, clock: Clock) -> Result<Noise, Failure> {
    let path = directory.join("noise");
    let (sender, answer) = channel::reply();
    std::thread::spawn(move || {
        // Whoever asked may have been interrupted.
        let _ = sender.send(sample(&path, clock));
    });
    let measured = answer.recv_async().await;
    let reason = || Failure::Thread { name: "noise", reason: "it panicked".to_owned() };
    measured.map_err(|_| reason())?.map_err(Failure::io("measuring the disk"))
}

fn sample(path: &Path, clock: Clock) -> std::io::Result<Noise> {
    let (mut syncs, mut wakes) = (histogram(), histogram());
    let mut file = File::create(path)?;
    for _ in 0..SAMPLES {
        let before = clock.now();
        file.write_all(&[b'x'; WRITTEN_BYTES])?;
        file.sync_data()?;
        let between = clock.now();
        std::thread::sleep(PAUSE);
        let after = clock.now();
        record(&mut syncs, between.since(before));
        record(&mut wakes, after.since(between + micros(PAUSE)));
    }
    drop(file);
    std::fs::remove_file(path)?;
    Ok(Noise { syncs: Summary::of(&syncs), wakes: Summary::of(&wakes) })
}

impl Noise {
    /// In one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let text = |summary: &Summary| {
            let [p50, p99, p999] = [summary.p50, summary.p99, summary.p999]
                .map(|micros| Duration::from_micros(micros).as_secs_f64() * 1e3);
            format!("p50 {p50:.2} p99 {p99:.2} p99.9 {p999:.2} ms")
        };
        let (syncs, wakes) = (text(&self.syncs), text(&self.wakes));
        format!("the idle machine by itself: 2 KiB to disk and synced {syncs}; a thread wakes late by {wakes}")
    }
}
