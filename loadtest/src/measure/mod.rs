//! What is measured: the hub's process, its metrics, the machine and its noise, latencies, and the bare loops beside it all.

pub mod bare;
pub mod bare_cql;
pub mod latency;
pub mod machine;
pub mod metrics;
pub mod noise;
pub mod process;
pub mod timeline;
