//! Benchmarks: how fast the store is, beside a bare loop over the same memory and beside other stores.
//!
//! A figure is a ratio of two measurements of the same run, because machines differ and are shared. What is measured is
//! a closed loop over operations that were drawn beforehand; throughput is that of the whole loop, latencies are those
//! of every n-th operation, n chosen so that the clock costs 1 % at most.
#![forbid(unsafe_code)]

pub mod cpu_time;
mod crowd;
mod data_set;
pub mod direct;
pub mod erda;
pub mod figures;
mod latency;
mod measured;
mod noise;
pub mod peers;
pub mod plot;
pub mod remotelog;
mod result;
pub mod sim;

pub use data_set::DataSet;
pub use latency::{Latencies, Stopwatch, clock_look_ns, timing_interval};
pub use measured::{Measured, median};
pub use noise::busy_cores;
pub use result::YcsbResult;
