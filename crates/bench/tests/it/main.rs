//! Tests of the benchmarks against the store that they measure.

mod kv;
mod server;
