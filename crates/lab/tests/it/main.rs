//! Tests of the measurements.

mod costs;
mod failover;
mod nodes;
mod peers;
mod rowan;
mod sim_ycsb;
