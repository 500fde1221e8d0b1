//! What is measured: the hub's process, its metrics, the machine and its noise, latencies, and the bare loop beside it all.

pub mod bare;
pub mod latency;
pub mod machine;
pub mod metrics;
pub mod noise;
pub mod process;
pub mod timeline;
