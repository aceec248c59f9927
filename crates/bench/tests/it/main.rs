//! Tests of the benchmarks against the stores that they measure.

mod direct;
mod peers;
mod server;
