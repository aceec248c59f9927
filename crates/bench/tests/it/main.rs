//! Tests of the benchmarks against the store that they measure.

mod direct;
mod server;
