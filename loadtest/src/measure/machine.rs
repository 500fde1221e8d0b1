//! What the machine did meanwhile: how much of it was idle, and how much another tenant of its host took.

use std::fs;

use serde::{Deserialize, Serialize};

/// Ticks of all processors so far (proc(5), `stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    idle: u64,
    steal: u64,
    all: u64,
}

/// Shares of a span, of all processors together, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Nothing to do, or waiting for a disk.
    pub idle: f64,
    /// Taken by the host.
    pub steal: f64,
}

/// Facts of the machine, for the report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// How many processors.
    pub processors: usize,
    /// Which.
    pub model: String,
    /// The kernel's release.
    pub kernel: String,
}

impl Ticks {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<u64> = line.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        // user nice system idle iowait irq softirq steal; guests are counted as users already.
        let eight = fields.get(..8)?;
        Some(Self { idle: eight[3] + eight[4], steal: eight[7], all: eight.iter().sum() })
    }

    /// What became of the time since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Shares {
        let all = (self.all - earlier.all).max(1) as f64;
        Shares { idle: (self.idle - earlier.idle) as f64 / all, steal: (self.steal - earlier.steal) as f64 / all }
    }
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn this() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            processors: streaming_hub::runtime::boot::processors().len(),
            model: model.map(|(_, name)| name.to_owned()).unwrap_or_default(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_passed() {
        let earlier = Ticks::parse("cpu  100 0 100 700 50 0 20 30 0 0\ncpu0 1").unwrap();
        let later = Ticks::parse("cpu  140 0 120 720 50 0 20 50 0 0").unwrap();
        let shares = later.since(earlier);
        assert!((shares.idle - 0.2).abs() < 1e-9 && (shares.steal - 0.2).abs() < 1e-9, "{shares:?}");
        assert!(Machine::this().processors > 0);
    }
}
