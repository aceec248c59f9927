//! Tests of the benchmarks against the stores that they measure.

mod peers;
