//! Measurements of the store: workloads of YCSB over a fabric, beside a bare loop over the same memory.
//!
//! A figure is a ratio of two measurements of the same run, because machines differ and are shared. The subject is a
//! closed loop over operations that were drawn beforehand; throughput is measured over the whole loop, and latency at
//! every n-th operation, where n is chosen so that the clock costs at most 1 %.
#![forbid(unsafe_code)]

pub mod appends;
mod arguments;
pub mod cpu_time;
pub mod crowd;
mod data_set;
pub mod kv;
mod latency;
mod measured;
mod result;

pub use arguments::{DistributionArgument, WorkloadArgument, WorkloadFlags, rows};
pub use data_set::DataSet;
pub use latency::{LatencyHistogram, Stopwatch, clock_look_ns, timing_interval};
pub use measured::{Measured, median};
pub use result::YcsbResult;
