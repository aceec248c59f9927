//! Tests of the benchmarks against the stores that they measure.

mod costs;
mod direct;
mod peers;
mod server;
mod sim_ycsb;
