//! Tests of the measurements.

mod costs;
mod failover;
mod peers;
mod rowan;
mod sim_ycsb;
